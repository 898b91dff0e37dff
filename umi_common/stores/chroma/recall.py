"""One search of a collection through its side index: the candidates of both arms for all probes, in one pool.

A probe is a query or a variation of it, with its vector; V is their number. The lexical arm (BM25) reads only the side
index. The dense arm (cosine) asks Chroma for the nearest records.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from umi_common.errors import SearchUnavailable, StoreUnavailable
from umi_common.pool import Floats, Ints, Pool, Vectors, weighted
from umi_common.protocols import RecallRequest
from umi_common.stores.arrays import best_rows, distinct
from umi_common.stores.chroma.side_index import SideIndex, SideSnapshot
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.rows.rows import Rows
from umi_common.stores.text_search import TextSearch
from umi_common.stores.values import RecallTrace

FEW = 1_000
"""If at most this many rows are allowed, or at most `depth`, all their vectors are read and compared. That is exact,
and faster than asking Chroma for the nearest rows."""
NEAREST_MIN = 100
"""A hybrid search asks Chroma for `depth` / 2 rows, or for this many if that is more, but at most for `depth`. Half is
enough, because umi also compares the vectors of the lexical arm's rows. Chroma's time grows with the number of rows."""
WIDER = 4
"""Factor by which the number of requested rows grows if Chroma has to be asked again."""
DECAYED_MAX = 2_000
"""With decay, a row that Chroma has not listed may score higher than a listed one. Chroma is asked for more rows until
that is impossible, or until it was asked for this many and each query has its rows."""


def recall_pool(
    side: SideIndex, queries: Vectors | None, request: RecallRequest, trace: RecallTrace, *, has_failed: bool
) -> Pool:
    """The candidates of one search.

    Args:
        queries: (V, dim) vectors of the probes, of length 1 or zeros; None: the dense arm is not searched.
        has_failed: Whether Chroma has failed in this search. Then `queries` is None, and Chroma is called only for
            records that this process has not read yet, if the filter or the references need them.

    Raises:
        SearchUnavailable: If no arm can answer: each of the two arms has failed or is not searched.
        StoreUnavailable: If Chroma fails when metadata are read for the filter.
    """
    begun = time.perf_counter()
    snapshot, allowed = side.allowed(request.where, request.window)
    rows = snapshot.rows
    search = TextSearch(request, trace, snapshot.lexical, rows, side.table, allowed, rows.decay(request))
    lexical = search.ranked()  # the lexical arm's best rows for each probe; None: it failed, or is not searched
    # References are found by names alone, not by shared rare terms (`rare`); see `stores.references`.
    named, links = search.references(lambda: side.names, lexical, [], partial(_terms_of, side, rows), rare=False)
    if queries is None and not lexical:
        raise SearchUnavailable(trace.reasons())
    try:
        nearest = [] if queries is None else _nearest(side, queries, search)
        pooled = search.candidates(lexical, nearest, named, links)
        fields = {} if has_failed else _fields_of_chroma(side, snapshot, pooled, queries)
    except StoreUnavailable as error:
        without_vectors = "ranked without vectors and statistics of the collection"
        trace.lost("chroma", error, without_vectors if queries is None else "searched with the lexical arm alone")
        if not lexical:
            raise SearchUnavailable(trace.reasons()) from error
        pooled, fields, queries = search.candidates(lexical, [], named, links), {}, None
    trace.facts |= {"chunks": rows.living, "dense_engine": "chroma", "arms_ms": (time.perf_counter() - begun) * 1e3}
    fields |= search.scored(lexical, pooled, alone=queries is None)
    return search.pool(pooled, named, links, **fields)


def _terms_of(side: SideIndex, rows: Rows, wanted: Sequence[int]) -> list[Sequence[str]]:
    """The terms of each wanted row's text; empty if its record is gone."""
    ids = [rows.ids[row] for row in wanted]
    records = side.records(ids)
    chunks = [side.chunk(records.get(id)) for id in ids]
    return [() if chunk is None else side.analyzer.terms(chunk.indexed_text) for chunk in chunks]


def _fields_of_chroma(side: SideIndex, snapshot: SideSnapshot, pooled: Ints, queries: Vectors | None) -> dict[str, Any]:
    """The pool's fields that need Chroma: vectors and `statistics`; and, if there are queries, their cosines."""
    fields = {"vectors": side.vectors[pooled]} | statistics(side, snapshot, queries)
    if queries is not None:
        fields |= {"query_vectors": queries, "dense": cosines(fields["vectors"], queries).astype(np.float64)}
    return fields


def _nearest(side: SideIndex, queries: Vectors, search: TextSearch) -> list[Ints]:
    """The best rows by decayed cosine, for each query whose vector is not zero.

    Chroma lists rows, and umi computes their cosines. Each query gets `request.depth` rows, in a hybrid search about
    half as many; see NEAREST_MIN. Rows that are not allowed, or have no vector, do not count: Chroma is then asked for
    more rows, while it has any. For decay see DECAYED_MAX.
    """
    request, weights = search.request, search.weights
    depth = request.depth if request.strategy == "vector" else min(request.depth, max(NEAREST_MIN, request.depth // 2))
    asked = queries[queries.any(axis=1)]
    allowed = np.flatnonzero(search.findable)
    if not len(asked) or not len(allowed):
        return []
    if len(allowed) <= max(FEW, request.depth):
        return _best(side, asked, [allowed] * len(asked), request.depth, weights)[0]
    where = side.clause(request.where)
    count, total = depth, len(side)
    while True:
        options = {"n_results": min(count, total), "include": [], "where": where}
        listed = side.collection.call("query", query_embeddings=asked, **options)["ids"]
        best, above_unlisted = _best(side, asked, [search.known(ids) for ids in listed], depth, weights)
        exhausted = count >= total or all(len(ids) < count for ids in listed)
        full = all(len(each) >= depth for each in best)
        if exhausted or (full and (above_unlisted or count >= DECAYED_MAX)):
            return best
        count *= WIDER


def _best(
    side: SideIndex, queries: Vectors, rows: Sequence[Ints], depth: int, weights: Floats | None
) -> tuple[list[Ints], bool]:
    """The best `depth` rows of each query by decayed cosine, ties by id; rows without a vector are left out.

    Args:
        rows: For each query, the rows that are ranked.

    Returns:
        (the best rows of each query; whether these score at least as high as any other row could, for every query). A
        row that is not in `rows` is taken to have at most the smallest cosine of those that are.
    """
    together, ids = distinct(np.concatenate(rows)), side.snapshot.rows.ids
    vectors = side.vectors[together]
    scores, has_vector = cosines(vectors, queries).astype(np.float64), np.asarray(vectors.any(axis=1))
    best, above_unlisted = list[Ints](), True
    for own_scores, own in zip(scores, rows, strict=True):
        columns = together.searchsorted(own)  # `together` is sorted
        columns = columns[has_vector[columns]]
        decayed = weighted(own_scores[columns], None if weights is None else weights[together[columns]])
        ranked, falling = best_rows(together[columns], decayed, depth, ids.__getitem__)
        if len(ranked):  # decay only lowers a score
            above_unlisted &= bool(falling[-1] >= own_scores[columns].min())
        best.append(ranked)
    return best, above_unlisted


def statistics(side: SideIndex, snapshot: SideSnapshot, queries: Vectors | None) -> dict[str, Any]:
    """The fields of a pool about the collection, see `corpus_stats`: "calibration", numbers about its positions and
    sources; and, if there are queries, "background", mean and deviation of each query's cosines with its chunks."""
    rows, lexical = snapshot.rows, snapshot.lexical
    numbers = side.calibration.numbers(rows, side.vectors, lambda: lexical.lengths(len(rows)), side.table.sources)
    if queries is None:
        return {"calibration": numbers}
    return {"calibration": numbers, "background": side.calibration.background(rows, side.vectors, queries)}
