"""One store per tenant, each in a directory of its own, opened at its first use.

If all tenants share one store, a filter hides the chunks of other tenants, but BM25's statistics still include them
(docs/tenants.md). With one store per tenant, no result depends on another tenant's chunks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import InputError, StoreClosed, StoreError, StoreForked, StoreLocked, StoreReadOnly
from umi_common.runtime.closing import Closing
from umi_common.runtime.forks import give_lock
from umi_common.stores.batch_checks import checked_count, checked_directory
from umi_common.stores.embedded.directory import WriterLock, delete_store
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger.file import FILE
from umi_common.types import utf8_text

__all__ = ["StoreInUse", "Tenants"]

log = logging.getLogger("umi")

MAX_OPEN = 64
"""Default of `Tenants(max_open=)`. Each open store takes up to 7 file descriptors; a process is often limited to
1,024."""
REMOVED = "removed-"
"""Prefix of a directory that is being deleted; no tenant's directory begins with it."""
PREFIX = "t-"
"""Prefix of every tenant's directory: without it, a tenant "con" or "nul" would get a name that Windows reserves."""
UNESCAPED = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
"""Bytes that are written unchanged in a directory's name; any other byte is written as "=" and two hexadecimal digits.
Upper-case letters are not among them, because "A" and "a" are the same name on some file systems."""
NAME_CHARACTERS_MAX = 200
"""Longest name of a tenant's directory, in characters, which are ASCII; file systems allow 255 bytes."""


@dataclass(slots=True, eq=False)
class _Slot:
    """A tenant's store, and the number of calls that use it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the store is opened, closed or deleted."""
    store: HybridStore | None = None
    users: int = 0
    """Calls that use the store or wait for it; guarded by `Tenants._lock`."""


class Tenants(Closing):
    """Stores of tenants, one directory each under `root`. Thread-safe; a context manager.

    A store is opened at its first use and stays open. If more than `max_open` stores are open, unused ones are closed,
    the least recently used first. A store in use is never closed, so more than `max_open` can be open.

    Any two different strings are different tenants on every file system, for example "A" and "a", "../b", "CON", and
    "é" in both normalisations. Refused are only "", invalid Unicode, and strings too long for a directory's name.

    Args:
        root: A directory; made with the first store.
        embedder: As in `HybridStore.open`; shared by all stores.
        config: Settings of all stores; None: the defaults.
        max_open: Largest number of open stores, >= 0, above which unused ones are closed.
        read_only: Open every store with `HybridStore.open(read_only=True)`, while another process may write to it.

    Raises:
        InvalidLimit: If `max_open` is not a whole number of 0 or more.
        ConfigError: If `root` is not a path, or `embedder` is not an embedder.
    """

    _lock: threading.Lock
    """Guards `_slots` and `users`. Not held while a store is opened or closed; acquired after a slot's lock."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        embedder: Any = None,
        config: UmiConfig | None = None,
        max_open: int = MAX_OPEN,
        read_only: bool = False,
    ) -> None:
        self._root = checked_directory(root)
        self._read_only = read_only
        model = None if embedder is None else as_embedder(embedder)
        self._open = partial(HybridStore.open, embedder=model, config=config, read_only=read_only)
        self._max_open = checked_count("max_open", max_open, least=0)
        self._pid = os.getpid()
        self._closed = False
        give_lock(self)
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        """By directory name, least recently used first."""

    def store(self, tenant: str) -> StoreInUse:
        """A tenant's store for a `with` or `async with` block; it is created if the tenant has none.

        `async with` opens the store in a thread. The store stays open during the block. Do not close the store, and do
        not use it after the block.

        Raises:
            InputError: If `tenant` is no string or is refused.
            StoreClosed, StoreForked: On entering the block, after `close()` or in a forked child.
            StoreError: On entering the block, as `HybridStore.open`, e.g. StoreLocked if another process
                writes to the store.
        """
        return StoreInUse(self, directory_name(tenant))

    def __contains__(self, tenant: str) -> bool:
        """Whether the tenant has a store; nothing is opened."""
        return (self._root / directory_name(tenant) / FILE).is_file()

    def names(self) -> list[str]:
        """The tenants that have a store, sorted; nothing is opened."""
        try:
            found = [path.name for path in self._root.iterdir() if (path / FILE).is_file()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self._root} cannot be read ({error.strerror}); check its permissions") from error
        return sorted(tenant for name in found if (tenant := tenant_of(name)) is not None)

    def remove(self, tenant: str) -> bool:
        """Delete a tenant's store and its directory. Returns whether the tenant had one.

        If the directory is a link, the store that it leads to is deleted, too, unless it is another tenant's; other
        files beside that store stay.

        Raises:
            StoreLocked: If the store is in use in this process, or open for writing in another process.
            StoreReadOnly: If the stores are opened with read_only=True.
            StoreError: If the disk refuses; call `remove` again, for any tenant, to delete the rest.
        """
        name = directory_name(tenant)
        if self._read_only:
            raise StoreReadOnly("these stores are opened with read_only=True; remove tenants where they are written")
        with self._slot(name) as slot, slot.lock:
            if slot.users > 1:
                raise StoreLocked(f"the store of tenant {tenant!r:.80} is in use; remove it afterwards")
            _close(slot)
            return self._delete(self._root / name)

    def close(self) -> None:
        """Close all unused stores now, and each store in use after its last use."""
        with self._lock:
            self._closed = True
        self._close_unused()

    @contextmanager
    def _slot(self, name: str) -> Iterator[_Slot]:
        """The slot of a tenant's directory; it counts as used during the block."""
        if os.getpid() != self._pid:  # before the lock, which a thread of the parent may have held at the fork
            raise StoreForked("these stores were opened before a fork; make a new Tenants in this process")
        with self._lock:
            if self._closed:
                raise StoreClosed("Tenants is closed; make a new one")
            slot = self._slots.setdefault(name, _Slot())
            slot.users += 1
            self._slots.move_to_end(name)
        try:
            yield slot
        finally:
            if os.getpid() == self._pid:
                with self._lock:
                    slot.users -= 1
                self._close_unused()

    @contextmanager
    def _open_store(self, name: str) -> Iterator[HybridStore]:
        with self._slot(name) as slot:
            with slot.lock:
                if slot.store is None:
                    slot.store = self._open(self._root / name)
            yield slot.store

    def _close_unused(self) -> None:
        """Close unused stores, the least recently used first, until `max_open` are open; after `close()`, close all
        unused stores."""
        with self._lock:
            unused = [(name, slot) for name, slot in self._slots.items() if not slot.users]
            most = 0 if self._closed else self._max_open
            to_close = unused[: max(0, len(self._slots) - most)]
            to_close += [(name, slot) for name, slot in unused if slot.store is None]  # removed, or failed to open
        for name, slot in to_close:
            if not slot.lock.acquire(blocking=False):
                continue  # another thread is opening or closing it
            try:
                with self._lock:
                    if slot.users:
                        continue  # another thread has begun to use it
                _close(slot)
                with self._lock:
                    if not slot.users and self._slots.get(name) is slot:
                        del self._slots[name]
            finally:
                slot.lock.release()

    def _delete(self, directory: Path) -> bool:
        """Rename the directory, then delete it, so that an interrupted deletion leaves no part of a store under its old
        name. Returns whether the directory existed."""
        existed = directory.is_dir()
        try:
            if existed:
                lock = WriterLock(directory)  # raises if another process has the store open for writing
                try:
                    if os.name == "nt":  # a directory with an open file in it cannot be renamed there
                        lock.release()
                    directory.rename(self._root / f"{REMOVED}{secrets.token_hex(8)}")
                finally:
                    lock.release()
            for leftover in self._root.glob(f"{REMOVED}*"):
                if leftover.is_symlink():
                    self._delete_link(leftover)
                while leftover.is_dir():  # another call may be deleting it, too
                    with suppress(FileNotFoundError):
                        shutil.rmtree(leftover)
        except OSError as error:
            raise StoreError(f"{directory} cannot be deleted ({error.strerror}); check permissions") from error
        return existed

    def _delete_link(self, link: Path) -> None:
        """Delete a link, and the store in the directory that it leads to, unless that is another tenant's."""
        target = Path(os.path.realpath(link))  # unlike resolve(), it reads a loop of links
        others = {os.path.realpath(path) for path in (self._root, *self._root.iterdir()) if path != link}
        if target.is_dir() and str(target) not in others:
            delete_store(target)
        link.unlink(missing_ok=True)  # left behind, it would let the next `remove` delete a later store there


class StoreInUse:
    """A tenant's store, which is open during each `with` or `async with` block; made by `Tenants.store`."""

    def __init__(self, tenants: Tenants, name: str) -> None:
        self._open = partial(tenants._open_store, name)
        self._uses: list[AbstractContextManager[HybridStore]] = []
        """The use of the store by each block that has begun and not ended."""

    def __enter__(self) -> HybridStore:
        use = self._open()
        store = use.__enter__()
        self._uses.append(use)  # not before: if the store cannot be opened, `__exit__` is not called
        return store

    def __exit__(self, *exc_info: object) -> None:
        self._uses.pop().__exit__(None, None, None)

    async def __aenter__(self) -> HybridStore:
        opening = asyncio.get_running_loop().run_in_executor(None, self.__enter__)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._release_unused)
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        # Without the shield, a task that is cancelled here would leave the store counted as used for ever.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.__exit__))

    def _release_unused(self, opening: asyncio.Future[HybridStore]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            try:  # in a thread, because closing a store waits for the disk
                asyncio.get_running_loop().run_in_executor(None, self.__exit__)
            except RuntimeError:  # the loop is ending, and starts no more threads
                self.__exit__()


def _close(slot: _Slot) -> None:
    """Close a slot's store. A failure is logged and not raised: the caller may be using another tenant's store."""
    store, slot.store = slot.store, None
    if store is None:
        return
    try:
        store.close()
    except Exception as error:  # noqa: BLE001 any failure of the disk; acknowledged writes are stored
        log.warning(
            "closing an unused store failed with %s; acknowledged writes are stored, but opening it may take longer",
            type(error).__name__,
        )


def directory_name(tenant: str) -> str:
    """Name of a tenant's directory, in lower-case ASCII; different tenants have different names.

    Raises:
        InputError: If `tenant` is no string, is empty, is no valid Unicode, or needs too long a name.
    """
    if not isinstance(tenant, str) or not tenant or utf8_text(tenant) != tenant:
        raise InputError(f"tenant is {tenant!r:.80}; expected a non-empty string of valid Unicode")
    data = tenant.encode()
    name = PREFIX + "".join(chr(byte) if byte in UNESCAPED else f"={byte:02x}" for byte in data)
    if len(name) > NAME_CHARACTERS_MAX:
        raise InputError(
            f"tenant {tenant!r:.40}... needs a directory name of {len(name)} characters; expected at most "
            f"{NAME_CHARACTERS_MAX}: use a shorter id, for example a hash of this one"
        )
    return name


def tenant_of(name: str) -> str | None:
    """The tenant whose directory has this name; None: `directory_name` returns this name for no tenant."""
    if not name.startswith(PREFIX):
        return None
    try:
        tenant = unquote_to_bytes(name.removeprefix(PREFIX).replace("=", "%")).decode()
        return tenant if directory_name(tenant) == name else None
    except (UnicodeDecodeError, InputError):
        return None
