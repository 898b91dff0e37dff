"""Stage: a chunk gains if it resembles the best candidates (pseudo-relevance feedback by vectors). Pure.

    e(i) = score(i) / max score                                       the chunk's own score
    s(i) = sum_b e(b)^2 cos(i, b) / sum_b e(b)^2                      over the 3 best chunks b, without i itself
    z(i) = max(0, (s(i) - mean s) / max(deviation of s, 0.05))        mean and standard deviation over the candidates
    final(i) = e(i) + weight * (1 - e(i))^2 * min(1, (z(i) / 4)^2)

weight is a setting. A candidate that shares no word with the query, and has a low cosine with it, rises because it
resembles the best candidates. The higher the score of a chunk, the less it gains: the best chunk stays the best, and of
two chunks with the same s the better one stays before the other.
"""

from __future__ import annotations

import numpy as np

from umi_common.config import FeedbackConfig
from umi_common.pool import Floats, Pool, Vectors, best_first
from umi_common.ranking.evidence import EPSILON, weighted_sum

BEST = 3
"""Number of best candidates with which each candidate is compared."""
LEAST_DEVIATION = 0.05
"""Smallest divisor in z. It keeps z small if all candidates resemble the best ones equally and differ only by
chance."""
FULL_Z = 4.0
"""z from which a chunk has the largest gain."""


def apply(pool: Pool, scores: Floats, settings: FeedbackConfig, facts: dict[str, object]) -> Floats:
    """(n,) scores by the formula at the top of this file; n must be > BEST. Scores of 0 and less gain nothing; if no
    score is above 0, all stay. `facts` gets the number of chunks that gain."""
    top = float(scores.max(initial=0.0))
    if top <= 0:
        return scores
    own = scores / top
    gain = np.where(own > 0, settings.weight * (1.0 - own) ** 2 * resemblance(own, pool.vectors), 0.0)
    facts["gaining"] = int(np.count_nonzero(gain))
    return np.asarray(own + gain, dtype=np.float64)


def resemblance(scores: Floats, vectors: Vectors) -> Floats:
    """(n,) min(1, (z / 4)^2): how much each candidate resembles the best other candidates, 0..1.

    Args:
        scores: (n,) with n > BEST, the best 1.
        vectors: (n, dim) unit rows; a zero row has cosine 0 with all rows.
    """
    best = best_first(scores)[:BEST]
    weights, best_vectors = np.maximum(scores[best], 0.0) ** 2, vectors[best]
    total = weights.sum()
    weighted = weighted_sum(weights, best_vectors).astype(np.float32)
    cosine_sums = np.einsum("nd,d->n", vectors, weighted).astype(np.float64)
    similar = cosine_sums / total
    # Each of the best is compared with the other best: its own weight and its cosine with itself are subtracted.
    others = total - weights
    of_others = cosine_sums[best] - weights * np.einsum("bd,bd->b", best_vectors, best_vectors)
    similar[best] = of_others / np.where(others > EPSILON, others, np.inf)  # 0 if the other best have no weight
    z = (similar - similar.mean()) / max(float(similar.std()), LEAST_DEVIATION)
    return np.asarray(np.minimum(np.maximum(z / FULL_Z, 0.0), 1.0) ** 2, dtype=np.float64)
