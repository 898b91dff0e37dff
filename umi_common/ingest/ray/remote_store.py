"""A store that one process of Ray holds open and others call: many workers write to one directory through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from umi_common.errors import StoreLocked, StoreUnavailable
from umi_common.protocols import Embedder

RETRIES = 3
"""How often Ray repeats a call whose process died, in a new process."""
LOCKED_SECONDS = 10.0
"""Longest wait of a new writer for the store's lock, which the writer of a killed driver may still hold."""


@contextmanager
def shared_store(open_store: Callable[[], Any]) -> Iterator[RemoteStore]:
    """The store, opened in a process of its own and closed when the block is left. Ray must be connected."""
    import ray

    name = f"umi-writer-{uuid4().hex}"
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=RETRIES)(_Writer)
    writer = kind.options(name=name).remote(open_store)
    try:
        store = RemoteStore(name)
        yield store
        store.close()
    finally:
        ray.kill(writer)


def result(reference: Any) -> Any:
    """The result of a remote call; an error there is raised here unchanged."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


METHODS = frozenset({"get", "add", "delete", "scan", "close"})
"""Methods of `protocols.Store` that ingestion calls, besides `len`."""


class RemoteStore:
    """The part of a store's interface that ingestion uses; each call is made in the actor that holds the store."""

    def __init__(self, name: str) -> None:
        self._name = name  # not the handle: Ray cannot restart an actor whose arguments hold one
        self._handle: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in METHODS:
            raise AttributeError(f"{name!r} is none of the methods that ingestion calls: {sorted(METHODS)}")
        return partial(self._call, name)

    def __len__(self) -> int:
        return int(self._call("__len__"))

    def embedder_name(self) -> str | None:
        """Name of the model the store was opened with; None: it has no embedder."""
        name: str | None = self._result(self._writer().embedder_name.remote())
        return name

    def _writer(self) -> Any:
        import ray

        if self._handle is None:
            self._handle = ray.get_actor(self._name)
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self._name,)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        return self._result(self._writer().call.remote(name, *args, **named))

    def _result(self, reference: Any) -> Any:
        from ray.exceptions import RayActorError

        try:
            return result(reference)
        except RayActorError as error:
            raise StoreUnavailable(f"the writer process cannot start, or died {RETRIES + 1} times: {error}") from error


class _Writer:
    """The actor that holds the store. The first call opens it, so that errors of the opening reach the caller."""

    def __init__(self, open_store: Callable[[], Any]) -> None:
        self._open_store = open_store
        self._opened: Any = None

    def call(self, name: str, *args: Any, **named: Any) -> Any:
        return getattr(self._store(), name)(*args, **named)

    def embedder_name(self) -> str | None:
        embedder: Embedder | None = getattr(self._store(), "embedder", None)
        return None if embedder is None else embedder.name

    def _store(self) -> Any:
        deadline = time.monotonic() + LOCKED_SECONDS
        while self._opened is None:
            try:
                self._opened = self._open_store()
            except StoreLocked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOCKED_SECONDS / 100)
        return self._opened
