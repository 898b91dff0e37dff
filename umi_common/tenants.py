"""One store for each tenant, each in a directory of its own, opened when it is asked for.

A filter over one store hides chunks, not statistics (docs/tenants.md). With a store for each tenant, no result of one
depends on what another's store holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import InputError, StoreClosed, StoreError, StoreForked, StoreLocked, StoreReadOnly
from umi_common.stores.embedded.directory import WriterLock
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger.file import FILE
from umi_common.tenant_names import directory_name, tenant_of

__all__ = ["StoreInUse", "Tenants"]

log = logging.getLogger(__name__)

MAX_OPEN = 64
"""Idle stores that stay open by default. Each takes 7 file descriptors; 1,024 are a usual limit of a process."""
REMOVED = "removed-"
"""Prefix of a directory that is being deleted; never a tenant's."""


@dataclass(slots=True, eq=False)
class _Slot:
    """A tenant's store, and who uses it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the store is opened, closed or deleted."""
    store: HybridStore | None = None
    users: int = 0
    """Calls that use the store or wait for it; guarded by `Tenants._lock`."""


class Tenants:
    """Stores of tenants, one directory each under `root`. Thread-safe; a context manager.

    A store is opened when it is first asked for and stays open for the next use. When more than `max_open` are open,
    the least recently used of those that nobody uses are closed. A store in use is never closed, so more than
    `max_open` are open while more are in use at the same time.

    Any two different strings are different tenants, on every file system: "A" and "a", "../b", "CON" and "é" in either
    normalisation included. Only "" and names too long for a directory are refused.

    Args:
        root: A directory; made at the first store.
        embedder: As in `HybridStore.open`; shared by all stores.
        config: Settings of all stores; None: the defaults.
        max_open: Stores that stay open while nobody uses them, >= 0.
        read_only: Open every store as `HybridStore.open(read_only=True)` does, beside the process that writes.

    Raises:
        InputError: If `max_open` is negative.
        ConfigError: If `embedder` is not an embedder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        embedder: Any = None,
        config: UmiConfig | None = None,
        max_open: int = MAX_OPEN,
        read_only: bool = False,
    ) -> None:
        if max_open < 0:
            raise InputError(f"max_open is {max_open}; expected 0 or more stores")
        self._root = Path(root)
        self._embedder = as_embedder(embedder)
        self._config = config
        self._max_open = max_open
        self._read_only = read_only
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        """Guards what follows; never held while a store is opened or closed. Taken after a slot's lock, not before."""
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        """By directory name, least recently used first."""

    def store(self, tenant: str) -> StoreInUse:
        """A tenant's store for a `with` or `async with` block, made if there is none; `async with` opens in a thread.

        The store stays open during the block. Do not close it, nor use it after the block.

        Raises:
            InputError: If `tenant` is no string, is empty or is too long for a directory's name.
            StoreClosed, StoreForked: On entering the block, after `close()` or in a forked child.
            StoreError: On entering the block, as `HybridStore.open`: for one, StoreLocked if another process has it.
        """
        return StoreInUse(self, directory_name(tenant))

    def __contains__(self, tenant: str) -> bool:
        """Whether the tenant has a store; nothing is opened."""
        return (self._root / directory_name(tenant) / FILE).is_file()

    def names(self) -> list[str]:
        """Tenants that have a store, in order; nothing is opened."""
        try:
            found = [path.name for path in self._root.iterdir() if (path / FILE).is_file()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self._root} cannot be read ({error.strerror}); check its permissions") from error
        return sorted(tenant for name in found if (tenant := tenant_of(name)) is not None)

    def remove(self, tenant: str) -> bool:
        """Delete a tenant's store with its directory; whether there was one.

        Raises:
            StoreLocked: If it is in use here, or open in another process.
            StoreReadOnly: If the stores are opened with read_only=True.
            StoreError: If the disk refuses; call `remove` again, for any tenant, to delete what is left.
        """
        name = directory_name(tenant)
        if self._read_only:
            raise StoreReadOnly("these stores are opened with read_only=True; remove tenants where they are written")
        slot = self._claim(name)
        try:
            with slot.lock:
                if slot.users > 1:
                    raise StoreLocked(f"the store of tenant {tenant!r:.80} is in use; remove it afterwards")
                _close(slot)
                return self._delete(self._root / name)
        finally:
            self._release(name, slot)

    def close(self) -> None:
        """Close all stores that nobody uses now, and each of the others after its last use."""
        with self._lock:
            self._closed = True
        self._close_idle()

    def __enter__(self) -> Tenants:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _claim(self, name: str) -> _Slot:
        """The slot, counted as in use: from now on nobody else closes its store."""
        if os.getpid() != self._pid:  # first: in a forked child, the lock may be held for ever
            raise StoreForked("these stores were opened before a fork; make a new Tenants in this process")
        with self._lock:
            if self._closed:
                raise StoreClosed("Tenants is closed; make a new one")
            slot = self._slots.setdefault(name, _Slot())
            slot.users += 1
            self._slots.move_to_end(name)
            return slot

    def _take(self, name: str) -> tuple[_Slot, HybridStore]:
        slot = self._claim(name)
        try:
            with slot.lock:
                if slot.store is None:
                    slot.store = HybridStore.open(
                        self._root / name, embedder=self._embedder, config=self._config, read_only=self._read_only
                    )
                return slot, slot.store
        except BaseException:
            self._release(name, slot)
            raise

    def _release(self, name: str, slot: _Slot) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            slot.users -= 1
        self._close_idle()

    def _close_idle(self) -> None:
        """Close what is open beyond `max_open` and not in use; all of it after close()."""
        with self._lock:
            idle = [(name, slot) for name, slot in self._slots.items() if not slot.users]
            most = 0 if self._closed else self._max_open
            beyond = idle[: max(0, len(self._slots) - most)] + [each for each in idle if each[1].store is None]
        for name, slot in beyond:
            if not slot.lock.acquire(blocking=False):
                continue  # another thread opens or closes it
            try:
                with self._lock:
                    if slot.users:
                        continue  # asked for meanwhile
                _close(slot)
                with self._lock:
                    if not slot.users and self._slots.get(name) is slot:
                        del self._slots[name]
            finally:
                slot.lock.release()

    def _delete(self, directory: Path) -> bool:
        """Rename first: a deletion that is cut short leaves no half of a store under the tenant's name."""
        existed = directory.is_dir()
        try:
            if existed:
                lock = WriterLock(directory)  # no other process has it
                try:
                    if os.name == "nt":  # a directory with an open file in it cannot be renamed there
                        lock.release()
                    directory.rename(self._root / f"{REMOVED}{secrets.token_hex(8)}")
                finally:
                    lock.release()
            for leftover in self._root.glob(f"{REMOVED}*"):
                shutil.rmtree(leftover)
        except OSError as error:
            raise StoreError(f"{directory} cannot be deleted ({error.strerror}); check permissions") from error
        return existed


class StoreInUse:
    """Made by `Tenants.store`: `with` or `async with` this, a tenant's store is open."""

    def __init__(self, tenants: Tenants, name: str) -> None:
        self._tenants, self._name = tenants, name

    def __enter__(self) -> HybridStore:
        self._slot, store = self._tenants._take(self._name)
        return store

    def __exit__(self, *exc_info: object) -> None:
        self._tenants._release(self._name, self._slot)

    async def __aenter__(self) -> HybridStore:
        opening = asyncio.get_running_loop().run_in_executor(None, self.__enter__)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._release_unused)
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        # Shielded: a cancelled task must not leave the store in use for ever.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.__exit__))

    def _release_unused(self, opening: asyncio.Future[HybridStore]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.__exit__()


def _close(slot: _Slot) -> None:
    """Close a slot's store. A failure is logged: it is not an error of the tenant whose call closes another's store."""
    store, slot.store = slot.store, None
    if store is None:
        return
    try:
        store.close()
    except Exception as error:  # noqa: BLE001 whatever the disk does; what was acknowledged is stored
        log.warning(
            "closing an idle store failed with %s; acknowledged writes are stored, its next opening may take longer",
            type(error).__name__,
        )
