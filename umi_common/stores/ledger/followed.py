"""`umi.db` in a process that only reads. The process sees commits of other processes, and creates or changes no file.

If a writer's `umi.db-wal` and `umi.db-shm` exist, SQLite reads them (`readonly_shm=1`: it maps `umi.db-shm` for
reading and takes shared locks). If they do not exist, no writer has the store open, and SQLite reads `umi.db` as a file
that does not change (`immutable=1`). Because a writer may open the store during such a read, the files are compared
afterwards: if they changed, the read fails with `ChangedWhileRead`, and the next call opens the file again.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
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
    """The reading connections of this process."""

    def __init__(self) -> None:
        self.readers: WeakSet[FollowedFile] = WeakSet()
        renew_in_child(self, _Process._renew)

    def _renew(self) -> None:
        self.opening = threading.RLock()
        """Held while a connection is opened. Acquired before the lock of a `FollowedFile`, never after it."""


_process = _Process()


class _Files(NamedTuple):
    """The properties of a store's files by which a reader finds that they have changed."""

    database: tuple[int, ...]
    """Device, inode, length in bytes, and times of the last changes of content and of inode, of umi.db."""
    log: int
    """Length of umi.db-wal in bytes; -1: there is none."""
    shared: tuple[int, int] | None
    """Device and inode of umi.db-shm; None: there is none."""
    mark: bytes
    """Content of umi.mark; empty if it cannot be read."""

    @property
    def options(self) -> str:
        """Options of SQLite's file URI that suit these files."""
        return SHARED if self.log >= 0 and self.shared is not None else ALONE


class FollowedFile:
    """Connections to a file that other processes change. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log, self._shared = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
        self._mark = path.with_name(MARK)
        self._location = Location(path)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        """Acquired directly, not through `_changed`: `Condition.__enter__` is written in Python, and an interrupt in it
        could leave the lock held for ever."""
        self._changed = threading.Condition(self._lock)
        self._openings = 0
        """Number of times that all connections were closed, usually in order to open the file again."""
        self._idle: list[sqlite3.Connection] = []
        self._in_use: dict[sqlite3.Connection, int] = {}
        """Connection that a thread uses -> `_openings` when the thread acquired it. If `_openings` has risen since, the
        connection is closed when it is released."""
        self._watch: sqlite3.Connection | None = None
        """The connection whose `PRAGMA data_version` shows that another process has committed."""
        self._files: _Files | None = None
        """Properties of the files when they were last opened; None: they must be opened again."""
        self._closed = False
        with _process.opening:
            self._open()
            _process.readers.add(self)

    def version(self) -> tuple[int, int]:
        """See `Ledger.version`."""
        with self._lock:
            self._check_open()
            self._location.check()
            if self._as_opened():
                with suppress(sqlite3.OperationalError):  # a writer is setting up the log: `_open` waits for it
                    return self._openings, self._commits()
        with _process.opening, self._lock:
            self._check_open()
            self._open()
            return self._openings, self._commits()

    def _as_opened(self) -> bool:
        """Whether the open connections read the present files. If there is a log, SQLite itself finds new commits."""
        files = self._files
        if files is None:
            return False
        if files.options == SHARED:
            return inode_of(self._shared) == files.shared
        try:
            return self._files_now() == files
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # not False, which would repeat the read for BUSY_SECONDS
                raise _explained(error, self._path) from error
            return False

    def _files_now(self) -> _Files:
        stat, mark = self._path.stat(), b""
        try:
            mark = self._mark.read_bytes()
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise
        times = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return _Files(times, _length(self._log), inode_of(self._shared), mark)

    def _commits(self) -> int:
        assert self._watch is not None
        return int(self._watch.execute("PRAGMA data_version").fetchone()[0])

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
            if self._idle:
                connection = self._idle.pop()
                self._in_use[connection] = self._openings
                return connection
        with _process.opening, self._lock:
            self._check_open()
            self._location.check()
            if self._files is None:
                self._open()
            assert self._files is not None
            connection = reading_connection(self._path, self._location, self._files.options)
            self._in_use[connection] = self._openings
            return connection

    def _release(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Take a connection back after a use that `error` has ended; returns whether the file stayed unchanged."""
        with self._lock:
            current = self._in_use.pop(connection) == self._openings and not self._closed
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if current:
                self._idle.append(connection)
            else:
                connection.close()
            self._changed.notify_all()
            # The connection never writes, so a "readonly" error means that a writer is setting up the log.
            setting_up = isinstance(error, sqlite3.Error) and unwritable(error)
            return current and not setting_up and self._as_opened()

    def _open(self) -> None:
        """Close all connections and open the file again, with the options that suit the files; retries for
        SETTLE_SECONDS."""
        self._close_connections()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            self._location.check()
            try:
                files = self._files_now()
                _refuse_unfinished(self._path, files)
                watch = reading_connection(self._path, self._location, files.options)
                break
            except StoreReadOnly:
                if time.monotonic() > deadline:
                    raise
            except (sqlite3.Error, OSError) as error:
                if time.monotonic() > deadline or not _may_be_temporary(error):
                    raise _explained(error, self._path) from error
            time.sleep(0.01)
        self._watch, self._files = watch, files

    def _close_connections(self) -> None:
        for connection in (*self._idle, self._watch):
            if connection is not None:
                connection.close()
        self._idle, self._watch, self._files = [], None, None
        self._openings += 1

    def close_connections_to(self, file: tuple[int, int]) -> None:
        """Close all connections if they are open to this file (device, inode); the next read opens the file again.

        Raises:
            StoreLocked: If a thread reads for longer than BUSY_SECONDS.
        """
        if self._location.file != file:
            return
        inherited = os.getpid() != self._pid  # after a fork, the parent's threads do not run in this process
        seconds, unused = 0.0 if inherited else BUSY_SECONDS, False
        if self._lock.acquire(timeout=seconds):
            try:
                self._close_connections()
                unused = self._changed.wait_for(lambda: not self._in_use, seconds)
            finally:
                self._lock.release()
        if not unused and not inherited:
            raise StoreLocked(f"{self._path} is being read in this process; open it for writing afterwards")

    def close(self) -> None:
        """Close the idle connections now, and each other one when it is released."""
        with self._lock:
            self._closed = True
            self._close_connections()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")


def _length(path: Path) -> int:
    """Length of the file in bytes; -1: there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _refuse_unfinished(path: Path, files: _Files) -> None:
    """Raise StoreReadOnly if there is a rollback journal, or a log without `umi.db-shm`: only a writer can apply it."""
    unfinished = f"{path.name}-wal" if files.options == ALONE and files.log > 0 else None
    if _length(path.with_name(f"{path.name}-journal")) > 0:
        unfinished = f"{path.name}-journal"
    if unfinished is not None:
        raise StoreReadOnly(
            f"{path} has unfinished writes in {unfinished}, which a reader cannot take over; open the store once for "
            "writing, which does, or copy both files to a directory that can be written and open the copy"
        )


def _may_be_temporary(error: Exception) -> bool:
    """Whether a writer that is opening or closing the store can cause this error."""
    return not isinstance(error, sqlite3.Error) or unwritable(error) or "unable to open" in str(error)


def _explained(error: Exception, path: Path) -> Exception:
    """The umi error for an error of opening or reading the file; any other exception is returned unchanged."""
    if isinstance(error, sqlite3.Error) and _may_be_temporary(error):
        return StoreReadOnly(
            f"{path} cannot be read ({error}); check the permissions of it, {path.name}-wal and {path.name}-shm, or "
            "open the store once for writing"
        )
    if isinstance(error, OSError):
        return StoreError(
            f"{path} cannot be read ({error.strerror}); check its permissions, and how many files this process may open"
        )
    return error


@contextmanager
def readers_closed(path: Path) -> Iterator[None]:
    """Close this process's reading connections to the file; no thread can open one during the block.

    A writer opens its first connection in the block, because SQLite keeps one mapping of `umi.db-shm` per process. The
    writer must make this mapping: one that a reader made cannot be written.

    Raises:
        StoreLocked: If a thread of this process does not stop reading.
    """
    with _process.opening:
        file = inode_of(path)
        for reader in list(_process.readers):
            if file is not None:
                reader.close_connections_to(file)
        yield
