"""A store's directory: its writer's lock, the check that it holds a store or may get one, and its deletion."""

from __future__ import annotations

import os
import shutil
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
PROOFS = frozenset({MARK, f"{FILE}-wal", f"{FILE}-shm"})
"""Files that exist only beside a ledger, the SQLite file `umi.db`. Without it, they prove that it was lost."""
FOLDERS = frozenset({LEXICAL, DENSE})
"""Folders that umi makes only beside a ledger. Other programs may use these names, too."""
BEFORE_LEDGER = {LOCK} | {
    f"{name}{ending}{log}"
    for name in (FILE, VECTORS, REPLIES, SPARSE, SEARCHES)
    for ending in ("", ".new")
    for log in ("", "-wal", "-shm", "-journal")
}
"""Names that can exist before the ledger: the lock, `umi.db.new`, caches, search counts. SQLite adds "-wal", "-shm" and
"-journal" to the names of its files."""


class WriterLock:
    """The lock of a directory's only writer, acquired on construction. The system releases it when the process ends.

    Raises:
        StoreLocked: If another writer, in this process or in another one, holds the lock. It is not waited for.
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
        LedgerDamaged: If the directory holds a write-ahead log of another ledger.
        StoreLocked: If another writer holds the lock.
        StoreReadOnly: If the directory cannot be created or written.
        StoreFull: If the ledger cannot be created, or its write-ahead log cannot be read.
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
            # So that the name of each new directory survives a power failure. One without a ledger may be new, too.
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
    """Raise unless the directory holds a ledger. If not `must_exist`, it may also be absent, or hold no other names
    than those of BEFORE_LEDGER and `umi.db-*`, and none of PROOFS.

    Raises:
        NotAStore: If the path is a file or a link to nothing, if its `umi.db` is a directory, if it holds other files
            and no ledger, or if `must_exist` and there is no store.
        LedgerDamaged: If the directory held a ledger: it has PROOFS, or FOLDERS and no files of another program.
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
    if directory.is_symlink() and not exists:
        raise NotAStore(f"{directory} is a link to {directory.readlink()}, which does not exist; create it")
    if (directory / FILE).is_dir():
        raise NotAStore(f"{directory / FILE} is a directory; give umi a directory of its own")
    if has_ledger:
        return
    foreign = sorted(name for name in names if not _is_own(name))
    if names & PROOFS or (names & FOLDERS and not foreign):
        raise LedgerDamaged(f"{directory} has lost {FILE}; restore it from a copy: the other files cannot replace it")
    if foreign:
        raise NotAStore(f"{directory} holds {foreign[0]!r} and no {FILE}; give umi a directory of its own")
    if must_exist:
        raise NotAStore(f"{directory} holds no store; open it once without read_only=True to create one")


def delete_store(directory: Path) -> None:
    """Delete a store's files, its ledger last, and then the directory, unless it holds other files. Without a ledger,
    only the lock is deleted: the other files may be those of another program."""
    if not (directory / FILE).is_file():
        (directory / LOCK).unlink(missing_ok=True)
        return
    own = (path for path in directory.iterdir() if _is_own(path.name))
    for path in sorted(own, key=lambda path: path.name == FILE):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()


def _is_own(name: str) -> bool:
    """Whether umi may have made a file of this name in a store's directory: also `umi.db-migration.json` and others."""
    return name in PROOFS | FOLDERS | BEFORE_LEDGER or name.startswith(f"{FILE}-")


def _exists(path: Path) -> bool:
    """Whether the path exists. Raises OSError if that cannot be found out; `Path.exists` then may return False."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
