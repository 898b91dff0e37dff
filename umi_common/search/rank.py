"""Rank a pool by fusion and the score stages, and diversify a ranking by MMR.

In: a `Pool`. Out: a `RankedPool`. A score stage computes a new score for each row of the pool. No function changes its
arguments, except that some add a stage to the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from umi_common import decay
from umi_common.config import UmiConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, Pool, best_first
from umi_common.ranking import feedback, neighbours, period, references
from umi_common.ranking.evidence import arm_evidence, min_max
from umi_common.ranking.fusion import fuse_pool
from umi_common.ranking.mmr import mmr
from umi_common.ranking.relevance import relevance
from umi_common.search.trace import TraceBuilder

ScoreStage = tuple[str, str, Callable[[Pool, Floats, Any, dict[str, object]], Floats], object]
"""(name in `Hit.stages`, name in the trace, the stage's function `apply`, the settings that `apply` gets)."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedPool:
    """The order of a pool's rows, and the scores by which they are sorted (after `diversify`: were sorted before)."""

    order: Ints
    """(m,) rows, best first. After `rank`: all rows of the pool. After `search.fetch`: the rows whose chunks were
    fetched, without those in `suppressed`. After `diversify`: the rows that MMR chose, in the order of the choice."""
    scores: Floats
    """(n,) final score by row."""
    stages: dict[str, Floats]
    """By name of each stage that changed scores, in the order in which they ran: (n,) the scores after the stage."""
    relevance: Floats | None = None
    """(n,) relevance by row, 0..1; None: not known."""
    suppressed: tuple[tuple[int, str, int | None], ...] = ()
    """Rows that were left out: (row, reason, row that replaces it or None)."""
    parts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By row: the index of each labelled number of the query, such as "section 44", with which a part of the text
    begins; a text that only cites the section has none."""


def rank(
    pool: Pool,
    config: UmiConfig,
    *,
    boost: period.PeriodBoost | None,
    trace: TraceBuilder,
    arm_weights: Mapping[str, float] | None = None,
    excess: Floats | None = None,
) -> RankedPool:
    """The order of a pool's rows.

    Args:
        boost: Raises the rows of the period that the query names; None: no row is raised.
        arm_weights: Weight of each extra arm by name; None: there are no extra arms.
        excess: As for `evidence.dense_evidence`.
    """
    with trace.stage("fuse") as facts:
        # The largest score that a term can add to BM25, divided by the term's idf.
        largest_gain = 1.0 if config.lexical.variant == "lucene" else config.lexical.k1 + 1.0
        evidence = arm_evidence(pool, largest_gain, excess)
        scores, fusion_facts = fuse_pool(pool, config.fusion, evidence, arm_weights=arm_weights)
        facts.update(fusion_facts)
    stages = {"fused": scores}
    for name, traced_as, apply, settings in _score_stages(pool, config, boost):
        with trace.stage(traced_as) as facts:
            scores = stages[name] = apply(pool, scores, settings, facts)
    with trace.stage("relevance"):
        comparable = None if config.fusion.method == "rrf" else scores
        relevant = relevance(pool, comparable, evidence, variation_weight=config.fusion.variation_weight)
    return RankedPool(best_first(scores), scores, stages, relevant)


def _score_stages(pool: Pool, config: UmiConfig, boost: period.PeriodBoost | None) -> Iterator[ScoreStage]:
    """The score stages of a search, in the order in which they run."""
    if config.feedback.enabled and pool.mode == "hybrid" and len(pool) > feedback.BEST:
        yield "feedback", "feedback", feedback.apply, config.feedback
    if config.neighbours.enabled and (pool.source != NO_SOURCE).any():
        yield "neighbours", "neighbours", neighbours.apply, config
    if config.references.enabled and (pool.links is not None or pool.named.any()):
        yield "references", "references", references.apply, config.references
    if boost is not None:
        yield "when", "lift period", period.apply, boost
    if config.decay.half_life_hours is not None:
        yield "decay", "decay", decay.apply, config.decay


def interleaved(ranked: RankedPool, rows: Sequence[int]) -> RankedPool:
    """The stage "event", for a query such as "what did we decide after the meeting with Bob?": the first row of the
    ranking, the first of `rows`, the second row of the ranking, and so on, without repetitions. The scores of all these
    rows are sorted, and the largest goes to the first row.

    Args:
        rows: Rows of the pool from the days beside the event, best first; they need not be among `ranked.order`.
    """
    in_turn = chain.from_iterable(zip_longest(ranked.order.tolist(), rows))
    order = np.array([row for row in dict.fromkeys(in_turn) if row is not None], dtype=np.int64)
    changed = np.array(ranked.scores)
    changed[order] = np.sort(ranked.scores[order])[::-1]
    return replace(ranked, order=order, scores=changed, stages={**ranked.stages, "event": changed})


def diversify(ranked: RankedPool, pool: Pool, config: UmiConfig, limit: int, trace: TraceBuilder) -> RankedPool:
    """The ranking with `limit` rows chosen by maximal marginal relevance. Rows that were among the best `limit` and are
    not chosen are added to `suppressed`."""
    rows = np.sort(ranked.order)
    relevant = _on_scale_of_cosines(ranked.scores[rows], pool, rows)
    settings = config.mmr
    best = ranked.order[:limit].tolist()
    with trace.stage("mmr") as facts:
        chosen = rows[mmr(relevant, pool.vectors[rows], limit=limit, trade_off=settings.trade_off, pool=settings.pool)]
        kept = chosen.tolist()
        replaced = [row for row in best if row not in kept]
        facts.update(trade_off=settings.trade_off, candidates=min(len(rows), settings.pool), replaced=len(replaced))
    replacing = [row for row in kept if row not in best]
    suppressed = tuple((row, "mmr", by) for row, by in zip(replaced, replacing, strict=True))
    return replace(ranked, order=chosen, suppressed=ranked.suppressed + suppressed)


def _on_scale_of_cosines(scores: Floats, pool: Pool, rows: Ints) -> Floats:
    """(k,) scores of these rows on the scale of cosines, because MMR weighs them against cosines between the rows.

    The smallest and largest score become the smallest and largest cosine of the rows with the query. Without cosines,
    the scores are scaled to 0..1. In a search by vectors alone, the result is the cosines themselves, as in other
    stores, whatever decay and other stages made of the scores.
    """
    cosines: Floats = pool.dense[0, rows]
    if pool.mode == "vector":
        return cosines
    scaled = min_max(scores / (scores.max(initial=0.0) or 1.0))
    if pool.mode == "text" or not len(rows):
        return scaled
    low, high = cosines.min(), cosines.max()
    return np.asarray(low + (high - low) * scaled)
