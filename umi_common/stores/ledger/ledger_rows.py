"""Reading the ledger's tables by sequence number, so that rows that are missing or out of order are noticed."""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from operator import itemgetter, lt

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.stores.growing import Growing
from umi_common.stores.ledger.codec import decode_vectors
from umi_common.stores.ledger.history import last_number

VECTORS_AT_ONCE = 250
"""Blobs read together: they stay in the processor's cache until they are in their array."""
SELECTS_KEPT = 64
"""Statements kept for the next reading of as many rows."""


def read_deleted(connection: sqlite3.Connection, after: int) -> list[int] | None:
    """Sequence numbers of the chunks removed after a deletion number; None: the list cannot be relied on.

    Its oldest rows are dropped in time. Numbers rise without a gap, so a row that is missing is noticed, and so is one
    that names a chunk that is there.
    """
    rows = connection.execute(
        "SELECT chunk, typeof(chunk) = 'integer' AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.seq = chunk) "
        "FROM deletions WHERE seq > ?",
        (after,),
    ).fetchall()
    whole = len(rows) == last_number(connection, "deletions") - after
    return [chunk for chunk, _ in rows] if whole and all(gone for _, gone in rows) else None


def read_vectors(connection: sqlite3.Connection, after: int, expected: int) -> Vectors:
    """See `Ledger.vectors`.

    Raises:
        LedgerDamaged: If a vector is not what was written, or their numbers do not rise.
    """
    rows = connection.execute("SELECT seq, vector, checksum FROM vectors WHERE seq > ? ORDER BY seq", (after,))
    whole, last = Growing(np.float32, 0), after
    while read := rows.fetchmany(VECTORS_AT_ONCE):
        seqs = [last, *map(itemgetter(0), read)]
        some = decode_vectors([row[1:] for row in read])
        if not len(whole.view):
            whole = Growing(np.float32, some.shape[1], room=max(expected, len(some)))
        if some.shape[1] != whole.view.shape[1] or not all(map(lt, seqs, seqs[1:])):
            raise LedgerDamaged("the vectors of umi.db are not what was written; restore it from a copy")
        whole.extend(some)
        last = seqs[-1]
    return whole.view


@lru_cache(SELECTS_KEPT)
def select_by_seq(columns: str, count: int) -> str:
    """Rows of `chunks` by number. Joined: for `seq IN (...)` SQLite makes itself a table of the numbers first."""
    asked = ", ".join(["(?)"] * count)
    return f"WITH asked(number) AS (VALUES {asked}) SELECT seq, {columns} FROM asked CROSS JOIN chunks ON seq = number"
