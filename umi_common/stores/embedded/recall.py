"""A search of the store, which returns the candidates of both arms as one pool, and a search by BM25 alone.

Each arm finds its best chunks. Their neighbours, and the chunks to which they refer, are added. Then both arms score
all candidates, so every row of the pool has a score from each arm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from umi_common.errors import IndexUnavailable, InputError, SearchUnavailable
from umi_common.filters import Filter
from umi_common.filters.tree import shown
from umi_common.pool import CHUNKS_WITH_TIME, Pool, Vectors
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
    shared = _shared_parts(snapshot, queries)
    with COMPUTE_SLOTS.held():
        rows, row_data = snapshot.rows, snapshot.row_data
        lengths = partial(snapshot.lexical.lengths, len(rows))
        numbers = row_data.calibration.numbers(rows, snapshot.vectors, lengths, row_data.table.sources)
        searches = zip(queries, shared, requests, traces, strict=True)
        return [
            _search(snapshot, vectors, scan, request, trace, {"calibration": numbers, **background})
            for vectors, (scan, background), request, trace in searches
        ]


def _shared_parts(
    snapshot: StoreSnapshot, queries: Sequence[Vectors | None]
) -> list[tuple[Scan | None, dict[str, Any]]]:
    """For each search, its part of the scan that all searches share, and the field "background" of its pool.

    A search whose part is None scans alone. A search without query vectors has neither.
    """
    present = [vectors for vectors in queries if vectors is not None]
    if not present:
        return [(None, {})] * len(queries)
    scan, joined = None, np.concatenate(present)
    if len(present) > 1 and len(joined) * len(snapshot.rows) <= SHARED_SCORES_MAX:
        scan = dense_search.scan_of(snapshot.vectors, joined, snapshot.row_data.quantised)
    exact = scan.scores if scan is not None and scan.bounds is None else None
    background = snapshot.row_data.calibration.background(snapshot.rows, snapshot.vectors, joined, exact)
    parts, end = list[tuple[Scan | None, dict[str, Any]]](), 0
    for vectors in queries:
        if vectors is None:
            parts.append((None, {}))
            continue
        own = slice(end, end + len(vectors))
        end = own.stop
        parts.append((None if scan is None else scan.of(own), {"background": background.of_queries(own)}))
    return parts


def _search(
    snapshot: StoreSnapshot,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    trace: RecallTrace,
    corpus_fields: Mapping[str, Any],
) -> Pool:
    """The pool of one search. `corpus_fields` are the fields of a pool that do not depend on its candidates."""
    begun, rows, row_data = time.perf_counter(), snapshot.rows, snapshot.row_data
    allowed = snapshot.mask(request.where, request.window)
    if allowed is not None and rows.living and not allowed.any():
        if request.where is not None:
            _warn_of_filter(snapshot, request.where)
        if request.window is not None and not rows.within(TimeRange()).any():
            trace.facts[CHUNKS_WITH_TIME] = 0
    search = TextSearch(request, trace, snapshot.lexical, rows, row_data.table, allowed, rows.decay(request))
    lexical = None
    if snapshot.lexical_fault is None:
        lexical = search.ranked()
    elif request.strategy != "vector":
        search.lost_lexical(snapshot.lexical_fault, "; repair() brings it back")
    dense = None if queries is None else _dense_arm(snapshot, queries, scan, search)
    if lexical is None and dense is None:
        raise SearchUnavailable(trace.reasons())
    trace.facts |= {"chunks": rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    named, links = Named({}, {}), None
    found = [hits.rows for hits in dense or ()]
    if request.referring() and len(rows) > REFERENCES_ROWS_MAX:
        trace.facts["references"] = f"off above {REFERENCES_ROWS_MAX} rows"
    else:
        named, links = search.references(row_data.lazy.names, lexical, found, partial(_terms, snapshot))
    chosen = search.candidates(lexical, found, named, links)
    vectors = snapshot.vectors.take(chosen, axis=0)
    fields = {"vectors": vectors, "version": rows.seq[chosen], **corpus_fields}
    fields |= search.scored(lexical, chosen, alone=dense is None)
    if queries is not None and dense is not None:
        fields |= {"dense": dense_search.score(vectors, queries, chosen, searched=dense), "query_vectors": queries}
    return search.pool(chosen, named, links, **fields)


def _warn_of_filter(snapshot: StoreSnapshot, where: Filter) -> None:
    """If a filter passes no chunk, log why.

    A key that no chunk has may be misspelt; it is logged once. A key whose values are all of another kind than the
    filter's, such as 2021 and "2021", is logged once for each pair of kinds.
    """
    columns, passing = snapshot.columns, snapshot.mask(where, None)
    assert columns is not None
    if passing is None or passing.any():  # the time range leaves out the chunks that pass
        return
    for key in columns.unknown_keys(where):
        message = "a filter passes no chunk, and no chunk of the store has its key %s; check its spelling"
        warn_once("filter", key, message, shown(key))
    for key, (asked, held) in columns.other_kinds(where).items():
        message = "a filter passes no chunk: it compares the key %s with %s, and the store holds %s under it"
        message += "; $contains looks into a list" if LISTS in held else ""
        if held == BOOLEANS:
            message += '; give True or False, in LlamaIndex by a dict, such as filters={"draft": True}'
        warn_once("filter", f"{asked}, not {held}", message, shown(key), asked, held)


def _dense_arm(snapshot: StoreSnapshot, queries: Vectors, scan: Scan | None, search: TextSearch) -> list[DenseHits]:
    """The dense arm's ranking for each query vector."""
    search.trace.facts["dense_engine"] = "exact"
    allowed = search.allowed
    if snapshot.present is not None:
        allowed = snapshot.present if allowed is None else snapshot.present & allowed
    return dense_search.search(
        snapshot.vectors,
        queries,
        k=search.request.depth,
        allowed=allowed,
        weights=search.weights,
        ids=snapshot.rows.ids,
        quantised=snapshot.row_data.quantised,
        scan=scan,
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
        core.ready()
        snapshot = core.snapshot(where)
    if snapshot.lexical_fault is not None:
        raise IndexUnavailable(f"the lexical index cannot answer ({snapshot.lexical_fault}); repair() brings it back")
    if not len(snapshot.lexical):
        raise IndexUnavailable("the lexical index is empty; add chunks first")
    ids, allowed = snapshot.rows.ids, snapshot.mask(where, None)
    (found,) = snapshot.lexical.search([query], k=k, config=core.config.lexical, allowed=allowed, id_of=ids.__getitem__)
    return [(ids[row], score) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True)]
