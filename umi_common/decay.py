"""Exponential decay: a factor on scores that falls with age.

    factor = floor + (1 - floor) * exp(-rate * age)

Stores use it to choose the candidates with the best decayed scores, and ranking to order them. Pure functions.
"""

from __future__ import annotations

import math

import numpy as np

from umi_common.config import DecayConfig
from umi_common.errors import ConfigError
from umi_common.pool import Floats, Pool, weighted

EXPONENT_MAX = 600.0
"""Largest rate * age, 866 half-lives; a larger product counts as this. Without the limit, exp(-rate * age) would be 0
in float64 from a product of about 745, and a chunk of score 0 is no hit."""


def rate_of(half_life_hours: float) -> float:
    """The rate per hour at which the factor falls halfway to the floor in `half_life_hours`: ln 2 / half-life.

    Raises:
        ConfigError: If the half-life is not a finite number > 0.
    """
    if not half_life_hours > 0 or math.isinf(half_life_hours):
        raise ConfigError(f"half-life {half_life_hours!r} hours: expected a finite number > 0")
    return math.log(2) / half_life_hours


def decay_factors(age_hours: Floats, *, rate: float, floor: float) -> Floats:
    """floor + (1 - floor) * exp(-min(rate * age, EXPONENT_MAX)).

    Args:
        age_hours: (n,) ages in hours. A negative age (a time in the future) counts as 0; NaN (no time) has factor 1.
        rate: Per hour, >= 0; 0: all factors are 1.
        floor: Smallest factor, 0..1.

    Returns:
        (n,) factors in [floor, 1]; 1 at age 0 and without a time. The factor never rises with age.

    Raises:
        ConfigError: If the rate is negative or not finite, or the floor outside 0..1.
    """
    if not rate >= 0 or math.isinf(rate):
        raise ConfigError(f"decay rate {rate!r} per hour: expected a finite number >= 0")
    if not 0 <= floor <= 1:
        raise ConfigError(f"decay floor {floor!r}: expected 0..1")
    ages = np.maximum(np.asarray(age_hours, dtype=np.float64), 0.0)  # keeps NaN
    known = ~np.isnan(ages)
    factors = floor + (1.0 - floor) * np.exp(-np.minimum(rate * np.where(known, ages, 0.0), EXPONENT_MAX))
    return np.where(known, factors, 1.0)


def decay(scores: Floats, age_hours: Floats, *, rate: float, floor: float) -> Floats:
    """A new array of the scores (n,), those above 0 times their `decay_factors`. A factor would raise a score below 0.

    Raises:
        ConfigError: As `decay_factors`.
    """
    return weighted(scores, decay_factors(age_hours, rate=rate, floor=floor))


def factors_of(settings: DecayConfig, age_hours: Floats) -> Floats | None:
    """(n,) decay factors for chunks of these ages (n,), in hours; None: decay is off."""
    if settings.half_life_hours is None:
        return None
    return decay_factors(age_hours, rate=rate_of(settings.half_life_hours), floor=settings.floor)


def apply(pool: Pool, scores: Floats, settings: DecayConfig, facts: dict[str, object]) -> Floats:
    """(n,) scores of the pool after decay; unchanged without a half-life."""
    return weighted(scores, factors_of(settings, pool.age_hours))
