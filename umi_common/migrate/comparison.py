"""Reading a copy back: every chunk and vector against the source's, and what both stores find for sampled queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timezone

import numpy as np

from umi_common.errors import CopyDiffers
from umi_common.pool import Floats
from umi_common.progress import progress_bar
from umi_common.protocols import Probe, Store
from umi_common.types import Chunk

SAMPLE_CHARACTERS = 300
"""What is searched for of a text."""
SAMPLE_DEPTH = 10
OTHERS_MAX = 0.1
"""Largest share of samples with another best cosine; an approximate index may miss one now and then."""
SAME_VECTOR = 1e-6
"""How far a stored coordinate may lie from the one that was sent: engines may scale to length 1 again."""
SAME_COSINE = 1e-3
SAME_SCORE = 0.05
"""Relative; engines count for BM25 each in its own way: by shard, from a sample, without texts that hold no word."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""The present of the sampled queries: in no store's future, so nothing decays."""
NAMED = 3
"""Chunks that an error names."""


def content_hash(chunk: Chunk) -> bytes:
    """BLAKE2b of all that a chunk says, 16 bytes: equal for equal chunks, whatever the order of their metadata.

    1, 1.0 and True differ.
    """
    when = None if chunk.event_time is None else chunk.event_time.isoformat()
    said = [chunk.id, chunk.text, dict(chunk.metadata), chunk.source, chunk.position, when]
    said += [] if chunk.search_text is None else [chunk.search_text]
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).digest()


def pages(store: Store, page: int, after: str | None = None) -> Iterator[list[Chunk]]:
    """All chunks of a store beyond an id, by rising id, in lists of at most `page`."""
    while chunks := store.scan(after=after, limit=page):
        yield chunks
        if len(chunks) < page:
            return
        after = chunks[-1].id


def compare_stores(source: Store, target: Store, page: int, samples: int, *, show_progress: bool) -> list[Chunk]:
    """Read both; chunks spread evenly over the source come back, to be searched for."""
    total, sampled, wrong, seen = len(source), [], [], 0
    every = max(total // max(samples, 1), 1)
    with progress_bar(total=total, unit="chunk", desc="comparing", disable=not show_progress) as bar:
        for chunks in pages(source, page):
            ids = [chunk.id for chunk in chunks]
            same = np.abs(source.vectors(ids) - target.vectors(ids)).max(axis=1, initial=0.0) <= SAME_VECTOR
            for chunk, copy, alike in zip(chunks, target.get(ids), same.tolist(), strict=True):
                if copy is None or not alike or content_hash(copy) != content_hash(chunk):
                    wrong.append(chunk.id)
            sampled += [chunk for at, chunk in enumerate(chunks, seen) if at % every == 0]
            seen += len(chunks)
            bar.update(len(chunks))
    if wrong:
        raise CopyDiffers(
            f"{len(wrong)} of {seen} chunks are missing or other in {target!r}, first {wrong[:NAMED]}; run it again "
            "while nobody writes to either store"
        )
    if len(source) != seen:
        raise CopyDiffers(
            f"{source!r} holds {len(source)} chunks and gave {seen} when all were read; run verify() and repair() "
            "on it (umi verify, umi repair), then this again while nobody writes to it"
        )
    if len(target) != seen:
        raise CopyDiffers(
            f"{target!r} holds {len(target)} chunks and {source!r} {seen}; run it again while nobody writes to either"
        )
    return sampled[:samples]


def agreement(source: Store, target: Store, sampled: list[Chunk]) -> float:
    """Search both for a part of each sample by its words and its own vector; see `Migrated.agreement`.

    Raises:
        CopyDiffers: If too many have another best cosine.
    """
    shares, other = [], 0
    for chunk in sampled:
        probe = Probe(chunk.indexed_text[:SAMPLE_CHARACTERS], source.vectors([chunk.id])[0])
        ours, theirs = (store.recall([probe], depth=SAMPLE_DEPTH, now=LONG_AGO) for store in (source, target))
        shares += [_same_best(ours.lexical[0], theirs.lexical[0]), _same_best(ours.dense[0], theirs.dense[0])]
        other += abs(ours.dense.max(initial=0.0) - theirs.dense.max(initial=0.0)) > SAME_COSINE
    if other > OTHERS_MAX * len(sampled):
        raise CopyDiffers(
            f"{target!r} holds all chunks but finds others: {other} of {len(sampled)} sampled queries have another "
            "best hit; see its status() and verify()"
        )
    return float(np.mean(shares)) if shares else 1.0


def _same_best(one: Floats, other: Floats) -> float:
    """Share of the best scores that are the same. Scores, not ids: among equals an engine may choose."""
    best = [np.sort(np.append(scores, np.zeros(SAMPLE_DEPTH)))[-SAMPLE_DEPTH:] for scores in (one, other)]
    return float(np.isclose(best[0], best[1], rtol=SAME_SCORE, atol=SAME_COSINE).mean())
