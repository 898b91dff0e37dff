"""The ledger's file while it is open: who writes, who reads, and whether it still lies where it was opened."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from umi_common.errors import StoreClosed, StoreReadOnly
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.file import open_file, prepare_for_reading, reading_connection, refuse_empty
from umi_common.stores.ledger.followed import Followed
from umi_common.stores.ledger.location import Location
from umi_common.stores.ledger.sqlite import (
    BUSY_SECONDS,
    ChangedWhileRead,
    Lender,
    Reading,
    SoleLender,
    commit,
    sqlite_errors,
)

Result = TypeVar("Result")


class LedgerAccess:
    """Connections to one ledger. Thread-safe.

    Args:
        path: The file; None: a new ledger in memory.
        read_only: Write nothing, and follow the process that writes.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = threading.RLock()
        self._closed = False
        self._location = None if path is None or read_only else Location(path)
        self._readers: Lender | SoleLender | Followed
        with sqlite_errors(path):
            if read_only and path is not None:
                refuse_empty(path)
                self._readers = Followed(path, prepare_for_reading)
            else:
                self._writer = open_file(path)
                self._readers = SoleLender(self._writer, self._lock) if path is None else Lender(self._open_reader)
        self.check_location()

    def _open_reader(self) -> sqlite3.Connection:
        assert self.path is not None
        assert self._location is not None
        return reading_connection(self.path, self._location)

    def in_place(self) -> bool:
        """Whether the path still names the opened directory and file; True in memory."""
        return self._location is None or self._location.unchanged()

    def check_location(self) -> None:
        """Before a write, and before it is acknowledged.

        Raises:
            StoreMoved: If the path does not name the opened directory and file any more.
        """
        if self._location is not None:
            self._location.check()

    def reading(self) -> Reading:
        """A connection for SELECTs; `BEGIN` on it for more than one of the same moment."""
        return Reading(self._readers, self.path)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection whose SELECTs all see the same moment. Not inside another one of the same thread."""
        with self.reading() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    @contextmanager
    def transaction(self, meanwhile: Callable[[], object] | None = None) -> Iterator[sqlite3.Connection]:
        """A durable change: all of the block or none of it.

        Args:
            meanwhile: Done while SQLite commits.

        Raises:
            StoreFull: If the disk refuses; nothing has changed then.
            StoreMoved: If the file does not lie where it was opened; what was committed nobody will find.
        """
        with self._lock, sqlite_errors(self.path, writing=True):
            self._check_writable()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                self.check_location()
                yield self._writer
                failpoint("ledger.commit")
                commit(self._writer, meanwhile)
            except BaseException:
                if self._writer.in_transaction:
                    with suppress(sqlite3.Error):
                        self._writer.execute("ROLLBACK")
                raise
            self.check_location()
        failpoint("ledger.committed")

    def all_rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Rows of one SELECT, all of one moment."""
        return self.steady(lambda: self._all_rows(sql, parameters))

    def _all_rows(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        with self.reading() as connection:
            return connection.execute(sql, parameters).fetchall()

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; whether all of it is there."""
        if self.path is None:
            return True
        with self._lock, sqlite_errors(self.path, writing=True):
            busy, pages, folded = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and pages == folded

    def has_log(self) -> bool:
        """Whether something is left in the write-ahead log; after close() another process may have kept it."""
        log = None if self.path is None else self.path.with_name(f"{self.path.name}-wal")
        return log is not None and log.exists() and log.stat().st_size > 0

    def vacuum(self) -> None:
        """Give the space of removed rows back to the disk."""
        with self._lock, sqlite_errors(self.path, writing=True):
            self._check_writable()
            self.check_location()
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _check_writable(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")
        if self.read_only:
            raise StoreReadOnly("the store was opened with read_only=True; open it without to write")

    def version(self) -> tuple[int, int]:
        """Of a file opened for reading: changes whenever another process has committed; cheap.

        Raises:
            StoreMoved: If another file lies there by now.
            StoreReadOnly: If it has unfinished writes that only a writer can take over.
        """
        if not isinstance(self._readers, Followed):
            return (0, 0)  # nobody else writes
        with sqlite_errors(self.path):
            return self._readers.version()

    def steady(self, read: Callable[[], Result]) -> Result:
        """What `read` gives; once more where another process changed the file while it ran."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return read()
            except ChangedWhileRead:
                if time.monotonic() > deadline:
                    raise
                self.version()  # opens the file anew

    def close(self) -> None:
        """Close every connection; the write-ahead log is folded into the file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._readers.close()
            if self.read_only:
                return
            if self.path is not None:
                with suppress(sqlite3.Error):
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._writer.close()
