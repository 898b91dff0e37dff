"""Context flows between chunks of one source: a chunk gains from the chunks beside it and from its whole source. Pure.

    e(i) = score(i) / max                            what the chunk says by itself
    r(i) = 1 / (1 + (length(i) / 150)^3)             how much it needs context: a long chunk stands by itself
    y(j) = e(j)^3 * r(j)                             what a chunk passes on: peaks only, and only if it is short
    spread(i) = e(i)^1.5 + r(i) * ( p * sum_{d=1,2} 2^(1-d) * (previous * y(i-d) + following * y(i+d))
                                  + s * source * whole(i) )

p and s follow the material (`shares_of`): p is 0 where chunks side by side are no more alike than any two of their
source, s is 0 where chunks of one source are no more alike than any two of the corpus, so shuffled positions cost
nothing; both fade where chunks of a source are so alike that each says what the others could pass on, as entries of
a reference manual do. Linear in the pool but for one sort. Measured in docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from umi_common.errors import ConfigError
from umi_common.pool import NO_POSITION, NO_SOURCE, Floats, Ints

PREVIOUS = 0.6
FOLLOWING = 0.3
"""Answers follow questions: what was said before matters twice as much as what comes after."""
SOURCE = 0.5
HOPS = 2
FADE = 0.5
"""Each further step passes on half."""
SELF_CONTAINED_TERMS = 150.0
EPSILON = 1e-9

PRIOR_PAIRS = 40.0
PRIOR_SUCCESSION = 0.1
SUCCESSION_FROM, SUCCESSION_TO = 0.03, 0.08
PRIOR_CHUNKS = 20.0
PRIOR_UNITY = 0.05
UNITY_FROM, UNITY_TO = 0.01, 0.025
"""Where a share starts and is whole. Shuffled dev corpora: succession below 0.03 (9 in 10), unity below 0.01; real
ones: above 0.05 (9 in 10) and above 0.03."""
REDUNDANT_FROM = 0.1
POSITION_REDUNDANT_AT, SOURCE_REDUNDANT_AT = 0.3, 1.0
"""Unity from which a share fades and at which it is gone. Chats and meetings: below 0.07; sessions on one topic each:
0.4; a reference manual: 0.43."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How far positions and sources are believed, 0..1 each; for the trace too."""

    position: float
    source: float


BELIEVED = Shares(1.0, 1.0)
"""Nothing is held back."""


def shares_of(calibration: Mapping[str, float]) -> Shares:
    """From the corpus' calibration numbers to shares; what has not been measured counts as a belief that fades.

    succession: how much more alike chunks one and two apart are than any two of their source (lag-1 plus lag-2
    autocorrelation of the vectors), from `succession_pairs` pairs. unity: the share of the vectors' variance that lies
    between sources, from `unity_chunks` chunks. company: the share of chunks whose source has more than one.

        p = ramp(shrunk succession, 0.03, 0.08) * (1 - ramp(shrunk unity, 0.1, 0.3))
        s = ramp(shrunk unity, 0.01, 0.025) * (1 - ramp(shrunk unity, 0.1, 1.0)) * company

    Args:
        calibration: May lack any of them; empty: positions and sources are believed.
    """
    pairs, chunks = calibration.get("succession_pairs", 0.0), calibration.get("unity_chunks", 0.0)
    succession = _shrunk(calibration.get("succession", 0.0), pairs, PRIOR_SUCCESSION, PRIOR_PAIRS)
    unity = _shrunk(calibration.get("unity", 0.0), chunks, PRIOR_UNITY, PRIOR_CHUNKS)
    new_beside = 1.0 - _ramp(unity, REDUNDANT_FROM, POSITION_REDUNDANT_AT)
    new_around = 1.0 - _ramp(unity, REDUNDANT_FROM, SOURCE_REDUNDANT_AT)
    return Shares(
        position=_ramp(succession, SUCCESSION_FROM, SUCCESSION_TO) * new_beside,
        source=_ramp(unity, UNITY_FROM, UNITY_TO) * new_around * calibration.get("company", 1.0),
    )


def links(source: Ints, position: Ints) -> tuple[Ints, Ints]:
    """The row just before and just after each row in its source; n where there is none.

    Args:
        source: (n,) codes; NO_SOURCE belongs to none.
        position: (n,) order in the source; neighbours differ by exactly 1; NO_POSITION has none.

    Returns:
        (previous, following), each (n,).
    """
    n = len(source)
    order = np.lexsort((position, source))
    first, second = order[:-1], order[1:]
    side_by_side = (
        (source[first] == source[second])
        & (position[second] - position[first] == 1)
        & (source[first] != NO_SOURCE)
        & (position[first] != NO_POSITION)
    )
    first, second = first[side_by_side], second[side_by_side]
    previous, following = np.full(n, n), np.full(n, n)
    previous[second] = first
    following[first] = second
    return previous, following


def source_evidence(source_lexical: Floats, source: Ints) -> Floats:
    """How well a row's whole source matches, against the least matching source of the pool: (s - min) / max, 0..1.

    One source alone tells nothing: all 0.

    Args:
        source_lexical: (n,) BM25 of the whole source as one document, over all variations.
        source: (n,) codes; NO_SOURCE gets 0.
    """
    inside = source != NO_SOURCE
    if not inside.any():
        return np.zeros(len(source))
    known = source_lexical[inside]
    best = float(known.max())
    if best < EPSILON:
        return np.zeros(len(source))
    return np.where(inside, (source_lexical - float(known.min())) / best, 0.0)


def spread(
    scores: Floats,
    source: Ints,
    position: Ints,
    length: Ints,
    whole: Floats,
    *,
    previous: float = PREVIOUS,
    following: float = FOLLOWING,
    source_share: float = SOURCE,
    shares: Shares = BELIEVED,
) -> Floats:
    """The formula of the module.

    Args:
        scores: (n,) fused; below 0 counts as 0.
        source: (n,) codes; NO_SOURCE.
        position: (n,) order in the source; NO_POSITION.
        length: (n,) terms in the chunk.
        whole: (n,) from `source_evidence`, 0..1.
        previous: Share of the chunk before, >= 0.
        following: Share of the chunk after, >= 0.
        source_share: Share of the whole source, >= 0.
        shares: How far positions and sources are believed.

    Returns:
        (n,) scores, the best 1; if all shares are 0, a copy of the given ones.

    Raises:
        ConfigError: If a share is negative.
    """
    before, after, together = previous * shares.position, following * shares.position, source_share * shares.source
    if min(previous, following, source_share, before, after, together) < 0:
        raise ConfigError(f"neighbour shares {previous!r}, {following!r}, {source_share!r}: expected numbers >= 0")
    if not len(scores) or max(before, after, together) == 0:
        return np.array(scores)
    own = _by_best(np.maximum(scores, 0.0))
    relative = length / SELF_CONTAINED_TERMS
    needs = 1.0 / (1.0 + relative * relative * relative)
    gained = together * whole
    if before or after:
        gained = gained + _passed_on(own * own * own * needs, links(source, position), before, after)
    return _by_best(own * np.sqrt(own) + needs * gained)


def _passed_on(sent: Floats, beside: tuple[Ints, Ints], before: float, after: float) -> Floats:
    previous, following = beside
    n = len(sent)
    gained = np.zeros(n)
    backward, forward = np.zeros(n + 1), np.zeros(n + 1)  # the last entry is "none there"
    backward[:n], forward[:n] = before * sent, after * sent
    for _ in range(HOPS):
        backward[:n], forward[:n] = backward[previous], forward[following]
        gained += backward[:n] + forward[:n]
        backward *= FADE
        forward *= FADE
    return gained


def _by_best(scores: Floats) -> Floats:
    best = float(scores.max(initial=0.0))
    return np.asarray(scores / best if best > EPSILON else np.zeros(len(scores)), dtype=np.float64)


def _shrunk(measured: float, seen: float, prior: float, prior_seen: float) -> float:
    return (seen * measured + prior_seen * prior) / (seen + prior_seen)


def _ramp(value: float, start: float, end: float) -> float:
    return min(max((value - start) / (end - start), 0.0), 1.0)
