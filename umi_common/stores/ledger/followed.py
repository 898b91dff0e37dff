"""`umi.db` for a process that only reads: it sees what others commit, and creates or changes no file.

Where a writer's `umi.db-wal` and `umi.db-shm` exist, SQLite reads them (`readonly_shm=1`: it maps `umi.db-shm` for
reading and takes shared locks). Where they do not, no writer has the store, and SQLite reads `umi.db` as a file that
nobody changes (`immutable=1`). A writer may come meanwhile: whatever was read so counts only if the file is the same
afterwards, and the next call opens it anew.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from umi_common.errors import StoreClosed, StoreError, StoreLocked, StoreReadOnly
from umi_common.stores.ledger.location import Location, inode_of
from umi_common.stores.ledger.sqlite import BUSY_SECONDS, connect, unwritable

SHARED = "mode=ro&readonly_shm=1"
ALONE = "mode=ro&immutable=1"
SETTLE_SECONDS = 0.5
"""How long files are waited for that a writer, opening or closing, makes or removes one after the other."""
RETRY_SECONDS = 0.01
MARK = "umi.mark"
"""Written anew with each commit: tells two versions of a file apart whose times are equal on a coarse clock."""

_opening = threading.RLock()
"""Held while a connection is opened. Taken before the lock of a `Followed`, never after it."""
_readers: WeakSet[Followed] = WeakSet()


def _after_fork() -> None:
    global _opening  # another thread of the parent may have held it
    _opening = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Files(NamedTuple):
    """What the store's files show of changes."""

    database: tuple[int, ...]
    """Device, inode, length, times of change."""
    log: int
    """Length of umi.db-wal; -1: there is none."""
    shared: tuple[int, int] | None
    """Device and inode of umi.db-shm; None: there is none."""
    mark: bytes

    @property
    def options(self) -> str:
        """With which the file is opened."""
        return SHARED if self.log >= 0 and self.shared is not None else ALONE


class Followed:
    """Connections to a file that other processes change. Thread-safe.

    Args:
        path: The file.
        prepare: Called with each new connection; reads from it, which opens the log, if there is one.
    """

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection, Path], None]) -> None:
        self._path, self._prepare = path, prepare
        self._log, self._shared = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
        self._mark = path.with_name(MARK)
        self._location = Location(path)
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.RLock())
        self._idle: list[sqlite3.Connection] = []
        self._lent: dict[sqlite3.Connection, int] = {}
        self._watch: sqlite3.Connection | None = None
        self._files: _Files | None = None
        self._openings = 0
        self._closed = False
        with _opening:
            self._open()
            _readers.add(self)

    def version(self) -> tuple[int, int]:
        """Changes whenever another process has committed.

        Raises:
            StoreMoved, StoreReadOnly, StoreClosed: As named.
        """
        with self._changed:
            self._check_open()
            self._location.check()
            if self._as_opened():
                with suppress(sqlite3.OperationalError):  # the log is being set up: open anew, which waits for it
                    return self._openings, self._commits()
        with _opening, self._changed:
            self._check_open()
            self._open()
            return self._openings, self._commits()

    def _as_opened(self) -> bool:
        """Whether connections opened before may go on. In a log SQLite itself sees what is new."""
        files = self._files
        if files is None:
            return False
        if files.options == SHARED:
            return inode_of(self._shared) == files.shared
        try:
            return self._files_now() == files
        except OSError:
            return False

    def _files_now(self) -> _Files:
        stat, mark = self._path.stat(), b""
        with suppress(OSError):
            mark = self._mark.read_bytes()
        times = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return _Files(times, _length(self._log), inode_of(self._shared), mark)

    def _commits(self) -> int:
        assert self._watch is not None
        return int(self._watch.execute("PRAGMA data_version").fetchone()[0])

    def lend(self) -> sqlite3.Connection:
        """A connection that no other thread has until it is taken back."""
        with self._changed:
            self._check_open()
            if self._idle:
                return self._handed_out(self._idle.pop())
        with _opening, self._changed:
            self._check_open()
            self._location.check()
            if self._files is None:
                self._open()
            assert self._files is not None
            return self._handed_out(self._connected(self._files.options))

    def _handed_out(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        self._lent[connection] = self._openings
        return connection

    def take_back(self, connection: sqlite3.Connection, error: BaseException | None) -> bool:
        """Whether what was read with it, or the error that was met, is of the file as it was in one moment."""
        with self._changed:
            current = self._lent.pop(connection) == self._openings and not self._closed
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if current:
                self._idle.append(connection)
            else:
                connection.close()
            self._changed.notify_all()
            # A reader writes nothing: so SQLite says of a log that a writer is setting up.
            setting_up = isinstance(error, sqlite3.Error) and unwritable(error)
            return current and not setting_up and self._as_opened()

    def _open(self) -> None:
        """Open the file in the way its neighbours ask for; waits a moment for a writer that opens or closes."""
        self._let_go()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            self._location.check()
            try:
                files = self._files_now()
                _refuse_unfinished(self._path, files)
                watch = self._connected(files.options)
                break
            except (StoreReadOnly, sqlite3.Error, OSError) as error:
                if time.monotonic() > deadline or not _passing(error):
                    raise _explained(error, self._path) from error
            time.sleep(RETRY_SECONDS)
        self._watch, self._files = watch, files
        self._openings += 1

    def _connected(self, options: str) -> sqlite3.Connection:
        connection = connect(self._path, options)
        try:
            self._prepare(connection, self._path)
            self._location.check()
        except BaseException:
            connection.close()
            raise
        return connection

    def _let_go(self) -> None:
        for connection in (*self._idle, self._watch):
            if connection is not None:
                connection.close()
        self._idle, self._watch, self._files = [], None, None
        self._openings += 1

    def let_go(self, file: tuple[int, int]) -> None:
        """Close all connections if they are of this file; they are opened again when they are needed.

        Raises:
            StoreLocked: If a thread reads for longer than a lock is waited for.
        """
        inherited = os.getpid() != self._pid  # by a fork: a thread of the parent does not go on here
        patience = 0.0 if inherited else BUSY_SECONDS
        busy = StoreLocked(f"{self._path} is being read in this process; open it for writing afterwards")
        if self._location.file != file:
            return
        if not self._changed.acquire(timeout=patience):
            if not inherited:
                raise busy
            return
        try:
            self._let_go()
            if not self._changed.wait_for(lambda: not self._lent, patience) and not inherited:
                raise busy
        finally:
            self._changed.release()

    def close(self) -> None:
        """Close the idle connections now and the lent ones when they come back."""
        with self._changed:
            self._closed = True
            self._let_go()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")


def _length(path: Path) -> int:
    """-1: there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _refuse_unfinished(path: Path, files: _Files) -> None:
    """SQLite reads a log only with its index, `umi.db-shm`, and only a writer makes that."""
    unfinished = f"{path.name}-wal" if files.options == ALONE and files.log > 0 else None
    if _length(path.with_name(f"{path.name}-journal")) > 0:
        unfinished = f"{path.name}-journal"
    if unfinished is not None:
        raise StoreReadOnly(
            f"{path} has unfinished writes in {unfinished}, which a reader cannot take over; open the store once for "
            "writing, which does, or copy both files to a directory that can be written and open the copy"
        )


def _passing(error: Exception) -> bool:
    """Whether it may be a writer that opens or closes: files come and go, and the log's index is being made."""
    return not isinstance(error, sqlite3.Error) or unwritable(error) or "unable to open" in str(error)


def _explained(error: Exception, path: Path) -> Exception:
    if isinstance(error, sqlite3.Error) and _passing(error):
        return StoreReadOnly(
            f"{path} cannot be read ({error}); check the permissions of it, {path.name}-wal and {path.name}-shm, or "
            "open the store once for writing"
        )
    if isinstance(error, OSError):
        return StoreError(f"{path} cannot be read ({error.strerror}); check its permissions")
    return error


@contextmanager
def readers_stand_aside(path: Path) -> Iterator[None]:
    """Hold while a writer opens its first connection.

    SQLite keeps one mapping of `umi.db-shm` for a process. One that a reader made cannot be written, so the readers
    of this process close theirs first and share the writer's afterwards.

    Raises:
        StoreLocked: If a thread of this process does not stop reading.
    """
    with _opening:
        file = inode_of(path)
        for reader in list(_readers):
            if file is not None:
                reader.let_go(file)
        yield
