"""A store's directory: the lock of its one writer, and the check that it is a store or may become one."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from umi_common.embedders.cache import FILE as VECTORS
from umi_common.errors import LedgerDamaged, NotAStore, StoreError, StoreFull, StoreLocked, StoreReadOnly
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.file import FILE, create_file, sync_directory
from umi_common.stores.ledger.followed import MARK
from umi_common.stores.lexical.file import FOLDER as LEXICAL

LOCK = "umi.lock"
DENSE = "dense"
"""Folder of an index that early versions kept."""


class WriterLock:
    """The lock of the one writer of a directory. The system releases it when the process ends.

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
                f"{directory} is open for writing elsewhere. To read beside that writer and see what it writes, use "
                f"HybridStore.open({str(directory)!r}, read_only=True); to write, close it there first"
            ) from error
        except OSError as error:
            raise StoreReadOnly(
                f"{directory} cannot be written ({error.strerror}); open it with read_only=True"
            ) from error

    def release(self) -> None:
        """Release the lock; does nothing in a forked child, because the parent holds the lock."""
        if os.getpid() == self._pid:
            self._lock.release()


def locked_for_writing(directory: Path) -> WriterLock:
    """The lock of the directory, in which an empty store is made if there is none.

    Raises:
        NotAStore: If it holds something else; nothing is written then.
        LedgerDamaged: If it was a store and its ledger is gone.
        StoreLocked, StoreReadOnly, StoreFull: As named.
    """
    check_directory(directory)
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"{directory} cannot be made ({error.strerror}); choose another place") from error
    lock = WriterLock(directory)
    try:
        if not (directory / FILE).exists():
            create_file(directory)
            for folder in made or [directory]:  # the parent holds the entry of a new folder
                sync_directory(folder.parent)
        MarkFile(directory).refuse_foreign_log(directory / FILE)
    except OSError as error:
        lock.release()
        raise StoreFull(f"{directory}: the disk refused the new store ({error.strerror})") from error
    except BaseException:
        lock.release()
        raise
    return lock


def check_directory(directory: Path, *, must_exist: bool = False) -> None:
    """Raise unless the directory is a store or, without `must_exist`, may become one.

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
    foreign = {name for name in names if name not in (LOCK, MARK) and not name.startswith((FILE, VECTORS))} - ours
    if ours and not foreign:
        raise LedgerDamaged(f"{directory} has lost {FILE}; restore it from a copy, nothing can rebuild it")
    if foreign:
        raise NotAStore(f"{directory} holds {sorted(foreign)[0]!r} and no {FILE}; give umi a directory of its own")
    if must_exist:
        raise NotAStore(f"{directory} holds no store; open it once without read_only=True to make one")
