"""The formulas of the default fusion: evidence of both arms, which adds up. Pure.

Raw scores of two arms do not compare, and no fixed weight on normalised scores serves every corpus. Evidence does:

    lexical(d) = bm25(d) / sqrt(bound) / 4      BM25 is a sum of log-odds, one per term. The part that chance adds grows
                                                with the root of the largest BM25 that the query could reach.
    dense(d)   = softplus_square(z(d)) / 64     z: standard deviations of the cosine above the mean of this query's
                                                cosines over the corpus. -log p of a normal tail is about z^2 / 2.
    fused(d)   = w * lexical(d) + (1 - w) * dense(d)

Squaring z weighs the dense arm per query and without labels: a best chunk at 6 deviations counts about 4 times as much
as one at 3. An arm whose scores are all alike adds next to nothing. Measured in docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umi_common.errors import ConfigError
from umi_common.pool import Floats, Pool
from umi_common.ranking.normalize import EPSILON

LEXICAL_SCALE = 4.0
DENSE_SCALE = 64.0
"""Divisors that bring the evidence of both arms' best chunks near 0.5, on average over the dev sets. Only their ratio
matters. For BM25 in Lucene's unit, where a term adds at most its idf."""
PRIOR_COUNT = 8.0
PRIOR_MEAN = 0.2
PRIOR_DEVIATION = 0.12
"""The cosines of a few chunks estimate the background poorly, so 8 typical chunks are added to them."""


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Mean and standard deviation of each query's cosines over the corpus, or over a sample of at least 256 chunks."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,) >= 0."""
    count: int
    """Chunks in the sample; 0: the prior alone is used."""


def lexical_evidence(lexical: Floats, bound: Floats) -> Floats:
    """(V, n) bm25 / sqrt(bound) / 4; 0 where the corpus holds no term of the query.

    Args:
        lexical: (V, n) raw BM25, >= 0.
        bound: (V,) the largest BM25 the query could reach, >= 0.
    """
    known = bound > EPSILON
    scale = LEXICAL_SCALE * np.sqrt(np.where(known, bound, 1.0))
    return np.asarray(np.where(known[:, np.newaxis], lexical / scale[:, np.newaxis], 0.0), dtype=np.float64)


def dense_evidence(dense: Floats, background: Background) -> Floats:
    """(V, n) ((z + sqrt(z^2 + 4)) / 2)^2 / 64: about z^2 / 64 far above the background, near 0 far below; rises with z.

    Args:
        dense: (V, n) cosines.
        background: Of the same V queries.

    Raises:
        ConfigError: If the background is of another number of queries.
    """
    if background.mean.shape != (len(dense),) or background.deviation.shape != (len(dense),):
        raise ConfigError(f"background of shape {background.mean.shape} for {len(dense)} queries")
    mean, spread = background_moments(background)
    z = (dense - mean[:, np.newaxis]) / spread[:, np.newaxis]
    return np.asarray(((z + np.sqrt(z * z + 4.0)) / 2.0) ** 2 / DENSE_SCALE, dtype=np.float64)


def background_moments(background: Background) -> tuple[Floats, Floats]:
    """(V,) mean and (V,) standard deviation > 0 of the background, averaged with the prior of 8 typical chunks."""
    weight = background.count / (background.count + PRIOR_COUNT)
    mean = weight * background.mean + (1 - weight) * PRIOR_MEAN
    spread = np.sqrt(weight * background.deviation**2 + (1 - weight) * PRIOR_DEVIATION**2)
    return mean, np.maximum(spread, EPSILON)


def pool_background(pool: Pool) -> Background:
    """The background that the store states, else that of the pool's own cosines, whose mean is too high."""
    if len(pool.dense_mean) == pool.variations:
        return Background(pool.dense_mean, pool.dense_deviation, pool.dense_count)
    return background_of(pool.dense)


def arm_evidence(pool: Pool, unit: float) -> tuple[Floats, Floats]:
    """(V, n) evidence of the lexical and of the dense arm; all 0 where the arm did not answer.

    Args:
        pool: n candidates, V query variations.
        unit: The most that one term adds per unit of its idf: 1 for Lucene's BM25, k1 + 1 for the other variants.
    """
    lexical = dense = np.zeros_like(pool.lexical)
    if pool.mode != "vector":
        lexical = lexical_evidence(pool.lexical / unit, pool.lexical_bound / unit)
    if pool.mode != "text":
        dense = dense_evidence(pool.dense, pool_background(pool))
    return lexical, dense


def background_of(cosines: npt.ArrayLike) -> Background:
    """The background estimated from (V, count) cosines over the corpus or a sample; count 0: the prior alone."""
    given = np.asarray(cosines, dtype=np.float64)
    if given.shape[1] == 0:
        nothing = np.zeros(len(given))
        return Background(nothing, nothing, 0)
    return Background(given.mean(axis=1), given.std(axis=1), given.shape[1])


def fuse_evidence(
    lexical: Floats, dense: Floats, *, lexical_share: float, variation_weights: npt.ArrayLike = (1.0,)
) -> tuple[Floats, Floats]:
    """Add up both arms' evidence over all query variations.

    fused(d) = sum_v u[v] * (w * lexical[v, d] + (1 - w) * dense[v, d]), divided by the largest.

    Args:
        lexical: (V, n) from `lexical_evidence`; all 0 where the arm did not answer.
        dense: (V, n) from `dense_evidence`; all 0 where the arm did not answer.
        lexical_share: w, 0..1.
        variation_weights: (V,) >= 0, not all 0; the original query is row 0. Only their ratios matter.

    Returns:
        (n,) scores 0..1, the best 1 (all 0 without any evidence), and for the trace (V,) the lexical arm's share of
        both arms' strongest evidence, 0..1 (0.5 without any evidence).

    Raises:
        ConfigError: If shapes differ or a weight is out of range.
    """
    weights = np.asarray(variation_weights, dtype=np.float64)
    if lexical.shape != dense.shape or weights.shape != lexical.shape[:1]:
        raise ConfigError(f"lexical {lexical.shape}, dense {dense.shape}, variation weights {weights.shape} do not fit")
    if not 0 <= lexical_share <= 1 or not (weights >= 0).all() or not weights.any():
        raise ConfigError(f"lexical share {lexical_share!r}: expected 0..1; weights {weights.tolist()!r}: >= 0")
    words, meaning = lexical_share * lexical, (1 - lexical_share) * dense
    scores = np.asarray((weights / weights.sum()) @ (words + meaning), dtype=np.float64)
    best = float(scores.max(initial=0.0))
    strongest = words.max(axis=1, initial=0.0)
    total = strongest + meaning.max(axis=1, initial=0.0)
    share = np.where(total > EPSILON, strongest / np.where(total > EPSILON, total, 1.0), 0.5)
    return (scores / best if best > EPSILON else np.zeros_like(scores)), share
