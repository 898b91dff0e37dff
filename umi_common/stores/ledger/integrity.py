"""Check the pages and indexes of `umi.db`, and make damaged indexes again from the tables."""

from __future__ import annotations

import sqlite3

from umi_common.errors import LedgerDamaged
from umi_common.stores.ledger.ledger import Ledger

PROBLEMS_MAX = 10
"""After this many problems SQLite's check stops."""
DROP_CACHED_PAGES = "PRAGMA shrink_memory"
"""Empties the connection's page cache, so that the statements after it read the disk."""


def file_problems(connection: sqlite3.Connection) -> list[str]:
    """SQLite's messages about damage in the file, at most PROBLEMS_MAX; [] if there is none. Reads the whole file."""
    connection.execute(DROP_CACHED_PAGES)
    messages = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()]
    return [] if messages == ["ok"] else messages


def remake_indexes(ledger: Ledger) -> None:
    """Make SQLite's indexes again from the tables. On an error the transaction is rolled back: no index changes.

    Raises:
        LedgerDamaged: If a table is damaged, or if SQLite cannot replace an index.
    """
    try:
        with ledger.transaction() as connection:
            connection.execute(DROP_CACHED_PAGES)
            connection.execute("REINDEX")
            # Read after REINDEX: where pages of a table are wrongly listed as free, it may have overwritten them.
            _check_tables(ledger, connection)
            ledger.check_id_index(connection)
        ledger.compact()  # returns the pages that only the damaged index used
    except LedgerDamaged as error:
        cause = error.__cause__
        told = error if cause is None or isinstance(cause, LedgerDamaged) else cause
        reason, _, fix = str(told).partition("; restore ")
        fix = fix or "it from a copy"
        raise LedgerDamaged(f"repair() cannot mend {ledger.path} ({reason}); restore {fix}") from error


def _check_tables(ledger: Ledger, connection: sqlite3.Connection) -> None:
    """Read every row of the tables of chunks and vectors, and compare its checksums and the numbers of rows.

    Raises:
        LedgerDamaged: If a checksum differs, if the numbers of chunks, texts and vectors differ, or if the number of
            chunks is not the one that the ledger stores.
    """
    heads = ledger.heads(connection)
    texts = sum(1 for _ in ledger.texts(connection))
    vectors = len(ledger.vectors(connection, expected=len(heads)))
    if not len(heads) == texts == vectors:
        raise LedgerDamaged(f"{ledger.path} holds {len(heads)} chunks, {texts} texts and {vectors} vectors")
