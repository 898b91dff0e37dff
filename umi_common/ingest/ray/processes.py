"""The processes on Ray: workers and a writer. Ray restarts a process that dies and repeats its call.

A part is a whole file, or a range of lines of a JSONL file. A batch is a list of parts that are sent to a worker in one
call. A worker reads, chunks, embeds and writes parts. The writer holds a store open, so that many workers can write to
one directory through it. The driver is the process that called `ingest_on_ray`; it starts the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Any
from uuid import uuid4

from umi_common.errors import ConfigError, StoreLocked, StoreUnavailable
from umi_common.files.parts import FilePart
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.report import Problem
from umi_common.files.work import PartOutcome, ingest_parts
from umi_common.protocols import Embedder

BATCHES_AHEAD = 2
"""Number of batches submitted to each worker: one in progress, and one that waits, so that the worker need not wait for
the driver. If the driver is killed, the next `ingest_on_ray` repeats these batches."""
RETRIES = 1
"""How many times Ray repeats a batch in a new worker after its worker died."""
WRITER_RETRIES = 3
"""How many times Ray repeats a call to the writer in a new process after the writer died."""
LOCKED_SECONDS = 10.0
"""Longest time for which a new writer waits for the store's lock, in seconds. After a driver was killed, its writer may
still hold the lock."""
METHODS = frozenset({"get", "add", "delete", "scan", "close"})
"""Methods of `protocols.Store` that ingestion calls, besides `len`."""


class _Worker:
    """A Ray actor that ingests parts. The first call of `ingest` opens store and embedder, because Ray raises errors of
    `ingest` in the driver, but reports an error of `__init__` only as the death of the actor.

    Args:
        store: The store that all workers share; None: `open_store` opens one for this worker.
    """

    def __init__(
        self, open_store: Callable[[], Any], open_embedder: Callable[[], Embedder], store: RemoteStore | None
    ) -> None:
        self._open_store, self._open_embedder = open_store, open_embedder
        self._store: Any = store
        self._embedder: Embedder | None = None
        self._pdf = PdfProcess()

    def ingest(self, parts: Sequence[FilePart]) -> list[PartOutcome]:
        if self._store is None:
            self._store = self._open_store()
        if self._embedder is None:
            self._embedder = self._open_embedder()
        return ingest_parts(self._store, self._embedder, parts, self._pdf)


def outcomes_of(actors: Sequence[Any], batches: Iterable[Sequence[FilePart]]) -> Iterator[list[PartOutcome]]:
    """Yield the outcomes of each batch, in the order in which the workers finish.

    A batch fails if its worker dies at the first attempt and at each of the RETRIES repetitions. Each part of a failed
    batch is repeated alone, after all other batches. If a part alone fails in the same way, its outcome is a problem
    "WorkerDied".
    """
    failed_parts: list[FilePart] = []
    for batch, outcomes in _answers(actors, batches, BATCHES_AHEAD):
        if outcomes is None:
            failed_parts += batch
        else:
            yield outcomes
    for (part,), outcomes in _answers(actors, ([part] for part in failed_parts), 1):
        if outcomes is None:
            message = f"{part.path} killed its worker at every attempt; look at its size and at Ray's logs"
            outcomes = [PartOutcome(part, problem=Problem(part.source, "WorkerDied", message))]
        yield outcomes


def _answers(
    actors: Sequence[Any], batches: Iterable[Sequence[FilePart]], ahead: int
) -> Iterator[tuple[Sequence[FilePart], list[PartOutcome] | None]]:
    """Yield each batch with its outcomes, or with None if its worker died at every attempt.

    Args:
        ahead: Largest number of batches submitted to one worker at a time.
    """
    import ray

    free = [*actors] * ahead  # a worker is in this list once for each further batch that may be submitted to it
    running: dict[Any, tuple[Any, Sequence[FilePart]]] = {}
    left = iter(batches)
    while True:
        while free and (batch := next(left, None)) is not None:
            actor = free.pop(0)
            running[actor.ingest.remote(batch)] = (actor, batch)
        if not running:
            return
        (reference, *_), _ = ray.wait(list(running), num_returns=1)
        actor, batch = running.pop(reference)
        free.append(actor)
        try:
            outcomes = result(reference)
        except ray.exceptions.RayActorError:
            outcomes = None
        yield batch, outcomes


@contextmanager
def started_workers(
    count: int, open_store: Callable[[], Any], open_embedder: Callable[[], Embedder], store: RemoteStore | None
) -> Iterator[list[Any]]:
    """Start workers and wait until they have opened store and embedder. The workers end with the block.

    Ray must be connected.

    Args:
        count: Number of workers.
        store: The store that all workers write to; None: each worker opens its own with `open_store`.

    Raises:
        ConfigError: If a worker does not start. Errors of opening store and embedder are raised unchanged.
    """
    import ray

    kind: Any = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=RETRIES)(_Worker)
    actors = [kind.remote(open_store, open_embedder, store) for _ in range(count)]
    try:
        for opened in [actor.ingest.remote([]) for actor in actors]:  # without parts, `ingest` only opens
            try:
                result(opened)
            except ray.exceptions.RayActorError as error:
                raise ConfigError(
                    f"a worker cannot start ({error}); check that its machine has all modules that it imports"
                ) from error
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


@contextmanager
def shared_store(open_store: Callable[[], Any]) -> Iterator[RemoteStore]:
    """Start the writer, which opens the store at the first call of one of the store's methods. Ray must be connected.

    At the end of the block the store is closed, unless the block raised, and the writer's process is killed.
    """
    import ray

    name = f"umi-writer-{uuid4().hex}"
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=WRITER_RETRIES)(_Writer)
    writer = kind.options(name=name).remote(open_store)
    try:
        store = RemoteStore(name)
        yield store
        store.close()
    finally:
        ray.kill(writer)


def result(reference: Any) -> Any:
    """The result of a remote call, from Ray's reference to it. An error of the remote function is raised unchanged."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


class RemoteStore:
    """The methods of a store that ingestion calls. Each call runs in the `_Writer`.

    Args:
        name: Name of the writer's Ray actor.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # not the actor's handle: Ray cannot restart a worker whose arguments hold a handle
        self._writer: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in METHODS:
            raise AttributeError(f"{name!r} is none of the methods that ingestion calls: {sorted(METHODS)}")
        return lambda *args, **named: self._apply(methodcaller(name, *args, **named))

    def __len__(self) -> int:
        return int(self._apply(len))

    @property
    def path(self) -> Path | None:
        """The store's directory; None: it has none."""
        directory: Path | None = self._apply(lambda store: getattr(store, "path", None))
        return directory

    def embedder_name(self) -> str | None:
        """Name of the embedder with which the store was opened; None: the store has no embedder."""
        name: str | None = self._apply(lambda store: getattr(getattr(store, "embedder", None), "name", None))
        return name

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self._name,)

    def _apply(self, function: Callable[[Any], Any]) -> Any:
        """The result of the function, called with the store in the actor."""
        import ray

        if self._writer is None:
            self._writer = ray.get_actor(self._name)
        try:
            return result(self._writer.apply.remote(function))
        except ray.exceptions.RayActorError as error:
            raise StoreUnavailable(
                f"the writer process cannot start, or died {WRITER_RETRIES + 1} times: {error}"
            ) from error


class _Writer:
    """A Ray actor that holds a store. The first call of `apply` opens it, for the reason given in `_Worker`."""

    def __init__(self, open_store: Callable[[], Any]) -> None:
        self._open_store = open_store
        self._store: Any = None

    def apply(self, function: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + LOCKED_SECONDS
        while self._store is None:
            try:
                self._store = self._open_store()
            except StoreLocked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOCKED_SECONDS / 100)
        return function(self._store)
