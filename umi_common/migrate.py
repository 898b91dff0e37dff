"""Copy a store with its vectors into another store, and compare the two stores. Nothing is embedded.

    with HybridStore.open("./memory", read_only=True) as source:
        target = QdrantStore(client, "memory", source.embedder, config=source.config)
        migrate(source, target, checkpoint=Path("memory.migration.json"))

Chunks are copied by rising id, one page at a time; copying a page again changes nothing. If the process is killed, the
next run continues after the last page that the target acknowledged. At the end, all chunks and vectors of the two
stores are compared, and their results for sampled queries.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from umi_common.errors import ConfigError, CopyDiffers, LedgerDamaged, ReindexRequired, StoreError, writing
from umi_common.pool import Floats
from umi_common.progress import progress_bar
from umi_common.protocols import Embedder, Probe, Store, pages
from umi_common.stores.batch_checks import checked_count
from umi_common.types import Chunk

__all__ = ["Migrated", "content_hash", "migrate"]

PAGE = 500
"""Default number of chunks in a page: with their vectors a few megabytes."""
SAMPLES = 20
"""Default number of chunks whose text and vector are sent as queries to both stores."""
SAMPLE_CHARACTERS = 300
"""Number of characters at the beginning of a sampled chunk's text that are sent as a query."""
SAMPLE_DEPTH = 10
"""Number of best scores of an arm that are compared for each sampled query."""
DIFFERING_MAX = 0.1
"""Largest share of sampled queries whose best cosine may differ: an approximate index may miss the best chunk."""
SAME_VECTOR = 1e-6
"""Coordinates of two vectors count as equal up to this difference: engines may scale vectors to length 1 again."""
SAME_COSINE = 1e-3
"""Cosines count as equal up to this difference."""
SAME_SCORE = 0.05
"""Scores count as equal up to this relative difference: engines compute BM25's statistics by shard or from a sample."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""`now` of the sampled queries: a time before most chunks' times, so that scores do not decay by age."""
IDS_NAMED = 3
"""Largest number of chunk ids that an error lists."""
log = logging.getLogger("umi")


class Movable(Store, Protocol):
    """A store with an attribute `embedder`: the embedder that made its vectors."""

    @property
    def embedder(self) -> Embedder: ...


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    chunks: int
    """Number of chunks in each store; all were compared."""
    copied: int
    """Number of chunks that this run copied; an interrupted run with the same checkpoint copied the others."""
    samples: int
    """Number of sampled queries that were searched in both stores."""
    agreement: float
    """Share, 0..1, of the ten best scores of an arm that are equal in both stores within 5 %. A mean over both arms and
    all samples; 1 without samples."""


def migrate(
    source: Movable,
    target: Movable,
    *,
    checkpoint: str | Path | None = None,
    page: int = PAGE,
    samples: int = SAMPLES,
    show_progress: bool = False,
) -> Migrated:
    """Copy all chunks and vectors of `source` into `target`, and compare the two stores.

    Two vectors count as equal if no coordinate differs by more than 1e-6. Do not write to either store during the call.
    After a migration, a further call copies all chunks again, with those that were added or changed in the source
    since. Before that call, delete in the target the chunks that were deleted in the source.

    Args:
        target: An empty store, or one that an earlier migration from `source` filled.
        checkpoint: Path of a file for the progress, which is removed at the end; its folder is created if it does not
            exist. None: after an interruption, a repeated call starts from the first chunk.
        page: Number of chunks copied or compared at a time, >= 1.
        samples: Number of queries by which the two stores are compared at the end; 0: none, and the agreement is 1.
        show_progress: Whether to show two progress bars, for copying and for comparing.

    Raises:
        ConfigError: If an argument is no open store.
        InputError: If the checkpoint cannot be written.
        InvalidLimit: If `page` is not a whole number above 0, or `samples` one of at least 0.
        ReindexRequired: If the stores have different embedders or dimensions.
        StoreError: If the target holds a chunk that the source does not have; nothing is written then.
        CopyDiffers: If the target differs from the source after copying; the message names chunks.
        LedgerDamaged: If a store cannot read some of its chunks; call its verify() and repair(), then migrate again.
    """
    page, samples = checked_count("page", page, least=1), checked_count("samples", samples, least=0)
    _refuse_other_vectors(source, target)
    mark = MigrationCheckpoint(checkpoint, f"{source!r} -> {target!r}", target)
    if mark.after is None:
        _refuse_other_chunks(source, target, page)
    try:
        copied = _copy(source, target, mark, page, show_progress=show_progress)
        sampled = compare_stores(source, target, page, samples, show_progress=show_progress)
        alike = agreement(source, target, sampled)
    except (CopyDiffers, LedgerDamaged):
        mark.forget()  # a page that counts as copied may lack chunks, so the next run must copy all pages again
        raise
    mark.forget()
    return Migrated(len(target), copied, len(sampled), alike)


class MigrationCheckpoint:
    """The progress of a migration, in a file.

    `after` is the id of the last chunk that was copied, and `chunks` the number of chunks copied so far. They are None
    and 0 if there is no file, or if the target lacks the chunk `after` or holds fewer than `chunks` chunks.

    Args:
        path: Path of the file; None: the progress is not saved. Nor is it if the file is no checkpoint: the file then
            stays as it is, and the logger `umi` warns.
        of: Text that names source and target; a checkpoint with another text is replaced.

    Raises:
        InputError: From any method, if the file cannot be written.
    """

    def __init__(self, path: str | Path | None, of: str, target: Store) -> None:
        self._path = None if path is None else Path(path)
        self._of = of
        self.after: str | None = None
        self.chunks = 0
        if self._path is None:
            return
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = self._path.read_bytes() if self._path.exists() else b""
        if not text:
            return
        try:
            saved: Any = json.loads(text)
            named, after, chunks = str(saved["of"]), str(saved["after"]), int(saved["chunks"])
        except (ValueError, OverflowError, KeyError, TypeError, RecursionError):
            log.warning(
                "%s is no checkpoint of a migration; it stays as it is, and the progress is not saved. Name another "
                "file, or remove this one",
                self._path,
            )
            self._path = None
            return
        if named == of and len(target) >= chunks and target.get([after]) != [None]:
            self.after, self.chunks = after, chunks

    def advance(self, page: Sequence[Chunk]) -> None:
        """Save the progress after the target acknowledged the chunks of `page`."""
        self.after, self.chunks = page[-1].id, self.chunks + len(page)
        if self._path is not None:
            unfinished = self._path.with_name(f"{self._path.name}.new")
            text = json.dumps({"of": self._of, "after": self.after, "chunks": self.chunks})
            with writing(self._path):
                unfinished.write_text(text, encoding="utf-8")
                unfinished.replace(self._path)

    def forget(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _refuse_other_vectors(source: Movable, target: Movable) -> None:
    for store in (source, target):
        if not hasattr(store, "embedder"):
            raise ConfigError(f"{store!r:.80} is no open store; give HybridStore.open(path) or QdrantStore(...)")
    name, other_name = source.embedder.name, target.embedder.name
    dim, other_dim = source.vectors([]).shape[1], target.vectors([]).shape[1]  # 0: the store holds no vector yet
    if name != other_name or (dim and other_dim and dim != other_dim):
        raise ReindexRequired(
            f"{source!r} was made with embedder {name!r} ({dim} dimensions) and {target!r} with {other_name!r} "
            f"({other_dim}), whose vectors do not compare; give an empty target that was opened with the source's "
            "embedder, or add the texts to this one so that they are embedded again"
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
    """Copy the chunks that earlier runs have not copied; returns their number."""
    before, total = mark.chunks, len(source)
    with progress_bar(total=total, initial=before, unit="chunk", desc="copying", disable=not show_progress) as bar:
        for chunks in pages(source, after=mark.after, size=page):
            target.add(chunks, vectors=source.vectors([chunk.id for chunk in chunks]))
            mark.advance(chunks)
            bar.update(len(chunks))
    return mark.chunks - before


def content_hash(chunk: Chunk) -> bytes:
    """BLAKE2b hash, 16 bytes, of a chunk's fields.

    Equal chunks have equal hashes, whatever the order of their metadata. 1, 1.0 and True count as different values.
    """
    when = None if chunk.event_time is None else chunk.event_time.isoformat()
    content = [chunk.id, chunk.text, dict(chunk.metadata), chunk.source, chunk.position, when]
    content += [] if chunk.search_text is None else [chunk.search_text]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()


def compare_stores(source: Store, target: Store, page: int, samples: int, *, show_progress: bool) -> list[Chunk]:
    """Compare every chunk and vector of both stores; returns sampled chunks of the source.

    Args:
        page: Number of chunks compared at a time.
        samples: Number of chunks to return, spread evenly over the source; all chunks if the source has fewer.

    Raises:
        CopyDiffers: If a chunk or the number of chunks differs.
    """
    total, sampled, wrong, seen = len(source), [], [], 0
    with progress_bar(total=total, unit="chunk", desc="comparing", disable=not show_progress) as bar:
        for chunks in pages(source, size=page):
            ids = [chunk.id for chunk in chunks]
            same = np.abs(source.vectors(ids) - target.vectors(ids)).max(axis=1, initial=0.0) <= SAME_VECTOR
            for chunk, copy, same_vector in zip(chunks, target.get(ids), same.tolist(), strict=True):
                if copy is None or not same_vector or content_hash(copy) != content_hash(chunk):
                    wrong.append(chunk.id)
            # at * samples / total rises to `samples`; a chunk is sampled whenever this passes a whole number.
            sampled += [chunk for at, chunk in enumerate(chunks, seen) if at * samples % max(total, 1) < samples]
            seen += len(chunks)
            bar.update(len(chunks))
    if wrong:
        raise CopyDiffers(
            f"{len(wrong)} of {seen} chunks are missing or different in {target!r}, first {wrong[:IDS_NAMED]}; migrate "
            "again while nobody writes to either store"
        )
    if len(source) != seen:
        raise CopyDiffers(
            f"{source!r} counts {len(source)} chunks, but {seen} were read; run verify() and repair() on it "
            "(umi verify, umi repair), then migrate again while nobody writes to it"
        )
    if len(target) != seen:
        raise CopyDiffers(
            f"{target!r} holds {len(target)} chunks and {source!r} {seen}; migrate again while nobody writes to either"
        )
    return sampled


def agreement(source: Store, target: Store, sampled: list[Chunk]) -> float:
    """Search both stores for each sampled chunk; returns `Migrated.agreement`, 0..1.

    The lexical arm searches for the beginning of the chunk's text, the dense arm for the chunk's vector.

    Raises:
        CopyDiffers: If the best cosine differs for more than DIFFERING_MAX of the samples.
    """
    shares, differing = [], 0
    for chunk in sampled:
        probe = Probe(chunk.indexed_text[:SAMPLE_CHARACTERS], source.vectors([chunk.id])[0])
        ours, theirs = (store.recall([probe], depth=SAMPLE_DEPTH, now=LONG_AGO) for store in (source, target))
        shares += [_same_best(ours.lexical[0], theirs.lexical[0]), _same_best(ours.dense[0], theirs.dense[0])]
        differing += abs(ours.dense.max(initial=0.0) - theirs.dense.max(initial=0.0)) > SAME_COSINE
    if differing > DIFFERING_MAX * len(sampled):
        raise CopyDiffers(
            f"{target!r} holds all chunks but its searches differ: {differing} of {len(sampled)} sampled queries have "
            "another best hit; see its status() and verify()"
        )
    return float(np.mean(shares)) if shares else 1.0


def _same_best(one: Floats, other: Floats) -> float:
    """Share of the SAMPLE_DEPTH best scores that are equal; missing scores count as 0.

    Ids are not compared, because engines order chunks with equal scores in different ways.
    """
    best = [np.sort(np.append(scores, np.zeros(SAMPLE_DEPTH)))[-SAMPLE_DEPTH:] for scores in (one, other)]
    return float(np.isclose(best[0], best[1], rtol=SAME_SCORE, atol=SAME_COSINE).mean())
