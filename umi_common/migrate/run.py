"""`migrate`: check both stores, copy, compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from umi_common.errors import CopyDiffers, LedgerDamaged, ReindexRequired, StoreError
from umi_common.migrate.checkpoint import MigrationCheckpoint
from umi_common.migrate.comparison import agreement, compare_stores
from umi_common.progress import progress_bar
from umi_common.protocols import Embedder, Store, pages

PAGE = 500
"""Chunks copied in one call: a few megabytes."""
SAMPLES = 20
"""Chunks whose text and vector are a query to both stores."""


class Movable(Store, Protocol):
    """A store that names the embedder of its vectors."""

    @property
    def embedder(self) -> Embedder: ...


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    chunks: int
    """Chunks in both stores, all compared."""
    copied: int
    """Chunks that this run copied; an earlier run copied the others."""
    samples: int
    """Sampled queries that were searched in both stores."""
    agreement: float
    """Share of the ten best scores of each arm that are equal in both stores within 5 %: the mean over the samples."""


def migrate(
    source: Movable,
    target: Movable,
    *,
    checkpoint: Path | None = None,
    page: int = PAGE,
    samples: int = SAMPLES,
    show_progress: bool = False,
) -> Migrated:
    """Copy all chunks and vectors of `source` into `target`, and compare the two; coordinates may differ by 1e-6.

    Do not write to either store meanwhile. A repeated call copies chunks that were added or changed since; chunks that
    were deleted in the source must be deleted in the target first.

    Args:
        target: Empty, or begun by a migration from the same source.
        checkpoint: A file for the progress, removed at the end; None: a repeated call starts from the first chunk.
        page: Chunks copied in one call, >= 1.
        samples: Number of queries by which the two stores are compared at the end.
        show_progress: Whether to show two progress bars, for copying and for comparing.

    Raises:
        ReindexRequired: If the stores have different embedders or dimensions.
        StoreError: If the target holds chunks that the source does not have; nothing is written then.
        CopyDiffers: If the target differs from the source after copying; names chunks.
        LedgerDamaged: If a store returns fewer chunks than it holds; verify() and repair() it, then repeat the call.
    """
    _refuse_other_vectors(source, target)
    mark = MigrationCheckpoint(checkpoint, f"{source!r} -> {target!r}")
    after, before = mark.read(target)
    if after is None:
        _refuse_other_chunks(source, target, page)
    try:
        copied = _copy(source, target, mark, (after, before), page, show_progress)
        sampled = compare_stores(source, target, page, samples, show_progress=show_progress)
        alike = agreement(source, target, sampled)
    except (CopyDiffers, LedgerDamaged):
        mark.forget()  # pages copied before may lack chunks: the next run copies all again
        raise
    mark.forget()
    return Migrated(len(target), copied, len(sampled), alike)


def _refuse_other_vectors(source: Movable, target: Movable) -> None:
    ours, theirs = ((store.embedder.name, store.vectors([]).shape[1]) for store in (source, target))
    if ours[0] != theirs[0] or (ours[1] and theirs[1] and ours[1] != theirs[1]):  # 0: it holds no vector yet
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


def _copy(
    source: Store,
    target: Store,
    mark: MigrationCheckpoint,
    begun: tuple[str | None, int],
    page: int,
    show_progress: bool,
) -> int:
    """Copies the chunks after the last copied id; returns how many."""
    after, before = begun
    copied = 0
    with progress_bar(
        total=len(source), initial=before, unit="chunk", desc="copying", disable=not show_progress
    ) as bar:
        for chunks in pages(source, after=after, size=page):
            target.add(chunks, vectors=source.vectors([chunk.id for chunk in chunks]))
            copied += len(chunks)
            mark.write(chunks[-1].id, before + copied)
            bar.update(len(chunks))
    return copied
