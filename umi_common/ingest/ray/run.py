"""Bulk ingestion on Ray. Workers read, chunk and embed. Either each worker writes to a server, or all workers send
their chunks to one process, which writes to a directory.

    ingest_on_ray(partial(HybridStore.open, "./memory"), ["corpus"], checkpoint="corpus.checkpoint", workers=2)

Ray restarts a worker that dies and repeats its batch. A part of a file that kills its worker on every attempt is
reported and left out. If the driver (the process that calls `ingest_on_ray`) dies, the same call continues from the
checkpoint.

The workers are Ray actors and not tasks of Ray Data, for two reasons: each outcome must reach the checkpoint at once,
and 40 empty batches take 1.7 s with actors but 9.5 s with Ray Data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, optional_module
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.files.parts import PART_BYTES
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.report import Report
from umi_common.files.run import base_of_sources
from umi_common.files.session import IngestSession
from umi_common.files.walk import checked_roots
from umi_common.ingest.ray.processes import outcomes_of, shared_store, started_workers
from umi_common.protocols import Embedder

OBJECT_STORE_BYTES = 100_000_000
"""Size in bytes of the object store of a local Ray: enough for batches of some megabytes, and small enough for the
/dev/shm of a container."""


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
            started_workers(count, open_store, open_embedder, None if each_writes else store) as actors,
        ):
            for batches in session.rounds(stop):
                for outcomes in outcomes_of(actors, batches):
                    session.take(outcomes)
            return session.report


@contextmanager
def _opened(ray: Any, open_store: Callable[[], Any], model: str, *, each_writes: bool) -> Iterator[Any]:
    """Yield the driver's store, closed at the end of the block.

    With `each_writes` only the driver uses it, and each worker opens its own. Else driver and workers share one store,
    which the writer process holds open.
    """
    _check_pickles(ray, "open_store", open_store)
    if each_writes:
        with closing(open_store()) as store:
            yield store
        return
    with shared_store(open_store) as store:
        name = store.embedder_name()
        if name not in (None, model):
            raise ConfigError(
                f"open_embedder gives the model {model!r}, and the store of open_store has {name!r}; use one model"
            )
        yield store


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
    """Ray's module, connected: to the caller's Ray, or to a local Ray that ends with the block.

    A local Ray sends no usage statistics.
    """
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
