"""The file `umi.db`: its schema, making it, opening it, and checking that it is a ledger of umi."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from umi_common.errors import LedgerDamaged, NotAStore, StoreError
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.followed import readers_closed
from umi_common.stores.ledger.sqlite import Location, connect, sqlite_errors

FILE = "umi.db"
APPLICATION_ID = 0x756D6901
SCHEMA_VERSION = 1
PAGE_BYTES = 8_192
"""Page size of a new file, in bytes: a page holds five vectors of 384 float32; SQLite's default of 4,096 holds two."""
CACHE_KIB = 16_384
"""Page cache of the writing connection, in KiB. With SQLite's default of 2 MB, a large batch is written out twice."""
READING_CACHE_KIB = 4_096
"""Page cache of each reading connection, in KiB: holds the rows of 10,000 short chunks; the default holds half."""
LOG_BYTES = 32_000_000
"""Size of umi.db-wal, in bytes, from which a commit copies it into umi.db. SQLite's default of 4 MB would make every
large batch do so."""
WRITABLE = "mode=rw"
CASCADING = "PRAGMA foreign_keys = ON"
"""For the writing connection: deleting a chunk deletes its vector."""
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

ADD_SEARCH_TEXT = "ALTER TABLE chunks ADD COLUMN search_text TEXT"
"""For stores that were made before the column existed; executed at their next write."""
HISTORY = """
CREATE TABLE IF NOT EXISTS commits (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    deletion INTEGER NOT NULL,
    digest BLOB NOT NULL
)"""
"""One row per commit: its last sequence numbers, and the rolling digest of all commits so far. The digest starts from
random bytes, so an index can tell by it whether it was made from this ledger. Early versions made no such table."""


def create_file(directory: Path) -> None:
    """Make an empty ledger in `directory`, or, on an error, nothing.

    Raises:
        StoreFull: If the disk refuses.
    """
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


def open_file(path: Path | None) -> sqlite3.Connection:
    """The connection that writes; None: to a new ledger in memory.

    Raises:
        sqlite3.Error, LedgerDamaged, NotAStore, StoreError: If the file is not what it should be.
    """
    if path is None:
        connection = connect(None)
        connection.execute(CASCADING)
        connection.executescript(SCHEMA + HISTORY)
        return connection
    refuse_empty(path)
    with readers_closed(path):
        connection = connect(path, WRITABLE)
        try:
            check_identity(connection, path)
            connection.execute(CASCADING)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync does not reach the disk
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page_bytes}")
            connection.execute("SELECT 1 FROM meta").fetchone()  # maps umi.db-shm while no reader can
        except BaseException:
            connection.close()
            raise
    return connection


def refuse_empty(path: Path) -> None:
    """Raise if the file is empty; SQLite would take it for a new database.

    Raises:
        LedgerDamaged: As described.
    """
    if path.stat().st_size == 0:
        raise LedgerDamaged(f"{path} is empty; restore it from a copy, nothing can rebuild it")


def reading_connection(path: Path, location: Location) -> sqlite3.Connection:
    """A connection for reading in the process that writes, to the same file.

    Raises:
        StoreMoved: If the path names another file by now.
    """
    connection = connect(path, WRITABLE)
    try:
        prepare_for_reading(connection, path)
        location.check()
    except BaseException:
        connection.close()
        raise
    return connection


def prepare_for_reading(connection: sqlite3.Connection, path: Path) -> None:
    """Make a connection read-only, and check the file.

    Raises:
        NotAStore, LedgerDamaged, StoreError: As `check_identity`.
    """
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{READING_CACHE_KIB}")
    check_identity(connection, path)  # reads the first page, and so opens the log


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Raise if the file is another program's or a newer umi's.

    Raises:
        NotAStore, StoreError, LedgerDamaged: As named.
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
        raise LedgerDamaged(f"{path} says schema version {version}, which never was; restore it from a copy")


def sync_directory(directory: Path) -> None:
    """Make renames in a directory durable, where the system can."""
    with suppress(OSError):  # Windows cannot open directories
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
