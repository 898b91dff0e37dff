"""A store's directory: what may be in it, who may write to it."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from umi_common.errors import LedgerDamaged, NotAStore, StoreError, StoreFull, StoreLocked, StoreReadOnly
from umi_common.stores.ledger.acknowledged import FILE as MARK
from umi_common.stores.ledger.acknowledged import HighWater
from umi_common.stores.ledger.file import FILE, create_file, sync_directory
from umi_common.stores.lexical.file import FOLDER as LEXICAL

LOCK = "umi.lock"
DENSE = "dense"


class WriterLock:
    """The one writer's hold on a directory, across threads and processes. Ends with the process at the latest.

    Raises:
        StoreLocked: At once, if another holds it.
        StoreReadOnly: If the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._pid = os.getpid()
        self._lock = FileLock(directory / LOCK, timeout=0, thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except (Timeout, RuntimeError) as error:  # newer filelocks call a second holder in this thread a RuntimeError
            raise StoreLocked(
                f"{directory} is open for writing elsewhere; use that store, close it, or open with read_only=True"
            ) from error
        except OSError as error:
            raise StoreReadOnly(
                f"{directory} cannot be written ({error.strerror}); open it with read_only=True"
            ) from error

    def release(self) -> None:
        """Let the next writer in; in a forked child nothing happens, the lock is its parent's."""
        if os.getpid() == self._pid:
            self._lock.release()


def locked_for_writing(directory: Path) -> WriterLock:
    """Make the directory a store if it is none yet, and take it.

    Raises:
        NotAStore: If it holds something else; nothing is written then.
        LedgerDamaged: If it was a store and its ledger is gone.
        StoreLocked, StoreReadOnly, StoreFull: As named.
    """
    check(directory)
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"{directory} cannot be made ({error.strerror}); choose another place") from error
    lock = WriterLock(directory)
    try:
        if not (directory / FILE).exists():
            create_file(directory)
            for folder in made or [directory]:  # a new folder is an entry of its parent
                sync_directory(folder.parent)
        HighWater(directory).refuse_foreign_log(directory / FILE)
    except OSError as error:
        lock.release()
        raise StoreFull(f"{directory}: the disk refused the new store ({error.strerror})") from error
    except BaseException:
        lock.release()
        raise
    return lock


def check(directory: Path, *, must_exist: bool = False) -> None:
    """Refuse what is neither a store nor a place for a new one.

    Raises:
        NotAStore: If it holds something else, or nothing and `must_exist`.
        LedgerDamaged: If it was a store and its ledger is gone.
    """
    if directory.exists() and not directory.is_dir():
        raise NotAStore(f"{directory} is a file; a store is a directory")
    try:
        names = {path.name for path in directory.iterdir()} if directory.exists() else set()
    except OSError as error:
        raise StoreError(f"{directory} cannot be read ({error.strerror}); check its permissions") from error
    if FILE in names:
        return
    ours = {MARK, LEXICAL, DENSE, f"{FILE}-wal", f"{FILE}-shm"} & names
    foreign = {name for name in names if name not in (LOCK, MARK) and not name.startswith(FILE)} - ours
    if ours and not foreign:
        raise LedgerDamaged(f"{directory} has lost {FILE}; restore it from a copy, nothing can rebuild it")
    if foreign:
        raise NotAStore(f"{directory} holds {sorted(foreign)[0]!r} and no {FILE}; give umi a directory of its own")
    if must_exist:
        raise NotAStore(f"{directory} holds no store; open it once without read_only=True to make one")
