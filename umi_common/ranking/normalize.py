"""Bring the raw scores of an arm to a common scale: pure functions over arrays, row by row.

The last axis is the candidates. Every function returns a new float64 array of the same shape. Of two scores of a row,
the larger one never becomes the smaller one; clamped ones may become equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from umi_common.pool import Floats

EPSILON = 1e-9
"""A spread or a bound below this counts as 0."""


def min_max(scores: npt.ArrayLike) -> Floats:
    """(s - min) / (max - min), clamped to 0..1.

    A row whose scores are all equal becomes 1 where they are above 0, else 0.

    Args:
        scores: (..., n), n >= 0, finite.
    """
    given = _floats(scores)
    if given.shape[-1] == 0:
        return np.array(given)
    low = given.min(axis=-1, keepdims=True)
    spread = given.max(axis=-1, keepdims=True) - low
    flat = spread < EPSILON
    scaled = np.clip((given - low) / np.where(flat, 1.0, spread), 0.0, 1.0)
    return np.asarray(np.where(flat, given > 0, scaled), dtype=np.float64)


def z_score(scores: npt.ArrayLike) -> Floats:
    """(s - mean) / standard deviation of the row; 0 throughout a row without spread. Unbounded.

    Args:
        scores: (..., n), n >= 0, finite.
    """
    given = _floats(scores)
    if given.shape[-1] == 0:
        return np.array(given)
    deviation = given.std(axis=-1, keepdims=True)
    flat = deviation < EPSILON
    centred = given - given.mean(axis=-1, keepdims=True)
    return np.asarray(np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation)), dtype=np.float64)


def logistic(scores: npt.ArrayLike) -> Floats:
    """1 / (1 + exp(-z)) of the row's z-scores: 0..1; one outlier changes the others little.

    Args:
        scores: (..., n), n >= 0, finite.
    """
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z_score(scores), -500.0, 500.0))), dtype=np.float64)


def by_bound(scores: npt.ArrayLike, bound: npt.ArrayLike) -> Floats:
    """s / bound, clamped to 0..1: the share of the largest possible score. 0 where the bound is 0.

    Args:
        scores: (..., n), finite.
        bound: (...), >= 0: for BM25 the sum of the query terms' largest impacts.
    """
    given, most = _floats(scores), np.asarray(_floats(bound))[..., np.newaxis]
    reachable = most > EPSILON
    return np.where(reachable, np.clip(given / np.where(reachable, most, 1.0), 0.0, 1.0), 0.0)


def by_best(scores: npt.ArrayLike) -> Floats:
    """s / max, clamped to 0..1: the best of a row is 1. A row without a score above 0 is all 0.

    Args:
        scores: (..., n), n >= 0, finite.
    """
    given = _floats(scores)
    return by_bound(given, given.max(axis=-1, initial=0.0))


def none(scores: npt.ArrayLike) -> Floats:
    """The scores as they are, copied."""
    return np.array(_floats(scores))


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
