"""A store that one process of Ray holds and lends to the others: how a directory takes what many workers make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from umi_common.errors import StoreLocked, StoreUnavailable
from umi_common.filters import Filter
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.types import Chunk

RETRIES = 3
"""How often a call may take its process with it and is tried again in a new one."""
LOCKED_SECONDS = 10.0
"""How long a writer waits for the one before it, whose driver was killed, to let go of the store."""


@contextmanager
def lent(open_store: Callable[[], Any]) -> Iterator[Lent]:
    """The store, open in a process of its own for the length of the block; Ray is connected."""
    import ray

    name = f"umi-writer-{uuid4().hex}"
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=RETRIES)(_Writer)
    writer = kind.options(name=name).remote(open_store)
    try:
        store = Lent(name)
        yield store
        store.close()
    finally:
        ray.kill(writer)


def result(reference: Any) -> Any:
    """What a call gave; what it raised, as it was raised there."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


class Lent:
    """A store that one actor holds, as others see it: calls go there and come back, errors as they were raised."""

    def __init__(self, name: str) -> None:
        self._name = name  # not the handle: Ray cannot restart an actor that was made with one
        self._handle: Any = None

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """See `protocols.Store`, as for all that follow."""
        found: list[Chunk | None] = self._ask("get", list(ids))
        return found

    def add(self, chunks: Sequence[Chunk], *, vectors: Vectors) -> None:
        self._ask("add", list(chunks), vectors=vectors)

    def delete(self, ids: Sequence[str] | None = None, *, where: Filter | None = None) -> int:
        return int(self._ask("delete", ids, where=where))

    def scan(self, *, where: Filter | None, after: str | None, limit: int) -> list[Chunk]:
        page: list[Chunk] = self._ask("scan", where=where, after=after, limit=limit)
        return page

    def __len__(self) -> int:
        return int(self._ask("__len__"))

    def embedder_name(self) -> str | None:
        """Of the model the store was opened with; None: it has none."""
        name: str | None = self._answer(self._writer().embedder_name.remote())
        return name

    def close(self) -> None:
        """Close the store in good order."""
        self._ask("close")

    def _writer(self) -> Any:
        import ray

        if self._handle is None:
            self._handle = ray.get_actor(self._name)
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        return Lent, (self._name,)

    def _ask(self, name: str, *args: Any, **named: Any) -> Any:
        return self._answer(self._writer().call.remote(name, *args, **named))

    def _answer(self, reference: Any) -> Any:
        from ray.exceptions import RayActorError

        try:
            return result(reference)
        except RayActorError as error:
            raise StoreUnavailable(f"the process that writes cannot start, or died again and again: {error}") from error


class _Writer:
    """The actor that holds a store. Opened at the first call, so that what is wrong with it has a caller to go to."""

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
