"""One search of the collection: one batch, at most one more for neighbours, one pool."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from umi_common.errors import SearchUnavailable, StoreUnavailable
from umi_common.filters import matches
from umi_common.pool import Pool, Vectors
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest
from umi_common.stores.ledger.codec import EPOCH, MICROSECOND, microseconds
from umi_common.stores.qdrant import batch
from umi_common.stores.qdrant.bm25 import Scorer
from umi_common.stores.qdrant.collection import Opened
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.filters import Compiled, compiled
from umi_common.stores.qdrant.neighbours import at_positions, beside, missing_positions, places_near
from umi_common.stores.qdrant.points import HEAD, Found, to_found
from umi_common.stores.qdrant.rows import Rows
from umi_common.stores.qdrant.statistics import Remembered, Statistics
from umi_common.stores.qdrant.words import Peak, words_of
from umi_common.stores.values import RecallTrace

PROBES_AT_ONCE = 12
"""Query variations of one round trip: an LLM's ten at most, the original, and one to spare. Only a search for many
queries at once has more."""
MARGIN = 1.25
"""How much deeper than asked each prefetch goes: the engine's order is umi's but for the average length, and but for
what decay does within a range of age. Measured in docs/scale.md."""
MARGIN_LEAST = 32
"""Rows deeper at least, so that equal scores at the cut do not leave the choice to the engine."""
WIDER = 4
"""Where a filter could only be widened and left an arm short, the batch is asked again, so many times as deep, and so
often at most."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search works with."""

    connection: Connection
    opened: Opened
    remembered: Remembered
    tenants: tuple[str, ...]
    search_params: Any


def recall_many(
    store: Searched, queries: Sequence[Vectors | None], requests: Sequence[RecallRequest], traces: Sequence[RecallTrace]
) -> list[Pool]:
    """The candidates of each search; see `protocols.Store`. Those alike but for their probes are made as one.

    Args:
        store: What they work with.
        queries: For each search (V, dim) unit rows; None: it has no vectors.
        requests: What is asked.
        traces: For the pools; what happened so far is in them.

    Raises:
        SearchUnavailable: If the server fails, it is both arms; or the embedder, where the dense arm alone is asked.
    """
    alike: dict[Hashable, list[int]] = {}
    for place, (vectors, request, trace) in enumerate(zip(queries, requests, traces, strict=True)):
        kind = (replace(request, probes=()), vectors is None, tuple(trace.degraded))
        alike.setdefault(kind, []).append(place)
    pools: dict[int, Pool] = {}
    for places in alike.values():
        own = [vectors for place in places if (vectors := queries[place]) is not None]
        request = replace(requests[places[0]], probes=[probe for place in places for probe in requests[place].probes])
        pool = _recall(store, np.concatenate(own) if own else None, request, traces[places[0]])
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


def _recall(store: Searched, queries: Vectors | None, request: RecallRequest, trace: RecallTrace) -> Pool:
    begun = time.perf_counter()
    if queries is None and request.strategy == "vector":
        raise SearchUnavailable(trace.reasons())
    try:
        rows = _best_rows(store, queries, request, trace)
        asked = time.perf_counter()
        rows = _with_neighbours(store, rows.ranked(), trace)
    except StoreUnavailable as error:
        raise SearchUnavailable(str(error)) from error
    trace.facts |= {
        "chunks": rows.statistics.chunks,
        "dense_engine": "qdrant",
        "arms_ms": (asked - begun) * 1e3,
        "neighbours_ms": (time.perf_counter() - asked) * 1e3,
    }
    return rows.pool(trace)


def _best_rows(store: Searched, queries: Vectors | None, request: RecallRequest, trace: RecallTrace) -> Rows:
    """The union of both arms' best; asked again, deeper, where a widened filter left too little of it."""
    where = compiled(request.where, request.window, store.tenants)
    trace.facts["filter"] = "exact" if where.exact else "widened"
    depth = request.depth
    for _ in range(WIDER):
        found, scorer, statistics = _union(store, queries, request, where, depth)
        kept = [each for each in found if _passes(each, request)]
        rows = Rows(_sorted(kept), request, queries, scorer, statistics, {})
        if where.exact or len(kept) == len(found) or rows.enough():
            break
        depth *= WIDER
    return rows


def _union(
    store: Searched, queries: Vectors | None, request: RecallRequest, where: Compiled, depth: int
) -> tuple[Sequence[Found], Scorer, Statistics]:
    by_words = request.strategy != "vector"
    words = [words_of(probe.text, store.opened.analyzer) if by_words else {} for probe in request.probes]
    ages = batch.age_ranges(microseconds(request.now), request.decay)
    mark = store.remembered.mark()
    drawn: Statistics | None = None
    found: dict[str, Found] = {}
    peaks: dict[int, Peak] = {}
    for start in range(0, len(request.probes), PROBES_AT_ONCE):
        some = slice(start, start + PROBES_AT_ONCE)
        asked = batch.Asked(
            probes=request.probes[some],
            queries=None if queries is None else queries[some],
            words=words[some],
            condition=where.condition,
            depth=max(math.ceil(depth * MARGIN), depth + MARGIN_LEAST),
            ages=ages,
            search_params=store.search_params,
        )
        part = batch.ask(store.connection, asked, dim=store.opened.dim, with_statistics=mark is not None and start == 0)
        found |= part.found
        peaks |= part.peaks
        drawn = part.statistics if start == 0 else drawn
    statistics = store.remembered.latest(drawn, mark)
    return list(found.values()), Scorer(words, peaks, store.opened.saturation, request.lexical, statistics), statistics


def _with_neighbours(store: Searched, rows: Rows, trace: RecallTrace) -> Rows:
    """The rows and the chunks beside the best of each ranking."""
    around = rows.request.around
    best = rows.best() if around else []
    known = {each.head.id: each for each in rows.found}
    heads = {id: each.head for id, each in known.items()}
    missing = missing_positions(heads, best, around)
    trace.facts["positions_looked_up"] = sum(map(len, missing.values()))
    if not missing:
        return rows
    following: Mapping[str, str] = {}
    if rows.statistics.gapless:
        found = at_positions(store.connection, missing, payload=HEAD)
    else:
        places = places_near(heads, best, missing, around)
        seen = beside(store.connection, places, around, payload=HEAD, vectors=True)
        found, following = [seen.points[id] for id in seen.around(best, around)], seen.following
    near = {each.head.id: each for each in map(to_found, found) if _passes(each, rows.request)}
    return replace(rows, found=_sorted((near | known).values()), following=following)


def _passes(found: Found, request: RecallRequest) -> bool:
    """umi's own look at a row, whatever the engine let through."""
    at = found.head.time
    if request.window is not None and (at is None or EPOCH + at * MICROSECOND not in request.window):
        return False
    return matches(request.where, found.head.metadata)


def _sorted(found: Iterable[Found]) -> list[Found]:
    return sorted(found, key=lambda each: each.head.id)
