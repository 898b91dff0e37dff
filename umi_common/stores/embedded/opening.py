"""Open a store. If this process opens one directory for writing several times, the stores share one `Core`."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umi_common.config import UmiConfig, check_settings
from umi_common.embedders import CallableEmbedder, as_embedder, declared_dim
from umi_common.errors import ConfigError, ReindexRequired, StoreLocked
from umi_common.protocols import Embedder
from umi_common.stores.batch_checks import checked_directory
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.directory import check_directory, locked_for_writing
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.made_with import checked_config, model_of, refuse_other_embedder


@dataclass(slots=True, eq=False)
class _Shared:
    """A directory that this process has open for writing."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the core is opened or closed. Reentrant: garbage collection may release a handle meanwhile."""
    core: Core | None = None
    handles: int = 0
    """Open handles, and threads that are opening one; guarded by `_registry_lock`."""


_shared: dict[str, _Shared] = {}
"""By real path."""
_registry_lock = threading.RLock()
"""Guards `_shared`; acquired after `_Shared.lock`, never before it."""


def _after_fork() -> None:
    """Start without shared stores: those of the parent cannot be used, and its threads may have held the lock."""
    global _shared, _registry_lock
    _shared, _registry_lock = {}, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class CoreHandle:
    """One use of an open core. The core is closed when the last of its handles is closed.

    Args:
        shared: The entry of the directory in `_shared`; None: no other handle uses the core.
    """

    def __init__(self, core: Core, shared: _Shared | None = None, path: str = "") -> None:
        self.core = core
        self.closed = False
        self._shared, self._path = shared, path

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._shared is None or self.core.forked:
            self.core.close()
            return
        with self._shared.lock:
            last = _remove_handle(self._shared)
            try:
                if last:  # a thread that opens the directory meanwhile waits for the lock, then opens a new core
                    self.core.close()
            finally:
                _drop_unused(self._path, self._shared)


def open_core(
    path: str | os.PathLike[str] | None, embedder: Any, config: UmiConfig | None, *, read_only: bool
) -> CoreHandle:
    """See `HybridStore.open`."""
    check_settings(config)
    if path is None and read_only:
        raise ConfigError("a store in memory is always new; read_only needs a path")
    directory = None if path is None else checked_directory(path)
    if directory is None or read_only:
        return CoreHandle(_opened(directory, embedder, config, read_only=read_only))
    real = os.path.realpath(directory)
    shared = _add_handle(real)
    try:
        with shared.lock:
            if shared.core is None or shared.core.closed:
                shared.core = _opened(directory, embedder, config, read_only=False)
            else:
                wanted = shared.core.config if config is None else config
                _refuse_other_settings(shared.core, model_of(shared.core.ledger, embedder, wanted), config)
            return CoreHandle(shared.core, shared, real)
    except BaseException:
        _remove_handle(shared)
        _drop_unused(real, shared)
        raise


def _add_handle(path: str) -> _Shared:
    """Count one handle more of a directory; returns its entry, a new one if the path names another directory by now."""
    with _registry_lock:
        shared = _shared.get(path)
        if shared is None or (shared.core is not None and not shared.core.ledger.in_place()):
            shared = _shared[path] = _Shared()
        shared.handles += 1
        return shared


def _remove_handle(shared: _Shared) -> bool:
    """Count one handle less. Returns whether it was the last."""
    with _registry_lock:
        shared.handles -= 1
        return not shared.handles


def _drop_unused(path: str, shared: _Shared) -> None:
    """Remove the entry of a directory if it has no handle."""
    with _registry_lock:
        if not shared.handles and _shared.get(path) is shared:
            del _shared[path]


def _refuse_other_settings(core: Core, embedder: Embedder, config: UmiConfig | None) -> None:
    """Raise StoreLocked if the open store has another embedder or config than the caller asks for."""
    where = f"{core.directory} is open in this process"
    if embedder.name != core.embedder.name:
        raise StoreLocked(
            f"{where} with embedder {core.embedder.name!r}, not {embedder.name!r}; close that store first, or open "
            "this one with the same embedder"
        )
    wanted = UmiConfig(analyzer=core.config.analyzer) if config is None else config
    if wanted != core.config:
        other = [name for name, value in wanted if value != getattr(core.config, name)]
        raise StoreLocked(
            f"{where} with another config ({', '.join(other)}); close that store first, open this one with "
            "the same settings (config=store.config, or the same stages), or call store.reconfigure()"
        )


def _refuse_other_dimension(core: Core) -> None:
    """Raise ReindexRequired if the store holds vectors of another dimension than the embedder's.

    A model known by the name of its class or function alone embeds one word for this: its dimension may have changed.
    If it fails, nothing is raised.
    """
    if core.dim is None:
        return
    embedder = core.embedder
    dim = declared_dim(embedder)
    if isinstance(embedder, CallableEmbedder) and not embedder.named:
        with suppress(Exception):  # searches report that the model fails, and use the lexical arm
            dim = core.query_embedder.embed(["dimension"], core.config.recall.embedder_timeout_seconds).shape[1]
    if dim not in (None, core.dim):
        raise ReindexRequired(
            f"{core.directory} holds vectors of {core.dim} dimensions and embedder {embedder.name!r} gives {dim}; open "
            "it with the model that made it, or embed everything again: HybridStore.reindex(path, embedder=...)"
        )


def _opened(directory: Path | None, embedder: Any, config: UmiConfig | None, *, read_only: bool) -> Core:
    """Open a core: check and lock the directory, open the ledger, check the config and the embedder.

    If a step fails, the steps before it are undone.
    """
    lock = None
    with ExitStack() as undo:
        if directory is not None:
            check_directory(directory, must_exist=read_only)
            if not read_only:
                if not (directory / FILE).exists():
                    as_embedder(embedder, config)  # raises before a wrong name leaves an empty store
                lock = locked_for_writing(directory)
                undo.callback(lock.release)
        ledger = Ledger(None if directory is None else directory / FILE, read_only=read_only)
        undo.callback(ledger.close)
        settings = checked_config(ledger, config)
        model = model_of(ledger, embedder, settings)
        refuse_other_embedder(ledger, model)
        core = Core(directory, ledger, lock, model, settings)
        _refuse_other_dimension(core)
        undo.pop_all()
    return core
