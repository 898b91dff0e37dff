"""Fuse ranked lists or scores into one: pure functions over ids and arrays, no I/O, no framework types.

Ranks start at 1. Of equal scores the smaller id (the smaller row) comes first, so equal inputs give equal outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.config import FusionConfig
from umi_common.errors import ConfigError, InputError
from umi_common.pool import FIRST_RANK, NOT_RANKED, Bools, Floats, Ints, Pool, best_first, ranked
from umi_common.ranking.evidence import ArmEvidence, by_best, fuse_evidence, normalized, weighted_sum
from umi_common.types import SearchResult

ALL_WEIGHTS_0 = "all fusion weights of this search are 0; at least one arm and one query variation must count"
RRF_K = FusionConfig().rrf_k
"""Rank damping, 60 as in the paper that `weighted_rrf` names."""
RARE_PASSED = 0.8
"""A candidate passes candidates whose BM25 is below this share of its own BM25."""
LEADING = 0.8
"""A candidate passes other candidates only if it has at least this share of the best BM25."""
LEAD = 0.05
"""Lead of the candidate with the best BM25 over the candidates that it passes, as a share of their best score. The lead
of another candidate is smaller, in proportion to its BM25. Without a lead, later stages would raise texts that resemble
the passed candidates above it."""


def weighted_rrf(
    rankings: Sequence[Sequence[str]], weights: Sequence[float], *, k: float = RRF_K
) -> list[tuple[str, float]]:
    """Fuse best-first id lists by weighted reciprocal rank.

    score(d) = sum_i weights[i] / (k + rank_i(d)), rank_i from 1; a list without d adds 0.

    Args:
        rankings: L lists of ids, best first. An id that a list repeats counts at its best rank.
        weights: L numbers >= 0; not normalised.
        k: Rank damping, > 0.

    Returns:
        (id, score) pairs, score falling, then id rising. Scores of different queries are not comparable.

    Raises:
        ConfigError: If the lengths differ, a weight is negative or k <= 0.
        InputError: If a ranking is a string or None.

    Source: Cormack, Clarke, Buettcher, SIGIR 2009; the weights are an extension.
    """
    parts: dict[str, list[float]] = {}
    for ranking, weight in zip(rankings, _checked(weights, len(rankings), k).tolist(), strict=True):
        for rank, id in enumerate(dict.fromkeys(_as_list(ranking)), start=FIRST_RANK):
            parts.setdefault(id, []).append(weight / (k + rank))
    scores = [(id, math.fsum(part)) for id, part in parts.items()]  # fsum: the order of lists changes no sum
    return sorted(scores, key=lambda item: (-item[1], item[0]))


def merge_rrf(*lists: Iterable[Any], k: float = RRF_K) -> list[Any]:
    """Merge best-first lists by reciprocal rank, each with weight 1: score(d) = sum 1 / (k + rank), rank from 1.

    Args:
        lists: Lists of ids, hits, chunks, documents or nodes; or one list of such lists.
        k: Rank damping, > 0.

    Returns:
        One item for each id, best first, ties to the smaller id. If several lists hold an id, the item is that of the
        first list that does.

    Raises:
        ConfigError: If k <= 0.
        InputError: If one of the lists is a string or None, or an item is neither an id nor an object with one.
    """
    given = [_as_list(each) for each in lists]
    if len(given) == 1 and all(isinstance(item, (list, tuple, SearchResult)) for item in given[0]):
        given = [list(each) for each in given[0]]
    ids = [[_id_of(item) for item in items] for items in given]
    items: dict[str, Any] = {}
    for id, item in zip(chain(*ids), chain(*given), strict=True):
        items.setdefault(id, item)
    return [items[id] for id, _ in weighted_rrf(ids, [1.0] * len(ids), k=k)]


def _as_list(given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"a list is {given!r:.80}; expected a list of ids, hits, chunks, documents or nodes")
    return list(given)


def _id_of(item: Any) -> str:
    """The id of an item, or of the chunk or node in it. Raises InputError if it has none."""
    wrapped = getattr(item, "chunk", getattr(item, "node", item))
    id = item if isinstance(item, str) else getattr(wrapped, "node_id", getattr(wrapped, "id", None))
    if not isinstance(id, str):
        name = type(item).__name__
        raise InputError(f"an item is {name} without an id; expected ids, hits, chunks, documents or nodes with ids")
    return id


def rrf(ranks: Ints, weights: npt.ArrayLike, *, k: float = RRF_K) -> Floats:
    """(n,) `weighted_rrf` of the rows of a pool: score(row) = sum_l weights[l] / (k + ranks[l, row]).

    Args:
        ranks: (L, n) from 1, one row per arm and variation; NOT_RANKED adds 0.
        weights: (L,) >= 0.
    """
    each = _checked(weights, len(ranks), k)
    return weighted_sum(each, np.where(ranks == NOT_RANKED, 0.0, 1.0 / (k + ranks)))


def convex(arms: Sequence[Floats], weights: Sequence[float], variation_weights: npt.ArrayLike) -> Floats:
    """Weighted mean of normalised scores over arms and variations.

    score(row) = sum_v u[v] * sum_a w[a] * arms[a][v, row], with u and w divided by their sums.

    Args:
        arms: A arrays (V, n), all on one scale.
        weights: A numbers >= 0, not all 0.
        variation_weights: (V,) >= 0, not all 0; the original query is row 0.

    Returns:
        (n,) scores, in 0..1 if all arms are in 0..1.

    Raises:
        ConfigError: If lengths differ, a weight is negative or all are 0.
    """
    of_arms = [weighted_sum(_shares(variation_weights, len(arm)), arm) for arm in arms]
    return weighted_sum(_shares(weights, len(arms)), np.stack(of_arms))


def _shares(weights: npt.ArrayLike, count: int) -> Floats:
    """(count,) weights divided by their sum; raises as `convex`."""
    given = _checked(weights, count)
    if not given.any():
        raise ConfigError(ALL_WEIGHTS_0)
    return np.asarray(given / given.sum(), dtype=np.float64)


def _checked(weights: npt.ArrayLike, count: int, k: float = RRF_K) -> Floats:
    """(count,) the weights; raises as `weighted_rrf`."""
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (count,):
        raise ConfigError(f"{given.size} weights for {count} lists, arms or query variations; give one for each")
    if not (given >= 0).all():  # also refuses NaN
        raise ConfigError(f"fusion weights are {given.tolist()!r}; expected numbers >= 0")
    if not (isinstance(k, (int, float, np.number)) and k > 0):
        raise ConfigError(f"rrf k is {k!r}; expected a number > 0")
    return given


def weights_of_variations(pool: Pool, variation_weight: float) -> Floats:
    """(V,) weights of the query variations: `pool.query_weight` for the original query, else `variation_weight`."""
    return np.array([pool.query_weight, *[variation_weight] * (pool.variations - 1)])


def falling_ranks(scores: Floats) -> Ints:
    """(n,) ranks from FIRST_RANK by falling score, ties to the smaller row."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[best_first(scores)] = np.arange(len(scores)) + FIRST_RANK
    return ranks


def fuse_pool(
    pool: Pool, config: FusionConfig, evidence: ArmEvidence, *, arm_weights: Mapping[str, float] | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Fuse a pool: first the store's two arms, then the extra arms with their result.

    By the settings, the store's arms are fused by rank (`method` "rrf"), by evidence (`method` "convex" with
    `adaptive`; "evidence" in the trace) or by normalised scores ("convex" without `adaptive`). An arm that did not
    answer has weight 0.

    Args:
        evidence: From `arm_evidence`.
        arm_weights: A weight >= 0 for each name in `pool.extra`; not read if the pool has no extra arms.

    Returns:
        (n,) scores, and facts for the trace. Scores of rrf are >= 0. All other scores are 0..1, the best 1 unless all
        are 0, except sums of scores normalised by "zscore" or "none" without extra arms, which are unbounded.

    Raises:
        ConfigError: If all weights are 0, or `arm_weights` lacks an extra arm.
    """
    facts: dict[str, Any] = {"method": config.method}
    if config.method == "rrf":
        scores = _by_rrf(pool, config)
    elif pool.extra and not any(_store_arm_weights(pool, config)):
        scores = np.zeros(len(pool))  # the extra arms alone rank
    elif config.adaptive:
        scores, shares = _by_evidence(pool, config, evidence)
        facts = {"method": "evidence", "lexical_share": [round(share, 3) for share in shares.tolist()]}
    else:
        scores = _by_convex(pool, config)
    if pool.extra:
        scores = _with_extra_arms(scores, pool, {} if arm_weights is None else arm_weights, config)
    return scores, facts


def _store_arm_weights(pool: Pool, config: FusionConfig) -> tuple[float, float]:
    """Weights of the store's lexical and dense arm; 0 for an arm that did not answer.

    If an arm failed and the other arm has weight 0 in the settings, the other arm gets the weight of the failed arm.
    """
    lexical, dense = config.lexical_weight, config.dense_weight
    if pool.mode == "text":
        return lexical or (dense if pool.degraded else 0.0), 0.0
    if pool.mode == "vector":
        return 0.0, dense or (lexical if pool.degraded else 0.0)
    return lexical, dense


def _by_evidence(pool: Pool, config: FusionConfig, evidence: ArmEvidence) -> tuple[Floats, Floats]:
    """(n,) scores of `fuse_evidence`, raised for rare terms of the original query (`with_rare_terms`) and divided by
    the best; and (V,) the lexical shares of `fuse_evidence`."""
    scores, shares = fuse_evidence(
        *evidence,
        lexical_share=float(_shares(_store_arm_weights(pool, config), 2)[0]),
        variation_weights=weights_of_variations(pool, config.variation_weight),
    )
    scores = with_rare_terms(scores, pool.lexical[0], pool.rare[0], pool.other_language[0])
    return by_best(scores), shares


def with_rare_terms(scores: Floats, lexical: Floats, rare: Bools, other_language: Bools) -> Floats:
    """(n,) scores in which a candidate with a rare term of the query (`pool.RARE`) passes those of much smaller BM25.

    If i holds a rare term and bm25(i) >= `LEADING` * max bm25:

        raised(i) = max(score(i), (1 + `LEAD` * bm25(i) / max bm25) * max score(j))

    where j is any candidate with bm25(j) < `RARE_PASSED` * bm25(i), except candidates in another language than the
    query, whose BM25 says little. All other scores stay. For "which service uses port 518?", the row of a table with
    518 shares fewer words with the query than a row that holds the names of the columns ("TCP port service
    multiplexer"). Vectors place numbers, codes and other rare strings by chance.

    Args:
        scores: (n,) fused scores, >= 0.
        lexical, rare, other_language: (n,) fields of `Pool`, for the original query.
    """
    raised, best = np.array(scores), lexical.max(initial=0.0)
    for row in rare.nonzero()[0].tolist() if best > 0 else ():
        if lexical[row] >= LEADING * best:
            passed = scores[(lexical < RARE_PASSED * lexical[row]) & ~other_language].max(initial=0.0)
            raised[row] = max(scores[row], passed * (1.0 + LEAD * lexical[row] / best))
    return raised


def _by_convex(pool: Pool, config: FusionConfig) -> Floats:
    arms = [
        normalized(pool.lexical, config.normalizer, pool.lexical_bound),
        normalized(pool.dense, config.normalizer, np.ones(pool.variations)),
    ]
    weights = weights_of_variations(pool, config.variation_weight)
    fused = convex(arms, _store_arm_weights(pool, config), weights)
    return fused if config.normalizer in ("zscore", "none") else by_best(fused)


def _by_rrf(pool: Pool, config: FusionConfig) -> Floats:
    variations = weights_of_variations(pool, config.variation_weight)
    weights = np.concatenate([arm * variations for arm in _store_arm_weights(pool, config)])
    if not pool.extra and not weights.any():
        raise ConfigError(ALL_WEIGHTS_0)
    return rrf(np.concatenate([pool.lexical_rank, pool.dense_rank]), weights, k=config.rrf_k)


def _with_extra_arms(scores: Floats, pool: Pool, weights: Mapping[str, float], config: FusionConfig) -> Floats:
    """Add the pool's extra arms to the fused scores of the store's arms. An arm adds 0 to a row that it did not find.

    rrf: score(row) = fused(row) + sum_a w[a, row] / (k + rank_a(row))
    convex: score(row) = m(row) / max m,
        where m(row) = store_weight * fused(row) / max fused + sum_a w[a, row] * arm_a(row) / max arm_a

    store_weight is the sum of the weights of the store's arms that answered. w[a, row] is the weight w of arm a. To a
    row that the store did not score, only extra arms add; its w is therefore doubled, at most to store_weight:
    max(w, min(2 w, store_weight)).

    Raises:
        ConfigError: If an arm has no weight, or all weights are 0.
    """
    if missing := pool.extra.keys() - weights.keys():
        raise ConfigError(f"no weight for the extra arms {sorted(missing)}; give one for each in arm_weights")
    store_weight, found = sum(_store_arm_weights(pool, config)), np.stack(list(pool.extra.values()))
    given = np.array([[weights[name]] for name in pool.extra])
    _shares([store_weight, *given[:, 0]], len(found) + 1)  # raises ConfigError if all weights are 0
    alone = np.maximum(given, np.minimum(2.0 * given, store_weight))
    each = np.where(pool.unscored, alone, given)
    if config.method == "rrf":
        ranks = ranked(found, found > 0)
        added: Floats = np.sum(each * (ranks != NOT_RANKED) / (config.rrf_k + ranks), axis=0)
        return scores + added
    return by_best(store_weight * by_best(scores) + np.sum(each * by_best(found), axis=0))
