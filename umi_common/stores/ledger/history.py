"""The history of a ledger: one row in `commits` per commit, and marks that name a commit."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.stores.ledger.codec import DIGEST_BYTES, Head


class Mark(NamedTuple):
    """Names a commit of a ledger: the ledger's last commit, or the last commit whose changes an index contains."""

    seq: int = 0
    """Sequence number of the last chunk ever appended."""
    deletion: int = 0
    """Number of the last deletion."""
    epoch: int = 0
    """Number of times that all vectors were replaced. Data that was read before a replacement is out of date."""
    commit: int = 0
    """Number of the last commit; 0: the ledger keeps no history."""
    digest: str = ""
    """Rolling digest of all commits up to this one, hexadecimal."""

    def next(self, contents: Iterable[bytes]) -> Mark:
        """The mark of the commit after this one; its digest is BLAKE2b(digest of this mark, contents in order)."""
        rolling = hashlib.blake2b(bytes.fromhex(self.digest), digest_size=DIGEST_BYTES)
        for content in contents:
            rolling.update(content)
        return self._replace(commit=self.commit + 1, digest=rolling.hexdigest())


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one commit, or of successive commits. `heads` to `vectors` are aligned: the n added chunks."""

    mark: Mark
    """The mark of the last of these commits."""
    deleted: Sequence[int]
    """Sequence numbers of the deleted chunks."""
    heads: Sequence[Head]
    texts: Sequence[str]
    """Indexed texts."""
    metadata: Sequence[str]
    """JSON."""
    vectors: Vectors
    """(n, dim)"""


def commit_mark(connection: sqlite3.Connection, which: str = "ORDER BY number DESC", *parameters: int) -> Mark:
    """The mark, with epoch 0, of the first commit that the SQL `which` selects; `Mark()` if there is none, or if the
    ledger keeps no history."""
    select = f"SELECT seq, deletion, number, digest FROM commits {which} LIMIT 1"
    try:
        row = connection.execute(select, parameters).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = None
    if row is None:
        return Mark()
    if not isinstance(row[3], bytes):
        raise LedgerDamaged("umi.db: the digest of a commit is not what was written; restore it from a copy")
    seq, deletion, number = (whole_number(value, "a number of a commit") for value in row[:3])
    return Mark(seq, deletion, commit=number, digest=row[3].hex())


def sessions_of(connection: sqlite3.Connection) -> list[str]:
    """Names of the last sessions of writing, newest first; see `Ledger.begin_session`."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'session'").fetchone()
    return [] if row is None else str(row[0]).split()


def last_number(connection: sqlite3.Connection, table: str) -> int:
    """The largest sequence number that a row of the table ever had; 0: the table never had a row."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return 0 if row is None else whole_number(row[0], f"the last number given in {table!r}")


def whole_number(value: object, what: str) -> int:
    """`value` as an int. Raises LedgerDamaged, with `what` as the value's name, if it is no whole number >= 0."""
    if not re.fullmatch("[0-9]{1,19}", str(value)):
        raise LedgerDamaged(f"umi.db: {what} is {value!r:.80}, no whole number; restore it from a copy")
    return int(str(value))
