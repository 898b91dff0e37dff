"""Stage: a chunk gains if its time lies in the period that the query names ("last week"), or if its text states a date
in this period. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from umi_common.pool import Bools, Floats, Pool
from umi_common.types import EPOCH, TimeRange, age_in_hours

HOURS_PER_DAY = 24
MIDNIGHT_HOURS = 1e-6
"""A time at most this many hours from midnight counts as midnight. Rounding errors of ages are smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class PeriodBoost:
    """How much the chunks of the period that the query names gain."""

    lifted: Bools
    """(n,) whether a chunk's time lies in the period or its text states a date in the period."""
    factor: float
    """Gain of each of these chunks, as a share of its score, >= 0."""
    best_share: float = 0.0
    """Further gain of the one with the largest score, as a share of the largest score of all chunks, >= 0. The others
    gain less, by the formula of `apply`."""
    first: bool = False
    """Whether the query names nothing but the period ("what happened last week"). All lifted chunks then come
    before all others, if no score is below 0; one with the score 0 ties with the best of the others."""


def in_period(pool: Pool, period: TimeRange, now: datetime) -> Bools:
    """(n,) whether a chunk's time lies in the period; False without a time.

    A date without a time is stored as midnight UTC of this date. So a time of midnight UTC stands for the day with the
    same date in the time zone of `now`.

    Args:
        now: The moment to which the ages in the pool refer.
    """
    oldest = np.inf if period.start is None else age_in_hours(period.start, now)
    youngest = -np.inf if period.end is None else age_in_hours(period.end, now)
    age = pool.age_hours
    offset = (now.utcoffset() or timedelta()) / timedelta(hours=1)
    if offset:
        hour = (age_in_hours(EPOCH, now) - age) % HOURS_PER_DAY
        dates = np.minimum(hour, HOURS_PER_DAY - hour) < MIDNIGHT_HOURS
        # The local day begins `offset` hours before midnight UTC; 1 o'clock of this day is taken. `offset` is that of
        # `now`. If only `now` or only the day is in summer time, the moment is 0 or 2 o'clock, still on the same day.
        age = np.where(dates, age + offset - 1.0, age)
    return np.asarray((age <= oldest) & (age > youngest))


def apply(pool: Pool, scores: Floats, settings: PeriodBoost, facts: dict[str, object]) -> Floats:
    """(n,) scores, raised for the `lifted` chunks i. A score below 0 stays, except with `settings.first`.

    raised(i) = score(i) + max score                                        if `settings.first`, else
    raised(i) = score(i) * (1 + factor) + best_share * max score * (score(i) / largest score of a lifted chunk)^2
    """
    lifted, largest = settings.lifted, scores.max(initial=0.0)
    facts["lifted"] = int(lifted.sum())
    if settings.first:
        return np.where(lifted, scores + largest, scores)
    positive = np.maximum(scores, 0.0)
    raised = scores + settings.factor * positive
    largest_lifted = positive[lifted].max(initial=0.0)
    if largest_lifted > 0.0:
        raised += settings.best_share * largest * np.square(positive / largest_lifted)
    return np.where(lifted, raised, scores)
