"""Bulk ingestion on Ray. Either each worker writes to a server, or all workers send their chunks to one process, the
writer, which holds the store of a directory open.

    ingest_on_ray(partial(HybridStore.open, "./memory"), ["corpus"], checkpoint="corpus.checkpoint", workers=2)

A part is a whole file, or a range of lines of a JSONL file. A batch is a list of parts that are sent to a worker in one
call. A worker reads, chunks, embeds and writes parts. Ray restarts a worker that dies and repeats its batch. A part
that kills its worker on every attempt is reported and left out. If the driver (the process that calls `ingest_on_ray`)
dies, the same call continues from the checkpoint.

The workers are Ray actors and not tasks of Ray Data, for two reasons: each outcome must reach the checkpoint at once,
and 40 empty batches take 1.7 s with actors but 9.5 s with Ray Data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Any
from uuid import uuid4

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, StoreLocked, StoreUnavailable, optional_module
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.files.parts import PART_BYTES, FilePart, PartOutcome, ingest_parts
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.report import Problem, Report
from umi_common.files.run import base_of_sources
from umi_common.files.session import IngestSession
from umi_common.files.walk import checked_roots
from umi_common.protocols import Embedder

OBJECT_STORE_BYTES = 100_000_000
"""Size in bytes of the object store of a local Ray: enough for batches of some megabytes, and small enough for the
/dev/shm of a container."""
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


def ingest_on_ray(
    open_store: Callable[[], Any],
    paths: Sequence[str | os.PathLike[str]],
    *,
    checkpoint: str | os.PathLike[str],
    open_embedder: Callable[[], Embedder] = default_embedder,
    workers: int | None = None,
    each_writes: bool = False,
    relative_to: str | os.PathLike[str] | None = None,
    part_bytes: int = PART_BYTES,
    remove_missing: bool = False,
    follow_symlinks: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    pdf_seconds: float = PDF_SECONDS,
    show_progress: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Do the work of `umi_common.files.index` in many processes, on the connected Ray or else on a local one.

    A local Ray ends with the call. To use a cluster, call `ray.init()` first. This function does not read the
    environment variable RAY_ADDRESS; your own `ray.init()` does.

    Each chunk is stored exactly once, even if processes were killed and batches repeated. On a cluster every node must
    have the files under the same paths.

    Args:
        open_store: A function that opens the store. It is called in the process that writes or, with `each_writes`, in
            the driver and in every worker. Ray pickles it (with cloudpickle), so it must not hold an open store, a
            connection or a lock. A function, lambda or `functools.partial` with plain values works.
        checkpoint: Path of the checkpoint file on the driver's machine. Each store needs a file of its own.
        open_embedder: A function that opens the embedder. It is called in every worker, and in the driver for the
            embedder's name. Ray pickles it, too.
        workers: Number of worker processes of one core each, >= 1; None: one for each core that Ray has.
        each_writes: True: every worker opens the store and writes to it; for a server (Qdrant). False: one process
            writes for all workers; for a store in a directory.
        relative_to, part_bytes, remove_missing, follow_symlinks, max_file_bytes, pdf_seconds, show_progress, stop: See
            `umi_common.files.index`.

    Raises:
        MissingExtra: Without Ray.
        ConfigError: If `workers` is no whole number >= 1, if `open_store` or `open_embedder` cannot be pickled, if a
            worker cannot start, or if the store was made with another embedder.
        StoreUnavailable: If the writer process cannot start, or dies at every attempt of a write.
        UmiError: See `umi_common.files.index`.
        Exception: Whatever `open_store` or `open_embedder` raises, unchanged.
    """
    if workers is not None and not (isinstance(workers, int) and workers >= 1):
        raise ConfigError(f"workers={workers!r:.80}; expected at least 1, or None for one worker per core")
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    roots = checked_roots(paths, remove_missing=remove_missing)
    model = open_embedder().name
    with _ray(workers) as ray, _opened(ray, open_store, model, each_writes=each_writes) as store:
        _check_pickles(ray, "open_embedder", open_embedder)
        count = int(ray.cluster_resources().get("CPU", 1)) if workers is None else workers
        base = base_of_sources(store, relative_to)
        progress = IngestCheckpoint(Path(checkpoint))
        with (
            IngestSession(
                store,
                progress,
                model,
                roots,
                base,
                part_bytes=part_bytes,
                show_progress=show_progress,
                remove_missing=remove_missing,
                follow_symlinks=follow_symlinks,
                limits=limits,
            ) as session,
            _started_workers(count, open_store, open_embedder, None if each_writes else store) as actors,
        ):
            for batches in session.rounds(stop):
                for outcomes in _outcomes_of(actors, batches):
                    session.take(outcomes)
            return session.report


@contextmanager
def _opened(ray: Any, open_store: Callable[[], Any], model: str, *, each_writes: bool) -> Iterator[Any]:
    """Yield the driver's store, closed at the end of the block.

    With `each_writes` only the driver uses it, and each worker opens its own. Else driver and workers share one store,
    which the writer holds open. The writer's process is killed at the end; if the block raised, the store is not closed
    before.
    """
    _check_pickles(ray, "open_store", open_store)
    if each_writes:
        with closing(open_store()) as store:
            yield store
        return
    name = f"umi-writer-{uuid4().hex}"
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=WRITER_RETRIES)(_Writer)
    writer = kind.options(name=name).remote(open_store)
    try:
        shared = RemoteStore(name)
        made_with = shared.embedder_name()
        if made_with not in (None, model):
            raise ConfigError(
                f"open_embedder gives the model {model!r}, and the store of open_store has {made_with!r}; use one model"
            )
        yield shared
        shared.close()
    finally:
        ray.kill(writer)


def _check_pickles(ray: Any, name: str, factory: Callable[[], Any]) -> None:
    try:
        ray.put(factory)
    except Exception as error:  # a lock of multiprocessing raises RuntimeError, a pointer of ctypes ValueError
        raise ConfigError(
            f"{name} cannot be pickled for another process; expected a function defined in a module, or a "
            "functools.partial of one with plain values, that opens files and connections when it is called"
        ) from error


@contextmanager
def _ray(workers: int | None) -> Iterator[Any]:
    """Ray's module, connected to the caller's Ray, or to a local one, without usage statistics, that ends with the
    block."""
    ray = optional_module("ray", "ray", "scale")
    if ray.is_initialized():
        yield ray
        return
    usage = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        ray.init(
            "local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            configure_logging=False,
            log_to_driver=False,
        )
        yield ray
    finally:
        ray.shutdown()
        del os.environ["RAY_USAGE_STATS_ENABLED"]
        if usage is not None:
            os.environ["RAY_USAGE_STATS_ENABLED"] = usage


class _Worker:
    """A Ray actor that ingests parts, into the `store` that all workers share; None: `open_store` opens its own.

    The first call of `ingest` opens store and embedder, because Ray raises errors of `ingest` in the driver, but
    reports an error of `__init__` only as the death of the actor.
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


def _outcomes_of(actors: Sequence[Any], batches: Iterable[Sequence[FilePart]]) -> Iterator[list[PartOutcome]]:
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
    """Yield each batch with its outcomes, or with None if its worker died at every attempt. At most `ahead` batches are
    submitted to one worker at a time."""
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
            outcomes = _result(reference)
        except ray.exceptions.RayActorError:
            outcomes = None
        yield batch, outcomes


@contextmanager
def _started_workers(
    count: int, open_store: Callable[[], Any], open_embedder: Callable[[], Embedder], store: RemoteStore | None
) -> Iterator[list[Any]]:
    """Start `count` workers and wait until they have opened store and embedder. They end with the block.

    `store` is as in `_Worker`. Errors of opening store and embedder are raised unchanged.
    """
    import ray

    kind: Any = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=RETRIES)(_Worker)
    actors = [kind.remote(open_store, open_embedder, store) for _ in range(count)]
    try:
        for opened in [actor.ingest.remote([]) for actor in actors]:  # without parts, `ingest` only opens
            try:
                _result(opened)
            except ray.exceptions.RayActorError as error:
                raise ConfigError(
                    f"a worker cannot start ({error}); check that its machine has all modules that it imports"
                ) from error
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)


def _result(reference: Any) -> Any:
    """The result of a remote call, from Ray's reference to it. An error of the remote function is raised unchanged."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


class RemoteStore:
    """The methods of a store that ingestion calls. Each call runs in the `_Writer`, a Ray actor with this name."""

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
            return _result(self._writer.apply.remote(function))
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
