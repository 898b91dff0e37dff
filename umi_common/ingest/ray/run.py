"""Bulk ingestion on Ray: many workers read, chunk and embed; writes go to a server from each, or through one writer.

from functools import partial
from umi_common.ingest.ray.run import ingest_on_ray

ingest_on_ray(partial(HybridStore.open, "./memory"), ["corpus"], checkpoint="corpus.checkpoint", workers=2)

A worker that dies is replaced and what it had in hand repeated; a part that kills its worker again and again is
reported and left out. If the driver dies, the same call goes on from the checkpoint. Actors, not Ray Data: the outcome
of each batch has to reach the checkpoint when it is there, and 40 batches that do nothing took 1.7 s instead of 9.5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, MissingExtra
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.files.parts import PART_BYTES
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.report import Report
from umi_common.files.session import IngestSession
from umi_common.files.walk import checked_roots
from umi_common.ingest.ray.crew import hired
from umi_common.ingest.ray.remote_store import Lent, lent
from umi_common.protocols import Embedder

OBJECT_STORE_BYTES = 100_000_000
"""Of the local Ray: a batch is some megabytes, and /dev/shm of a container often no more than this."""


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
    follow_symlinks: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    pdf_seconds: float = PDF_SECONDS,
    show_progress: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """`umi_common.ingest.ingest` on the Ray that is connected, or else on a local one that ends with the call.

    Each chunk is there exactly once, whatever was killed in between and repeated. On a cluster the files lie where
    every node sees them under the same path.

    Args:
        open_store: Called in the process that writes; Ray carries it there, so a `functools.partial` or a module's
            function.
        checkpoint: A file of the driver's machine; for one store only.
        open_embedder: Called in every worker; the default is the embedded model.
        workers: Processes of one core each; None: one for each core that Ray has.
        each_writes: True: every worker opens the store and writes to it, as a server (Qdrant) allows. False: one
            process does, as a directory demands.
        relative_to: Folder that sources, and so ids, are named from; None: they are whole paths.
        part_bytes, follow_symlinks, max_file_bytes, pdf_seconds, show_progress, stop: As for `ingest`.

    Raises:
        MissingExtra: Without Ray.
        ConfigError: If there is no worker, if they cannot open what they need, or if the one writer's store was made
            for another embedder.
        StoreUnavailable: If the one writer cannot start, or dies on the same write again and again.
        UmiError: As `ingest` does.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"workers={workers}; expected at least 1, or None for one a core")
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    roots = checked_roots([Path(path) for path in paths])
    base = None if relative_to is None else Path(relative_to).resolve()
    model = open_embedder().name
    with _ray(workers) as ray, _sink(ray, open_store, model, each_writes=each_writes) as (store, shared):
        _check_carried(ray, "open_embedder", open_embedder)
        count = int(ray.cluster_resources().get("CPU", 1)) if workers is None else workers
        kept = IngestCheckpoint(Path(checkpoint))
        with (
            IngestSession(
                store,
                kept,
                model,
                roots,
                base,
                part_bytes=part_bytes,
                show_progress=show_progress,
                follow_symlinks=follow_symlinks,
                limits=limits,
            ) as session,
            hired(count, open_store, open_embedder, shared) as crew,
        ):
            for outcomes in crew.outcomes(session.batches(stop)):
                session.take(outcomes)
            return session.finish()


@contextmanager
def _sink(
    ray: Any, open_store: Callable[[], Any], model: str, *, each_writes: bool
) -> Iterator[tuple[Any, Lent | None]]:
    """The store for the driver, and for the workers; None: they open their own. Closed in the end."""
    _check_carried(ray, "open_store", open_store)
    if each_writes:
        with closing(open_store()) as store:
            yield store, None
        return
    with lent(open_store) as store:
        name = store.embedder_name()
        if name not in (None, model):
            raise ConfigError(f"open_embedder gives {model!r} and open_store a store of {name!r}; use one for both")
        yield store, store


def _check_carried(ray: Any, name: str, factory: Callable[[], Any]) -> None:
    try:
        ray.put(factory)
    except TypeError as error:
        raise ConfigError(
            f"{name} cannot be carried to another process; give a function of a module, or a functools.partial of one "
            "with plain values, that opens everything there"
        ) from error


@contextmanager
def _ray(workers: int | None) -> Iterator[Any]:
    """Ray, connected: the caller's, or one of this machine for the length of the block, which reports to nobody."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "scale") from error
    if ray.is_initialized():
        yield ray
        return
    usage = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            configure_logging=False,
            log_to_driver=False,
        )
        yield ray
    finally:
        ray.shutdown()
        if usage is None:
            del os.environ["RAY_USAGE_STATS_ENABLED"]
        else:
            os.environ["RAY_USAGE_STATS_ENABLED"] = usage
