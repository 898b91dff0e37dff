"""A store that one process on Ray holds open, so that many workers can write to one directory through this process."""

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
"""How many times Ray repeats a call to the writer in a new process after the writer died."""
LOCKED_SECONDS = 10.0
"""Longest time for which a new writer waits for the store's lock, in seconds. After a driver was killed, its writer may
still hold the lock."""


@contextmanager
def shared_store(open_store: Callable[[], Any]) -> Iterator[RemoteStore]:
    """Open a store in a process of its own; it is closed at the end of the block. Ray must be connected."""
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
    """The result of a remote call; an error that the remote function raised is raised here unchanged.

    Args:
        reference: Ray's reference to the result.
    """
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


METHODS = frozenset({"get", "add", "delete", "scan", "close"})
"""Methods of `protocols.Store` that ingestion calls, besides `len`."""


class RemoteStore:
    """The part of a store's interface that ingestion uses. Each call runs in the Ray actor that holds the store.

    Args:
        name: Name of this actor in Ray.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # not the actor's handle: Ray cannot restart a worker whose arguments hold a handle
        self._handle: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in METHODS:
            raise AttributeError(f"{name!r} is none of the methods that ingestion calls: {sorted(METHODS)}")
        return partial(self._call, name)

    def __len__(self) -> int:
        return int(self._call("__len__"))

    def embedder_name(self) -> str | None:
        """Name of the embedder with which the store was opened; None: the store has no embedder."""
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
    """The actor that holds the store. Its first call opens the store, so that errors of opening reach the caller."""

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
