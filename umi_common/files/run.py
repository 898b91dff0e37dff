"""`index`: bring files and folders into a store, in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from umi_common.embedders import as_embedder, default_embedder
from umi_common.errors import ConfigError, LedgerDamaged
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.files.parts import PART_BYTES
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.report import Report
from umi_common.files.session import IngestSession
from umi_common.files.walk import checked_roots
from umi_common.files.work import ingest_parts
from umi_common.protocols import Embedder
from umi_common.stores.embedded.hybrid import HybridStore

CHECKPOINT = "umi.db-ingest"
"""The checkpoint's name in a store's directory. A store treats files named `umi.db-*` as its own."""


def index(
    store: Any,
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    embedder: Any = None,
    relative_to: str | os.PathLike[str] | None = None,
    part_bytes: int = PART_BYTES,
    remove_missing: bool = False,
    follow_symlinks: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    pdf_seconds: float = PDF_SECONDS,
    show_progress: bool = False,
    on_file: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Make a store hold what files and folders hold. Repeated after an interruption, it stores each chunk exactly once.

    A problem with one file stops no other: the file is skipped, and the report says why. In a JSONL file only the bad
    lines are skipped, in a PDF only the bad pages. Names that begin with a dot are left out.

    The work is done in parts: whole files, or ranges of a JSONL file. A finished part is recorded in the checkpoint and
    skipped by later runs. An interrupted part is repeated as a whole, with the same ids. When all parts of a changed
    file are stored, the chunks it no longer has are removed; the chunks of vanished files are removed at the end.
    Ctrl-C leaves a store that can be searched.

    Args:
        store: Any `protocols.Store`.
        paths: Files and folders, or one of these. Indexed files below these folders that are gone are removed from the
            store.
        checkpoint: A file, created if it does not exist; for one store only. None: in the directory of a `HybridStore`.
        embedder: What `HybridStore.open` takes; None: the store's own, or the embedded default.
        relative_to: Folder that sources, and so ids, are relative to; a file outside of it is named by its whole path.
            None: the folder that contains a `HybridStore`'s directory, so that a project can be moved together with its
            store; for other stores sources are whole paths. Give the same folder in every run.
        part_bytes: Size in bytes of a range of records and of one write; a kill makes the next run repeat this much.
            Finished files stay finished if it changes.
        remove_missing: Whether `paths` may name what no longer exists; what was indexed from there is then removed.
        follow_symlinks: Whether to read files outside of `paths` through symbolic links. False: such a link is skipped,
            and its chunks are removed if it was indexed.
        max_file_bytes: Larger files are skipped without being read; so is a PDF whose text has more characters, and a
            JSONL file with a longer line. At least 1.
        pdf_seconds: A PDF that takes longer for each begun megabyte is skipped; seconds above 0, at most a day.
        show_progress: A progress bar over the bytes of the files.
        on_file: Called with (files done, files in all) after each file.
        stop: Called between files and between batches of parts; True ends the run after the batch in progress.

    Raises:
        InputError: If a path is no path, or empty.
        FileUnreadable: If a path does not exist, unless `remove_missing`. Problems with files inside a folder are in
            the report.
        ConfigError: If the checkpoint belongs to another store, `embedder` is not the store's, or a limit is out of
            range.
        ReindexRequired: If the checkpoint was made with another embedder.
        StoreLocked: If another run uses the checkpoint.
        EmbedderError: If the embedder fails on everything, in the whole run or several times in a row.
        StoreError: As the store raises them.
    """
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    model = _model(store, embedder)
    home = getattr(store, "path", None)
    roots = checked_roots(paths, remove_missing=remove_missing)
    base = None if relative_to is None else Path(relative_to).resolve()
    if base is None and home is not None:
        base = home.resolve().parent
    with IngestSession(
        store,
        _own_checkpoint(store) if checkpoint is None else IngestCheckpoint(Path(checkpoint)),
        model.name,
        roots,
        base,
        part_bytes=part_bytes,
        show_progress=show_progress,
        own_checkpoint=checkpoint is None,
        follow_symlinks=follow_symlinks,
        limits=limits,
        on_file=on_file,
    ) as session:
        for batches in session.rounds(stop):
            for parts in batches:
                session.take(ingest_parts(store, model, parts, session.pdf))
        return session.report


def _own_checkpoint(store: Any) -> IngestCheckpoint:
    """The checkpoint in a store's directory, a new one in place of a damaged one; in memory for a store in memory.

    Raises:
        ConfigError: If the store is not embedded.
    """
    home = getattr(store, "path", None)
    if home is None and not isinstance(store, HybridStore):
        raise ConfigError(f"{type(store).__name__} has no directory of its own; name a file: checkpoint='corpus.umi'")
    if home is None:
        return IngestCheckpoint(None)
    try:
        return IngestCheckpoint(home / CHECKPOINT)
    except LedgerDamaged:  # a new checkpoint costs reading the files again, not embedding them
        for suffix in ("", "-wal", "-shm"):
            Path(home, CHECKPOINT + suffix).unlink(missing_ok=True)
        return IngestCheckpoint(home / CHECKPOINT)


def _model(store: Any, embedder: Any) -> Embedder:
    """The caller's embedder, else the store's, else the default."""
    own: Embedder | None = getattr(store, "embedder", None)
    if embedder is None:
        return default_embedder() if own is None else own
    return as_embedder(embedder)
