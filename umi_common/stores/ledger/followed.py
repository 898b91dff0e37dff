"""`umi.db` in a process that only reads: it sees the commits of other processes, and creates or changes no file.

A store's files are in one of two states:

    SHARED  umi.db, umi.db-wal, umi.db-shm   A writer has the store open. SQLite maps umi.db-shm for reading, takes
                                             shared locks, and finds new commits in the log umi.db-wal.
    ALONE   umi.db                           No writer has it open. SQLite reads umi.db without locks, as a file that
                                             does not change.

An `_Opening` holds the connections that were opened in one state. At the end of each read the files are compared with
it: if they have changed, the read fails with `ChangedWhileRead`, and `Ledger.retry_read` repeats it. `version`, which a
store calls before a search, then makes a new opening. An opening also ends at `close`, and when this process opens the
same file for writing. A connection in use when its opening ends is closed when it is released.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakSet

from umi_common.errors import StoreClosed, StoreError, StoreLocked, StoreReadOnly
from umi_common.runtime.forks import renew_in_child
from umi_common.stores.ledger.file import reading_connection
from umi_common.stores.ledger.sqlite import BUSY_SECONDS, ChangedWhileRead, Location, unwritable
from umi_common.types import inode_of

SHARED = "mode=ro&readonly_shm=1"
"""Options of SQLite's file URI for a file that a writer has open."""
ALONE = "mode=ro&immutable=1"
"""Options for a file that no writer has open."""
SETTLE_SECONDS = 0.5
"""Longest wait, in seconds, for a writer that is opening or closing the store. The writer creates or removes its files
one after the other, and a reader cannot open the store in between."""
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Error numbers if the process, or the machine, has too many files open."""
MARK = "umi.mark"
"""Name of the file that every commit rewrites. If the clock is coarse, two versions of `umi.db` may have equal times;
the content of this file differs even then."""


class _Process:
    """The readers of this process."""

    def __init__(self) -> None:
        self.readers: WeakSet[FollowedFile] = WeakSet()
        renew_in_child(self, _Process._renew)

    def _renew(self) -> None:
        self.open_lock = threading.RLock()
        """Held while a connection is opened. Acquired before the lock of a `FollowedFile`, never after it."""


_process = _Process()


def _state(path: Path) -> tuple[Any, ...]:
    """(SHARED or ALONE, properties of the store's files). If it changes, the connections must be opened again.

    Raises:
        OSError: If umi.db cannot be found, or if too many files are open.
    """
    log, shared = _beside(path, "-wal"), inode_of(_beside(path, "-shm"))
    if _length(log) >= 0 and shared is not None:
        return SHARED, shared
    database, mark = path.stat(), b""
    try:
        mark = path.with_name(MARK).read_bytes()
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
    times = (database.st_mtime_ns, database.st_ctime_ns)  # of the last changes of content and of inode
    # The log comes last: if there is none now, a writer that was copying its log to umi.db at `stat` has ended.
    return ALONE, database.st_dev, database.st_ino, database.st_size, times, mark, _length(log)


class _Opening:
    """The connections that were opened in one state (`_state`) of a store's files."""

    def __init__(self, path: Path, location: Location, number: int) -> None:
        self._path, self._location, self._state = path, location, _state(path)
        self._options = self._state[0]
        unfinished = ("-journal",) if self._options == SHARED else ("-journal", "-wal")
        for file in (_beside(path, ending) for ending in unfinished):
            if _length(file) > 0:  # only a writer can apply a rollback journal, or a log without umi.db-shm
                raise StoreReadOnly(
                    f"{path} has unfinished writes in {file.name}, which a reader cannot take over; open the store "
                    "once for writing, which does, or copy both files to a directory that can be written and open the "
                    "copy"
                )
        self.number = number
        """A later opening of the same `FollowedFile` has a larger number."""
        self.idle: list[sqlite3.Connection] = []
        """Connections that no thread uses."""
        self._watch = self.connect()
        """The connection whose `PRAGMA data_version` shows that another process has committed."""

    def connect(self) -> sqlite3.Connection:
        """A further connection."""
        return reading_connection(self._path, self._location, self._options)

    def version(self) -> tuple[int, int]:
        """See `Ledger.version`."""
        return self.number, int(self._watch.execute("PRAGMA data_version").fetchone()[0])

    def is_current(self) -> bool:
        """Whether the files are in the same state as when they were opened."""
        try:
            return _state(self._path) == self._state
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # not False, which would repeat the read for BUSY_SECONDS
                raise _unreadable(error, self._path) from error
            return False

    def close(self) -> None:
        """Close all connections but those in use."""
        for connection in (*self.idle, self._watch):
            connection.close()


class FollowedFile:
    """Connections to a file that other processes change. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._location = Location(path)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        """Held while the fields below are read or changed."""
        self._numbers = count(1)
        self._opening: _Opening | None = None
        """None: the file must be opened again, or `close` was called."""
        self._in_use: dict[sqlite3.Connection, _Opening] = {}
        """Each connection that a thread uses -> its opening, which may have ended."""
        self._closed = False
        with _process.open_lock:
            self._open()
            _process.readers.add(self)

    def version(self) -> tuple[int, int]:
        """See `Ledger.version`."""
        with self._lock:
            self._check_open()
            self._location.check()
            if self._opening is not None and self._opening.is_current():
                with suppress(sqlite3.OperationalError):  # a writer is setting up the log: `_open` waits for it
                    return self._opening.version()
        with _process.open_lock, self._lock:
            self._check_open()
            return self._open().version()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses during the block.

        Raises:
            StoreClosed: After close().
            ChangedWhileRead: At the end of the block, if the file changed during the block. An error that the block
                raised is the cause.
        """
        connection, error = self._acquire(), None
        try:
            yield connection
        except BaseException as raised:
            error = raised
            raise
        finally:
            unchanged = self._release(connection, error)
            if not unchanged and (error is None or isinstance(error, Exception)):
                raise ChangedWhileRead(f"{self._path} was changed while it was read; repeat the call") from error

    def _acquire(self) -> sqlite3.Connection:
        with self._lock:
            self._check_open()
            if self._opening is not None and self._opening.idle:
                connection = self._opening.idle.pop()
                self._in_use[connection] = self._opening
                return connection
        with _process.open_lock, self._lock:
            self._check_open()
            self._location.check()
            opening = self._opening or self._open()
            connection = opening.connect()
            self._in_use[connection] = opening
            return connection

    def _release(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Take a connection back after a use that `error` has ended; returns whether the file stayed unchanged."""
        with self._lock:
            opening = self._in_use.pop(connection)
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if opening is not self._opening:
                connection.close()
                return False
            opening.idle.append(connection)
            # The connection never writes, so a "readonly" error means that a writer is setting up the log.
            setting_up = isinstance(error, sqlite3.Error) and unwritable(error)
            return not setting_up and opening.is_current()

    def _open(self) -> _Opening:
        """End the present opening and make a new one. For SETTLE_SECONDS, errors that a writer can cause by opening or
        closing the store are not raised, and the opening is tried again."""
        self._end_opening()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            self._location.check()
            try:
                self._opening = _Opening(self._path, self._location, next(self._numbers))
                return self._opening
            except StoreReadOnly:
                if time.monotonic() > deadline:
                    raise
            except (sqlite3.Error, OSError) as error:
                if isinstance(error, sqlite3.Error) and not (unwritable(error) or "unable to open" in str(error)):
                    raise
                if time.monotonic() > deadline:
                    raise _unreadable(error, self._path) from error
            time.sleep(0.01)

    def _end_opening(self) -> None:
        ended, self._opening = self._opening, None
        if ended is not None:
            ended.close()

    def close_connections_to(self, file: tuple[int, int]) -> None:
        """Close all connections if they are open to this file (device, inode); the next read opens the file again. The
        caller holds `_process.open_lock`, so no connection is opened meanwhile.

        Raises:
            StoreLocked: If a thread reads for longer than BUSY_SECONDS.
        """
        if self._location.file != file:
            return
        inherited = os.getpid() != self._pid  # after a fork, the parent's threads do not run in this process
        seconds = 0.0 if inherited else BUSY_SECONDS
        deadline = time.monotonic() + seconds
        if locked := self._lock.acquire(timeout=seconds):
            try:
                self._end_opening()
            finally:
                self._lock.release()
            while self._in_use and time.monotonic() < deadline:
                time.sleep(0.01)
        if not inherited and (self._in_use or not locked):
            raise StoreLocked(f"{self._path} is being read in this process; open it for writing afterwards")

    def close(self) -> None:
        """Close the idle connections now, and each other one when it is released."""
        with self._lock:
            self._closed = True
            self._end_opening()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")


def _beside(path: Path, ending: str) -> Path:
    """The file of SQLite beside `path` with this ending: "-wal", "-shm" or "-journal"."""
    return path.with_name(path.name + ending)


def _length(path: Path) -> int:
    """Length of the file in bytes; -1: there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _unreadable(error: Exception, path: Path) -> StoreError:
    """The umi error for an error of SQLite or of the system about a file that cannot be opened."""
    if isinstance(error, OSError):
        return StoreError(
            f"{path} cannot be read ({error.strerror}); check its permissions, and how many files this process may open"
        )
    return StoreReadOnly(
        f"{path} cannot be read ({error}); check the permissions of it, {path.name}-wal and {path.name}-shm, or "
        "open the store once for writing"
    )


@contextmanager
def readers_closed(path: Path) -> Iterator[None]:
    """Close this process's reading connections to the file; no thread can open one during the block.

    A writer opens its first connection in the block, because SQLite keeps one mapping of `umi.db-shm` per process. The
    writer must make this mapping: one that a reader made cannot be written.

    Raises:
        StoreLocked: If a thread of this process does not stop reading.
    """
    with _process.open_lock:
        file = inode_of(path)
        for reader in list(_process.readers):
            if file is not None:
                reader.close_connections_to(file)
        yield
