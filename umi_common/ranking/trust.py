"""The default fusion: add up evidence, not scores, so that each arm speaks as loudly as it has something to say.

Raw scores of two arms do not compare, and no fixed weight on normalised ones serves every corpus. Evidence does:

    lexical(d) = bm25(d) / sqrt(bound)          bm25 is a sum of log-odds, one per term; what chance alone adds grows
                                                with the root of what the query could reach
    dense(d)   = softplus_square(z(d))          z is how far the cosine stands out of this query's cosines over the
                                                corpus; -log p of a normal tail is about z^2 / 2
    fused(d)   = w * lexical(d) / 4  +  (1 - w) * dense(d) / 64

Squaring z is the trust: a dense arm whose best chunk stands out 6 deviations says 4 times as much as one at 3, per
query and without a label. An arm that tells nothing apart says next to nothing. Measured in docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umi_common.errors import ConfigError
from umi_common.pool import Floats

LEXICAL_SCALE = 4.0
DENSE_SCALE = 64.0
"""Both arms' best chunks lie near 0.5 on average over the dev sets; only the ratio matters. For BM25 in Lucene's unit,
where a term adds at most its idf."""
LEXICAL_SHARE = 0.45
"""w: the best in every leave-one-set-out split."""
PRIOR_COUNT = 8.0
PRIOR_MEAN = 0.2
PRIOR_DEVIATION = 0.12
"""A handful of chunks says little about the usual cosine: it counts as if 8 more, typical ones, had been seen."""
EPSILON = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """A query's cosines over the corpus (or a sample of at least 256 chunks): what "nothing special" looks like."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,) >= 0."""
    count: int
    """Chunks that were looked at; 0: none, the prior alone speaks."""


@dataclass(frozen=True, slots=True, eq=False)
class Trust:
    """How much each arm had to say, for the trace."""

    lexical: Floats
    """(V,) its strongest evidence, weighted."""
    dense: Floats
    """(V,) likewise."""

    @property
    def lexical_share(self) -> Floats:
        """(V,) 0..1; 0.5 where neither arm says anything."""
        total = self.lexical + self.dense
        return np.where(total > EPSILON, self.lexical / np.where(total > EPSILON, total, 1.0), 0.5)


def lexical_evidence(lexical: Floats, bound: Floats) -> Floats:
    """bm25 / sqrt(bound) / 4; 0 where no term of the query is known.

    Args:
        lexical: (V, n) raw BM25, >= 0.
        bound: (V,) the largest BM25 the query could reach, >= 0.
    """
    known = bound > EPSILON
    scale = LEXICAL_SCALE * np.sqrt(np.where(known, bound, 1.0))
    return np.asarray(np.where(known[:, np.newaxis], lexical / scale[:, np.newaxis], 0.0), dtype=np.float64)


def dense_evidence(dense: Floats, background: Background) -> Floats:
    """((z + sqrt(z^2 + 4)) / 2)^2 / 64: z^2 far above the background, falling to 0 below it, rising everywhere.

    Args:
        dense: (V, n) cosines.
        background: Of the same V queries.

    Raises:
        ConfigError: If the background is of another number of queries.
    """
    if background.mean.shape != (len(dense),) or background.deviation.shape != (len(dense),):
        raise ConfigError(f"background of shape {background.mean.shape} for {len(dense)} queries")
    weight = background.count / (background.count + PRIOR_COUNT)
    mean = weight * background.mean + (1 - weight) * PRIOR_MEAN
    spread = np.sqrt(weight * background.deviation**2 + (1 - weight) * PRIOR_DEVIATION**2)
    z = (dense - mean[:, np.newaxis]) / np.maximum(spread, EPSILON)[:, np.newaxis]
    return np.asarray(((z + np.sqrt(z * z + 4.0)) / 2.0) ** 2 / DENSE_SCALE, dtype=np.float64)


def background_of(cosines: npt.ArrayLike) -> Background:
    """The background from a query's cosines over the corpus or a sample: (V, count). Empty: the prior alone."""
    given = np.asarray(cosines, dtype=np.float64)
    if given.shape[1] == 0:
        nothing = np.zeros(len(given))
        return Background(nothing, nothing, 0)
    return Background(given.mean(axis=1), given.std(axis=1), given.shape[1])


def fuse_evidence(
    lexical: Floats, dense: Floats, *, lexical_share: float = LEXICAL_SHARE, variation_weights: npt.ArrayLike = (1.0,)
) -> tuple[Floats, Trust]:
    """Add up both arms' evidence over all query variations.

    fused(d) = sum_v u[v] * (w * lexical[v, d] + (1 - w) * dense[v, d]), divided by the largest.

    Args:
        lexical: (V, n) from `lexical_evidence`; all 0 where the arm did not answer.
        dense: (V, n) from `dense_evidence`; all 0 where the arm did not answer.
        lexical_share: w, 0..1.
        variation_weights: (V,) >= 0, not all 0; the original query is row 0. Their size does not matter.

    Returns:
        (n,) scores 0..1, the best 1 (all 0 if nothing matches), and what each arm had to say.

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
    trust = Trust(words.max(axis=1, initial=0.0), meaning.max(axis=1, initial=0.0))
    return (scores / best if best > EPSILON else np.zeros_like(scores)), trust
