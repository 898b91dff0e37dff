"""`migrate`: checks both stores, copies and records the progress in a file, compares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from umi_common.errors import ConfigError, CopyDiffers, LedgerDamaged, ReindexRequired, StoreError
from umi_common.migrate.comparison import agreement, compare_stores
from umi_common.progress import progress_bar
from umi_common.protocols import Embedder, Store, pages
from umi_common.types import Chunk

PAGE = 500
"""Default number of chunks copied in one call: with their vectors a few megabytes."""
SAMPLES = 20
"""Default number of chunks whose text and vector are sent as queries to both stores."""


class Movable(Store, Protocol):
    """A store with the embedder of its vectors as attribute."""

    @property
    def embedder(self) -> Embedder: ...


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    chunks: int
    """Number of chunks in each store; all were compared."""
    copied: int
    """Number of chunks that this run copied; earlier runs copied the others."""
    samples: int
    """Number of sampled queries that were searched in both stores."""
    agreement: float
    """Share, 0..1, of the ten best scores of an arm that are equal in both stores within 5 %: mean over arms and
    samples; 1 without samples."""


def migrate(
    source: Movable,
    target: Movable,
    *,
    checkpoint: str | Path | None = None,
    page: int = PAGE,
    samples: int = SAMPLES,
    show_progress: bool = False,
) -> Migrated:
    """Copy all chunks and vectors of `source` into `target`, and compare the two.

    Two vectors count as equal if no coordinate differs by more than 1e-6. Do not write to either store during the call.
    A later call copies chunks that were added or changed meanwhile; chunks that were deleted in the source must be
    deleted in the target before.

    Args:
        target: An empty store, or one that an earlier migration from `source` filled.
        checkpoint: Path of a file for the progress, removed at the end; None: after an interruption, a repeated call
            starts from the first chunk.
        page: Number of chunks copied in one call, >= 1.
        samples: Number of queries by which the two stores are compared at the end; 0: none, and the agreement is 1.
        show_progress: Whether to show two progress bars, for copying and for comparing.

    Raises:
        ConfigError: If an argument is no open store.
        InvalidLimit: If `page` is not a whole number above 0.
        ReindexRequired: If the stores have different embedders or dimensions.
        StoreError: If the target holds a chunk that the source does not have; nothing is written then.
        CopyDiffers: If the target differs from the source after copying; the message names chunks.
        LedgerDamaged: If a store returns fewer chunks than it holds; verify() and repair() it, then repeat the call.
    """
    _refuse_other_vectors(source, target)
    mark = MigrationCheckpoint(checkpoint, f"{source!r} -> {target!r}", target)
    if mark.after is None:
        _refuse_other_chunks(source, target, page)
    try:
        copied = _copy(source, target, mark, page, show_progress=show_progress)
        sampled = compare_stores(source, target, page, samples, show_progress=show_progress)
        alike = agreement(source, target, sampled)
    except (CopyDiffers, LedgerDamaged):
        mark.forget()  # pages that were copied may lack chunks: the next run must copy all pages again
        raise
    mark.forget()
    return Migrated(len(target), copied, len(sampled), alike)


class MigrationCheckpoint:
    """The progress of a migration, in a file.

    `after` is the id of the last chunk that was copied, and `chunks` the number of chunks copied so far. They are None
    and 0 if there is no file, or if the target does not fit the file: it lacks the chunk `after`, or holds fewer than
    `chunks` chunks.

    Args:
        path: Path of the file; None: the progress is not saved.
        of: Text that names source and target; a file with another text is ignored.
    """

    def __init__(self, path: str | Path | None, of: str, target: Store) -> None:
        self._path = None if path is None else Path(path)
        self._of = of
        self.after: str | None = None
        self.chunks = 0
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            saved: Any = {} if self._path is None else json.loads(self._path.read_text(encoding="utf-8"))
            named, after, chunks = str(saved["of"]), str(saved["after"]), int(saved["chunks"])
            if named == of and len(target) >= chunks and target.get([after]) != [None]:
                self.after, self.chunks = after, chunks

    def advance(self, page: Sequence[Chunk]) -> None:
        """Save the progress after the target acknowledged the chunks of `page`."""
        self.after, self.chunks = page[-1].id, self.chunks + len(page)
        if self._path is not None:
            unfinished = self._path.with_name(f"{self._path.name}.new")
            text = json.dumps({"of": self._of, "after": self.after, "chunks": self.chunks})
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self._path)

    def forget(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _refuse_other_vectors(source: Movable, target: Movable) -> None:
    for store in (source, target):
        if not hasattr(store, "embedder"):
            raise ConfigError(f"{store!r:.80} is no open store; give HybridStore.open(path) or QdrantStore(...)")
    ours, theirs = ((store.embedder.name, store.vectors([]).shape[1]) for store in (source, target))
    # A store that holds no vector yet has 0 dimensions.
    if ours[0] != theirs[0] or (ours[1] and theirs[1] and ours[1] != theirs[1]):
        raise ReindexRequired(
            f"{source!r} was made with embedder {ours[0]!r} ({ours[1]} dimensions) and {target!r} with {theirs[0]!r} "
            f"({theirs[1]}), whose vectors do not compare; give an empty target, or add the texts to this one so that "
            "they are embedded again"
        )


def _refuse_other_chunks(source: Store, target: Store, page: int) -> None:
    for chunks in pages(target, size=page):
        there = source.get([chunk.id for chunk in chunks])
        for chunk, known in zip(chunks, there, strict=True):
            if known is None:
                raise StoreError(
                    f"{target!r} holds chunk {chunk.id!r:.80}, which {source!r} does not have; give an empty target, "
                    "or delete it there"
                )


def _copy(source: Store, target: Store, mark: MigrationCheckpoint, page: int, *, show_progress: bool) -> int:
    """Copy the chunks that earlier runs have not copied; returns the number of chunks copied."""
    before, total = mark.chunks, len(source)
    with progress_bar(total=total, initial=before, unit="chunk", desc="copying", disable=not show_progress) as bar:
        for chunks in pages(source, after=mark.after, size=page):
            target.add(chunks, vectors=source.vectors([chunk.id for chunk in chunks]))
            mark.advance(chunks)
            bar.update(len(chunks))
    return mark.chunks - before
