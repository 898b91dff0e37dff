"""The file `umi.db` itself: its schema, how it comes to be, how it is opened, what makes it one of ours."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from umi_common.errors import LedgerDamaged, NotAStore, StoreError, StoreReadOnly
from umi_common.store.failpoints import failpoint
from umi_common.store.sqlite import DATABASE_ERRORS, as_umi_error, connect, sqlite_errors

FILE = "umi.db"
APPLICATION_ID = 0x756D6901
SCHEMA_VERSION = 1
PAGE_BYTES = 8_192
"""Of new files: five vectors of 384 numbers fill a page, where SQLite's own 4,096 bytes hold two."""
CACHE_KIB = 16_384
"""Pages of a write kept in memory: above 2 MB, SQLite's own, a large batch is written out before it is whole."""
READING_CACHE_KIB = 4_096
"""Likewise for each reading connection: the rows of 10,000 short chunks, of which SQLite's own 2 MB hold half."""
LOG_BYTES = 32_000_000
"""Of umi.db-wal from which it is folded into umi.db; SQLite's own 4 MB would make that part of every large batch."""
CASCADING = "PRAGMA foreign_keys = ON"
"""What writes: a chunk's vector goes with it."""
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
    metadata TEXT NOT NULL
);
CREATE TABLE vectors (
    seq INTEGER PRIMARY KEY REFERENCES chunks (seq) ON DELETE CASCADE,
    vector BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE deletions (seq INTEGER PRIMARY KEY AUTOINCREMENT, chunk INTEGER NOT NULL);
INSERT INTO meta VALUES ('count', '0'), ('epoch', '0');
"""
HISTORY = """
CREATE TABLE IF NOT EXISTS commits (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    deletion INTEGER NOT NULL,
    digest BLOB NOT NULL
)"""
"""One row a commit: how far it got, and the rolling digest of all commits so far, which begins with random bytes, the
ledger's lineage. An index knows by it whether it was made from this ledger. Stores of before have no such table."""


def create_file(directory: Path) -> None:
    """Make an empty ledger in `directory`, whole or not at all.

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


def open_file(path: Path | None, *, read_only: bool) -> tuple[sqlite3.Connection, str]:
    """A connection, and the URI options with which further ones are opened; None: a new ledger in memory.

    Raises:
        sqlite3.Error, LedgerDamaged, NotAStore, StoreError: If the file is not what it should be.
    """
    if path is None:
        connection = connect(None)
        connection.execute(CASCADING)
        connection.executescript(SCHEMA + HISTORY)
        return connection, ""
    if path.stat().st_size == 0:
        raise LedgerDamaged(f"{path} is empty; restore it from a copy, nothing can rebuild it")
    if read_only:
        connection, options = _open_for_reading(path)
    else:
        connection, options = connect(path, "mode=rw"), "mode=rw"
    try:
        _check_identity(connection, path)
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute(CASCADING)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync does not reach the disk
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page_bytes}")
    except BaseException:
        connection.close()
        raise
    return connection, options


def _open_for_reading(path: Path) -> tuple[sqlite3.Connection, str]:
    """Where the directory can be written, readers share SQLite's lock files; else they do without."""
    log = path.with_name(f"{FILE}-wal")
    for options in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in options and log.exists() and log.stat().st_size:
            raise StoreReadOnly(
                f"{path} has unfinished writes in {log.name} and its directory cannot be written; "
                "open the store once where it can be, or copy it"
            )
        connection = _opened(path, options)
        if connection is not None:
            return connection, options
    raise StoreError(f"{path} cannot be opened for reading; check its permissions")


def _opened(path: Path, options: str) -> sqlite3.Connection | None:
    """None: the directory does not allow these options."""
    try:
        connection = connect(path, options)
    except sqlite3.OperationalError:
        return None
    try:
        connection.execute("SELECT 1 FROM meta").fetchone()
    except DATABASE_ERRORS as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and not isinstance(
            as_umi_error(error, path, writing=False), LedgerDamaged
        ):
            return None
        raise
    return connection


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program or of a newer umi."""
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
