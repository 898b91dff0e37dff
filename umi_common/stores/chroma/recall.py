"""One search of a collection through its side index: the candidates of both arms for all probes, in one pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from umi_common.embedders.cache import LruCache
from umi_common.errors import SearchUnavailable, StoreUnavailable
from umi_common.filters import Filter, to_chroma
from umi_common.filters.tree import comparisons
from umi_common.pool import Floats, Ints, Pool, Vectors, unit_vectors, weighted
from umi_common.protocols import RecallRequest
from umi_common.stores.arrays import distinct
from umi_common.stores.chroma.collection import ChromaCollection
from umi_common.stores.chroma.side_index import SideIndex, SideSnapshot
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.rows.rows import Mask
from umi_common.stores.text_search import TextSearch
from umi_common.stores.values import RecallTrace
from umi_common.types import TimeRange

FEW = 1_000
"""If at most this many rows are allowed, or at most `depth`, all their vectors are read and compared; that is exact,
and faster than asking Chroma."""
NEAREST_MIN = 100
"""A hybrid search asks Chroma for half of `depth` rows, but at least for this many, if `depth` allows. Half is enough,
because umi also compares the vectors of the lexical arm's rows; and Chroma's time grows with the number of rows."""
WIDER = 4
"""Factor by which the number of requested rows grows if Chroma has to be asked again."""
DECAYED_MAX = 2_000
"""Decay may change the order of rows, so Chroma is asked for more rows until it was asked for at least this many."""
CACHE_BYTES = 128_000_000
"""Largest size of the cached vectors, here 83,000 vectors of 384 dimensions."""
READ_AHEAD = 300
"""Number of further rows whose vectors are read whenever a vector is missing, if the vectors of all rows fit into
CACHE_BYTES. So all vectors are cached after some searches, in less time than if each search read only its own."""


class CollectionVectors:
    """(n, dim) unit vectors of a collection by row of its side index, read when first needed. Thread-safe."""

    def __init__(self, collection: ChromaCollection, side: SideIndex, dim: int) -> None:
        self._collection, self._side, self._dim = collection, side, dim
        self._most = CACHE_BYTES // (dim * np.dtype(np.float32).itemsize)
        self._cached: LruCache[int, Vectors] = LruCache(self._most)
        self._next = 0
        """The first row that was not read ahead."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return len(self._side.snapshot.rows), self._dim

    def __getitem__(self, rows: Ints) -> Vectors:
        """(len(rows), dim) vectors; zeros for a record that is gone.

        Raises:
            StoreUnavailable: If Chroma fails.
        """
        wanted = rows.tolist()
        found = self._cached.get(wanted)
        if missing := [row for row in wanted if row not in found]:
            found |= self._read(missing)
        zeros = np.zeros(self._dim, dtype=np.float32)
        return np.array([found.get(row, zeros) for row in wanted], np.float32).reshape(len(wanted), self._dim)

    def _read(self, missing: list[int]) -> dict[int, Vectors]:
        """Read and cache the vectors of these rows and of READ_AHEAD others; those of records that are gone are left
        out, because such a record may come back."""
        rows, end = self._side.snapshot.rows, self._next
        if len(rows) <= self._most:
            end = min(self._next + READ_AHEAD, len(rows))
            ahead = self._next + np.flatnonzero(rows.alive[self._next : end])
            missing = [*missing, *ahead.tolist()]
        read, is_known = self._collection.vectors([rows.ids[row] for row in missing], self._dim)
        known = [row for row, there in zip(missing, is_known.tolist(), strict=True) if there]
        found = dict(zip(known, map(np.copy, unit_vectors(read[is_known])), strict=True))
        self._cached.put(found)
        self._next = end
        return found


class IndexedCollection(NamedTuple):
    """A collection, its side index and its vectors."""

    collection: ChromaCollection
    side: SideIndex
    vectors: CollectionVectors


def recall_pool(
    indexed: IndexedCollection, queries: Vectors | None, request: RecallRequest, trace: RecallTrace
) -> Pool:
    """The candidates of one search; `queries` are (V, dim) unit rows, None: BM25 alone.

    Raises:
        SearchUnavailable: If no arm that is asked for can answer.
    """
    begun, snapshot, side = time.perf_counter(), indexed.side.snapshot, indexed.side
    rows = snapshot.rows
    allowed = allowed_rows(indexed, snapshot, request.where, request.window)
    weights = rows.decay(request)
    search = TextSearch(request, trace, snapshot.lexical, rows, side.table, allowed, weights)
    lexical = search.ranked()

    def terms_of(wanted: Sequence[int]) -> list[Sequence[str]]:
        ids = [rows.ids[row] for row in wanted]
        known = {id: record for id in ids if (record := side.last_read(id)) is not None}
        known |= indexed.collection.records([id for id in ids if id not in known])
        chunks = [side.chunk(known.get(id)) for id in ids]
        return [() if chunk is None else side.analyzer.terms(chunk.indexed_text) for chunk in chunks]

    named, links = search.references(lambda: side.names, lexical, [], terms_of, rare=False)
    fields: dict[str, Any] = {}
    if queries is not None:
        try:
            nearest = _nearest(indexed, queries, search, allowed)
            pooled = search.candidates(lexical, nearest, named, links)
            vectors = indexed.vectors[pooled]
            fields = {"vectors": vectors} | statistics(indexed, snapshot, queries)
            fields |= {"dense": cosines(vectors, queries).astype(np.float64), "query_vectors": queries}
        except StoreUnavailable as error:
            trace.lost("chroma", error, "searched with the lexical arm alone")
            queries = None
    if queries is None:
        if not lexical:
            raise SearchUnavailable(trace.reasons())
        pooled = search.candidates(lexical, [], named, links)
        if not any(loss.part == "chroma" for loss in trace.degraded):
            try:
                fields = {"vectors": indexed.vectors[pooled]} | statistics(indexed, snapshot, None)
            except StoreUnavailable as error:
                trace.lost("chroma", error, "ranked without vectors and statistics of the collection")
    trace.facts |= {"chunks": rows.living, "dense_engine": "chroma", "arms_ms": (time.perf_counter() - begun) * 1e3}
    fields |= search.scored(lexical, pooled, alone=queries is None)
    return search.pool(pooled, named, links, **fields)


def allowed_rows(
    indexed: IndexedCollection, snapshot: SideSnapshot, where: Filter | None, window: TimeRange | None
) -> Mask:
    """(n,) whether each row is alive and passes filter and time range."""
    rows = snapshot.rows
    allowed = rows.alive if window is None else rows.alive & rows.within(window)
    if where is not None:
        allowed = allowed & indexed.side.columns(indexed.collection.records).mask(where, len(rows))
    return allowed


def _nearest(indexed: IndexedCollection, queries: Vectors, search: TextSearch, allowed: Mask) -> list[Ints]:
    """For each query with a vector its best rows by decayed cosine, which umi computes anew for the rows from Chroma.

    Chroma is asked for more until enough allowed rows with a vector are found, or it has no more. `depth` rows, in a
    hybrid search half of them, are enough; see NEAREST_MIN. With decay, Chroma is also asked for more until no further
    row can be among the best; see DECAYED_MAX.
    """
    request, weights = search.request, search.weights
    depth = request.depth if request.strategy == "vector" else min(request.depth, max(NEAREST_MIN, request.depth // 2))
    asked = queries[queries.any(axis=1)]
    many = int(np.count_nonzero(allowed))
    if not len(asked) or not many:
        return []
    if many <= max(FEW, request.depth):
        every = np.flatnonzero(allowed)
        return _best(indexed, asked, [every] * len(asked), request.depth, weights)[0]
    where = None
    if request.where is not None and not {leaf.key for leaf in comparisons(request.where)} & indexed.side.derived:
        clause = to_chroma(request.where)
        where = None if clause is None else clause.where
    count, total = depth, len(indexed.side)
    while True:
        options = {"n_results": min(count, total), "include": [], "where": where}
        listed = indexed.collection.call("query", query_embeddings=asked, **options)["ids"]
        best, least, lowest = _best(indexed, asked, list(map(search.known, listed)), depth, weights)
        exhausted = count >= total or all(len(ids) < count for ids in listed)
        full = all(len(each) >= depth for each in best)
        # A row that Chroma did not list has a cosine of at most `lowest`, and decay only lowers it.
        ordered = weights is None or count >= DECAYED_MAX or bool((least >= lowest).all())
        if exhausted or (full and ordered):
            return best
        count *= WIDER


def _best(
    indexed: IndexedCollection, queries: Vectors, rows: Sequence[Ints], depth: int, weights: Floats | None
) -> tuple[list[Ints], Floats, Floats]:
    """For each of V queries, rank the rows in its item of `rows` that have a vector.

    Returns:
        For each query its best `depth` rows by decayed cosine; (V,) the smallest decayed cosine among these; (V,) the
        smallest cosine of all its rows. Both numbers are -2 for a query without such rows.
    """
    together = indexed.side.snapshot.rows.by_id(distinct(np.concatenate(rows)))  # so that ties fall to the smaller id
    by_row = np.argsort(together)
    vectors = indexed.vectors[together]
    scores = cosines(vectors, queries).astype(np.float64)
    present = np.asarray(vectors.any(axis=1))
    best, least, lowest = [], np.full(len(queries), -2.0), np.full(len(queries), -2.0)
    for v, own in enumerate(rows):
        own = np.sort(by_row[together.searchsorted(own, sorter=by_row)])  # now columns of `scores`
        own = own[present[own]]
        decayed = weighted(scores[v, own], None if weights is None else weights[together[own]])
        order = np.argsort(-decayed, kind="stable")[:depth]
        if len(order):
            least[v], lowest[v] = decayed[order[-1]], scores[v, own].min()
        best.append(together[own[order]])
    return best, least, lowest


def statistics(indexed: IndexedCollection, snapshot: SideSnapshot, queries: Vectors | None) -> dict[str, Any]:
    """The fields of a pool about the collection: the calibration and, if there are queries, the background.

    Raises:
        StoreUnavailable: If Chroma fails.
    """
    rows, side, lexical = snapshot.rows, indexed.side, snapshot.lexical
    numbers = side.calibration.numbers(rows, indexed.vectors, lambda: lexical.lengths(len(rows)), side.table.sources)
    if queries is None:
        return {"calibration": numbers}
    return {"calibration": numbers, "background": side.calibration.background(rows, indexed.vectors, queries)}
