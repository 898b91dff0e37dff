"""Checks of SQLite's own structures, and repair of its indexes from the tables."""

from __future__ import annotations

import sqlite3

from umi_common.errors import LedgerDamaged
from umi_common.stores.ledger.ledger import Ledger

PROBLEMS_MAX = 10
"""Problems that SQLite names before it stops."""
DROP_CACHED_PAGES = "PRAGMA shrink_memory"
"""Without this, SQLite does not read pages from the disk that are in the connection's cache."""


def file_problems(connection: sqlite3.Connection) -> list[str]:
    """SQLite's messages about damage of the file; reads all of it from the disk."""
    connection.execute(DROP_CACHED_PAGES)
    said = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()]
    return [] if said == ["ok"] else said


def remake_indexes(ledger: Ledger) -> None:
    """Make SQLite's indexes again from the tables. If a table is damaged, nothing is changed.

    Raises:
        LedgerDamaged: If a table is damaged, or an index so much that SQLite cannot replace it.
    """
    try:
        with ledger.transaction() as connection:
            connection.execute(DROP_CACHED_PAGES)
            connection.execute("REINDEX")
            _read_tables(ledger, connection)  # after it: REINDEX may have overwritten pages wrongly listed as free
            ledger.check_id_index(connection)
        ledger.compact()  # frees pages that only the damaged index used
    except LedgerDamaged as error:
        reason = str(error.__cause__ or error).removesuffix("; restore it from a copy")  # the advice follows anyway
        raise LedgerDamaged(f"repair() cannot mend {ledger.path} ({reason}); restore it from a copy") from error


def _read_tables(ledger: Ledger, connection: sqlite3.Connection) -> None:
    """Compare every row with its checksums, and the number of rows with the number that the last write stated.

    Raises:
        LedgerDamaged: If they differ.
    """
    heads = ledger.heads(connection)
    texts = sum(1 for _ in ledger.texts(connection))
    vectors = len(ledger.vectors(connection, expected=len(heads)))
    if not len(heads) == texts == vectors:
        raise LedgerDamaged(f"{ledger.path} holds {len(heads)} chunks, {texts} texts and {vectors} vectors")
