"""Pools typed by hand."""

from __future__ import annotations

import numpy as np

from umi_common.pool import NOT_RANKED, Pool


def pool_of(*, lexical, dense, bound, mode="hybrid") -> Pool:
    """A pool with the given scores, ranks that follow them, and nothing else in it."""
    words, meaning = np.array(lexical, dtype=np.float64), np.array(dense, dtype=np.float64)
    variations, n = words.shape
    empty = np.zeros((variations, n))
    return Pool(
        ids=tuple(f"c{row:03d}" for row in range(n)),
        lexical=words,
        dense=meaning,
        lexical_rank=ranks_of(words),
        dense_rank=ranks_of(meaning),
        lexical_bound=np.array(bound, dtype=np.float64),
        coverage=np.ones(variations),
        source_lexical=empty,
        source_bound=np.zeros(variations),
        other_language=np.zeros((variations, n), dtype=np.bool_),
        source=np.full(n, -1),
        position=np.full(n, -1),
        length=np.full(n, 10),
        age_hours=np.full(n, np.nan),
        vectors=np.zeros((n, 2), dtype=np.float32),
        query_vectors=np.zeros((variations, 2), dtype=np.float32),
        mode=mode,
    )


def ranks_of(scores):
    """From 1 by falling score; scores of 0 are not ranked."""
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable") + 1
    return np.where(scores > 0, ranks, NOT_RANKED)
