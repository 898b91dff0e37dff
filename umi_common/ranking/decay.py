"""Forgetting applied to scores; the factor itself is in `umi_common.decay`. Pure."""

from __future__ import annotations

import numpy as np

from umi_common.decay import decay_factors, rate_of
from umi_common.pool import Floats

__all__ = ["decay", "decay_factors", "rate_of"]


def decay(scores: Floats, age_hours: Floats, *, rate: float, floor: float) -> Floats:
    """Scores (n,) >= 0 times their `decay_factors`; a new array.

    Raises:
        ConfigError: As `decay_factors`.
    """
    return np.asarray(scores * decay_factors(age_hours, rate=rate, floor=floor), dtype=np.float64)
