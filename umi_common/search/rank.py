"""From a pool to an order: fuse, then what neighbours, time, forgetting and diversity make of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from umi_common.config import DecayConfig, NeighboursConfig, UmiConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Pool
from umi_common.ranking.arms import fuse_arms
from umi_common.ranking.decay import decay_factors, rate_of
from umi_common.ranking.duplicates import collapse
from umi_common.ranking.fusion import fuse_pool
from umi_common.ranking.mmr import mmr
from umi_common.ranking.neighbours import BELIEVED, shares_of, source_evidence, spread
from umi_common.ranking.normalize import min_max
from umi_common.ranking.order import best_first
from umi_common.ranking.trust import Background
from umi_common.search.trace import Notes
from umi_common.types import TimeRange


@dataclass(frozen=True, slots=True)
class Period:
    """What a time phrase of the query means, where it boosts and does not filter."""

    range: TimeRange
    dated: bool
    """It names its year."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Rows of a pool in their order."""

    order: Ints
    """(m,) rows, best first; near-duplicates left out."""
    scores: Floats
    """(n,) by row."""
    stages: dict[str, Floats]
    """(n,) by row after each stage that ran."""
    every: Ints
    """(n,) all rows of the pool, best first."""
    suppressed: tuple[tuple[int, str, int], ...] = ()
    """(row, reason, row that is there instead)."""


def rank(
    pool: Pool,
    config: UmiConfig,
    *,
    wanted: int,
    period: Period | None,
    now: datetime,
    notes: Notes,
    arm_weights: Mapping[str, float] | None = None,
) -> Ranked:
    """Order a pool.

    Args:
        pool: n candidates.
        config: All stages.
        wanted: Rows that will be looked at; near-duplicates are sought among so many.
        period: What a fuzzy time phrase means; chunks inside it are lifted.
        now: What `period` and ages refer to.
        notes: Takes the time and facts of each stage.
        arm_weights: Of the pool's extra arms, by name; None: it has none.
    """
    with notes.stage("fuse") as facts:
        background = None
        if len(pool.dense_mean) == pool.variations:
            background = Background(pool.dense_mean, pool.dense_deviation, pool.dense_count)
        unit = 1.0 if config.lexical.variant == "lucene" else config.lexical.k1 + 1.0
        scores, trust = fuse_pool(pool, config.fusion, background, unit=unit)
        scores = fuse_arms(scores, pool, arm_weights or {}, config.fusion)
        facts["method"] = "evidence" if trust is not None else config.fusion.method
        if trust is not None:
            facts["lexical_share"] = [round(float(share), 3) for share in trust.lexical_share]
    stages = {"fused": scores}
    if config.neighbours.enabled and (pool.source != NO_SOURCE).any():
        with notes.stage("neighbours") as facts:
            scores = stages["neighbours"] = _with_neighbours(pool, scores, config, facts)
    if period is not None:
        with notes.stage("lift period"):
            boost = config.when.dated_boost if period.dated else config.when.boost
            scores = stages["when"] = scores * (1.0 + boost * _inside(pool, period.range, now))
    if config.decay.half_life_hours is not None:
        with notes.stage("decay"):
            scores = stages["decay"] = scores * _factors(pool, config.decay)
    order = every = best_first(scores)
    suppressed: tuple[tuple[int, str, int], ...] = ()
    if config.duplicates.enabled and len(order):
        with notes.stage("collapse duplicates") as facts:
            kept, left_out = collapse(order, pool.vectors, similarity=config.duplicates.similarity, limit=wanted)
            order = kept
            suppressed = tuple((row, "near-duplicate", better) for row, better in left_out)
            facts["left_out"] = len(left_out)
    return Ranked(order[:wanted], scores, stages, every, suppressed)


def _with_neighbours(pool: Pool, scores: Floats, config: UmiConfig, facts: dict[str, object]) -> Floats:
    settings: NeighboursConfig = config.neighbours
    shares = shares_of(pool.calibration) if settings.adaptive else BELIEVED
    facts.update(position_share=round(shares.position, 3), source_share=round(shares.source, 3))
    weights = np.array([1.0, *[config.fusion.variation_weight] * (pool.variations - 1)])
    return spread(
        scores,
        pool.source,
        pool.position,
        pool.length,
        source_evidence(weights / weights.sum() @ pool.source_lexical, pool.source),
        previous=settings.previous,
        following=settings.following,
        source_share=settings.source,
        shares=shares,
    )


def _inside(pool: Pool, period: TimeRange, now: datetime) -> Floats:
    oldest = np.inf if period.start is None else (now - period.start).total_seconds() / 3600
    youngest = -np.inf if period.end is None else (now - period.end).total_seconds() / 3600
    return np.asarray((pool.age_hours <= oldest) & (pool.age_hours > youngest), dtype=np.float64)  # NaN: outside


def _factors(pool: Pool, config: DecayConfig) -> Floats:
    if config.half_life_hours is None:
        return np.ones(len(pool))
    return decay_factors(pool.age_hours, rate=rate_of(config.half_life_hours), floor=config.floor)


def next_best(ranked: Ranked, count: int) -> Ints:
    """(at most count,) the best rows that are neither in the order nor suppressed."""
    if not count:
        return ranked.order[:0]
    taken = {*ranked.order.tolist(), *(row for row, _, _ in ranked.suppressed)}
    return np.array([row for row in ranked.every.tolist() if row not in taken][:count], dtype=np.int64)


def reranked(ranked: Ranked, rows: Sequence[int], scores: object) -> tuple[Ranked, str]:
    """`rows`, the best of the order, put in the order of a reranker's scores; the rest follows.

    Returns:
        The new order and "", or the old one and what is wrong with the scores.
    """
    if isinstance(scores, Exception):
        return ranked, f"failed with {type(scores).__name__}"
    try:
        given = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        return ranked, f"gave {type(scores).__name__}; expected {len(rows)} numbers"
    if given.shape != (len(rows),) or not np.isfinite(given).all():
        return ranked, f"gave shape {given.shape} or numbers that are not finite; expected {len(rows)} scores"
    places = best_first(given)
    best = np.asarray(rows, dtype=np.int64)[places]
    after = np.full(len(ranked.scores), given.min(initial=0.0))
    after[best] = given[places]
    rest = ranked.order[~np.isin(ranked.order, best)]
    order = np.concatenate([best, rest])
    return replace(ranked, order=order, scores=after, stages={**ranked.stages, "rerank": after}), ""


def diversified(ranked: Ranked, pool: Pool, config: UmiConfig, limit: int) -> Ranked:
    """The best `limit` rows by maximal marginal relevance, in the order of choice; whom they replaced is noted."""
    rows = np.sort(ranked.order)
    relevance = min_max(ranked.scores[rows])
    settings = config.mmr
    chosen = rows[mmr(relevance, pool.vectors[rows], limit=limit, trade_off=settings.trade_off, pool=settings.pool)]
    replaced = [row for row in ranked.order[:limit].tolist() if row not in set(chosen.tolist())]
    newcomers = [row for row in chosen.tolist() if row not in set(ranked.order[:limit].tolist())]
    noted = tuple((row, "mmr", by) for row, by in zip(replaced, newcomers, strict=True))
    return replace(ranked, order=chosen, suppressed=ranked.suppressed + noted)
