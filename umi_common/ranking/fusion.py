"""Fuse ranked lists or scores into one: pure functions over ids and arrays, no I/O, no framework types.

Ranks start at 1. Ties fall to the smaller id (the smaller row or ordinal), so equal inputs give equal outputs.
`trust` holds the default fusion; these are the classic ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umi_common.config import FusionConfig
from umi_common.errors import ConfigError
from umi_common.pool import FIRST_RANK, NOT_RANKED, Floats, Ints, Pool
from umi_common.ranking.normalize import by_best, by_bound, logistic, min_max, none, z_score
from umi_common.ranking.trust import (
    Background,
    Trust,
    background_of,
    dense_evidence,
    fuse_evidence,
    lexical_evidence,
)

RRF_K = 60.0
"""Rank damping of the paper."""
NEARLY_NOTHING = 1e-200
"""Stands for the weight 0, so that a list of no weight still names its ids."""

Ranking = Sequence[str]
"""Ids, best first."""
Fused = list[tuple[str, float]]
"""(id, score), score falling, then id rising."""


def weighted_rrf(rankings: Sequence[Ranking], weights: Sequence[float], *, k: float = RRF_K) -> Fused:
    """Fuse best-first id lists by weighted reciprocal rank.

    score(d) = sum_i weights[i] / (k + rank_i(d)), rank_i from 1; a list without d adds 0.

    Args:
        rankings: L lists of ids, best first, no id twice in one list (a repeated id counts at its best rank).
        weights: L numbers >= 0; not normalised.
        k: Rank damping, > 0. With k = 59 this equals a rank base of 0 with k = 60.

    Returns:
        (id, score) pairs, score falling, then id rising. Scores do not compare across queries.

    Raises:
        ConfigError: If the lengths differ, a weight is negative or k <= 0.

    Source: Cormack, Clarke, Buettcher, SIGIR 2009; the weights are an extension.
    """
    _check(len(rankings), weights, k)
    parts: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, id in enumerate(dict.fromkeys(ranking), start=FIRST_RANK):
            parts.setdefault(id, []).append(weight / (k + rank))
    scores = [(id, math.fsum(part)) for id, part in parts.items()]  # exact: ranks 1, 2, 3 tie with 3, 1, 2
    return sorted(scores, key=lambda item: (-item[1], item[0]))


def merge_rrf(*lists: Ranking, k: float = RRF_K) -> list[str]:
    """Merge best-first id lists by reciprocal rank, all alike: score(d) = sum 1 / (k + rank), rank from 1.

    Returns:
        Every id once, best first; ties to the smaller id.

    Raises:
        ConfigError: If k <= 0.

    Source: the ADRs' `merge_rrf`.
    """
    return [id for id, _ in weighted_rrf(lists, [1.0] * len(lists), k=k)]


def rrf_ordinals(
    rankings: Sequence[Ints], weights: Sequence[float], *, size: int, k: float = RRF_K
) -> tuple[Ints, Floats]:
    """`weighted_rrf` for integer ordinals 0..size-1: the same formula and order, in microseconds.

    Args:
        rankings: L arrays of ordinals, best first, no ordinal twice in one array.
        weights: L numbers >= 0; not normalised.
        size: One more than the largest ordinal possible.
        k: Rank damping, > 0.

    Returns:
        Ordinals, score falling, then ordinal rising, and their scores.

    Raises:
        ConfigError: If the lengths differ, a weight is negative or k <= 0.
    """
    _check(len(rankings), weights, k)
    scores = np.zeros(size)
    longest = max((len(ranking) for ranking in rankings), default=0)
    reciprocals = 1.0 / (k + np.arange(FIRST_RANK, longest + FIRST_RANK))
    for ranking, weight in zip(rankings, weights, strict=True):
        scores[ranking] += max(weight, NEARLY_NOTHING) * reciprocals[: len(ranking)]
    ordinals = np.flatnonzero(scores > 0)  # bools are searched faster
    fused = scores[ordinals]
    order = _falling(fused)
    return ordinals[order], fused[order]


def _falling(scores: Floats) -> Ints:
    """Stable argsort of scores > 0, largest first, as one sort of integers.

    The bits of a positive float rise with it; the lowest ones give way to the index, so what differs by less than about
    1e-12 of itself is a tie, as rounding in sums of equal parts demands.
    """
    index_bits = (1 << max(len(scores) - 1, 1).bit_length()) - 1
    keys = (~scores.view(np.int64) & ~index_bits) | np.arange(len(scores))
    keys.sort()
    return keys & index_bits


def rrf(ranks: Ints, weights: npt.ArrayLike, *, k: float = RRF_K) -> Floats:
    """Weighted reciprocal rank over a pool: score(row) = sum_l weights[l] / (k + ranks[l, row]).

    Args:
        ranks: (L, n) from 1; NOT_RANKED adds 0. One row per arm and variation.
        weights: (L,) >= 0.
        k: Rank damping, > 0.

    Returns:
        (n,) scores >= 0.

    Raises:
        ConfigError: If the lengths differ, a weight is negative or k <= 0.
    """
    each = np.asarray(weights, dtype=np.float64)
    _check(len(ranks), each.tolist(), k)
    return np.asarray(each @ np.where(ranks == NOT_RANKED, 0.0, 1.0 / (k + ranks)), dtype=np.float64)


def convex(arms: Sequence[Floats], weights: Sequence[float], variation_weights: npt.ArrayLike) -> Floats:
    """Weighted mean of normalised scores over arms and variations.

    score(row) = sum_v u[v] * sum_a w[a] * arms[a][v, row], with u and w divided by their sums.

    Args:
        arms: A arrays (V, n), each brought to a common scale (`normalize`).
        weights: A numbers >= 0, not all 0.
        variation_weights: (V,) >= 0, not all 0; the original query is row 0.

    Returns:
        (n,) scores; 0..1 if the arms are.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    return mix([combine(arm, variation_weights) for arm in arms], weights)


def combine(scores: Floats, variation_weights: npt.ArrayLike) -> Floats:
    """(V, n) to (n,): the weighted mean over the query variations.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    return np.asarray(_shares(variation_weights, len(scores)) @ scores, dtype=np.float64)


def mix(arms: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """(n,) per arm to (n,): the weighted mean over the arms.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    shares = _shares(weights, len(arms))
    return np.asarray(sum(share * arm for share, arm in zip(shares, arms, strict=True)), dtype=np.float64)


def _shares(weights: npt.ArrayLike, count: int) -> Floats:
    given = np.asarray(weights, dtype=np.float64)
    _check(count, given.tolist(), RRF_K)
    total = float(given.sum())
    if total <= 0:
        raise ConfigError("all fusion weights are 0; at least one arm and one query variation must count")
    return np.asarray(given / total, dtype=np.float64)


def _check(lists: int, weights: Sequence[float], k: float) -> None:
    if lists != len(weights):
        raise ConfigError(f"{lists} lists but {len(weights)} weights; give one weight per list")
    if any(not weight >= 0 for weight in weights):
        raise ConfigError(f"fusion weights {list(weights)!r}: expected numbers >= 0")
    if not k > 0:
        raise ConfigError(f"rrf k {k!r}: expected a number > 0")


def fuse_pool(
    pool: Pool, config: FusionConfig, background: Background | None = None, *, unit: float = 1.0
) -> tuple[Floats, Trust | None]:
    """Fuse a pool as the settings say.

    `adaptive` adds up evidence (`trust`), whatever the normaliser; without it, `convex` of normalised scores. An arm
    that did not answer takes no part, so a single arm's scores are scaled to 0..1.

    Args:
        pool: n candidates, V query variations.
        config: Method, normaliser and weights.
        background: The cosines' background; None: estimated from the pool, which is poorer.
        unit: The most that one term adds per unit of its idf: 1 for Lucene's BM25, k1 + 1 for the other variants.

    Returns:
        (n,) scores >= 0 (convex: 0..1), and what each arm had to say where evidence was added up.
    """
    uses = (pool.mode != "vector", pool.mode != "text")
    variations = np.array([1.0, *[config.variation_weight] * (pool.variations - 1)])
    arms = (config.lexical_weight * uses[0], config.dense_weight * uses[1])
    if config.method == "rrf":
        weights = np.concatenate([arm * variations for arm in arms])
        return rrf(np.concatenate([pool.lexical_rank, pool.dense_rank]), weights, k=config.rrf_k), None
    if config.adaptive:
        lexical = dense = np.zeros_like(pool.lexical)
        if uses[0]:
            lexical = lexical_evidence(pool.lexical / unit, pool.lexical_bound / unit)
        if uses[1]:
            dense = dense_evidence(pool.dense, background or background_of(pool.dense))
        share = float(_shares(arms, 2)[0])
        return fuse_evidence(lexical, dense, lexical_share=share, variation_weights=variations)
    words = _normalized(pool.lexical, config.normalizer, pool.lexical_bound)
    fused = convex([words, _normalized(pool.dense, config.normalizer)], arms, variations)
    return fused if config.normalizer in ("zscore", "none") else by_best(fused), None


def _normalized(scores: Floats, normalizer: str, bound: Floats | None = None) -> Floats:
    if normalizer == "bound":
        return by_bound(scores, bound) if bound is not None else np.clip(scores, 0.0, 1.0)
    return {"minmax": min_max, "zscore": z_score, "logistic": logistic, "none": none}[normalizer](scores)
