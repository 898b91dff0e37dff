"""A store's directory: the lock of its writer, and the check that it holds a store or that one can be created there."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from umi_common.embedders.cache import REPLIES, VECTORS
from umi_common.embedders.sparse import FILE as SPARSE
from umi_common.errors import LedgerDamaged, NotAStore, StoreError, StoreFull, StoreLocked, StoreReadOnly
from umi_common.stores.dense.vectors import FOLDER as DENSE
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.file import FILE, create_file, sync_directory
from umi_common.stores.ledger.followed import MARK
from umi_common.stores.lexical.file import FOLDER as LEXICAL
from umi_common.stores.search_counts import FILE as SEARCHES

LOCK = "umi.lock"


class WriterLock:
    """The lock of a directory's only writer, acquired on construction. The system releases it when the process ends.

    Raises:
        StoreLocked: At once, if another writer, in this process or in another one, holds the lock.
        StoreReadOnly: If the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._pid = os.getpid()
        self._lock = FileLock(directory / LOCK, timeout=0, thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except (Timeout, RuntimeError) as error:  # newer versions of filelock raise RuntimeError within one thread
            raise StoreLocked(
                f"{directory} is open for writing in another process or in this one; close it there first. "
                "The commands umi search, ask and explain read it meanwhile, and so does "
                f"HybridStore.open({str(directory)!r}, read_only=True), or read_only=True to UmiVectorStore, "
                "UmiRetriever.from_documents or UmiRetriever.from_nodes, without documents or nodes"
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
    """Lock a directory that `check_directory` accepts for writing; create a missing directory and a missing ledger.

    Raises:
        LedgerDamaged: If it holds a write-ahead log of another ledger.
        StoreLocked: If another writer holds the lock.
        StoreReadOnly: If the directory cannot be created or written.
        StoreFull: If writing the empty store failed.
    """
    created = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"{directory} cannot be created ({error.strerror}); choose another path") from error
    lock = WriterLock(directory)
    try:
        if not (directory / FILE).exists():
            create_file(directory)
            for folder in created or [directory]:  # the parent stores the name of a new directory
                sync_directory(folder.parent)
        MarkFile(directory).refuse_foreign_log(directory / FILE)
    except OSError as error:
        lock.release()
        raise StoreFull(
            f"{directory}: the empty store cannot be written ({error.strerror}); free space or choose another path"
        ) from error
    except BaseException:
        lock.release()
        raise
    return lock


def check_directory(directory: Path, *, must_exist: bool = False) -> None:
    """Raise unless the directory holds a store or, if not `must_exist`, is absent or empty.

    Raises:
        NotAStore: If the path is a file, if the directory holds files that do not belong to a store, or if
            `must_exist` and there is no store.
        LedgerDamaged: If the directory holds a store's files but no ledger.
        StoreError: If the directory cannot be read.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise NotAStore(f"{directory} is a file; a store is a directory")
        names = {path.name for path in directory.iterdir()} if directory.exists() else set()
        has_ledger = (directory / FILE).exists()  # raises if the directory may be listed, but not entered
    except OSError as error:
        raise StoreError(f"{directory} cannot be read ({error.strerror}); check its name and permissions") from error
    if has_ledger:
        return
    own = (FILE, VECTORS, REPLIES, SPARSE, SEARCHES)
    foreign = {name for name in names - {LOCK, MARK, LEXICAL, DENSE} if not name.startswith(own)}
    # Not a lock, umi.db.new or cached vectors: they can exist before the ledger is created.
    had_ledger = not names.isdisjoint({MARK, LEXICAL, DENSE, f"{FILE}-wal", f"{FILE}-shm"})
    if had_ledger and not foreign:
        raise LedgerDamaged(f"{directory} has lost {FILE}; restore it from a copy: the other files cannot replace it")
    if foreign:
        raise NotAStore(f"{directory} holds {sorted(foreign)[0]!r} and no {FILE}; give umi a directory of its own")
    if must_exist:
        raise NotAStore(f"{directory} holds no store; open it once without read_only=True to create one")
