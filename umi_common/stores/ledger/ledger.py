"""The ledger: one SQLite file that holds all a store knows; every index is made from it.

A write is acknowledged after its commit. Rows are never changed: replacing a chunk removes its row and appends a
new one, and both are numbered, so an index or another process that knows how far it got reads only what is new.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.access import LedgerAccess
from umi_common.stores.ledger.codec import DIGEST_BYTES, Entry, Head, checked, encode_vectors, head_check
from umi_common.stores.ledger.file import HISTORY
from umi_common.stores.ledger.history import (
    Commit,
    Mark,
    commit_at,
    last_commit,
    last_number,
    sessions_of,
    whole_number,
)
from umi_common.stores.ledger.ledger_rows import read_deleted, read_vectors, select_by_seq
from umi_common.stores.ledger.sqlite import SQL_VARIABLES, insert

ROWS_AT_ONCE = 1_000
"""Whole rows in memory while all are read."""
COMMITS_KEPT = 100_000
"""Commits that stay listed, the newest, some 5 MB. An index that is older is made anew."""
SESSIONS_KEPT = 16
"""Names of the newest sessions that stay listed."""
DELETIONS_KEPT = 50_000
"""Deletions that stay listed, the newest, some 0.5 MB. A process that reads and knows none of them loads everything."""
ENTRY_COLUMNS = "id, source, position, event_time, head, digest, text, metadata"


class Ledger(LedgerAccess):
    """Chunks, vectors and deletions in one file, or in memory. Thread-safe; one process writes.

    Raises:
        LedgerDamaged: From any method, if SQLite or a checksum says that the file is not what was written.
        StoreClosed: From any method after close().
    """

    def change(
        self,
        dead: Sequence[int],
        entries: Sequence[Entry],
        vectors: Vectors,
        settings: Mapping[str, str] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Mark:
        """Remove rows by sequence number and append others, at once; the last len(entries) numbers are theirs."""
        assert len(vectors) == len(entries)
        with self.transaction(meanwhile) as connection:
            connection.executemany("INSERT INTO deletions (chunk) VALUES (?)", ((seq,) for seq in dead))
            connection.executemany("DELETE FROM chunks WHERE seq = ?", ((seq,) for seq in dead))
            if dead:
                forgotten = last_number(connection, "deletions") - DELETIONS_KEPT
                connection.execute("DELETE FROM deletions WHERE seq <= ?", (forgotten,))
            first = last_number(connection, "chunks") + 1
            seqs = range(first, first + len(entries))
            insert(connection, f"chunks (seq, {ENTRY_COLUMNS})", 9, seqs, entries)
            failpoint("ledger.insert")
            blobs = list(encode_vectors(vectors))
            insert(connection, "vectors (seq, vector, checksum)", 3, seqs, blobs)
            connection.execute(
                "UPDATE meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'count'", (len(entries) - len(dead),)
            )
            if settings:
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", settings.items())
            numbers = [np.array(dead, dtype="<i8"), np.array([check for _, check in blobs], dtype="<i8")]
            contents = [*(array.tobytes() for array in numbers), *(entry.digest for entry in entries)]
            return self.record(connection, contents)

    def record(self, connection: sqlite3.Connection, contents: Iterable[bytes]) -> Mark:
        """Append a commit to the history, inside the transaction that makes it."""
        seq, deletion = last_number(connection, "chunks"), last_number(connection, "deletions")
        commit = last_commit(connection).followed_by(contents, seq, deletion)
        connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", commit)
        if commit.number > COMMITS_KEPT:
            connection.execute("DELETE FROM commits WHERE number <= ?", (commit.number - COMMITS_KEPT,))
        return self._mark(connection, commit)

    def begin_session(self) -> str:
        """Before the first write: make sure that the history goes on from what the file holds, and sign it.

        Returns:
            The session's random name, which the file itself holds from now on, not only its write-ahead log; "" if
            another process kept SQLite from writing it there.
        """
        session = secrets.token_hex(8)
        with self.transaction() as connection:
            connection.execute(HISTORY)
            last, mark = last_commit(connection), self.mark(connection)
            if (last.seq, last.deletion) != (mark.seq, mark.deletion) or not last.digest:
                # A new ledger, or one that was written to by a program that keeps no history: a lineage begins.
                row = (last.number + 1, mark.seq, mark.deletion, secrets.token_bytes(DIGEST_BYTES))
                connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", row)
            sessions = " ".join([session, *sessions_of(connection)][:SESSIONS_KEPT])
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('session', ?)", (sessions,))
        return session if self.checkpoint() else ""

    def session(self) -> str:
        """Name of the last session that wrote; "": none has."""
        return self.steady(self._session)

    def _session(self) -> str:
        with self.reading() as connection:
            return next(iter(sessions_of(connection)), "")

    def descends_from(self, connection: sqlite3.Connection, mark: Mark) -> bool:
        """Whether the ledger once stood where `mark` says: what was made of it then needs only what came since."""
        if not mark.commit:
            return False
        found = commit_at(connection, mark.commit)
        return (found.seq, found.deletion, found.digest.hex()) == (mark.seq, mark.deletion, mark.digest)

    def meta(self) -> dict[str, str]:
        """Settings and fingerprints by name."""
        return dict(self.all_rows("SELECT key, value FROM meta"))

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Store settings, durable."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def mark(self, connection: sqlite3.Connection) -> Mark:
        """How far the ledger has got, as `connection` sees it."""
        last = last_commit(connection)
        seq, deletion = last_number(connection, "chunks"), last_number(connection, "deletions")
        return self._mark(connection, Commit(last.number, seq, deletion, last.digest))

    def _mark(self, connection: sqlite3.Connection, at: Commit) -> Mark:
        return Mark(at.seq, at.deletion, self._number(connection, "epoch"), at.number, at.digest.hex())

    def count(self, connection: sqlite3.Connection) -> int:
        """Living chunks, as the last write stated it."""
        return self._number(connection, "count")

    def _number(self, connection: sqlite3.Connection, key: str) -> int:
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return whole_number("none" if row is None else row[0], f"its setting {key!r}")

    def heads(self, connection: sqlite3.Connection, *, after: int = 0) -> list[Head]:
        """Living chunks appended after a sequence number, in its order, without their texts."""
        heads, last = [], after
        for seq, id, source, position, when, check in connection.execute(
            "SELECT seq, id, source, position, event_time, head FROM chunks WHERE seq > ? ORDER BY seq", (after,)
        ):
            if head_check(id, source, position, when) != check or seq <= last:
                raise LedgerDamaged(f"{self.path}: row {seq} is not what was written; restore it from a copy")
            heads.append(Head(seq, id, source, position, when))
            last = seq
        if not after and len(heads) != self.count(connection):
            raise LedgerDamaged(f"{self.path} has lost or gained rows; restore it from a copy")
        return heads

    def deleted(self, connection: sqlite3.Connection, *, after: int) -> list[int] | None:
        """Sequence numbers of the chunks removed after a deletion number; None: the list cannot be relied on."""
        return read_deleted(connection, after)

    def texts(
        self, connection: sqlite3.Connection, *, after: int = 0, limit: int = -1
    ) -> Iterator[tuple[int, str, str]]:
        """(seq, text, metadata) of living chunks appended after a sequence number, in its order; -1: all."""
        rows = connection.execute(
            f"SELECT seq, {ENTRY_COLUMNS} FROM chunks WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
        )
        while some := rows.fetchmany(ROWS_AT_ONCE):
            for seq, *fields in some:
                entry = checked(Entry(*fields))
                yield seq, entry.text, entry.metadata

    def vectors(self, connection: sqlite3.Connection, *, after: int = 0, expected: int = 0) -> Vectors:
        """(n, dim) of living chunks appended after a sequence number, in its order; (0, 0) where there are none.

        Args:
            expected: n, if it is known: they are then read to where they stay.
        """
        return read_vectors(connection, after, expected)

    def vector_bytes(self) -> int | None:
        """Length of a stored vector; None: there is none."""
        rows = self.all_rows("SELECT length(vector) FROM vectors LIMIT 1")
        return whole_number(rows[0][0], "the length of a vector") if rows else None

    def entries(self, seqs: Sequence[int]) -> dict[int, Entry]:
        """Whole rows by sequence number; those that are gone are left out."""
        return {row[0]: Entry._make(row[1:]) for row in self._by_seq(ENTRY_COLUMNS, seqs)}

    def checksums(self, seqs: Sequence[int]) -> dict[int, tuple[bytes, int]]:
        """Checksums of whole rows and of their vectors, by sequence number."""
        rows = self._by_seq("digest, (SELECT checksum FROM vectors WHERE vectors.seq = chunks.seq)", seqs)
        return {seq: (digest, checksum) for seq, digest, checksum in rows}

    def _by_seq(self, columns: str, seqs: Sequence[int]) -> list[Any]:
        return self.steady(lambda: self._read_by_seq(columns, seqs))

    def _read_by_seq(self, columns: str, seqs: Sequence[int]) -> list[Any]:
        found: list[Any] = []
        with self.reading() as connection:
            for start in range(0, len(seqs), SQL_VARIABLES):
                some = seqs[start : start + SQL_VARIABLES]
                found += connection.execute(select_by_seq(columns, len(some)), some).fetchall()
        return found

    def compact(self) -> None:
        """Give the space of removed rows back to the disk, and that of the lists of deletions and commits."""
        with self.transaction() as connection:
            connection.execute(HISTORY)
            connection.execute("DELETE FROM deletions")
            connection.execute("DELETE FROM commits WHERE number < (SELECT max(number) FROM commits)")
        self.vacuum()
