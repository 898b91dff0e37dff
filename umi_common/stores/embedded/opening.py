"""Open a store.

A `Core` holds the parts of an open store: ledger (the SQLite file `umi.db`), indexes, embedder and the writer's lock. A
`CoreHandle` is one use of it. Stores that this process opens for writing in one directory share one core.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from umi_common.config import UmiConfig, check_settings
from umi_common.embedders import CallableEmbedder, as_embedder, declared_dim
from umi_common.errors import ConfigError, ReindexRequired, StoreLocked
from umi_common.protocols import Embedder
from umi_common.runtime.forks import renew_in_child
from umi_common.stores.batch_checks import checked_directory
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.directory import check_directory, locked_for_writing
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.made_with import checked_config, model_of, refuse_other_embedder


class _Shared:
    """A core and the number of its handles. All handles of a directory that is open for writing share one core."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the core is opened or closed. Reentrant, because garbage collection in the thread that holds the
        lock may close a handle."""
        self.core: Core | None = None
        self.handles = 0
        """Number of open handles, counting a handle that is being opened; guarded by `lock`."""

    def release(self) -> None:
        """Count one handle less; after the last handle, close the core."""
        self.handles -= 1
        core = self.core
        if not self.handles and core is not None:
            self.core = None  # closed handles keep this entry in `_registry`; its next opening needs a new core
            core.close()


class _Registry:
    """Directories that this process has open for writing, by real path. An entry is removed with its last handle."""

    def __init__(self) -> None:
        # Calls `_renew` now, and again in each forked child: it cannot use the parent's stores, nor a lock that another
        # thread held.
        renew_in_child(self, _Registry._renew)

    def _renew(self) -> None:
        self._entries: WeakValueDictionary[str, _Shared] = WeakValueDictionary()
        self._lock = threading.RLock()

    def entry(self, path: str) -> _Shared:
        """The entry of a directory; a new one if there is none, or if the open ledger is no longer at this path."""
        with self._lock:
            shared = self._entries.get(path)
            core = None if shared is None else shared.core
            if shared is None or (core is not None and not core.ledger.in_place()):
                shared = self._entries[path] = _Shared()
            return shared


_registry = _Registry()


class CoreHandle:
    """One use of an open core. The core is closed when the last of its handles is closed."""

    def __init__(self, core: Core, shared: _Shared) -> None:
        self.core = core
        self.closed = False
        self._shared = shared

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        if self.closed or self.core.forked:
            return
        self.closed = True
        with self._shared.lock:  # another thread that opens the directory waits until the core is closed
            self._shared.release()


def open_core(
    path: str | os.PathLike[str] | None, embedder: Any, config: UmiConfig | None, *, read_only: bool
) -> CoreHandle:
    """See `HybridStore.open`."""
    check_settings(config)
    if path is None and read_only:
        raise ConfigError("a store in memory is always new; read_only needs a path")
    directory = None if path is None else checked_directory(path)
    shared = _Shared() if directory is None or read_only else _registry.entry(os.path.realpath(directory))
    with shared.lock:
        shared.handles += 1  # first, because garbage collection may close the last other handle during the opening
        try:
            if shared.core is None:
                shared.core = _opened(directory, embedder, config, read_only=read_only)
            else:
                # Without a config, the open store's config names the model. If it is not the default config, the error
                # below is about the config, not about the model.
                wanted = shared.core.config if config is None else config
                _refuse_other_settings(shared.core, model_of(shared.core.ledger, embedder, wanted), config)
            return CoreHandle(shared.core, shared)
        except BaseException:
            shared.release()
            raise


def _refuse_other_settings(core: Core, embedder: Embedder, config: UmiConfig | None) -> None:
    """Raise StoreLocked if the open store has another embedder than `embedder`, or another config than `config`.

    Args:
        config: None: the default config with the store's analyzer, as for a store that is not open yet.
    """
    where = f"{core.directory} is open in this process"
    if embedder.name != core.embedder.name:
        raise StoreLocked(
            f"{where} with embedder {core.embedder.name!r}, not {embedder.name!r}; close that store first, or open "
            "this one with the same embedder"
        )
    wanted = checked_config(core.ledger, config)
    if wanted != core.config:
        other = [name for name, value in wanted if value != getattr(core.config, name)]
        raise StoreLocked(
            f"{where} with another config ({', '.join(other)}); close that store first, open this one with "
            "the same settings (config=store.config), or call store.reconfigure()"
        )


def _refuse_other_dimension(core: Core) -> None:
    """Raise ReindexRequired if the store holds vectors of another dimension than the embedder's.

    If an embedder's name is only that of a class or function (`named` is false), the name may stand for another model
    now. Such an embedder embeds one word, and the dimension of this vector is compared; if it fails, nothing is raised.
    """
    if core.dim is None:
        return
    embedder = core.embedder
    dim = declared_dim(embedder)
    if isinstance(embedder, CallableEmbedder) and not embedder.named:
        seconds = core.config.recall.embedder_timeout_seconds
        (vector,) = core.query_embedder.embed_each(["dimension"], seconds, 0)
        if isinstance(vector, np.ndarray):  # not an error: searches report that the model fails, and use BM25 alone
            dim = len(vector)
    if dim not in (None, core.dim):
        raise ReindexRequired(
            f"{core.directory} holds vectors of {core.dim} dimensions and embedder {embedder.name!r} gives {dim}; open "
            "it with the model that made it, or embed everything again: HybridStore.reindex(path, embedder=...)"
        )


def _opened(directory: Path | None, embedder: Any, config: UmiConfig | None, *, read_only: bool) -> Core:
    """Open a core: check and lock the directory, open the ledger, check the config and the embedder.

    If a step fails, the lock is released and the ledger is closed.
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
