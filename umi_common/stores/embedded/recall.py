"""One search of the store: both arms for all probes, one pool.

Each arm gives its best; the union, with the chunks beside the best of it, is then scored by both arms, so that
what ranks it sees no holes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from umi_common.errors import SearchUnavailable
from umi_common.pool import Floats, Ints, Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.runtime.limits import COMPUTE_SLOTS
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.int8 import Scan
from umi_common.stores.embedded.candidates import NO_ROWS, Found, pool_of
from umi_common.stores.embedded.indexes import Indexes
from umi_common.stores.embedded.state import State
from umi_common.stores.ledger.codec import microseconds
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.query_embedder import QueryEmbedder, query_vectors
from umi_common.stores.rows.rows import Mask
from umi_common.stores.values import RecallTrace

SCANNED_TOGETHER = 4_000_000
"""Scores of a scan for several searches, 4 bytes each; for more, each search scans for itself."""


def recall(indexes: Indexes, embedder: QueryEmbedder, requests: Sequence[RecallRequest]) -> list[Pool]:
    """The candidates of each search, of one moment, embedded in one call; see `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If no arm that is asked for can answer.
    """
    traces = [RecallTrace() for _ in requests]
    state = indexes.state
    queries = query_vectors(requests, embedder, state.vectors.shape[1], traces)
    scans, backgrounds = _scans_and_backgrounds(state, queries)
    with COMPUTE_SLOTS.held():
        numbers = {"calibration": _numbers(state)}
        corpus = [numbers | background for background in backgrounds]
        each = zip(queries, scans, requests, traces, corpus, strict=True)
        return [_searched(state, *asked) for asked in each]


def _scans_and_backgrounds(
    state: State, queries: Sequence[Vectors | None]
) -> tuple[list[Scan | None], list[dict[str, Any]]]:
    """For each search the scan of its queries, where they can be worked out together, and what its pool says of their
    usual cosines.
    """
    scans: list[Scan | None] = [None] * len(queries)
    backgrounds: list[dict[str, Any]] = [{} for _ in queries]
    every, places = _as_one(queries)
    if not places:
        return scans, backgrounds
    scan = None
    if len(places) > 1 and len(every) * len(state.rows) <= SCANNED_TOGETHER:
        scan = dense_index.scan_of(state.vectors, every, state.by_row.quantised)
    known = None if scan is None or scan.bounds is not None else scan.scores
    usual = state.by_row.calibration.background(state.rows, state.vectors, every, known)
    for place, which in places.items():
        scans[place] = scan and scan.of(which)
        mean, deviation = usual.mean[which], usual.deviation[which]
        backgrounds[place] = {"dense_mean": mean, "dense_deviation": deviation, "dense_count": usual.chunks}
    return scans, backgrounds


def _as_one(queries: Sequence[Vectors | None]) -> tuple[Vectors, dict[int, slice]]:
    """All query vectors as one array, and by search which of them are its own; a search without any is left out."""
    places, stop = {}, 0
    for place, vectors in enumerate(queries):
        if vectors is not None:
            start, stop = stop, stop + len(vectors)
            places[place] = slice(start, stop)
    own = [vectors for vectors in queries if vectors is not None]
    return np.concatenate(own) if own else np.zeros((0, 0), dtype=np.float32), places


def _searched(
    state: State,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    trace: RecallTrace,
    corpus: Mapping[str, Any],
) -> Pool:
    begun = time.perf_counter()
    allowed = state.by_row.mask(state, request.where, request.window)
    weights = state.rows.decay(microseconds(request.now), request.decay)
    lexical = _lexical_arm(state, request, allowed, weights, trace)
    dense = _dense_arm(state, queries, scan, request, allowed, weights, trace)
    if lexical is None and dense is None:
        raise SearchUnavailable(trace.reasons())
    trace.facts |= {"chunks": state.rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    named = _named(state, request, allowed)
    return pool_of(state, Found(queries, lexical, dense, named), request, allowed, trace, corpus)


def _named(state: State, request: RecallRequest, allowed: Mask | None) -> Ints:
    """Rows that the probes name and that may be seen."""
    found = [state.by_row.row_of(id) for probe in request.probes for id in probe.ids]
    if not found:
        return NO_ROWS
    rows = np.array([row for row in found if row is not None and row < len(state.rows)], dtype=np.int64)
    return rows[(state.rows.alive if allowed is None else allowed)[rows]]


def _numbers(state: State) -> Mapping[str, float]:
    rows, lexical, by_row = state.rows, state.lexical, state.by_row
    return by_row.calibration.numbers(rows, state.vectors, lambda: lexical.lengths(len(rows)), by_row.sources)


def _lexical_arm(
    state: State, request: RecallRequest, allowed: Mask | None, weights: Floats | None, trace: RecallTrace
) -> list[LexicalHits] | None:
    if request.strategy == "vector":
        return None
    if state.lexical_fault is not None:
        trace.lost("lexical", state.lexical_fault, "searched by meaning alone; repair() brings it back")
        return None
    try:
        return state.lexical.search(
            [probe.text for probe in request.probes],
            k=request.depth,
            config=request.lexical,
            allowed=allowed,
            weights=weights,
            id_of=state.rows.ids.__getitem__,
            ranks_of=lambda compared: state.by_row.id_order.ranks_for(compared, state.rows.ids, len(state.rows)),
        )
    except Exception as error:  # noqa: BLE001 one arm out, whatever the cause
        trace.lost("lexical", error, "searched by meaning alone")
        return None


def _dense_arm(
    state: State,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    allowed: Mask | None,
    weights: Floats | None,
    trace: RecallTrace,
) -> list[dense_index.DenseHits] | None:
    if queries is None:
        return None
    trace.facts["dense_engine"] = "exact"
    if state.present is not None:
        allowed = state.present if allowed is None else state.present & allowed
    return dense_index.search(
        state.vectors,
        queries,
        k=request.depth,
        allowed=allowed,
        weights=weights,
        ids=state.rows.ids,
        quantised=state.by_row.quantised,
        scan=scan,
    )
