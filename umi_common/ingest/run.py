"""Bulk ingestion in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from umi_common.embedders import as_embedder, default_embedder
from umi_common.errors import ConfigError
from umi_common.files.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.walk import checked_roots
from umi_common.ingest.checkpoint import Checkpoint
from umi_common.ingest.parts import PART_BYTES
from umi_common.ingest.report import Report
from umi_common.ingest.session import Session
from umi_common.ingest.work import ingest_parts
from umi_common.protocols import Embedder
from umi_common.stores.embedded.hybrid import HybridStore

CHECKPOINT = "umi.db-ingest"
"""In the directory of a store that has one, under a name that the store knows for its own."""


def ingest(
    store: Any,
    paths: Sequence[str | os.PathLike[str]],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    embedder: Any = None,
    relative_to: str | os.PathLike[str] | None = None,
    part_bytes: int = PART_BYTES,
    follow_symlinks: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    pdf_seconds: float = PDF_SECONDS,
    show_progress: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Bring a store level with files and folders; repeated after any interruption, each chunk is there exactly once.

    The work goes in parts, whole files or ranges of a JSONL file. A finished part is noted in the
    checkpoint and skipped by later runs; one that was interrupted is repeated whole, under the same ids. When all parts
    of a changed file are in, the chunks that it has no more are removed; those of vanished files are, at the end.
    Ctrl-C leaves a store that can be searched; the same call goes on from there.

    Args:
        store: Any `protocols.Store`.
        paths: Files and folders, as for `umi_common.files.index`.
        checkpoint: A file, made if it is not there; for one store only. None: in the directory of a `HybridStore`.
        embedder: What `HybridStore.open` takes; None: the store's own, or the embedded default.
        relative_to: Folder from which sources, and so ids, are named; None: the one a `HybridStore` lies in, else
            sources are whole paths. The same in every run.
        part_bytes: Size of a range of records, and of what is written at once; what a kill repeats. Files that are
            finished stay so if it changes.
        follow_symlinks, pdf_seconds: As for `umi_common.files.index`.
        max_file_bytes: Larger files are skipped without being read; of JSONL, files with a longer line. At least 1.
        show_progress: A bar over the bytes of the files.
        stop: Asked between two parts; True ends the work in good order.

    Raises:
        FileUnreadable: If a path does not exist. What is wrong with a file inside a folder is in the report.
        ConfigError: If the checkpoint belongs to another store, or a limit is out of range.
        ReindexRequired: If it was made with another embedder.
        StoreLocked: If another run holds it.
        EmbedderError: If the embedder fails on all there is, several times in a row.
        StoreError: As the store raises them.
    """
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    model = _model(store, embedder)
    home = getattr(store, "path", None)
    roots = checked_roots([Path(path) for path in paths])
    base = None if relative_to is None else Path(relative_to).resolve()
    if base is None and home is not None:
        base = home.resolve().parent
    kept = opened(checkpoint, store)
    with Session(
        store,
        kept,
        model.name,
        roots,
        base,
        part_bytes=part_bytes,
        show_progress=show_progress,
        follow_symlinks=follow_symlinks,
        limits=limits,
    ) as session:
        for parts in session.batches(stop):
            session.take(ingest_parts(store, model, parts))
        return session.finish()


def opened(checkpoint: str | os.PathLike[str] | None, store: Any) -> Checkpoint:
    """The checkpoint of a run on `store`.

    Raises:
        ConfigError: If none is named and the store has no place for it.
    """
    if checkpoint is not None:
        return Checkpoint(Path(checkpoint))
    home = getattr(store, "path", None)
    if home is None and not isinstance(store, HybridStore):
        raise ConfigError(f"{type(store).__name__} has no directory of its own; name a file: checkpoint='corpus.umi'")
    return Checkpoint(None if home is None else home / CHECKPOINT)


def _model(store: Any, embedder: Any) -> Embedder:
    own: Embedder | None = getattr(store, "embedder", None)
    if embedder is None:
        return default_embedder() if own is None else own
    return as_embedder(embedder)
