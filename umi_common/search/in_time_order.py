"""For a query that asks for the latest or the first, of nearly equal candidates the latest or first comes first.

"Anna's current phone" matches each of the phones that she has named over the years alike. Of the best `CANDIDATES`
those count whose time is known, whose score is at least `SCORE` and whose BM25 is at least `BM25` times the largest:

    final(i) = score(i) * (1 + weight * place(i))

place(i) is the rank of the time of i among the times of these candidates, from 0 (the oldest) to 1 (the latest); for
the first it is the other way round. Measured in docs/decisions.md.
"""

from __future__ import annotations

import numpy as np

from umi_common.pool import Floats, Pool
from umi_common.query.time.order import TimeOrder
from umi_common.search.rank import RankedPool, reorder
from umi_common.search.trace import TraceBuilder

STAGE = "time_order"
CANDIDATES = 50
SCORE, BM25 = 0.65, 0.8
"""Smallest shares of the best candidate's."""


def reorder_by_time(pool: Pool, ranked: RankedPool, asked: TimeOrder, weight: float, trace: TraceBuilder) -> RankedPool:
    """The ranking with its first `CANDIDATES` rows sorted by the formula at the top of this file.

    Args:
        pool: The candidates.
        ranked: Their order so far.
        asked: From `time_order`.
        weight: >= 0, `WhenConfig.order_boost`.
        trace: Gets the stage, if it changes scores.
    """
    rows = np.sort(ranked.order[:CANDIDATES])
    scores = ranked.scores[rows]
    lexical = pool.lexical[0, rows]
    equal = (scores >= SCORE * scores.max(initial=0.0)) & (lexical >= BM25 * lexical.max(initial=0.0))
    places = places_of(np.where(equal, pool.age_hours[rows], np.nan))
    if not places.any():
        return ranked
    with trace.stage(STAGE) as facts:
        facts.update(asked=asked, candidates=int((~np.isnan(pool.age_hours[rows]) & equal).sum()))
        if asked == "first":
            places = np.where(equal, 1.0 - places, 0.0)
        return reorder(ranked, rows, scores * (1.0 + weight * places), STAGE)


def places_of(ages: Floats) -> Floats:
    """(n,) the place in time of each age: 1 for the lowest of the distinct ages, 0 for the highest and for NaN."""
    distinct = sorted({age for age in ages.tolist() if not np.isnan(age)}, reverse=True)
    last = max(1, len(distinct) - 1)
    place = {age: rank / last for rank, age in enumerate(distinct)}
    return np.array([place.get(age, 0.0) for age in ages.tolist()])
