"""A search as one batch of requests: the union of both arms' best for all variations, and what its scoring needs.

    union        one request: a prefetch for each variation and arm (for each age range, where decay is on) and one for
                 the ids that the probes name, merged; each row comes once, with its vectors and without its text
    peaks        one request a query term (`words`)
    statistics   two samples, where the last ones have aged (`statistics`)

The engine's own scores only decide what is in the union; umi scores its rows itself, so every row has both arms' scores
and the arms' ranks follow: the union holds the best of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umi_common.config import DecayConfig
from umi_common.pool import Vectors
from umi_common.protocols import Probe
from umi_common.stores.qdrant import statistics
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.points import DENSE, HEAD, LEXICAL, Found, point_id, to_found
from umi_common.stores.qdrant.words import Counts, Peak, peaks_of, query_vector
from umi_common.stores.qdrant.words import requests as word_requests

AGE_RANGES = 4
"""With decay on, the best of each arm are asked for in so many ranges of age: within one, decay reorders little."""
FACTOR_LEAST = 0.05
"""Where the floor is lower, what has faded below this is one range."""
LONGEST = 1e18
"""Microseconds; no datetime is further from another."""
MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One search."""

    probes: Sequence[Probe]
    queries: Vectors | None
    """(V, dim) unit rows, a row of zeros finds nothing; None: no embedder."""
    words: Sequence[Counts]
    condition: Any
    """What every row must pass, as Qdrant takes it; None: nothing."""
    depth: int
    """Rows of each prefetch."""
    ages: Sequence[Any]
    """Conditions on the age, one prefetch each; [None]: one for all ages."""
    search_params: Any


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it."""

    found: Mapping[str, Found]
    """By chunk id."""
    peaks: Mapping[int, Peak]
    """By term."""
    statistics: statistics.Statistics | None
    """None: not asked for."""


def ask(connection: Connection, asked: Asked, *, dim: int, with_statistics: bool) -> Answered:
    """One round trip.

    Raises:
        StoreUnavailable: If the server fails.
    """
    prefetches = _prefetches(asked)
    requests = [_union(prefetches)] if prefetches else []
    requests += word_requests(asked.words)
    if with_statistics:
        requests += statistics.requests()
    answers = connection.query(requests) if requests else []
    found = [to_found(point) for point in (answers.pop(0) if prefetches else [])]
    drawn = statistics.statistics_of(answers.pop(-2), answers.pop(-1), dim) if with_statistics else None
    return Answered({each.head.id: each for each in found}, peaks_of(asked.words, answers), drawn)


def _union(prefetches: Sequence[Any]) -> Any:
    m = models()
    limit = sum(prefetch.limit for prefetch in prefetches)
    merged = m.FusionQuery(fusion=m.Fusion.RRF)
    return m.QueryRequest(prefetch=list(prefetches), query=merged, limit=limit, with_payload=HEAD, with_vector=True)


def _prefetches(asked: Asked) -> list[Any]:
    m, made = models(), []
    for age in asked.ages:
        where = all_of(asked.condition, age)
        for v, counts in enumerate(asked.words):
            if counts:
                words = query_vector(counts)
                made.append(m.Prefetch(query=words, using=LEXICAL, filter=where, limit=asked.depth))
            if asked.queries is not None and asked.queries[v].any():
                meaning = asked.queries[v].tolist()
                params = asked.search_params
                made.append(m.Prefetch(query=meaning, using=DENSE, filter=where, limit=asked.depth, params=params))
    named = sorted({point_id(id) for probe in asked.probes for id in probe.ids})
    if named:
        where = all_of(asked.condition, m.HasIdCondition(has_id=named))
        made.append(m.Prefetch(filter=where, limit=len(named)))
    return made


def all_of(*conditions: Any) -> Any:
    """A filter that all conditions must pass; None where there is none."""
    known = [condition for condition in conditions if condition is not None]
    return models().Filter(must=known) if known else None


def age_ranges(now: int, decay: DecayConfig) -> list[Any]:
    """Conditions that part all times into AGE_RANGES, a chunk without a time in the first; [None] without decay.

    Args:
        now: Microseconds since 1970.
    """
    if decay.half_life_hours is None or decay.floor == 1.0:
        return [None]
    m = models()
    # From range to range the factor falls by the same share: floor + (1 - floor) * 2^(-age / half-life) = least^part.
    floor, least = decay.floor, max(decay.floor, FACTOR_LEAST)
    shares = [(least ** (at / AGE_RANGES) - floor) / (1.0 - floor) for at in range(1, AGE_RANGES)]
    ages = [-math.log2(share) * decay.half_life_hours * MICROSECONDS_PER_HOUR for share in shares]
    edges = [now - min(age, LONGEST) for age in ages]
    timeless = m.IsEmptyCondition(is_empty=m.PayloadField(key="time"))
    older = [_timed(lt=edge, gte=further) for edge, further in zip(edges, [*edges[1:], None], strict=True)]
    return [m.Filter(should=[_timed(gte=edges[0]), timeless]), *older]


def _timed(**bounds: float | None) -> Any:
    return models().FieldCondition(key="time", range=models().Range(**bounds))
