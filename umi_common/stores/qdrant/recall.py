"""One search of the collection: one batch of requests, at most one more for neighbours, one pool.

    union        one request: a prefetch for each variation and arm (and age range, where decay is on) and one for the
                 ids that the probes name, merged; each row once, with its vectors and without its text
    peaks        one request a query term (`bm25`)
    statistics   two samples, where the cached ones are too old (`statistics`)

The server's scores only decide which rows are in the union. umi scores these rows itself, so every row has both arms'
scores, from which the arms' ranks follow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from umi_common.config import DecayConfig
from umi_common.errors import SearchUnavailable, StoreUnavailable
from umi_common.filters import matches
from umi_common.pool import Pool, Vectors
from umi_common.protocols import NEIGHBOURS_OF, Probe, RecallRequest
from umi_common.stores.qdrant.bm25 import CandidateScorer, Counts, Peak, peak_requests, peaks_of, weighted_indices
from umi_common.stores.qdrant.bm25 import query_vector as sparse_query
from umi_common.stores.qdrant.candidates import CandidateRows
from umi_common.stores.qdrant.collection import OpenCollection
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.filters import Compiled, compiled
from umi_common.stores.qdrant.neighbours import at_positions, beside, missing_positions, places_near
from umi_common.stores.qdrant.points import DENSE, HEAD, LEXICAL, Candidate, point_id, to_candidate
from umi_common.stores.qdrant.statistics import CachedStatistics, Statistics, sample_requests, statistics_of
from umi_common.stores.values import RecallTrace
from umi_common.types import from_microseconds, microseconds

PROBES_AT_ONCE = 12
"""Query variations in one round trip: an LLM's ten at most, the original, and one more. Only a search for many queries
at once has more."""
MARGIN = 1.25
"""Factor by which each prefetch is deeper than the search: the server's order differs from umi's in the average length
and in decay within a range of age. Measured in docs/scale.md."""
MARGIN_MIN = 32
"""Rows by which a prefetch is deeper at least, so that of equal scores at the depth umi chooses, by id."""
WIDER = 4
"""Where a widened filter left an arm short, the batch is sent again with so many times the depth, at most so often."""
AGE_RANGES = 4
"""With decay on, each arm has a prefetch for so many ranges of age: within one, decay changes the order little."""
FACTOR_MIN = 0.05
"""With a lower floor, all ages with a smaller factor are one range."""
AGE_MAX = 1e18
"""Microseconds; more than between any two datetimes."""
MICROSECONDS_PER_HOUR = 3_600_000_000


def recall_many(
    collection: OpenCollection,
    cached: CachedStatistics,
    queries: Sequence[Vectors | None],
    requests: Sequence[RecallRequest],
    traces: Sequence[RecallTrace],
) -> list[Pool]:
    """The candidates of each search; see `protocols.Store`. Searches that differ only in their probes share a batch.

    Args:
        collection: What is searched.
        cached: Its statistics.
        queries: For each search (V, dim) unit rows; None: it has no vectors.
        requests: The searches.
        traces: One a search, for its pool.

    Raises:
        SearchUnavailable: If the server fails, it is both arms; or the embedder, where only the dense arm is asked.
    """
    alike: dict[Hashable, list[int]] = {}
    for place, (vectors, request, trace) in enumerate(zip(queries, requests, traces, strict=True)):
        kind = (replace(request, probes=()), vectors is None, tuple(trace.degraded))
        alike.setdefault(kind, []).append(place)
    pools: dict[int, Pool] = {}
    for places in alike.values():
        own = [vectors for place in places if (vectors := queries[place]) is not None]
        request = replace(requests[places[0]], probes=[probe for place in places for probe in requests[place].probes])
        pool = _recall(collection, cached, np.concatenate(own) if own else None, request, traces[places[0]])
        start = 0
        for place in places:
            stop = start + len(requests[place].probes)
            pools[place] = pool if len(places) == 1 else _asked_alone(pool, requests[place], slice(start, stop))
            start = stop
    return [pools[place] for place in range(len(requests))]


def _asked_alone(pool: Pool, request: RecallRequest, which: slice) -> Pool:
    return pool.asked_alone(
        which, best=request.depth // NEIGHBOURS_OF, around=request.around, ids=frozenset(request.named())
    )


def _recall(
    collection: OpenCollection,
    cached: CachedStatistics,
    queries: Vectors | None,
    request: RecallRequest,
    trace: RecallTrace,
) -> Pool:
    begun = time.perf_counter()
    if queries is None and request.strategy == "vector":
        raise SearchUnavailable(trace.reasons())
    try:
        rows = _best_rows(collection, cached, queries, request, trace)
        answered = time.perf_counter()
        rows = _with_neighbours(collection, rows.ranked(), trace)
    except StoreUnavailable as error:
        raise SearchUnavailable(str(error)) from error
    trace.facts |= {
        "chunks": rows.statistics.chunks,
        "dense_engine": "qdrant",
        "arms_ms": (answered - begun) * 1e3,
        "neighbours_ms": (time.perf_counter() - answered) * 1e3,
    }
    return rows.pool(trace)


def _best_rows(
    collection: OpenCollection,
    cached: CachedStatistics,
    queries: Vectors | None,
    request: RecallRequest,
    trace: RecallTrace,
) -> CandidateRows:
    """The union of both arms' best; asked again, deeper, where a widened filter left too few of them."""
    where = compiled(request.where, request.window, collection.tenants)
    trace.facts["filter"] = "exact" if where.exact else "widened"
    depth = request.depth
    for _ in range(WIDER):
        found, scorer, statistics = _union(collection, cached, queries, request, where, depth)
        kept = [each for each in found if _passes(each, request)]
        rows = CandidateRows(_sorted(kept), request, queries, scorer, statistics, {})
        if where.exact or len(kept) == len(found) or rows.enough():
            break
        depth *= WIDER
    return rows


def _union(
    collection: OpenCollection,
    cached: CachedStatistics,
    queries: Vectors | None,
    request: RecallRequest,
    where: Compiled,
    depth: int,
) -> tuple[Sequence[Candidate], CandidateScorer, Statistics]:
    by_words = request.strategy != "vector"
    analyzer, weight = collection.analyzer, request.lexical.function_word_weight
    words = [weighted_indices(probe.text, analyzer, weight) if by_words else {} for probe in request.probes]
    ages = age_ranges(microseconds(request.now), request.decay)
    limit = max(math.ceil(depth * MARGIN), depth + MARGIN_MIN)
    mark = cached.mark()
    drawn: Statistics | None = None
    found: dict[str, Candidate] = {}
    peaks: dict[int, Peak] = {}
    for start in range(0, len(request.probes), PROBES_AT_ONCE):
        some = slice(start, start + PROBES_AT_ONCE)
        own = None if queries is None else queries[some]
        prefetches = [
            prefetch
            for age in ages
            for prefetch in _arms(
                words[some], own, all_conditions(where.condition, age), limit, collection.search_params
            )
        ]
        prefetches += _named(request.probes[some], where.condition)
        samples = sample_requests() if mark is not None and start == 0 else []
        batch = [*([_merged(prefetches)] if prefetches else []), *peak_requests(words[some]), *samples]
        answers = collection.connection.query(batch) if batch else []
        if samples:
            sources, sample = answers.pop(), answers.pop()
            drawn = statistics_of(sample, sources, collection.dim)
        points = answers.pop(0) if prefetches else []
        found |= {each.id: each for each in map(to_candidate, points)}
        peaks |= peaks_of(words[some], answers)
    statistics = cached.latest(drawn, mark)
    scorer = CandidateScorer(words, peaks, collection.saturation, request.lexical, statistics)
    return list(found.values()), scorer, statistics


def _merged(prefetches: Sequence[Any]) -> Any:
    m = models()
    limit = sum(prefetch.limit for prefetch in prefetches)
    merged = m.FusionQuery(fusion=m.Fusion.RRF)
    return m.QueryRequest(prefetch=list(prefetches), query=merged, limit=limit, with_payload=HEAD, with_vector=True)


def _arms(
    words: Sequence[Counts], queries: Vectors | None, where: Any, limit: int, search_params: Any
) -> Iterable[Any]:
    """A prefetch for each variation and arm."""
    prefetch = models().Prefetch
    for v, counts in enumerate(words):
        if counts:
            yield prefetch(query=sparse_query(counts), using=LEXICAL, filter=where, limit=limit)
        if queries is not None and queries[v].any():
            yield prefetch(query=queries[v].tolist(), using=DENSE, filter=where, limit=limit, params=search_params)


def _named(probes: Sequence[Probe], condition: Any) -> list[Any]:
    """A prefetch for the ids that the probes name."""
    named = sorted({point_id(id) for probe in probes for id in probe.ids})
    if not named:
        return []
    where = all_conditions(condition, models().HasIdCondition(has_id=named))
    return [models().Prefetch(filter=where, limit=len(named))]


def all_conditions(*conditions: Any) -> Any:
    """A filter that requires all conditions that are not None; None if there is none."""
    known = [condition for condition in conditions if condition is not None]
    return models().Filter(must=known) if known else None


def age_ranges(now: int, decay: DecayConfig) -> list[Any]:
    """Conditions for AGE_RANGES ranges of all times, a chunk without a time in the first; [None] without decay.

    Args:
        now: Microseconds since 1970.
    """
    if decay.half_life_hours is None or decay.floor == 1.0:
        return [None]
    m = models()
    # From range to range the factor falls by the same share: floor + (1 - floor) * 2^(-age / half-life) = least^part.
    floor, least = decay.floor, max(decay.floor, FACTOR_MIN)
    shares = [(least ** (at / AGE_RANGES) - floor) / (1.0 - floor) for at in range(1, AGE_RANGES)]
    ages = [-math.log2(share) * decay.half_life_hours * MICROSECONDS_PER_HOUR for share in shares]
    edges = [now - min(age, AGE_MAX) for age in ages]
    timeless = m.IsEmptyCondition(is_empty=m.PayloadField(key="time"))
    older = [_timed(lt=edge, gte=further) for edge, further in zip(edges, [*edges[1:], None], strict=True)]
    return [m.Filter(should=[_timed(gte=edges[0]), timeless]), *older]


def _timed(**bounds: float | None) -> Any:
    return models().FieldCondition(key="time", range=models().Range(**bounds))


def _with_neighbours(collection: OpenCollection, rows: CandidateRows, trace: RecallTrace) -> CandidateRows:
    """The rows and the chunks beside the best of each ranking."""
    around = rows.request.around
    best = rows.best() if around else []
    known = {each.id: each for each in rows.found}
    missing = missing_positions(known, best, around)
    trace.facts["positions_looked_up"] = sum(map(len, missing.values()))
    if not missing:
        return rows
    following: Mapping[str, str] = {}
    if rows.statistics.gapless:
        found = at_positions(collection.connection, missing, payload=HEAD)
    else:
        places = places_near(known, best, missing, around)
        seen = beside(collection.connection, places, around, payload=HEAD, vectors=True)
        found, following = [seen.points[id] for id in seen.around(best, around)], seen.following
    near = {each.id: each for each in map(to_candidate, found) if _passes(each, rows.request)}
    return replace(rows, found=_sorted((near | known).values()), following=following)


def _passes(each: Candidate, request: RecallRequest) -> bool:
    """Whether the row passes filter and time range by umi's own check."""
    if request.window is not None and (each.time is None or from_microseconds(each.time) not in request.window):
        return False
    return matches(request.where, each.metadata)


def _sorted(found: Iterable[Candidate]) -> list[Candidate]:
    return sorted(found, key=lambda each: each.id)
