"""Stage: a chunk gains from the scores of the chunks beside it, and from how well its whole source matches. Pure.

    e(i) = score(i) / max score                      the chunk's own score
    r(i) = 1 / (1 + (length(i) / 150)^3)             factor on a chunk's gain: a shorter chunk lacks more context
    y(j) = e(j)^3 * r(j)                             the gain from a chunk: much only from a short one with a high score
    n(i, j) = 1 - ramp(cos(i, j), 0.8, 0.9)          share of a neighbour that is new: 0 for a copy
    final(i) = e(i)^1.5 + r(i) * ( p * sum_{d=1,2} 2^(1-d) * (previous * n(i, i-d) * y(i-d)
                                                   + following * n(i, i+d) * y(i+d))
                                 + s * source * whole(i) )

length(i) is the number of terms of chunk i; i-d and i+d are the chunks d positions before and after i; whole(i) is the
evidence for the whole source of i (`source_evidence`). ramp(x, a, b) is 0 up to x = a, 1 from x = b on, and linear
between. previous, following and source are settings.

Finally all scores are divided by the best. p and s depend on the corpus (`shares_of`). p is 0 if adjacent chunks are no
more alike than any two chunks of their source. s is 0 if chunks of one source are no more alike than any two chunks of
the corpus. With shuffled positions, neighbours therefore change nothing. p and s fall if the chunks of a source are so
alike that each repeats its neighbours' content, as the entries of a reference manual do.

p and s also depend on the query. p falls to 0 if the best chunks are copies of each other (`share_of_distinct`), as
records and clauses are: the chunk beside the right one then answers another question equally well. s rises
(`source_lead`) if one source matches the query far better than all other sources. If the best chunks are copies of each
other, a smaller lead of the source is enough: of documents made from one template, only the source distinguishes a
clause of one contract from the same clause of another.

Time is linear in the pool, except for one sort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from umi_common.config import NeighboursConfig, UmiConfig
from umi_common.errors import ConfigError
from umi_common.pool import NO_POSITION, NO_SOURCE, Floats, Ints, Pool, Vectors, best_first
from umi_common.ranking.evidence import EPSILON, by_best, weighted_sum
from umi_common.ranking.fusion import weights_of_variations

DEFAULTS = NeighboursConfig()
HOPS = 2
"""Largest distance, in positions, from which a chunk gains."""
FADE = 0.5
"""Factor on the gain for each position beyond the first."""
SELF_CONTAINED_TERMS = 150.0
"""Length in terms at which a chunk gains half as much as a very short chunk: a longer chunk needs less context."""

COPY_FROM, COPY_AT = 0.8, 0.9
"""Cosines of a chunk and its neighbour. Up to `COPY_FROM` the whole gain counts; from `COPY_AT` on the neighbour is a
copy and adds nothing: a line of a log does not become relevant because the next, nearly equal line is relevant."""

PRIOR_PAIRS = 40.0
PRIOR_AUTOCORRELATION = 0.1
"""A measured autocorrelation is averaged with this prior, which counts as 40 pairs."""
AUTOCORRELATION_FROM, AUTOCORRELATION_TO = 0.03, 0.08
"""Autocorrelation up to which the first factor of p (`shares_of`) is 0, and from which it is 1. With shuffled
positions, 9 in 10 dev corpora are below 0.03; unshuffled, 9 in 10 are above 0.05."""
PRIOR_CHUNKS = 20.0
PRIOR_ICC = 0.05
"""A measured intraclass correlation (ICC) is averaged with this prior, which counts as 20 chunks."""
ICC_FROM, ICC_TO = 0.01, 0.025
"""ICC up to which the first factor of s is 0, and from which it is 1. With shuffled positions, all dev corpora are
below 0.01; unshuffled, all are above 0.03."""
LEAD_FROM, LEAD_TO = 0.6, 0.9
"""Lead of the best source over the second best from which `source_lead` is above 0, and from which it is 1, without
copies among the best chunks. With random sources, 19 in 20 questions have a lead below 0.63. If documents follow one
template and the query names one of them, 9 in 10 questions have a lead above 0.87."""
BEST = 10
"""Number of best chunks among which copies are counted."""
COPIES_FROM, COPIES_TO = 0.5, 0.9
"""`share_of_copies` up to which the best chunks count as distinct, and from which they count as copies of each other.
If only copies in other sources are counted, 9 in 10 questions over chats, meetings and articles are below 0.3, also
with random sources; contracts made from one template have 0.9 and more."""
COPY_TERMS_MIN = 8
"""Length in terms of the shortest chunk that counts as a copy: all "Okay." of a meeting are equal, which says nothing
about its other chunks."""
COPY_LEAD_FROM, COPY_LEAD_TO = 0.05, 0.2
"""`LEAD_FROM` and `LEAD_TO` if the best chunks are copies of each other. They are smaller, because the names of the
parties of two contracts may share words."""
REDUNDANT_FROM = 0.1
POSITION_REDUNDANT_AT, SOURCE_REDUNDANT_AT = 0.3, 1.0
"""ICC from which p and s fall, at which p is 0, and at which s is 0. Chats and meetings have an ICC below 0.07,
collections of sessions on one topic each have 0.4, a reference manual has 0.43."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Factors 0..1 on the gain from neighbours (p) and from the source (s)."""

    position: float
    source: float


FULL_SHARES = Shares(1.0, 1.0)


def apply(pool: Pool, scores: Floats, settings: UmiConfig, facts: dict[str, object]) -> Floats:
    """(n,) `neighbour_scores` of the pool; `facts` gets the shares p and s."""
    own = settings.neighbours
    weights = weights_of_variations(pool, settings.fusion.variation_weight)
    source_lexical = weighted_sum(weights / weights.sum(), pool.source_lexical)
    shares = FULL_SHARES
    if own.adaptive:
        best = best_first(scores)[:BEST]
        least = source_lead(source_lexical, pool.source, share_of_copies(pool, best, elsewhere=True))
        shares = shares_of(pool.calibration, least)
        if shares.position:
            shares = replace(shares, position=shares.position * share_of_distinct(pool, best))
    facts.update(position_share=round(shares.position, 3), source_share=round(shares.source, 3))
    return neighbour_scores(
        scores,
        pool.source,
        pool.position,
        pool.length,
        source_evidence(source_lexical, pool.source),
        previous=own.previous,
        following=own.following,
        source_share=own.source,
        shares=shares,
        vectors=pool.vectors,
    )


def shares_of(calibration: Mapping[str, float], least: float = 0.0) -> Shares:
    """The shares for a corpus with these calibration numbers.

        p = ramp(autocorrelation, 0.03, 0.08) * (1 - ramp(icc, 0.1, 0.3))
        s = max(least, ramp(icc, 0.01, 0.025)) * (1 - ramp(icc, 0.1, 1.0)) * shared_source_share

    autocorrelation and icc are averaged with their priors; a missing number is replaced by its prior. Both shares are 0
    if no source has two chunks: the BM25 of a source would be that of its only chunk, counted twice.

    Args:
        calibration: Any of these numbers, by name:
            autocorrelation: How much more alike chunks one and two positions apart are than any two chunks of their
                source: lag-1 plus lag-2 autocorrelation of the vectors, from `autocorrelation_pairs` pairs.
            icc: Intraclass correlation, the share of the vectors' variance that lies between sources, from `icc_chunks`
                chunks.
            shared_source_share: Share of the chunks with a source whose source has more than one; 1 if missing.
        least: Lower limit of the first factor of s, from `source_lead`.
    """
    shared = calibration.get("shared_source_share", 1.0)
    if not shared:
        return Shares(0.0, 0.0)
    pairs, chunks = calibration.get("autocorrelation_pairs", 0.0), calibration.get("icc_chunks", 0.0)
    autocorrelation = _shrunk(calibration.get("autocorrelation", 0.0), pairs, PRIOR_AUTOCORRELATION, PRIOR_PAIRS)
    icc = _shrunk(calibration.get("icc", 0.0), chunks, PRIOR_ICC, PRIOR_CHUNKS)
    new_beside = 1.0 - _ramp(icc, REDUNDANT_FROM, POSITION_REDUNDANT_AT)
    new_around = 1.0 - _ramp(icc, REDUNDANT_FROM, SOURCE_REDUNDANT_AT)
    return Shares(
        position=_ramp(autocorrelation, AUTOCORRELATION_FROM, AUTOCORRELATION_TO) * new_beside,
        source=max(least, _ramp(icc, ICC_FROM, ICC_TO)) * new_around * shared,
    )


def order_share(calibration: Mapping[str, float]) -> float:
    """ramp(autocorrelation * pairs / (pairs + 40), 0.03, 0.08): how far adjacent chunks of a corpus continue each
    other, 0..1; 0 without positions."""
    pairs = calibration.get("autocorrelation_pairs", 0.0)
    autocorrelation = _shrunk(calibration.get("autocorrelation", 0.0), pairs, 0.0, PRIOR_PAIRS)
    return _ramp(autocorrelation, AUTOCORRELATION_FROM, AUTOCORRELATION_TO)


def length_factors(length: Ints) -> Floats:
    """(n,) r at the top of this file, for chunks of these lengths in terms."""
    relative = length / SELF_CONTAINED_TERMS
    return np.asarray(1.0 / (1.0 + relative * relative * relative), dtype=np.float64)


def source_evidence(source_lexical: Floats, source: Ints) -> Floats:
    """(n,) how well a row's whole source matches: (BM25 of the source - min) / max, 0..1.

    min and max are the smallest and largest BM25 of the pool's sources. All 0 if the pool has one source only. A BM25
    below 0, which only the Okapi variant has, counts as 0.

    Args:
        source_lexical: (n,) BM25 of the whole source as one document, a mean over the variations.
        source: (n,) codes; the result is 0 for NO_SOURCE.
    """
    inside, source_lexical = source != NO_SOURCE, np.maximum(source_lexical, 0.0)
    known = source_lexical[inside]
    best = float(known.max(initial=0.0))
    if best < EPSILON:
        return np.zeros(len(source))
    return np.where(inside, (source_lexical - float(known.min())) / best, 0.0)


def source_lead(source_lexical: Floats, source: Ints, copies: float) -> float:
    """How far one source stands out: max(ramp(lead, 0.6, 0.9), ramp(lead, 0.05, 0.2) * ramp(copies, 0.5, 0.9)).

    lead = (best - second) / best, where best and second are the BM25 of the pool's best and second best source.

    Args:
        source_lexical, source: As in `source_evidence`; sources with the same BM25 count as one.
        copies: `share_of_copies`.
    """
    known = source_lexical[source != NO_SOURCE]
    best = float(known.max(initial=0.0))
    others = known[known < best]
    if best < EPSILON or not len(others):  # the Okapi variant's BM25 is negative if all terms are in most chunks
        return 0.0
    lead = (best - float(others.max())) / best
    far, ahead = _ramp(lead, LEAD_FROM, LEAD_TO), _ramp(lead, COPY_LEAD_FROM, COPY_LEAD_TO)
    return max(far, ahead * _ramp(copies, COPIES_FROM, COPIES_TO))


def share_of_copies(pool: Pool, order: Ints, *, elsewhere: bool = False) -> float:
    """The share, 0..1, of the `BEST` best chunks that are copies; 0 for an empty pool.

    A copy has at least `COPY_TERMS_MIN` terms, and a cosine of at least `COPY_FROM` with another of these chunks.

    Args:
        order: The rows of the pool, best first.
        elsewhere: Whether only copies in another source count.
    """
    rows = order[:BEST]
    vectors, source = pool.vectors[rows], pool.source[rows]
    other = source[:, None] != source if elsewhere else ~np.eye(len(rows), dtype=bool)
    copies = ((vectors @ vectors.T >= COPY_FROM) & other).any(axis=1)
    return float((copies & (pool.length[rows] >= COPY_TERMS_MIN)).sum()) / max(1, len(rows))


def share_of_distinct(pool: Pool, order: Ints) -> float:
    """1 - ramp(`share_of_copies`, 0.5, 0.9): 0 if the best chunks are copies of each other."""
    return 1.0 - _ramp(share_of_copies(pool, order), COPIES_FROM, COPIES_TO)


def neighbour_scores(
    scores: Floats,
    source: Ints,
    position: Ints,
    length: Ints,
    whole: Floats,
    *,
    previous: float = DEFAULTS.previous,
    following: float = DEFAULTS.following,
    source_share: float = DEFAULTS.source,
    shares: Shares = FULL_SHARES,
    vectors: Vectors | None = None,
) -> Floats:
    """(n,) scores by the formula at the top of this file.

    Args:
        scores: (n,) scores after the stages before; a score below 0 counts as 0.
        source, position, length: (n,) fields of `Pool`.
        whole: (n,) evidence for each row's source, 0..1, from `source_evidence`.
        previous, following, source_share: Fields of `NeighboursConfig`, >= 0.
        shares: p and s, from `shares_of`.
        vectors: (n, dim) L2-normalised, or (n, 0); None: no neighbour counts as a copy.

    Returns:
        (n,) scores, the best 1; if all factors are 0, a copy of `scores`.

    Raises:
        ConfigError: If a factor is negative.
    """
    before, after, around = previous * shares.position, following * shares.position, source_share * shares.source
    if min(previous, following, source_share, before, after, around) < 0:
        raise ConfigError(
            f"neighbours: previous {previous!r}, following {following!r}, source {source_share!r}, {shares!r}; "
            "expected numbers >= 0"
        )
    if not len(scores) or max(before, after, around) == 0:
        return np.array(scores)
    own = by_best(np.maximum(scores, 0.0))
    gain = length_factors(length)
    gained = around * whole
    if before or after:
        from_previous, from_following = _given_by_neighbours(own * own * own * gain, source, position, vectors)
        gained = gained + before * from_previous + after * from_following
    return by_best(own * np.sqrt(own) + gain * gained)


def _given_by_neighbours(given: Floats, source: Ints, position: Ints, vectors: Vectors | None) -> tuple[Floats, Floats]:
    """(n,) each row's gain from the HOPS chunks before it, and (n,) its gain from the HOPS chunks after it.

    A copy adds less, and a chunk beyond a position that the pool lacks adds nothing. `given` is y at the top of this
    file.
    """
    order = np.lexsort((position, source))
    given, source, position = given[order], source[order], position[order]
    adjacent = (source[1:] == source[:-1]) & (position[1:] - position[:-1] == 1)
    adjacent &= (source[1:] != NO_SOURCE) & (position[:-1] != NO_POSITION)
    vectors = None if vectors is None else vectors.take(order, axis=0)
    from_previous, from_following = np.zeros((2, len(given)))
    reached = adjacent  # whether the rows at i to i + hop hold consecutive positions of one source
    for hop in range(1, HOPS + 1):
        share = FADE ** (hop - 1) * reached
        if vectors is not None:
            cosines = np.einsum("md,md->m", vectors[:-hop], vectors[hop:])
            share = share * np.interp(cosines, (COPY_FROM, COPY_AT), (1.0, 0.0))
        from_previous[hop:] += share * given[:-hop]
        from_following[:-hop] += share * given[hop:]
        reached = reached[:-1] & adjacent[hop:]
    by_row = np.argsort(order)
    return from_previous[by_row], from_following[by_row]


def _shrunk(measured: float, seen: float, prior: float, prior_seen: float) -> float:
    """The mean of a measured number and its prior, weighted by their numbers of observations."""
    return (seen * measured + prior_seen * prior) / (seen + prior_seen)


def _ramp(value: float, start: float, end: float) -> float:
    """0 up to `start`, 1 from `end` on, linear between."""
    return min(max((value - start) / (end - start), 0.0), 1.0)
