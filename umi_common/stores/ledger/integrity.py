"""Whether SQLite's own structures are sound, and what of them can be made anew: indexes, from their tables."""

from __future__ import annotations

import sqlite3

from umi_common.errors import LedgerDamaged
from umi_common.stores.ledger.ledger import Ledger

NAMED = 10
"""Problems that SQLite names before it stops looking."""
DROP_CACHED_PAGES = "PRAGMA shrink_memory"
"""Pages that a connection has read before, it would not read again."""
LOOK_UP_EVERY_ID = """
SELECT count(*), count(found) FROM (
    SELECT (
        SELECT 1 FROM chunks AS named INDEXED BY sqlite_autoindex_chunks_1
        WHERE named.id = listed.id AND named.seq = listed.seq
    ) AS found FROM chunks AS listed NOT INDEXED
)"""
"""Rows in the table, and how many of them the index of ids finds. An index with a damaged page may find fewer and
still end without an error."""


def file_problems(connection: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the file, a line each; reads all of it from the disk."""
    connection.execute(DROP_CACHED_PAGES)
    said = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({NAMED})").fetchall()]
    return [] if said == ["ok"] else said


def check_id_index(ledger: Ledger, connection: sqlite3.Connection) -> None:
    """Look every row up in the index of ids: some 0.1 s for 100,000 rows.

    Raises:
        LedgerDamaged: If the table or the index has lost rows.
    """
    rows, found = connection.execute(LOOK_UP_EVERY_ID).fetchone()
    stated = ledger.count(connection)
    if rows != stated:
        raise LedgerDamaged(f"{ledger.path} holds {rows} chunks and should hold {stated}; restore it from a copy")
    if found != rows:
        raise LedgerDamaged(
            f"{ledger.path}: an index of SQLite's is damaged, which finds {found} of {rows} chunks. The chunks are "
            "there: run repair() (umi repair), then repeat the call"
        )


def remake_indexes(ledger: Ledger) -> None:
    """Make SQLite's indexes anew from the tables. Where the tables are damaged too, nothing is changed.

    Raises:
        LedgerDamaged: If a table is damaged, or an index so much that SQLite cannot replace it.
    """
    try:
        with ledger.transaction() as connection:
            connection.execute(DROP_CACHED_PAGES)
            connection.execute("REINDEX")
            _read_tables(ledger, connection)  # the free pages that the new index took may have been none
            check_id_index(ledger, connection)
        ledger.compact()  # pages that only the damaged index knew of
    except LedgerDamaged as error:
        reason = str(error.__cause__ or error).removesuffix("; restore it from a copy")  # without our own advice
        raise LedgerDamaged(f"repair() cannot mend {ledger.path} ({reason}); restore it from a copy") from error


def _read_tables(ledger: Ledger, connection: sqlite3.Connection) -> None:
    """Compare every row with its checksums, and the number of rows with that of the last write.

    Raises:
        LedgerDamaged: If one is not what was written.
    """
    heads = ledger.heads(connection)
    texts = sum(1 for _ in ledger.texts(connection))
    vectors = len(ledger.vectors(connection, expected=len(heads)))
    if not len(heads) == texts == vectors:
        raise LedgerDamaged(f"{ledger.path} holds {len(heads)} chunks, {texts} texts and {vectors} vectors")
