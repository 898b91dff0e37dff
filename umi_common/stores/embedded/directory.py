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
AFTER_LEDGER = frozenset({MARK, LEXICAL, DENSE, f"{FILE}-wal", f"{FILE}-shm"})
"""Names that exist only beside a ledger, the SQLite file `umi.db`. Without it, they prove that there was one."""
BEFORE_LEDGER = (FILE, VECTORS, REPLIES, SPARSE, SEARCHES)
"""Beginnings of the names that can exist before the ledger, besides LOCK: `umi.db.new`, caches, search counts. SQLite
adds endings such as "-wal" to the names of the caches."""


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
        except (Timeout, RuntimeError) as error:  # RuntimeError, in newer versions of filelock: this thread holds it
            raise StoreLocked(
                f"{directory} is open for writing in another process or in this one; close it there first. "
                "The commands umi search, ask and explain read it meanwhile, and so does "
                f"HybridStore.open({str(directory)!r}, read_only=True), or read_only=True to UmiVectorStore, "
                "UmiRetriever.from_documents or UmiRetriever.from_nodes, without documents or nodes"
            ) from error
        except OSError as error:
            raise StoreReadOnly(
                f"{directory} cannot be written ({error.strerror}); check its permissions, or open it with "
                "read_only=True to search it"
            ) from error

    def release(self) -> None:
        """Release the lock; does nothing in a forked child, because the parent holds the lock."""
        if os.getpid() == self._pid:
            self._lock.release()


def locked_for_writing(directory: Path) -> WriterLock:
    """Acquire the lock of a directory that `check_directory` has accepted. Creates a missing directory or ledger.

    Raises:
        LedgerDamaged: If it holds a write-ahead log of another ledger.
        StoreLocked: If another writer holds the lock.
        StoreReadOnly: If the directory cannot be created or written.
        StoreFull: If the ledger cannot be created, or its write-ahead log not be read.
    """
    created = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(f"{directory} cannot be created ({error.strerror}); choose another path") from error
    lock = WriterLock(directory)
    try:
        if not _exists(directory / FILE):
            create_file(directory)
            # A parent stores the name of a new directory. If none is new here, a writer that was killed before it
            # created the ledger may have made the last one.
            for folder in created or [directory]:
                sync_directory(folder.parent)
        MarkFile(directory).refuse_foreign_log(directory / FILE)
    except OSError as error:
        lock.release()
        raise StoreFull(
            f"{directory}: its ledger cannot be created or read ({error.strerror}); free space, check its permissions, "
            "or choose another path"
        ) from error
    except BaseException:
        lock.release()
        raise
    return lock


def check_directory(directory: Path, *, must_exist: bool = False) -> None:
    """Raise unless the directory holds a ledger or, if not `must_exist`, a store can be created there.

    It can if the directory is absent, or holds only files that can exist before the ledger (BEFORE_LEDGER, LOCK).

    Raises:
        NotAStore: If the path is a file, if the directory holds files that do not belong to a store, or if
            `must_exist` and there is no store.
        LedgerDamaged: If the directory holds a store's files but no ledger.
        StoreError: If the directory cannot be read.
    """
    try:
        exists = _exists(directory)
        if exists and not directory.is_dir():
            raise NotAStore(f"{directory} is a file; a store is a directory")
        names = {path.name for path in directory.iterdir()} if exists else set()
        has_ledger = _exists(directory / FILE)  # raises if the directory may be listed, but not entered
    except OSError as error:
        raise StoreError(f"{directory} cannot be read ({error.strerror}); check its name and permissions") from error
    if has_ledger:
        return
    foreign = {name for name in names - AFTER_LEDGER - {LOCK} if not name.startswith(BEFORE_LEDGER)}
    if foreign:
        raise NotAStore(f"{directory} holds {sorted(foreign)[0]!r} and no {FILE}; give umi a directory of its own")
    if names & AFTER_LEDGER:
        raise LedgerDamaged(f"{directory} has lost {FILE}; restore it from a copy: the other files cannot replace it")
    if must_exist:
        raise NotAStore(f"{directory} holds no store; open it once without read_only=True to create one")


def _exists(path: Path) -> bool:
    """Whether there is a file or directory at the path. Raises OSError if that cannot be found out; `Path.exists` then
    returns False since Python 3.14."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
