"""Workers on Ray that read, chunk, embed and write parts. Ray restarts a worker that dies and repeats its batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from umi_common.errors import ConfigError
from umi_common.files.parts import FilePart
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.report import Problem
from umi_common.files.work import PartOutcome, ingest_parts
from umi_common.ingest.ray.remote_store import RemoteStore, result
from umi_common.protocols import Embedder

BATCHES_AHEAD = 2
"""Number of batches submitted to each worker: the one in progress and one that waits, so that the worker need not wait
for the driver. After the driver was killed, the next call repeats these batches."""
RETRIES = 1
"""How many times Ray repeats a batch in a new worker after its worker died."""


class _Worker:
    """The Ray actor. Its first call opens store and embedder, so that errors of opening reach the driver.

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

    If the worker of a batch dies `RETRIES + 1` times, each part of the batch is repeated alone after all other batches.
    If its worker dies `RETRIES + 1` times again, the outcome of the part is a problem "WorkerDied".

    Args:
        actors: From `started_workers`.
    """
    failed_parts: list[FilePart] = []
    for batch, outcomes in _answers(actors, batches, BATCHES_AHEAD):
        if outcomes is None:
            failed_parts += batch
        else:
            yield outcomes
    for batch, outcomes in _answers(actors, ([part] for part in failed_parts), 1):
        yield [PartOutcome(part, problem=_worker_died(part)) for part in batch] if outcomes is None else outcomes


def _answers(
    actors: Sequence[Any], batches: Iterable[Sequence[FilePart]], ahead: int
) -> Iterator[tuple[Sequence[FilePart], list[PartOutcome] | None]]:
    """Yield each batch with its outcomes, or with None if its worker died `RETRIES + 1` times.

    Args:
        ahead: Largest number of batches submitted to one worker at a time.
    """
    idle, running = [*actors] * ahead, dict[Any, tuple[Any, Sequence[FilePart]]]()
    for batch in batches:
        if not idle:
            yield _next(running, idle)
        actor = idle.pop(0)
        running[actor.ingest.remote(batch)] = (actor, batch)
    while running:
        yield _next(running, idle)


def _next(
    running: dict[Any, tuple[Any, Sequence[FilePart]]], idle: list[Any]
) -> tuple[Sequence[FilePart], list[PartOutcome] | None]:
    """Wait until any batch ends; returns the batch with its outcomes, or None, and adds its worker to `idle`.

    Args:
        running: Ray's reference to the outcomes -> (worker, batch).
        idle: Workers to which a batch can be submitted, one entry for each batch.
    """
    import ray

    (reference, *_), _ = ray.wait(list(running), num_returns=1)
    actor, batch = running.pop(reference)
    idle.append(actor)
    try:
        return batch, result(reference)
    except ray.exceptions.RayActorError:
        return batch, None


@contextmanager
def started_workers(
    count: int, open_store: Callable[[], Any], open_embedder: Callable[[], Embedder], store: RemoteStore | None
) -> Iterator[list[Any]]:
    """Start workers and wait until they have opened store and embedder; they are ended at the end of the block.

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
        for opened in [actor.ingest.remote([]) for actor in actors]:
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


def _worker_died(part: FilePart) -> Problem:
    message = f"{part.path} killed its worker at every attempt; look at its size and at Ray's logs"
    return Problem(part.source, "WorkerDied", message)
