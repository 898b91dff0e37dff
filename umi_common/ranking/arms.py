"""Fuse what further arms found into what umi's own two made of a pool. Pure.

An arm's scores have any scale: they count by their share of its best (convex) or by their ranks (rrf). What an arm did
not find has 0 from it, so an arm can only lift.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from umi_common.config import FusionConfig
from umi_common.pool import FIRST_RANK, NOT_RANKED, Floats, Ints, Pool
from umi_common.ranking.fusion import mix, rrf
from umi_common.ranking.normalize import by_best
from umi_common.ranking.order import best_first


def fuse_arms(scores: Floats, pool: Pool, weights: Mapping[str, float], config: FusionConfig) -> Floats:
    """Add the pool's extra arms to its fused scores.

    convex: score(row) = (o * own(row) + sum_a w[a] * arm_a(row)) / (o + sum_a w[a]), each divided by its best; o is the
    sum of the weights of the own arms that answered. rrf: score(row) = own(row) + sum_a w[a] / (k + rank_a(row)).

    Args:
        scores: (n,) from the own arms, as `fuse_pool` gives them.
        pool: n candidates; `extra` is read.
        weights: >= 0 for each of its names.
        config: Method, k and the own arms' weights.

    Returns:
        (n,) scores >= 0 (convex: 0..1, the best 1); the given ones where there is no extra arm.
    """
    if not pool.extra:
        return scores
    each = [weights[name] for name in pool.extra]
    if config.method == "rrf":
        return scores + rrf(np.stack([ranks_of(arm) for arm in pool.extra.values()]), each, k=config.rrf_k)
    own = config.lexical_weight * (pool.mode != "vector") + config.dense_weight * (pool.mode != "text")
    return by_best(mix([by_best(arm) for arm in (scores, *pool.extra.values())], [own, *each]))


def falling_ranks(scores: Floats) -> Ints:
    """(n,) from FIRST_RANK by falling score, ties to the smaller row."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[best_first(scores)] = np.arange(len(scores)) + FIRST_RANK
    return ranks


def ranks_at(scores: Floats, rows: Ints) -> list[int]:
    """(m,) the `falling_ranks` of some rows, which are among the best: only what is no worse is sorted."""
    own = scores[rows].tolist()
    best = sorted(scores[scores >= min(own, default=np.inf)].tolist(), reverse=True)
    rank_of = {score: rank for rank, score in enumerate(best, FIRST_RANK)}
    if len(rank_of) < len(best):
        ranks: list[int] = falling_ranks(scores)[rows].tolist()
        return ranks
    return [rank_of[score] for score in own]


def ranks_of(scores: Floats) -> Ints:
    """The same for an arm: NOT_RANKED where the score is 0."""
    return np.where(scores > 0, falling_ranks(scores), NOT_RANKED)
