"""The relevance of hits, 0..1: an estimate of the probability that a hit answers the query. Pure.

Scores are divided by the best score of their result, so they do not compare across queries. Relevance does:

    p = known * answers(i)
    relevance(i) = p if p <= 0.5, else p^s / (p^s + (1 - p)^s) with s = 1.25: the odds to the power s
    known      = sigmoid(13.8 * lift + 63.9 * spread + 8.3 * covered - 13.2)
    answers(i) = sigmoid(1.8 * covered + 2.3 * evidence - 2.4 + 4.3 * ln(score(i) / best score) + few)

    lift       (largest cosine - mean) / (1 - mean), with the mean of the query's background
    spread     deviation of the background / (1 - mean); small for a query on another subject than the corpus
    covered    coverage * bm25 / bound of the chunk with the most evidence: about its share of the query's idf
    evidence   the largest fused evidence of any chunk
    few        0.6 * ln(100 / chunks) if the store has fewer than 100 chunks (`Background.count`), else 0: in a small
               store other features are smaller, and a hit is more often right

An arm is a search of the store, lexical (BM25) or dense (vectors). The background of a query is the mean and standard
deviation of its cosines over the corpus. Evidence is an arm's score on a scale that both arms share, fused evidence the
weighted sum of both (`ranking.evidence`). The bound is the largest BM25 that the query's terms can give, coverage the
share of their idf that belongs to terms in the corpus (`Pool.lexical_bound`, `Pool.coverage`).

`known` estimates whether the corpus is about the query's subject, `answers` whether the chunk holds the answer. Above
0.5 their product is too small, hence s: of the hits with a product of 0.75, 87 % are relevant. Some embedders give
a + (1 - a) * c in place of each cosine c, with one number a; lift and spread do not depend on a. Each feature is
averaged over the query variations with the weights of fusion.

The coefficients above are for both arms; others are used if only one answered, or if the store gives no bound. All were
fitted on nine collections with two embedders; those of `answers` above minimise the log loss of the first ten hits,
where hit r has weight 1 / r. docs/evaluation.md has the figures on collections left out of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umi_common.config import FusionConfig
from umi_common.pool import Floats, Pool
from umi_common.ranking.evidence import (
    EPSILON,
    ArmEvidence,
    background_moments,
    by_bound,
    pool_background,
    weighted_sum,
)
from umi_common.ranking.fusion import weights_of_variations

DEFAULTS = FusionConfig()
LEXICAL_SHARE = DEFAULTS.lexical_weight / (DEFAULTS.lexical_weight + DEFAULTS.dense_weight)
"""Share of the lexical arm in the evidence, by the default weights. Other weights in the settings do not change it,
because the coefficients were fitted with this share."""


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Coefficients of the formulas at the top of this file."""

    known: Floats
    """(4,) coefficients of lift, spread and covered in `known`, and the constant."""
    answers: Floats
    """(3,) coefficients of covered and evidence in `answers`, and the constant."""
    fall: float
    """Coefficient of ln(score / best score) in `answers`."""


FEW_CHUNKS = 100
"""Number of chunks of a store from which `few` is 0."""
FEW_WEIGHT = 0.6
"""Factor on ln(100 / chunks). Fitted on samples of 3 to 50 chunks of seven collections; fits that leave one of these
collections out give 0.5 to 0.7."""
ODDS_POWER = 1.25
"""s, the power of odds above 1. Fits that leave one collection out give 1.1 to 1.9. A larger power overstates relevance
more on a collection that was left out of the fit (docs/evaluation.md)."""
COEFFICIENTS = {
    "hybrid": Coefficients(np.array([13.80, 63.87, 8.35, -13.21]), np.array([1.78, 2.28, -2.43]), 4.33),
    "text": Coefficients(np.array([0.0, 0.0, 15.77, -5.06]), np.array([-1.03, 2.08, -1.13]), 3.94),
    "vector": Coefficients(np.array([17.06, 66.84, 0.0, -12.14]), np.array([0.0, 1.93, -1.87]), 2.05),
}
"""Coefficients by `Pool.mode`, which says which arms answered."""


def relevance(
    pool: Pool, scores: Floats | None, evidence: ArmEvidence, *, variation_weight: float = 1.0
) -> Floats | None:
    """(n,) relevance of each row, 0..1, rising with the score.

    Extra arms, which a user adds to those of the store, add no evidence; they change the relevance only by the scores.

    Args:
        scores: (n,) final scores; if none is above 0, all relevances are 0. None: the fused evidence takes their place,
            as for fusion by ranks, whose scores differ little between a right and a wrong chunk.
        evidence: From `arm_evidence`.
        variation_weight: `FusionConfig.variation_weight`; the query itself has `Pool.query_weight`.

    Returns:
        None: not known, because only the lexical arm answered and the store gives no bound of its BM25.
    """
    mode = _comparable_arms(pool)
    if mode is None:
        return None
    lexical, dense = evidence
    lexical_share = {"text": 1.0, "vector": 0.0}.get(mode, LEXICAL_SHARE)
    fused = lexical_share * lexical + (1.0 - lexical_share) * dense
    weights = weights_of_variations(pool, variation_weight)
    scores = weighted_sum(weights, fused) if scores is None else scores
    best = float(scores.max(initial=0.0))
    if best <= 0.0:
        return np.zeros_like(scores)
    lift, spread, covered, most_evidence = _features(pool, mode, fused) @ (weights / weights.sum())
    fitted = COEFFICIENTS[mode]
    known = _sigmoid(fitted.known @ np.array([lift, spread, covered, 1.0]))
    shares = np.maximum(scores / best, EPSILON)
    chunks = FEW_CHUNKS if pool.background is None else pool.background.count or FEW_CHUNKS
    few = FEW_WEIGHT * np.log(FEW_CHUNKS / min(chunks, FEW_CHUNKS))
    answers = fitted.answers @ np.array([covered, most_evidence, 1.0]) + fitted.fall * np.log(shares) + few
    product = known * _sigmoid(answers)
    odds_against = 1.0 / product - 1.0
    return np.where(product > 0.5, 1.0 / (1.0 + odds_against**ODDS_POWER), product)


def _comparable_arms(pool: Pool) -> str | None:
    """The arms that answered and whose scores compare across queries: "hybrid", "text" or "vector"; None: no arm.

    BM25 compares only as a share of its bound, which some stores do not state, or if it is 0 in all rows.
    """
    if pool.mode == "vector" or (pool.lexical_bound > 0).any() or not pool.lexical.any():
        return pool.mode
    return "vector" if pool.mode == "hybrid" else None


def _features(pool: Pool, mode: str, fused: Floats) -> Floats:
    """(4, V) lift, spread, covered and evidence of each query variation; features of arms not in `mode` are 0.

    Args:
        fused: (V, n) evidence of both arms together.
    """
    strongest = np.arange(pool.variations), fused.argmax(axis=1)  # for each variation, the row with the most evidence
    features = np.zeros((4, pool.variations))
    if mode != "text":
        mean, deviation = background_moments(pool_background(pool))
        largest_gap = np.maximum(1.0 - mean, EPSILON)
        features[0] = (pool.dense.max(axis=1) - mean) / largest_gap
        features[1] = deviation / largest_gap
    if mode != "vector":
        features[2] = pool.coverage * by_bound(pool.lexical[strongest][:, np.newaxis], pool.lexical_bound)[:, 0]
    features[3] = fused[strongest]
    return features


def _sigmoid(log_odds: npt.ArrayLike) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(log_odds, dtype=np.float64))))
