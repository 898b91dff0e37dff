"""Stage: chunks inside the period that the query names score higher. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from umi_common.config import WhenConfig
from umi_common.pool import Floats, Pool
from umi_common.types import TimeRange

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class PeriodBoost:
    """The period that a fuzzy time phrase of the query means, and its gain."""

    range: TimeRange
    names_year: bool
    now: datetime
    """The moment that ages in the pool refer to."""
    config: WhenConfig


def apply(pool: Pool, scores: Floats, settings: PeriodBoost, facts: dict[str, object]) -> Floats:
    """(n,) scores times 1 + boost inside the period; chunks without a time are outside."""
    boost = settings.config.dated_boost if settings.names_year else settings.config.boost
    oldest = _age_hours(settings.range.start, settings.now, np.inf)
    youngest = _age_hours(settings.range.end, settings.now, -np.inf)
    inside = np.asarray((pool.age_hours <= oldest) & (pool.age_hours > youngest), dtype=np.float64)
    return scores * (1.0 + boost * inside)


def _age_hours(moment: datetime | None, now: datetime, without: float) -> float:
    return without if moment is None else (now - moment).total_seconds() / SECONDS_PER_HOUR
