"""Compare a copied store with its source: every chunk and vector, and the results of sampled queries."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone

import numpy as np

from umi_common.errors import CopyDiffers
from umi_common.pool import Floats
from umi_common.progress import progress_bar
from umi_common.protocols import Probe, Store, pages
from umi_common.types import Chunk

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
        page: Number of chunks compared in one call.
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
            f"{source!r} holds {len(source)} chunks and gave {seen} when all were read; run verify() and repair() "
            "on it (umi verify, umi repair), then migrate again while nobody writes to it"
        )
    if len(target) != seen:
        raise CopyDiffers(
            f"{target!r} holds {len(target)} chunks and {source!r} {seen}; migrate again while nobody writes to either"
        )
    return sampled


def agreement(source: Store, target: Store, sampled: list[Chunk]) -> float:
    """Search both stores for each sampled chunk; returns `Migrated.agreement`, 0..1.

    The query is the beginning of the chunk's text for the lexical arm, and the chunk's vector for the dense arm.

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
