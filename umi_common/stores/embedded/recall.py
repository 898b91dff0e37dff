"""A search of the store, which returns the candidates of both arms as one pool, and a search by BM25 alone.

Each arm finds its best chunks. Their neighbours, and the chunks to which they refer, are added. Then both arms score
all candidates, so every row of the pool has a score from each arm.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np

from umi_common.errors import IndexUnavailable, InputError, SearchUnavailable
from umi_common.filters import Filter
from umi_common.filters.tree import shown
from umi_common.pool import CHUNKS_WITH_TIME, Background, Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.runtime.calls import COMPUTE_SLOTS
from umi_common.runtime.losses import warn_once
from umi_common.stores.batch_checks import checked_count
from umi_common.stores.dense import cosines as dense_search
from umi_common.stores.dense.cosines import DenseHits, Scan
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.row_data import StoreSnapshot
from umi_common.stores.query_embedder import query_vectors, with_error
from umi_common.stores.references import Named
from umi_common.stores.rows.metadata import BOOLEANS, LISTS
from umi_common.stores.text_search import TextSearch
from umi_common.stores.values import RecallTrace
from umi_common.types import TimeRange

SHARED_SCORES_MAX = 4_000_000
"""Largest number of scores (query vectors times rows, 4 bytes each) of one scan for several searches. Beyond it, each
search scans alone."""
REFERENCES_ROWS_MAX = 200_000
"""Largest number of rows of a store in which references are looked up. The first search reads the names of all rows,
which would take seconds in a larger store."""
PAUSES_SECONDS = (0.05, 0.1)
"""Pauses of `search_lexical` before its second and third attempt: another thread may be repairing the index."""


def recall_pools(core: Core, requests: Sequence[RecallRequest]) -> list[Pool]:
    """The pool of each request, all of one snapshot. The queries are embedded together. See `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If no arm that a request's strategy uses can answer.
    """
    traces = [RecallTrace() for _ in requests]
    snapshot = core.snapshot(*(request.where for request in requests))
    if core.other_embedder is not None:
        requests = with_error(requests, core.other_embedder)
    queries = query_vectors(requests, core.query_embedder, snapshot.vectors.shape[1], traces)
    dense = _dense_queries(snapshot, queries)
    with COMPUTE_SLOTS.held():
        searches = zip(requests, traces, dense, strict=True)
        return [_search(snapshot, *each) for each in searches]


@dataclass(frozen=True, slots=True, eq=False)
class _DenseQueries:
    """V query vectors of one or several searches, with their background and the scan of all rows."""

    vectors: Vectors
    """(V, dim) unit vectors, zeros for a query that finds nothing."""
    background: Background
    scan: Scan | None
    """None: the dense arm of each search scans alone."""

    def of(self, which: slice) -> _DenseQueries:
        scan = None if self.scan is None else self.scan.of(which)
        return _DenseQueries(self.vectors[which], self.background.of_queries(which), scan)


def _dense_queries(snapshot: StoreSnapshot, queries: Sequence[Vectors | None]) -> list[_DenseQueries | None]:
    """The dense queries of each search, computed for all searches together; None for a search without vectors."""
    present = [vectors for vectors in queries if vectors is not None]
    if not present:
        return [None] * len(queries)
    scan, joined, row_data = None, np.concatenate(present), snapshot.row_data
    if len(present) > 1 and len(joined) * len(snapshot.rows) <= SHARED_SCORES_MAX:
        scan = dense_search.scan_of(snapshot.vectors, joined, row_data.quantised)
    cosines = scan.scores if scan is not None and scan.bounds is None else None
    background = row_data.calibration.background(snapshot.rows, snapshot.vectors, joined, cosines)
    every = _DenseQueries(joined, background, scan)
    ends = accumulate(0 if own is None else len(own) for own in queries)
    pairs = zip(queries, ends, strict=True)
    return [None if own is None else every.of(slice(end - len(own), end)) for own, end in pairs]


def _search(snapshot: StoreSnapshot, request: RecallRequest, trace: RecallTrace, queries: _DenseQueries | None) -> Pool:
    """The pool of one search."""
    begun, rows, row_data = time.perf_counter(), snapshot.rows, snapshot.row_data
    allowed = snapshot.mask(request.where, request.window)
    if allowed is not None and rows.living and not allowed.any():
        _note_empty_mask(snapshot, request, trace)
    search = TextSearch(request, trace, snapshot.lexical, rows, row_data.table, allowed, rows.decay(request))
    lexical = None
    if snapshot.lexical_fault is None:
        lexical = search.ranked()
    elif request.strategy != "vector":
        search.lost_lexical(snapshot.lexical_fault, "; repair() brings it back")
    dense = None if queries is None else _dense_arm(snapshot, queries, search)
    if lexical is None and dense is None:
        raise SearchUnavailable(trace.reasons())
    trace.facts |= {"chunks": rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    found = [hits.rows for hits in dense or ()]
    if len(rows) <= REFERENCES_ROWS_MAX or not request.referring():
        named, links = search.references(row_data.lazy.names, lexical, found, partial(_terms, snapshot))
    else:
        named, links = Named({}, {}), None
        trace.facts["references"] = f"off above {REFERENCES_ROWS_MAX} rows"
    chosen = search.candidates(lexical, found, named, links)
    vectors = snapshot.vectors.take(chosen, axis=0)
    fields = search.scored(lexical, chosen, alone=dense is None)
    lengths = partial(snapshot.lexical.lengths, len(rows))
    calibration = row_data.calibration.numbers(rows, snapshot.vectors, lengths, row_data.table.sources)
    fields |= {"vectors": vectors, "version": rows.seq[chosen], "calibration": calibration}
    if queries is not None and dense is not None:
        fields |= {"query_vectors": queries.vectors, "background": queries.background}
        fields["dense"] = dense_search.score(vectors, queries.vectors, chosen, searched=dense)
    return search.pool(chosen, named, links, **fields)


def _note_empty_mask(snapshot: StoreSnapshot, request: RecallRequest, trace: RecallTrace) -> None:
    """Tell the caller why filter and time range let no chunk pass: by facts of the trace, and by a warning."""
    if request.where is not None:
        passing = snapshot.mask(request.where, None)
        trace.facts["passing_filter"] = snapshot.rows.living if passing is None else int(passing.sum())
        if not trace.facts["passing_filter"]:  # else it is the time range that leaves out the chunks that pass
            _warn_of_filter(snapshot, request.where)
    if request.window is not None and not snapshot.rows.within(TimeRange()).any():
        trace.facts[CHUNKS_WITH_TIME] = 0


def _warn_of_filter(snapshot: StoreSnapshot, where: Filter) -> None:
    """Log why a filter passes no chunk, without its values.

    A key that no chunk has may be misspelt; it is logged once, and so is a key whose value chunks have in other
    capitals. A key whose values are all of another kind than the filter's, such as 2021 and "2021", is logged once for
    each pair of kinds.
    """
    columns = snapshot.columns
    assert columns is not None
    for key in columns.unknown_keys(where):
        message = "a filter passes no chunk, and no chunk of the store has its key %s; check its spelling"
        warn_once("filter", key, message, shown(key))
    for key in columns.in_other_capitals(where):
        message = "a filter passes no chunk: the store holds its value of the key %s in other capitals; write it so"
        warn_once("filter", f"capitals of {key}", message, shown(key))
    for key, (asked, held) in columns.other_kinds(where).items():
        message = "a filter passes no chunk: it compares the key %s with %s, and the store holds %s under it"
        message += "; $contains looks into a list" if LISTS in held else ""
        message += "; $text_match looks into a text" if asked == LISTS and held == "text" else ""
        if held == BOOLEANS:
            message += '; give True or False, in LlamaIndex by a dict, such as filters={"draft": True}'
        warn_once("filter", f"{asked}, not {held}", message, shown(key), asked, held)


def _dense_arm(snapshot: StoreSnapshot, queries: _DenseQueries, search: TextSearch) -> list[DenseHits]:
    """The dense arm's ranking for each query vector."""
    search.trace.facts["dense_engine"] = "exact"
    allowed = search.allowed
    if snapshot.present is not None:
        allowed = snapshot.present if allowed is None else snapshot.present & allowed
    return dense_search.search(
        snapshot.vectors,
        queries.vectors,
        k=search.request.depth,
        allowed=allowed,
        weights=search.weights,
        ids=snapshot.rows.ids,
        quantised=snapshot.row_data.quantised,
        scan=queries.scan,
    )


def _terms(snapshot: StoreSnapshot, rows: Sequence[int]) -> list[Sequence[str]]:
    """The terms of each row's indexed text; empty if the chunk was removed after the snapshot."""
    seqs = snapshot.rows.seq[rows].tolist()
    chunks = snapshot.row_data.lazy.chunks(seqs)  # not `Core.chunks`: it would acquire a second compute slot
    return [snapshot.lexical.analyzer.terms(chunks[seq].indexed_text) if seq in chunks else () for seq in seqs]


def search_lexical(core: Core, query: str, *, k: int, where: Filter | None, timeout: float) -> list[tuple[str, float]]:
    """See `HybridStore.search_lexical`."""
    if not isinstance(query, str):
        raise InputError(f"query is {type(query).__name__}; expected a string")
    k = checked_count("k", k, least=1)
    deadline = time.monotonic() + timeout
    core.ready()
    snapshot = core.snapshot(where)
    for pause in PAUSES_SECONDS:
        if snapshot.lexical_fault is None or time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
        snapshot = core.snapshot(where)
    if snapshot.lexical_fault is not None:
        raise IndexUnavailable(f"the lexical index cannot answer ({snapshot.lexical_fault}); repair() brings it back")
    if not len(snapshot.lexical):
        raise IndexUnavailable("the lexical index is empty; add chunks first")
    ids, allowed = snapshot.rows.ids, snapshot.mask(where, None)
    (found,) = snapshot.lexical.search([query], k=k, config=core.config.lexical, allowed=allowed, id_of=ids.__getitem__)
    return [(ids[row], score) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True)]
