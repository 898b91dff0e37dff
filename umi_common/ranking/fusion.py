"""Fuse ranked lists or scores into one: pure functions over ids and arrays, no I/O, no framework types.

Ranks start at 1. Ties fall to the smaller id (the smaller row), so equal inputs give equal outputs.
`FUSIONS` holds the functions that fuse a pool, by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.config import FusionConfig
from umi_common.errors import ConfigError, InputError
from umi_common.pool import FIRST_RANK, NOT_RANKED, Floats, Ints, Pool
from umi_common.ranking.evidence import ArmEvidence, by_best, by_bound, fuse_evidence, logistic, min_max, none, z_score
from umi_common.types import SearchResult

RRF_K = FusionConfig().rrf_k
"""Rank damping, 60 as in the paper that `weighted_rrf` names."""

RankedIds = Sequence[str]
"""Ids, best first."""
FusedIds = list[tuple[str, float]]
"""(id, score), score falling, then id rising."""


def weighted_rrf(rankings: Sequence[RankedIds], weights: Sequence[float], *, k: float = RRF_K) -> FusedIds:
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
    scores = [(id, math.fsum(part)) for id, part in parts.items()]  # fsum: the order of lists changes no sum
    return sorted(scores, key=lambda item: (-item[1], item[0]))


def merge_rrf(*lists: Iterable[Any], k: float = RRF_K) -> list[Any]:
    """Merge best-first lists by reciprocal rank, each with weight 1: score(d) = sum 1 / (k + rank), rank from 1.

    Args:
        lists: Each of ids, hits, chunks, documents or nodes; or one list of such lists.
        k: Rank damping, > 0.

    Returns:
        One item for each id, best first, ties to the smaller id. If several lists hold an id, the item is taken from
        the first of them.

    Raises:
        ConfigError: If k <= 0.
        InputError: If one of the lists is a string or None, or an item is neither an id nor an object with one.
    """
    for each in lists:
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise InputError(f"a list is {each!r:.80}; expected a list of ids, hits, chunks, documents or nodes")
    given = [list(each) for each in lists]
    if len(given) == 1 and all(isinstance(item, (list, tuple, SearchResult)) for item in given[0]):
        given = [list(each) for each in given[0]]
    ids = [[_id_of(item) for item in items] for items in given]
    items: dict[str, Any] = {}
    for id, item in zip(chain(*ids), chain(*given), strict=True):
        items.setdefault(id, item)
    return [items[id] for id, _ in weighted_rrf(ids, [1.0] * len(ids), k=k)]


def _id_of(item: Any) -> str:
    """The id of an item, or of the chunk or node that it wraps."""
    wrapped = getattr(item, "chunk", getattr(item, "node", item))
    id = item if isinstance(item, str) else getattr(wrapped, "node_id", getattr(wrapped, "id", None))
    if not isinstance(id, str):
        name = type(item).__name__
        raise InputError(f"an item is {name} without an id; expected ids, hits, chunks, documents or nodes with ids")
    return id


def rrf(ranks: Ints, weights: npt.ArrayLike, *, k: float = RRF_K) -> Floats:
    """Weighted reciprocal rank over a pool: score(row) = sum_l weights[l] / (k + ranks[l, row]).

    Args:
        ranks: (L, n) from 1, one row per arm and variation; NOT_RANKED adds 0.
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
        arms: A arrays (V, n), each brought to a common scale.
        weights: A numbers >= 0, not all 0.
        variation_weights: (V,) >= 0, not all 0; the original query is row 0.

    Returns:
        (n,) scores; 0..1 if the arms are.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    shares = [_shares(variation_weights, len(arm)) for arm in arms]
    return mix([share @ arm for share, arm in zip(shares, arms, strict=True)], weights)


def mix(arms: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """(n,) per arm to (n,): the weighted mean over the arms.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    shares = _shares(weights, len(arms))
    return np.asarray(sum(share * arm for share, arm in zip(shares, arms, strict=True)), dtype=np.float64)


def _shares(weights: npt.ArrayLike, count: int) -> Floats:
    """(count,) weights divided by their sum; raises as `mix`."""
    given = np.asarray(weights, dtype=np.float64)
    _check_weights(count, given.tolist())
    _refuse_all_0(given)
    return np.asarray(given / given.sum(), dtype=np.float64)


def _refuse_all_0(weights: Floats) -> None:
    if not weights.any():
        raise ConfigError("all fusion weights are 0; at least one arm and one query variation must count")


def _check(lists: int, weights: Sequence[float], k: float) -> None:
    _check_weights(lists, weights)
    if not k > 0:
        raise ConfigError(f"rrf k is {k!r}; expected a number > 0")


def _check_weights(count: int, weights: Sequence[float]) -> None:
    if count != len(weights):
        raise ConfigError(f"{len(weights)} weights for {count} lists, arms or query variations; give one for each")
    if any(not weight >= 0 for weight in weights):  # also refuses NaN
        raise ConfigError(f"fusion weights are {list(weights)!r}; expected numbers >= 0")


def weights_of_variations(count: int, variation_weight: float) -> Floats:
    """(count,) weights of the query variations: 1 for the original query, `variation_weight` for each other."""
    return np.array([1.0, *[variation_weight] * (count - 1)])


def best_first(scores: Floats) -> Ints:
    """(n,) rows by falling score, ties to the smaller row; scores must not be NaN."""
    return np.argsort(-scores, kind="stable")


def falling_ranks(scores: Floats) -> Ints:
    """(n,) ranks from FIRST_RANK by falling score, ties to the smaller row."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[best_first(scores)] = np.arange(len(scores)) + FIRST_RANK
    return ranks


def arm_ranks(scores: Floats) -> Ints:
    """(n,) `falling_ranks` of an extra arm's scores; NOT_RANKED where the arm did not find the row (score 0)."""
    return np.where(scores > 0, falling_ranks(scores), NOT_RANKED)


def fuse_pool(
    pool: Pool, config: FusionConfig, evidence: ArmEvidence, *, arm_weights: Mapping[str, float] | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Fuse a pool: the store's two arms by the function in `FUSIONS` that the settings select, then the extra arms.

    An arm that did not answer has weight 0.

    Args:
        pool: n candidates, V query variations.
        config: Method, normaliser and weights.
        evidence: From `arm_evidence`.
        arm_weights: A weight >= 0 for each name in `pool.extra`; None: the pool has no extra arms.

    Returns:
        (n,) scores, and facts for the trace. Scores of rrf are >= 0; those of convex are 0..1, the best 1, except that
        without extra arms the normalisers "zscore" and "none" leave them unbounded.
    """
    method = "evidence" if config.method == "convex" and config.adaptive else config.method
    scores, facts = FUSIONS[method](pool, config, evidence)
    if pool.extra:
        scores = _with_extra_arms(scores, pool, arm_weights or {}, config)
    return scores, {"method": method, **facts}


def _store_arm_weights(pool: Pool, config: FusionConfig) -> tuple[float, float]:
    """Weights of the store's lexical and dense arm; 0 for an arm that did not answer."""
    return config.lexical_weight * (pool.mode != "vector"), config.dense_weight * (pool.mode != "text")


def _by_evidence(pool: Pool, config: FusionConfig, evidence: ArmEvidence) -> tuple[Floats, dict[str, Any]]:
    """Add up both arms' evidence by the formulas of `ranking.evidence`; `config.normalizer` is not used."""
    scores, shares = fuse_evidence(
        *evidence,
        lexical_share=float(_shares(_store_arm_weights(pool, config), 2)[0]),
        variation_weights=weights_of_variations(pool.variations, config.variation_weight),
    )
    return scores, {"lexical_share": [round(float(share), 3) for share in shares]}


def _by_convex(pool: Pool, config: FusionConfig, evidence: ArmEvidence) -> tuple[Floats, dict[str, Any]]:
    """Weighted mean of both arms' normalised scores."""
    arms = [
        _normalized(pool.lexical, config.normalizer, pool.lexical_bound),
        _normalized(pool.dense, config.normalizer),
    ]
    weights = weights_of_variations(pool.variations, config.variation_weight)
    fused = convex(arms, _store_arm_weights(pool, config), weights)
    return (fused if config.normalizer in ("zscore", "none") else by_best(fused)), {}


def _by_rrf(pool: Pool, config: FusionConfig, evidence: ArmEvidence) -> tuple[Floats, dict[str, Any]]:
    """Weighted reciprocal ranks of both arms' lists."""
    variations = weights_of_variations(pool.variations, config.variation_weight)
    weights = np.concatenate([arm * variations for arm in _store_arm_weights(pool, config)])
    if not pool.extra:
        _refuse_all_0(weights)
    return rrf(np.concatenate([pool.lexical_rank, pool.dense_rank]), weights, k=config.rrf_k), {}


FUSIONS: Mapping[str, Callable[[Pool, FusionConfig, ArmEvidence], tuple[Floats, dict[str, Any]]]] = {
    "evidence": _by_evidence,
    "convex": _by_convex,
    "rrf": _by_rrf,
}
"""(pool, config, evidence) -> (n,) fused scores of the store's two arms, and facts for the trace."""


def _normalized(scores: Floats, normalizer: str, bound: Floats | None = None) -> Floats:
    """(V, n) scores by a normaliser of `ranking.evidence`. bound None: cosines, whose bound is 1."""
    if normalizer == "bound":
        return by_bound(scores, bound) if bound is not None else np.clip(scores, 0.0, 1.0)
    return {"minmax": min_max, "zscore": z_score, "logistic": logistic, "none": none}[normalizer](scores)


def _with_extra_arms(scores: Floats, pool: Pool, weights: Mapping[str, float], config: FusionConfig) -> Floats:
    """Add the pool's extra arms to the fused scores of the store's arms. An arm adds 0 to a row that it did not find.

    rrf: score(row) = fused(row) + sum_a w[a] / (k + rank_a(row))
    convex: score(row) = m(row) / max m, where m(row) = o * fused(row) / max fused + sum_a w[a] * arm_a(row) / max arm_a
    and o is the sum of the weights of those of the store's arms that answered.
    """
    each = [weights[name] for name in pool.extra]
    if config.method == "rrf":
        return scores + rrf(np.stack([arm_ranks(arm) for arm in pool.extra.values()]), each, k=config.rrf_k)
    store_weight = sum(_store_arm_weights(pool, config))
    return by_best(mix([by_best(arm) for arm in (scores, *pool.extra.values())], [store_weight, *each]))
