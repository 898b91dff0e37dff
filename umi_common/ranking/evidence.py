"""Bring the scores of both arms to one scale: as evidence, which the default fusion adds up, or normalised. Pure.

The raw scores of the two arms have different scales, and no fixed weights on normalised scores are good on every
corpus. Evidence is on one scale for both arms:

    lexical(d) = bm25(d) / sqrt(bound) / 4      BM25 is a sum of log-odds, one per term. bound is the largest BM25 that
                                                the query could reach, plus up to 4 for its terms that the corpus
                                                does not hold. The BM25 of chance matches grows with sqrt(bound).
    dense(d)   = squareplus(z(d))^2 / 64        z: standard deviations of the cosine above the mean of this query's
                                                cosines over the corpus. Mean and deviation are the background of the
                                                query. -log p of a normal tail is about z^2 / 2.
    squareplus(z) = (z + sqrt(z^2 + 4)) / 2     A smooth max(0, z).
    fused(d)   = w * lexical(d) + (1 - w) * dense(d)

A chunk in another language than the query shares few words with the query even if it answers the query. The lexical
evidence of this chunk is max(lexical(d), dense(d)), so that a multilingual embedder can rank it beside chunks in the
query's language. With most other embedders the dense evidence of the chunk is near 0, and nothing changes. If there
are candidates in the query's language, and none of them holds a word of the query, all chunks keep lexical(d).

Because z is squared, the dense arm weighs more for a query whose best chunk is far above the rest: the evidence at 6
standard deviations is about 3.5 times the evidence at 3. An arm whose scores are nearly equal for all chunks hardly
changes the order.

The normalisers `min_max`, `z_score`, `logistic`, `by_bound` and `by_best` take finite scores (..., n), n >= 0, one row
for each query variation. They return a new float64 array of the same shape and keep the order of each row; clamped
scores may become equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from umi_common.errors import ConfigError
from umi_common.pool import Background, Bools, Floats, Pool, Vectors

EPSILON = 1e-9
"""A spread or a bound below this counts as 0."""
LEXICAL_SCALE = 4.0
"""Divisor of the lexical evidence: the best chunk's evidence is then 0.5 on average over the dev sets. Chosen for
Lucene's BM25, where a term adds at most its idf. The order of chunks depends only on the ratio to `DENSE_SCALE`."""
DENSE_SCALE = 64.0
"""Divisor of the dense evidence, chosen in the same way."""
MISSING_MAX = 4.0
"""Largest amount that terms outside the corpus add to the bound. If they added nothing, the function words of a
question whose other words are unknown would be strong evidence. Without the limit, a long question with many unknown
words would have hardly any evidence."""
PRIOR_COUNT = 8.0
"""Weight of the background's prior, in chunks. Without the prior, the background of a small store would be a poor
estimate."""
PRIOR_MEAN = 0.2
"""Mean of the prior: a typical cosine of a query and a chunk."""
PRIOR_DEVIATION = 0.12
"""Standard deviation of the cosines in the prior."""

LOWERED_FROM = 2.0
"""z above which a text that resembles a single token of the query is lowered."""

ArmEvidence = tuple[Floats, Floats]
"""(V, n) evidence of the lexical and of the dense arm, for V query variations and n candidates."""


def lexical_evidence(lexical: Floats, bound: Floats) -> Floats:
    """(V, n) bm25 / sqrt(bound) / 4; 0 for a query whose bound is 0: the corpus holds none of its terms.

    Args:
        lexical: (V, n) raw BM25, >= 0.
        bound: (V,) the largest BM25 that the query could reach, >= 0, with the amount of the terms outside the corpus.
    """
    scale = LEXICAL_SCALE * np.sqrt(np.where(bound > EPSILON, bound, np.inf))
    return np.asarray(lexical / scale[:, np.newaxis], dtype=np.float64)


def dense_evidence(dense: Floats, background: Background, excess: Floats | None = None) -> Floats:
    """(V, n) ((z + sqrt(z^2 + 4)) / 2)^2 / 64, rising with z: about z^2 / 64 for large z, 1 / 64 at 0, near 0 below -3.

    Args:
        dense: (V, n) cosines.
        background: Mean and deviation of the cosines of the same V queries.
        excess: (n,) 0..1, by which z of the first query is lowered: z -= excess * max(0, z - 2). None: no z is lowered.

    Raises:
        ConfigError: If the background is not that of V queries.
    """
    shapes = background.mean.shape, background.deviation.shape
    if shapes != ((len(dense),), (len(dense),)):
        raise ConfigError(
            f"mean and deviation of the background have the shapes {shapes[0]} and {shapes[1]}; expected one number "
            f"for each of {len(dense)} queries"
        )
    mean, spread = background_moments(background)
    z = (dense - mean[:, np.newaxis]) / spread[:, np.newaxis]
    if excess is not None:
        z[0] -= excess * np.maximum(z[0] - LOWERED_FROM, 0.0)
    return np.asarray(((z + np.sqrt(z * z + 4.0)) / 2.0) ** 2 / DENSE_SCALE, dtype=np.float64)


def background_moments(background: Background) -> tuple[Floats, Floats]:
    """(V,) mean and (V,) standard deviation > 0 of the background, averaged with the prior."""
    weight = background.count / (background.count + PRIOR_COUNT)
    mean = weight * background.mean + (1 - weight) * PRIOR_MEAN
    spread = np.sqrt(weight * background.deviation**2 + (1 - weight) * PRIOR_DEVIATION**2)
    return mean, np.maximum(spread, EPSILON)


def pool_background(pool: Pool) -> Background:
    """The background that the store states; if it states none, an estimate from the pool's cosines.

    The mean of the estimate is too high, because the pool holds the chunks nearest to the query.
    """
    return background_of(pool.dense) if pool.background is None else pool.background


def arm_evidence(pool: Pool, unit: float, excess: Floats | None = None) -> ArmEvidence:
    """The evidence of both arms; all 0 for an arm that did not answer.

    Args:
        unit: Largest score that a term can add to BM25, divided by the term's idf: 1 for the variant of Lucene, k1 + 1
            for the other variants.
        excess: As for `dense_evidence`.
    """
    lexical = dense = np.zeros_like(pool.lexical)
    if pool.mode != "vector":
        bound = pool.lexical_bound / unit
        whole = bound / np.where(pool.coverage > 0, pool.coverage, np.inf)  # with the terms outside the corpus
        missing = np.minimum(np.maximum(whole - bound, 0.0), MISSING_MAX)
        lexical = lexical_evidence(pool.lexical / unit, bound + missing)
    if pool.mode != "text":
        dense = dense_evidence(pool.dense, pool_background(pool), excess)
    if pool.mode == "hybrid" and pool.other_language.any():
        lexical = np.where(_hidden_by_language(pool, lexical), np.maximum(lexical, dense), lexical)
    return lexical, dense


def _hidden_by_language(pool: Pool, lexical: Floats) -> Bools:
    """(V, n) whether the chunk is in another language than the query, which may explain a low BM25.

    It explains nothing if there are candidates in the query's language and none of them holds a word of the query.
    """
    own = ~pool.other_language
    own_hold_words = (own & (lexical > 0)).any(axis=1, keepdims=True) | pool.other_language.all(axis=1, keepdims=True)
    return np.asarray(pool.other_language & own_hold_words, dtype=bool)


def background_of(cosines: npt.ArrayLike) -> Background:
    """The background of V queries, from (V, count) cosines over the corpus or a sample; count may be 0."""
    given = np.asarray(cosines, dtype=np.float64)
    if given.shape[1] == 0:
        nothing = np.zeros(len(given))
        return Background(nothing, nothing, 0)
    return Background(given.mean(axis=1), given.std(axis=1), given.shape[1])


def fuse_evidence(
    lexical: Floats, dense: Floats, *, lexical_share: float, variation_weights: Floats
) -> tuple[Floats, Floats]:
    """Add up the evidence of both arms and of all query variations.

    score(d) = sum_v u[v] * (w * lexical[v, d] + (1 - w) * dense[v, d])

    Args:
        lexical, dense: (V, n) from `arm_evidence`.
        lexical_share: w, 0..1.
        variation_weights: (V,) >= 0, not all 0; u is this divided by its sum. The original query is row 0.

    Returns:
        (n,) scores >= 0.
        (V,) the lexical arm's share of the strongest evidence, for the trace: l / (l + d), where l is the largest
        w * lexical and d the largest (1 - w) * dense; 0.5 if both are 0.
    """
    weighted_lexical, weighted_dense = lexical_share * lexical, (1 - lexical_share) * dense
    scores = weighted_sum(variation_weights / variation_weights.sum(), weighted_lexical + weighted_dense)
    strongest = weighted_lexical.max(axis=1, initial=0.0)
    total = strongest + weighted_dense.max(axis=1, initial=0.0)
    share = np.where(total > EPSILON, strongest / np.where(total > EPSILON, total, 1.0), 0.5)
    return scores, share


def weighted_sum(weights: Floats, values: Floats | Vectors) -> Floats:
    """(n,) sum_i weights[i] * values[i] of weights (m,) and values (m, n). Unlike in a matrix product, equal columns
    have sums that are equal bit by bit."""
    return np.asarray((weights[:, np.newaxis] * values).sum(axis=0), dtype=np.float64)


def min_max(scores: npt.ArrayLike) -> Floats:
    """(s - min) / (max - min), clamped to 0..1.

    A row whose scores are all equal becomes 1 if they are above 0, else 0.
    """
    given = np.asarray(scores, dtype=np.float64)
    if given.shape[-1] == 0:
        return np.array(given)
    low = given.min(axis=-1, keepdims=True)
    spread = given.max(axis=-1, keepdims=True) - low
    flat = spread < EPSILON
    scaled = np.clip((given - low) / np.where(flat, 1.0, spread), 0.0, 1.0)
    return np.asarray(np.where(flat, given > 0, scaled), dtype=np.float64)


def z_score(scores: npt.ArrayLike) -> Floats:
    """(s - mean) / standard deviation of the row; 0 throughout a row without spread. Unbounded."""
    given = np.asarray(scores, dtype=np.float64)
    if given.shape[-1] == 0:
        return np.array(given)
    deviation = given.std(axis=-1, keepdims=True)
    centred = given - given.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(deviation < EPSILON, np.inf, deviation), dtype=np.float64)


def logistic(scores: npt.ArrayLike) -> Floats:
    """1 / (1 + exp(-z)) of the row's z-scores z, 0..1."""
    return np.asarray(1.0 / (1.0 + np.exp(-z_score(scores))), dtype=np.float64)


def by_bound(scores: npt.ArrayLike, bound: npt.ArrayLike) -> Floats:
    """s / bound, clamped to 0..1: the share of the largest possible score. 0 where the bound is 0.

    Args:
        scores: (..., n) finite scores, as for every normaliser.
        bound: (...) largest possible score of each row, >= 0; for BM25 the sum of the query terms' largest impacts.
    """
    most = np.asarray(bound, dtype=np.float64)[..., np.newaxis]
    return np.minimum(
        np.maximum(np.asarray(scores, dtype=np.float64) / np.where(most > EPSILON, most, np.inf), 0.0), 1.0
    )


def by_best(scores: npt.ArrayLike) -> Floats:
    """s / max, clamped to 0..1: the best of a row is 1. A row without a score above 0 is all 0."""
    given = np.asarray(scores, dtype=np.float64)
    best = given.max(axis=-1, keepdims=True, initial=0.0)
    return np.maximum(given, 0.0) / np.where(best > EPSILON, best, np.inf)


def normalized(scores: Floats, normalizer: str, bound: Floats) -> Floats:
    """A new array of the scores (V, n) after the normaliser of `FusionConfig.normalizer`.

    Args:
        bound: (V,) largest possible score, for the normaliser "bound".
    """
    if normalizer == "bound":
        return by_bound(scores, bound)
    if normalizer == "none":
        return np.array(scores)
    return {"minmax": min_max, "zscore": z_score, "logistic": logistic}[normalizer](scores)
