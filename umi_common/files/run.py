"""`index`: bring a store up to date with files and folders, in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError, LedgerDamaged
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.files.parts import PART_BYTES, ingest_parts
from umi_common.files.readers.reading import MAX_FILE_BYTES, PDF_SECONDS, ReadLimits
from umi_common.files.report import Report
from umi_common.files.session import IngestSession
from umi_common.files.walk import checked_roots, store_directory
from umi_common.protocols import Embedder
from umi_common.stores.batch_checks import check_store
from umi_common.stores.embedded.hybrid import HybridStore

CHECKPOINT = "umi.db-ingest"
"""The checkpoint's name in a store's directory. A store treats files named `umi.db-*` as its own."""
USED_METHODS = ("add", "delete", "get", "scan", "__len__")
"""The methods that `index` calls of a store; a store that is only written needs no `recall`."""


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
    """Bring a store up to date with files and folders. Repeating an interrupted call stores no chunk twice.

    A file that cannot be read is skipped, the report says why, and the other files are indexed. In a JSONL file only
    the bad lines are skipped, in a PDF only the bad pages. Files and folders whose names begin with a dot are left out.

    The work is done in parts: whole files, or ranges of a JSONL file. A finished part is recorded in the checkpoint and
    skipped by later runs. An interrupted part is repeated as a whole, with the same ids. When all parts of a changed
    file are stored, the chunks that the file no longer has are removed. The chunks of vanished files are removed at the
    end. After Ctrl-C the store can be searched.

    Args:
        store: Any `protocols.Store`.
        paths: One path or several, of files and folders. Files that an earlier run indexed below these folders and that
            no longer exist are removed from the store.
        checkpoint: Path of the checkpoint file, created if it does not exist; each store needs its own. None: a file in
            the store's directory, which is its attribute `path`; in memory for a `HybridStore` in memory.
        embedder: Any value that `HybridStore.open` accepts as embedder; None: the store's embedder, else the default.
        relative_to: Folder to which the sources of chunks are relative; ids are made from sources. A file outside of
            this folder has its absolute path as source. Give the same folder in every run. None: the folder that
            contains the store's directory, so that a project can be moved together with its store. For a store without
            a directory, sources are absolute paths.
        part_bytes: Size of a range of records and of a batch of parts, in bytes, at least 1. After a kill the next run
            repeats about this much. If you change `part_bytes`, finished files are not read again.
        remove_missing: Whether `paths` may name files and folders that no longer exist, and empty folders of which an
            earlier run indexed files; chunks indexed from them are then removed.
        follow_symlinks: Whether to read files outside of `paths` through symbolic links. False: such a link is skipped,
            and chunks that an earlier run indexed through it are removed.
        max_file_bytes: Largest size of a file in bytes, at least 1; a larger file is skipped without being read. In a
            JSONL file the limit applies to each line, in a PDF also to the number of characters of its text.
        pdf_seconds: Longest time for a PDF, in seconds for each begun megabyte, above 0 and at most a day. A PDF that
            takes longer is skipped.
        show_progress: Whether to show a progress bar over the bytes of the files.
        on_file: Called with (files done, files in all) after each file.
        stop: Called between files and between batches of parts; True ends the run after the batch in progress.

    Raises:
        InputError: If an entry of `paths` is not a string or a path, or is empty.
        FileUnreadable: Unless `remove_missing`, if a path does not exist, or is an empty folder of which an earlier run
            indexed files. Problems with files inside a folder are in the report.
        ConfigError: If `store` is no store, `relative_to` is no path, the checkpoint belongs to another store,
            `embedder` is not the store's, or a limit is out of range.
        ReindexRequired: If a checkpoint that the caller named was made with another embedder.
        StoreLocked: If another run uses the checkpoint.
        EmbedderError: If the embedder fails on everything, in the whole run or several times in a row.
        StoreError: If the store or the checkpoint fails.
    """
    is_store = hasattr(store, "embedder") and not isinstance(store, type)  # else `check_store` says what it is
    if checkpoint is None and is_store and store_directory(store) is None and not isinstance(store, HybridStore):
        raise ConfigError(f"{type(store).__name__} has no directory of its own; name a file: checkpoint='corpus.umi'")
    check_store(store, "LangChain's UmiVectorStore holds its store as .store, LlamaIndex's as .client", USED_METHODS)
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    own: Embedder | None = getattr(store, "embedder", None)
    model = own if embedder is None and own is not None else as_embedder(embedder)
    roots, base = checked_roots(paths, remove_missing=remove_missing), base_of_sources(store, relative_to)
    with IngestSession(
        store,
        _own_checkpoint(store) if checkpoint is None else IngestCheckpoint(Path(checkpoint)),
        model.name,
        roots,
        base,
        part_bytes=part_bytes,
        show_progress=show_progress,
        own_checkpoint=checkpoint is None,
        remove_missing=remove_missing,
        follow_symlinks=follow_symlinks,
        limits=limits,
        on_file=on_file,
    ) as session:
        for batches in session.rounds(stop):
            for parts in batches:
                session.take(ingest_parts(store, model, parts, session.pdf))
        return session.report


def base_of_sources(store: Any, relative_to: str | os.PathLike[str] | None) -> Path | None:
    """The folder to which sources are relative, see `index`; None: sources are absolute paths.

    Raises:
        ConfigError: If `relative_to` is no path.
    """
    if relative_to is not None:
        try:
            return Path(relative_to).resolve()
        except (TypeError, ValueError) as error:
            raise ConfigError(f"relative_to is {relative_to!r:.80}; expected the name of a folder") from error
    directory = store_directory(store)
    return None if directory is None else directory.resolve().parent


def _own_checkpoint(store: Any) -> IngestCheckpoint:
    """The checkpoint in the store's directory, or in memory for a store in memory. A damaged one is made anew."""
    directory = store_directory(store)
    if directory is None:
        return IngestCheckpoint(None)
    try:
        return IngestCheckpoint(directory / CHECKPOINT)
    except LedgerDamaged:  # without its records, all files are read again; unchanged chunks are not embedded again
        for suffix in ("", "-wal", "-shm"):
            Path(directory, CHECKPOINT + suffix).unlink(missing_ok=True)
        return IngestCheckpoint(directory / CHECKPOINT)
