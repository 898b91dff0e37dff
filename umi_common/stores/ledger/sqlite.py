"""SQLite as the ledger needs it: how a file is opened, its errors as ours, connections lent to readers."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from umi_common.errors import LedgerDamaged, StoreClosed, StoreError, StoreFull, StoreLocked, StoreReadOnly

SQL_VARIABLES = 500
"""Most "?" in one statement: under every SQLite's limit."""
BUSY_SECONDS = 10.0
"""How long a statement waits for another process's short lock."""
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises. The second: a damaged schema or text comes back in a message that is no UTF-8."""
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
"""What SQLite says of a file that is not what it wrote, read without an error code (Python 3.10 has none)."""
FULL = ("database or disk is full", "disk i/o error", "file too large")
UNWRITABLE = ("readonly", "read-only")


class ChangedWhileRead(StoreError):
    """What was read is not of one moment; `Ledger.steady` reads it again."""


def unwritable(error: Exception) -> bool:
    """Whether SQLite refuses because a file cannot be written."""
    said = str(error).lower()
    return any(phrase in said for phrase in UNWRITABLE)


def as_umi_error(error: Exception, path: Path | None, *, writing: bool) -> StoreError:
    """Our error for SQLite's, with what to do."""
    said = str(error).lower()
    where = "the store in memory" if path is None else str(path)
    if "closed" in said:
        return StoreClosed("the store was closed while this call ran; open it again")
    if writing and any(phrase in said for phrase in FULL):
        return StoreFull(f"{where}: the disk refused the write ({error}); free space and repeat the call")
    if unwritable(error):
        return StoreReadOnly(f"{where} cannot be written ({error}); open it with read_only=True")
    if "locked" in said or "busy" in said:
        return StoreLocked(f"{where} stayed locked for {BUSY_SECONDS:g} s; another program holds it open for writing")
    if any(phrase in said for phrase in DAMAGED):
        return LedgerDamaged(
            f"{where} is damaged ({error}); run repair() (umi repair), which mends SQLite's indexes; where that "
            "fails, restore it from a copy"
        )
    return StoreError(f"{where}: {error}")


@contextmanager
def sqlite_errors(path: Path | None, *, writing: bool = False) -> Iterator[None]:
    """Turn what SQLite raises inside the block into ours."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise as_umi_error(error, path, writing=writing) from error


def connect(path: Path | None, options: str = "mode=rw") -> sqlite3.Connection:
    """A connection that any one thread at a time may use; None: a database in memory.

    `options` is the query part of SQLite's file URI: "mode=rwc", "mode=rw", "mode=ro&immutable=1".
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


def commit(connection: sqlite3.Connection, meanwhile: Callable[[], object] | None) -> None:
    """Commit, and do `meanwhile` while SQLite is at it, for which it needs no interpreter lock."""
    if meanwhile is None:
        connection.execute("COMMIT")
        return
    with ThreadPoolExecutor(1, "umi-commit") as pool:
        committed = pool.submit(connection.execute, "COMMIT")
        meanwhile()
    committed.result()


def insert(
    connection: sqlite3.Connection, into: str, width: int, seqs: Sequence[int], rows: Iterable[tuple[Any, ...]]
) -> None:
    """Rows of `width` columns, the first of them their sequence number.

    As many in a statement as it may hold: what SQLite does once a statement is half of what a row costs by itself.
    """
    marks = f"({', '.join('?' * width)})"
    statement, at_once, left = f"INSERT INTO {into} VALUES ", SQL_VARIABLES // width, iter(rows)
    full = statement + ", ".join([marks] * at_once)
    for start in range(0, len(seqs), at_once):
        some = seqs[start : start + at_once]
        values: list[Any] = []
        for seq, row in zip(some, left):  # noqa: B905 the rows of the statements that follow are left
            values.append(seq)
            values += row
        connection.execute(full if len(some) == at_once else statement + ", ".join([marks] * len(some)), values)


class Lender:
    """Lends connections, opening as many as are in use at once; closes them all."""

    def __init__(self, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_connection
        self._idle: deque[sqlite3.Connection] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def lend(self) -> sqlite3.Connection:
        """A connection that nobody else has until it is taken back.

        Raises:
            StoreClosed: After close().
        """
        with self._lock:
            if self._closed:
                raise StoreClosed("the store is closed; open it again")
            connection = self._idle.pop() if self._idle else None
        return self._open() if connection is None else connection

    def take_back(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Ends what the borrower has begun. True: SQLite's locks held what was read to one moment."""
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return True
        connection.close()
        return True

    def close(self) -> None:
        """Close the idle now and the lent when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = list(self._idle), deque()
        for connection in idle:
            connection.close()


class SoleLender:
    """Lends the one connection there is, to one thread at a time; its owner closes it.

    Args:
        lock: Held by whoever has the connection.
    """

    def __init__(self, connection: sqlite3.Connection, lock: threading.RLock) -> None:
        self._connection, self._lock = connection, lock
        self._closed = False

    def lend(self) -> sqlite3.Connection:
        """The connection.

        Raises:
            StoreClosed: After close().
        """
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreClosed("the store is closed")
        return self._connection

    def take_back(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Others may have it now. True: nobody wrote meanwhile."""
        self._lock.release()
        return True

    def close(self) -> None:
        """Lend no more."""
        with self._lock:
            self._closed = True


class Connections(Protocol):
    """Lends connections for reading."""

    def lend(self) -> sqlite3.Connection:
        """A connection that no other thread has until it is taken back."""

    def take_back(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Whether what was read with it, or the error that was met, is of the file as it was in one moment."""

    def close(self) -> None:
        """Lend no more."""


class Reading:
    """`with` this, a connection is lent; what SQLite raises meanwhile becomes ours.

    A class, because every search reads, and generators as context managers took a sixth of the time of that.

    Raises:
        ChangedWhileRead: At the end of the block, in place of whatever it raised, if it did not read one moment.
    """

    __slots__ = ("_connection", "_lender", "_path")

    def __init__(self, lender: Connections, path: Path | None) -> None:
        self._lender, self._path = lender, path

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection = self._lender.lend()
        except DATABASE_ERRORS as error:
            raise as_umi_error(error, self._path, writing=False) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        of_one_moment = self._lender.take_back(self._connection, error)
        if not of_one_moment and (error is None or isinstance(error, Exception)):
            raise ChangedWhileRead(f"{self._path} was changed while it was read; repeat the call") from error
        if isinstance(error, DATABASE_ERRORS):
            raise as_umi_error(error, self._path, writing=False) from error
