"""The file `umi.db`: its schema, and functions that create it, open it, and check that it is a ledger of umi."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from umi_common.errors import LedgerDamaged, NotAStore, StoreError
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.sqlite import Location, connect, sqlite_errors

FILE = "umi.db"
APPLICATION_ID = 0x756D6901
SCHEMA_VERSION = 1
PAGE_BYTES = 8_192
"""Page size of a new file, in bytes. A page holds five vectors of 384 float32; a page of SQLite's default size, 4,096
bytes, holds two."""
LOG_BYTES = 32_000_000
"""Size of umi.db-wal, in bytes, from which a commit makes a checkpoint: it copies the log into umi.db. With SQLite's
default of 4 MB, every large batch would make one."""
CASCADING = "PRAGMA foreign_keys = ON"
"""Statement after which a connection deletes a chunk's vector together with the chunk."""
SCHEMA = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE chunks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    source TEXT,
    position INTEGER,
    event_time INTEGER,
    head INTEGER NOT NULL,
    digest BLOB NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,
    search_text TEXT
);
CREATE TABLE vectors (
    seq INTEGER PRIMARY KEY REFERENCES chunks (seq) ON DELETE CASCADE,
    vector BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE deletions (seq INTEGER PRIMARY KEY AUTOINCREMENT, chunk INTEGER NOT NULL);
INSERT INTO meta VALUES ('count', '0'), ('epoch', '0');
"""
"""seq: sequence number of a row, never used twice. event_time: microseconds since 1970. head: CRC-32 of id, source,
position and event_time. digest: hash of the whole row. deletions.chunk: seq of a deleted chunk. meta.count: number of
chunks. meta.epoch: number of reindexes."""

ADD_SEARCH_TEXT = "ALTER TABLE chunks ADD COLUMN search_text TEXT"
"""Statement for ledgers of early versions, which lack the column; executed at their next write."""
HISTORY = """
CREATE TABLE IF NOT EXISTS commits (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    deletion INTEGER NOT NULL,
    digest BLOB NOT NULL
)"""
"""Table with one row per commit. seq, deletion: the last sequence numbers of chunks and of deletions at that commit.
digest: rolling digest of all commits so far. It starts from random bytes, so an index with an equal digest was made
from this ledger. Ledgers of early versions lack the table until their next write."""


def create_file(directory: Path) -> None:
    """Create an empty ledger in `directory`. The file is renamed to umi.db when complete, so an error leaves no umi.db.
    Raises StoreFull if the disk or a file-size limit refused the write."""
    unfinished = directory / f"{FILE}.new"
    for leftover in directory.glob(f"{FILE}.new*"):
        leftover.unlink()
    with sqlite_errors(unfinished, writing=True):
        connection = connect(unfinished, "mode=rwc")
        try:
            connection.executescript(SCHEMA + HISTORY)
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
    failpoint("ledger.create")
    unfinished.replace(directory / FILE)
    sync_directory(directory)


def open_in_memory() -> sqlite3.Connection:
    """Open the connection to a new ledger in memory."""
    connection = connect(None)
    connection.execute(CASCADING)
    connection.executescript(SCHEMA + HISTORY)
    return connection


def open_file(path: Path) -> sqlite3.Connection:
    """Open the writing connection to the file at `path`. Raises the errors of `check_identity` and of SQLite."""
    connection = connect(path)
    try:
        check_identity(connection, path)
        connection.execute(CASCADING)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync does not reach the disk
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page_bytes}")
        connection.execute("SELECT 1 FROM meta").fetchone()  # maps umi.db-shm; see readers_closed
    except BaseException:
        connection.close()
        raise
    return connection


def reading_connection(path: Path, location: Location, options: str = "mode=rw") -> sqlite3.Connection:
    """Open a connection that refuses writes. Raises StoreMoved, and the errors of `check_identity`.

    Args:
        location: Location of the file when the ledger was opened.
        options: Query part of SQLite's file URI; "mode=rw" in the process that writes.
    """
    connection = connect(path, options)
    try:
        connection.execute("PRAGMA query_only = ON")
        check_identity(connection, path)  # reads the first page, and so opens the log
        location.check()
    except BaseException:
        connection.close()
        raise
    return connection


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless the file is a ledger of a schema version that this umi reads.

    Raises:
        NotAStore: If the file is a SQLite file of another program.
        StoreError: If a newer umi wrote the file.
        LedgerDamaged: If the file has a schema version that no umi wrote.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise NotAStore(f"{path} is a SQLite file of another program; give umi a directory of its own")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version} and this umi reads {SCHEMA_VERSION}; upgrade umi-retrieval"
        )
    if version < SCHEMA_VERSION:
        raise LedgerDamaged(f"{path} has schema version {version}, which no umi writes; restore it from a copy")


def sync_directory(directory: Path) -> None:
    """Write a directory's entries to the disk (fsync), so that files created or renamed in it outlast a power failure;
    does nothing on a system that cannot sync a directory."""
    with suppress(OSError):  # Windows cannot open a directory as a file
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
