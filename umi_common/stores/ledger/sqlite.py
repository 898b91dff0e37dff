"""Opens SQLite files, turns SQLite's errors into umi's, and pools connections for several threads."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from umi_common.errors import LedgerDamaged, StoreClosed, StoreError, StoreFull, StoreLocked, StoreMoved, StoreReadOnly
from umi_common.types import inode_of

SQL_VARIABLES = 500
"""Largest number of "?" in one statement; below the limit of every SQLite."""
BUSY_SECONDS = 10.0
"""Longest time that a statement waits for a lock of another connection, in seconds."""
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions that sqlite3 raises. It raises UnicodeDecodeError if the message of an error of SQLite is not UTF-8,
because it quotes text of a damaged file."""
DAMAGED = (
    "malformed",
    "not a database",
    "no such table",
    "no such column",
    "has no column",
    "could not decode",
    "can't decode",
    "constraint failed",
    "foreign key mismatch",
    "disk i/o error",
)
"""Parts of the messages of DATABASE_ERRORS about a damaged file. sqlite3 gives no error codes before Python 3.11.

"can't decode" is in the message of UnicodeDecodeError. "constraint failed" means damage, because umi's statements
violate no constraint of an undamaged file."""
REFUSED = ("database or disk is full", "disk i/o error", "file too large")
"""Parts of SQLite's messages about a write that the disk refused."""


class ChangedWhileRead(StoreError):
    """Another process changed the file during a read; `Ledger.retry_read` (in ledger.py) repeats the read."""


def unwritable(error: Exception) -> bool:
    """Whether the error says that SQLite may not write a file ("readonly" or "read-only")."""
    return "readonly" in str(error).lower().replace("-", "")


def as_umi_error(error: Exception, path: Path | None, *, writing: bool) -> StoreError:
    """The umi error for one of DATABASE_ERRORS; `path`: the database's file, None if the database is in memory."""
    message = str(error).lower()
    where = "the store in memory" if path is None else str(path)
    if "closed" in message:
        return StoreClosed("the store was closed while this call ran; open it again")
    if writing and any(phrase in message for phrase in REFUSED):
        return StoreFull(
            f"{where}: the disk refused the write ({error}); free space, or check the disk, and repeat the call"
        )
    if unwritable(error):
        return StoreReadOnly(
            f"{where}, or a file with the ending -wal or -shm beside it, cannot be written ({error}); check their "
            "permissions, or open it with read_only=True to search it"
        )
    if "locked" in message or "busy" in message:
        return StoreLocked(
            f"{where} stayed locked for {BUSY_SECONDS:g} s by another connection, perhaps of another program; end its "
            "transaction and repeat the call"
        )
    if any(phrase in message for phrase in DAMAGED):
        return LedgerDamaged(
            f"{where} is damaged ({error}); run repair() (umi repair), which mends SQLite's indexes; where that "
            "fails, restore it from a copy"
        )
    if "unable to open" in message:
        return StoreError(
            f"{where} cannot be opened ({error}); check its permissions, and how many files this process may open; "
            "SQLite opens no path longer than about 500 bytes"
        )
    return StoreError(f"{where}: {error}")


@contextmanager
def sqlite_errors(path: Path | None, *, writing: bool = False) -> Iterator[None]:
    """Raise DATABASE_ERRORS of the block as errors of umi (`as_umi_error`)."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise as_umi_error(error, path, writing=writing) from error


def connect(path: Path | None, options: str = "mode=rw") -> sqlite3.Connection:
    """A connection to the file at `path`; None: to a new database in memory. Any thread may use it, one at a time.

    `options` is the query part of SQLite's file URI, for example "mode=ro&immutable=1".
    """
    name = ":memory:" if path is None else f"{path.resolve().as_uri()}?{options}"
    connection = sqlite3.connect(
        name, uri=path is not None, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
    except DATABASE_ERRORS:
        connection.close()
        raise
    return connection


def insert(connection: sqlite3.Connection, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows. `columns` names their columns, such as "seq, vector".

    One statement inserts as many rows as SQL_VARIABLES allows. This takes half as long as one statement for each row.
    """
    width, left = columns.count(",") + 1, iter(rows)
    while batch := list(islice(left, SQL_VARIABLES // width)):
        placeholders = ", ".join([f"({', '.join('?' * width)})"] * len(batch))
        values = list(chain.from_iterable(batch))
        connection.execute(f"INSERT INTO {table} ({columns}) VALUES {placeholders}", values)


class Location:
    """Identity (device and inode) of a file and of its directory. Raises StoreMoved if there is no such file.

    An open file stays writable after it or its directory was deleted or renamed, but no store would find the writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        directory, file = inode_of(path.parent), inode_of(path)
        if directory is None or file is None:
            raise StoreMoved(f"{path} is gone; check whether its directory was deleted or renamed")
        self._directory, self.file = directory, file

    def unchanged(self) -> bool:
        """Whether the path still names the same directory and the same file."""
        return inode_of(self._path.parent) == self._directory and inode_of(self._path) == self.file

    def check(self, *, writing: bool = False) -> None:
        """Raise unless the path still names the same directory and the same file.

        Args:
            writing: Whether the call writes; the message then says that the write may be lost.

        Raises:
            StoreMoved: If the path now names another directory or another file, or none.
            StoreError: If the system refuses to look up the path, for example because a permission was removed.
        """
        if self.unchanged():
            return
        try:
            self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be reached ({error.strerror}); check the permissions of its directory and of "
                "those above it, and the file system, then repeat the call; the store may stay open"
            ) from error
        raise StoreMoved(
            f"{self._path} or its directory was deleted, renamed or replaced while the store was open"
            f"{'; a write of this call may be lost' if writing else ''}. Close this store, then open it under its "
            "present path, or restore a deleted store from a copy; then repeat the call"
        )


class ConnectionPool:
    """Connections for reading. A thread gets an idle connection, or a new one if all are in use."""

    def __init__(self, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_connection
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = threading.Event()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone. Raises StoreClosed after close()."""
        if self._closed.is_set():
            raise StoreClosed("the store is closed; open it again")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        try:
            yield connection
        finally:
            if connection.in_transaction:  # its COMMIT failed
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            self._idle.append(connection)
            if self._closed.is_set():
                self.close()

    def close(self) -> None:
        """Close the idle connections now; a connection in use is closed when it is released."""
        self._closed.set()  # set first, so that a connection that is released meanwhile is closed
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
