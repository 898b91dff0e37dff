"""Stage that raises the score of each chunk whose time lies in the period that the query names ("last week"), or whose
text states a date in this period. No I/O; the pool is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from umi_common.config import WhenConfig
from umi_common.pool import Bools, Floats, Ints, Pool
from umi_common.types import EPOCH, TimeRange, age_in_hours

HOURS_PER_DAY = 24
EXPLICIT_FACTOR = 5.0
"""Factor on the boost if the query limits when a chunk was recorded ("what did I say yesterday"). It is not larger,
because the user may mistake the day: a chunk outside the period that matches well must still come before chunks inside
the period that hardly match."""
MIDNIGHT_HOURS = 1e-6
"""A time at most this many hours from midnight counts as midnight. Rounding errors of ages are smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class PeriodBoost:
    """The period that the query names, and the settings for it."""

    range: TimeRange
    names_year: bool
    """Whether the query names the period with its year ("in March 2023"): `dated_boost` is then used, else `boost`."""
    now: datetime
    """The moment to which the ages in the pool refer. Days are those of its time zone."""
    config: WhenConfig
    explicit: bool = False
    """Whether the query limits when a chunk was recorded ("what did I say yesterday"), and does not merely mention the
    period: the boost is then multiplied by `EXPLICIT_FACTOR`."""
    first: bool = False
    """Whether the query names nothing but the period ("what happened last week"). All chunks of the period then come
    before all others, if no score is below 0."""
    raise_best: bool = False
    """Whether the best chunk of the period also gains `WhenConfig.boost` times the largest score ("what did I cook
    three days ago"). With a boost of at least 1, it comes before all chunks outside the period."""
    stating: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(m,) rows of the pool whose text states a date in the period."""

    def inside(self, pool: Pool) -> Bools:
        """(n,) whether a chunk's time lies in the period; False without a time.

        A date without a time is stored as midnight UTC. So a time of midnight UTC counts as the day with this date in
        the time zone of `now`.
        """
        start, end = self.range.start, self.range.end
        oldest = np.inf if start is None else age_in_hours(start, self.now)
        youngest = -np.inf if end is None else age_in_hours(end, self.now)
        age = pool.age_hours
        offset = (self.now.utcoffset() or timedelta()) / timedelta(hours=1)
        if offset:
            hour = (age_in_hours(EPOCH, self.now) - age) % HOURS_PER_DAY
            dates = np.minimum(hour, HOURS_PER_DAY - hour) < MIDNIGHT_HOURS
            # The local day begins `offset` hours before midnight UTC. `offset` is that of `now`; with summer time, that
            # of the day may be an hour less or more. 1 o'clock is taken, which is then 0 or 2 o'clock of the same day.
            age = np.where(dates, age + offset - 1.0, age)
        return np.asarray((age <= oldest) & (age > youngest))

    def lifted(self, pool: Pool) -> Bools:
        """(n,) whether a chunk's time lies in the period or its text states a date in the period."""
        lifted = self.inside(pool)
        lifted[self.stating] = True
        return lifted


def apply(pool: Pool, scores: Floats, settings: PeriodBoost, facts: dict[str, object]) -> Floats:
    """(n,) scores, raised for the `lifted` chunks i. A score below 0 stays, except with `settings.first`.

        raised(i) = score(i) + max score                                           if `settings.first`, else
        raised(i) = score(i) * (1 + factor) + b * max score * (score(i) / best)^2  if `settings.raise_best`, else
        raised(i) = score(i) * (1 + factor)

    b is `WhenConfig.boost`; factor is `WhenConfig.dated_boost` if `settings.names_year`, else b, and times
    `EXPLICIT_FACTOR` if `settings.explicit`; best is the largest score of a lifted chunk.
    """
    factor = settings.config.dated_boost if settings.names_year else settings.config.boost
    if settings.explicit:
        factor *= EXPLICIT_FACTOR
    lifted = settings.lifted(pool)
    facts["lifted"] = int(lifted.sum())
    largest = scores.max(initial=0.0)
    if settings.first:
        return np.where(lifted, scores + largest, scores)
    positive = np.maximum(scores, 0.0)
    raised = scores + factor * positive
    best = positive[lifted].max(initial=0.0)
    if best > 0.0 and settings.raise_best:
        raised += settings.config.boost * largest * np.square(positive / best)
    return np.where(lifted, raised, scores)
