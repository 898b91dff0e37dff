"""One search of the store: the candidates of both arms as one pool; and search by BM25 alone.

Each arm finds its best chunks. Their neighbours join them, and both arms then score all of them, so every row of the
pool has a score from each arm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from umi_common.errors import IndexUnavailable, InvalidLimit, SearchUnavailable
from umi_common.filters import Filter
from umi_common.filters.tree import shown
from umi_common.pool import FIRST_RANK, NOT_RANKED, Floats, Ints, Links, Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.runtime.limits import COMPUTE_SLOTS
from umi_common.runtime.losses import warn_once
from umi_common.stores.arrays import distinct
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.index import DenseHits
from umi_common.stores.dense.int8 import Scan
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.row_data import StoreSnapshot
from umi_common.stores.ledger.codec import decode
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.query_embedder import query_vectors, with_error
from umi_common.stores.references import Named, find_references, named_by
from umi_common.stores.rows.rows import Mask, renumbered
from umi_common.stores.values import RecallTrace
from umi_common.types import microseconds

SHARED_SCORES_MAX = 4_000_000
"""Largest number of scores, 4 bytes each, of one scan for several searches; with more, each search scans alone."""
REFERRING_OF_EACH_ARM = 3
"""Number of best chunks of each arm whose references are looked up; ranking uses only references of the best few."""
REFERENCES_ROWS_MAX = 200_000
"""In a store of more rows no references are sought: reading all names at the first search would take seconds."""
PAUSES_SECONDS = (0.05, 0.1)
"""Pauses of `search_lexical` before each new attempt: another thread may be repairing the index."""


def recall_pools(core: Core, requests: Sequence[RecallRequest]) -> list[Pool]:
    """The pool of each search, all of one snapshot, with one embedding call; see `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If no arm that is asked for can answer.
    """
    traces = [RecallTrace() for _ in requests]
    snapshot = core.indexes.snapshot
    if core.other_embedder is not None:
        requests = with_error(requests, core.other_embedder)
    queries = query_vectors(requests, core.query_embedder, snapshot.vectors.shape[1], traces)
    scans, backgrounds = _scans_and_backgrounds(snapshot, queries)
    with COMPUTE_SLOTS.held():
        rows, row_data = snapshot.rows, snapshot.row_data
        lengths = partial(snapshot.lexical.lengths, len(rows))
        numbers = row_data.calibration.numbers(rows, snapshot.vectors, lengths, row_data.table.sources)
        corpus_fields = [{"calibration": numbers, **background} for background in backgrounds]
        searches = zip(queries, scans, requests, traces, corpus_fields, strict=True)
        return [_search(core, snapshot, *search) for search in searches]


def _scans_and_backgrounds(
    snapshot: StoreSnapshot, queries: Sequence[Vectors | None]
) -> tuple[list[Scan | None], list[dict[str, Any]]]:
    """For each search, its part of one scan for all searches, and the pool's fields about the background cosines.

    None in place of a part: the search scans alone.
    """
    scans: list[Scan | None] = [None] * len(queries)
    backgrounds: list[dict[str, Any]] = [{} for _ in queries]
    joined, slices = _joined(queries)
    if not slices:
        return scans, backgrounds
    scan = None
    if len(slices) > 1 and len(joined) * len(snapshot.rows) <= SHARED_SCORES_MAX:
        scan = dense_index.scan_of(snapshot.vectors, joined, snapshot.row_data.quantised)
    known = None if scan is None or scan.bounds is not None else scan.scores
    background = snapshot.row_data.calibration.background(snapshot.rows, snapshot.vectors, joined, known)
    for index, own in slices.items():
        scans[index] = scan and scan.of(own)
        backgrounds[index] = background.pool_fields(own)
    return scans, backgrounds


def _joined(queries: Sequence[Vectors | None]) -> tuple[Vectors, dict[int, slice]]:
    """All query vectors as one array, and the slices of the searches that have any, by index in `queries`."""
    slices, stop = {}, 0
    for index, vectors in enumerate(queries):
        if vectors is not None:
            start, stop = stop, stop + len(vectors)
            slices[index] = slice(start, stop)
    present = [vectors for vectors in queries if vectors is not None]
    return np.concatenate(present) if present else np.zeros((0, 0), dtype=np.float32), slices


def _search(
    core: Core,
    snapshot: StoreSnapshot,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    trace: RecallTrace,
    corpus_fields: Mapping[str, Any],
) -> Pool:
    """The pool of one search. `corpus_fields` are the fields of a pool that do not depend on its candidates."""
    begun = time.perf_counter()
    allowed = snapshot.row_data.mask(snapshot, request.where, request.window)
    if request.where is not None and allowed is not None and snapshot.rows.living and not allowed.any():
        _warn_unknown_keys(snapshot, request.where)
    weights = snapshot.rows.decay(microseconds(request.now), request.decay)
    lexical = _lexical_arm(snapshot, request, allowed, weights, trace)
    dense = _dense_arm(snapshot, queries, scan, request, allowed, weights, trace)
    if lexical is None and dense is None:
        raise SearchUnavailable(trace.reasons())
    trace.facts |= {"chunks": snapshot.rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    by_id = _rows_of_named_ids(snapshot, request, allowed)
    named, links = _references(core, snapshot, request, lexical, dense, allowed, trace)
    rankings = [hits.rows for hits in (*(lexical or ()), *(dense or ()))]
    others = [by_id, np.fromiter(named.rows, np.int64), *([] if links is None else [links.target])]
    rows = snapshot.rows.with_neighbours(rankings, np.concatenate(others), request, allowed)
    fields = _lexical_fields(snapshot, lexical, dense, rows, request, trace)
    if queries is not None and dense is not None:
        indices = _indices(dense, rows, len(snapshot.rows))
        fields |= {
            "dense": dense_index.score(snapshot.vectors, queries, rows, searched=dense, indices=indices),
            "dense_rank": _ranks(indices, (len(request.probes), len(rows))),
            "query_vectors": queries,
        }
    return Pool.of(
        list(map(snapshot.rows.ids.__getitem__, rows.tolist())),
        **fields,
        vectors=snapshot.vectors.take(rows, axis=0),
        source=renumbered(snapshot.rows.source[rows]),
        position=snapshot.rows.index_in_source[rows],
        age_hours=snapshot.rows.age_hours(microseconds(request.now), rows),
        **named.pool_fields(rows),
        version=snapshot.rows.seq[rows],
        links=None if links is None else links.of_rows(rows, len(snapshot.rows)),
        degraded=tuple(trace.degraded),
        facts=trace.facts,
        **corpus_fields,
    )


def _warn_unknown_keys(snapshot: StoreSnapshot, where: Filter) -> None:
    """Log once for each key of the filter that no chunk has: it may be misspelt."""
    for key in snapshot.row_data.columns().unknown_keys(where):
        message = "a filter passes no chunk, and no chunk of the store has its key %s; check its spelling"
        warn_once("filter", key, message, shown(key))


def _lexical_arm(
    snapshot: StoreSnapshot, request: RecallRequest, allowed: Mask | None, weights: Floats | None, trace: RecallTrace
) -> list[LexicalHits] | None:
    if request.strategy == "vector":
        return None
    if snapshot.lexical_fault is not None:
        trace.lost("lexical", snapshot.lexical_fault, "searched with the dense arm alone; repair() brings it back")
        return None
    try:
        return snapshot.lexical.search(
            [probe.text for probe in request.probes],
            k=request.depth,
            config=request.lexical,
            allowed=allowed,
            weights=weights,
            id_of=snapshot.rows.ids.__getitem__,
        )
    except Exception as error:  # noqa: BLE001 one arm out, whatever the cause
        trace.lost("lexical", error, "searched with the dense arm alone")
        return None


def _dense_arm(
    snapshot: StoreSnapshot,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    allowed: Mask | None,
    weights: Floats | None,
    trace: RecallTrace,
) -> list[DenseHits] | None:
    if queries is None:
        return None
    trace.facts["dense_engine"] = "exact"
    if snapshot.present is not None:
        allowed = snapshot.present if allowed is None else snapshot.present & allowed
    return dense_index.search(
        snapshot.vectors,
        queries,
        k=request.depth,
        allowed=allowed,
        weights=weights,
        ids=snapshot.rows.ids,
        quantised=snapshot.row_data.quantised,
        scan=scan,
    )


def _rows_of_named_ids(snapshot: StoreSnapshot, request: RecallRequest, allowed: Mask | None) -> Ints:
    """Rows of the ids that the probes name, without those that are removed or not `allowed`."""
    found = [snapshot.row_data.table.row_of(id) for probe in request.probes for id in probe.ids]
    rows = np.array([row for row in found if row is not None and row < len(snapshot.rows)], dtype=np.int64)
    return rows[(snapshot.rows.alive if allowed is None else allowed)[rows]]


def _references(
    core: Core,
    snapshot: StoreSnapshot,
    request: RecallRequest,
    lexical: Sequence[LexicalHits] | None,
    dense: Sequence[DenseHits] | None,
    allowed: Mask | None,
    trace: RecallTrace,
) -> tuple[Named, Links | None]:
    """The rows that the first probe names; and the references of these and of the best that each arm found for it.

    Empty and None if references are not asked for, or there are none.
    """
    if not request.references or lexical is None:
        return Named({}, {}), None
    if len(snapshot.rows) > REFERENCES_ROWS_MAX:
        trace.facts["references"] = f"off above {REFERENCES_ROWS_MAX} rows"
        return Named({}, {}), None
    best = [ranking[0].rows[:REFERRING_OF_EACH_ARM] for ranking in (lexical, dense or ()) if ranking]
    allowed = snapshot.rows.alive if allowed is None else allowed
    begun = time.perf_counter()
    try:
        names = snapshot.row_data.names()
        named = named_by(snapshot.lexical, names, request.probes[0].text, lexical[0].query, allowed, request.lexical)
        links = find_references(
            snapshot.lexical,
            names,
            lexical[0].query,
            distinct(np.concatenate([*best, np.fromiter(named.rows, np.int64)])),
            lambda rows: _terms(core, snapshot, rows),
            allowed,
            request.lexical,
        )
    except Exception as error:  # noqa: BLE001 an optional part, whatever the cause
        trace.lost("references", error, "searched without references between chunks")
        return Named({}, {}), None
    trace.facts["references_ms"] = (time.perf_counter() - begun) * 1e3
    return named, links


def _terms(core: Core, snapshot: StoreSnapshot, rows: Sequence[int]) -> list[Sequence[str]]:
    """The terms of each row's indexed text; none where the chunk was removed after the snapshot."""
    seqs = snapshot.rows.seq[rows].tolist()
    found, missing = snapshot.row_data.terms.get(seqs)
    if missing:  # not by `Core.chunks`, which takes a compute slot: the caller holds one
        chunks, unread = snapshot.row_data.chunks.get(missing)
        fresh = {seq: decode(entry) for seq, entry in core.ledger.entries(unread).items()} if unread else {}
        snapshot.row_data.chunks.put(fresh)  # the best candidates are fetched as hits next
        chunks |= fresh
        read = {seq: tuple(snapshot.lexical.analyzer.terms(chunk.indexed_text)) for seq, chunk in chunks.items()}
        snapshot.row_data.terms.put(read)
        found |= read
    return [found.get(seq, ()) for seq in seqs]


def _lexical_fields(
    snapshot: StoreSnapshot,
    lexical: Sequence[LexicalHits] | None,
    dense: Sequence[DenseHits] | None,
    rows: Ints,
    request: RecallRequest,
    trace: RecallTrace,
) -> dict[str, Any]:
    """The lexical arm's fields of the pool of these rows; the lengths alone if the arm was not asked.

    Raises:
        SearchUnavailable: If scoring fails and the dense arm did not answer.
    """
    if request.strategy == "vector":
        return {"length": snapshot.lexical.lengths(len(snapshot.rows))[rows].astype(np.int64)}
    if lexical is None:
        return {}
    texts = [probe.text for probe in request.probes]
    try:
        scored = snapshot.lexical.score(texts, rows, config=request.lexical, searched=lexical)
    except Exception as error:
        if dense is None:
            raise SearchUnavailable(f"lexical: {type(error).__name__}") from error
        trace.lost("lexical", error, "searched with the dense arm alone")
        return {}
    indices = _indices(lexical, rows, len(snapshot.rows))
    return {**scored.pool_fields(), "lexical_rank": _ranks(indices, (len(texts), len(rows)))}


def _indices(rankings: Sequence[LexicalHits] | Sequence[DenseHits], rows: Ints, count: int) -> list[Ints]:
    """For each ranking, the indices of its rows in `rows`; all row numbers are below `count`."""
    index_of = np.empty(count, dtype=np.int64)  # not initialised: only entries written below are read
    index_of[rows] = np.arange(len(rows))
    return [index_of[ranking.rows] for ranking in rankings]


def _ranks(indices: Sequence[Ints], shape: tuple[int, int]) -> Ints:
    """(V, n) rank of each pool row in each ranking, from FIRST_RANK; NOT_RANKED."""
    ranks = np.full(shape, NOT_RANKED, dtype=np.int64)
    for variation, ranked in enumerate(indices):
        ranks[variation, ranked] = np.arange(FIRST_RANK, len(ranked) + FIRST_RANK)
    return ranks


def search_lexical(core: Core, query: str, *, k: int, where: Filter | None, timeout: float) -> list[tuple[str, float]]:
    """See `HybridStore.search_lexical`."""
    if k < 1:
        raise InvalidLimit(f"k is {k}; expected at least 1")
    deadline = time.monotonic() + timeout
    for pause in (*PAUSES_SECONDS, None):
        core.ready()
        snapshot = core.indexes.snapshot
        if snapshot.lexical_fault is None:
            break
        if pause is None or time.monotonic() + pause > deadline:
            raise IndexUnavailable(
                f"the lexical index cannot answer ({snapshot.lexical_fault}); repair() brings it back"
            )
        time.sleep(pause)
    if not len(snapshot.lexical):
        raise IndexUnavailable("the lexical index is empty; add chunks first")
    ids, allowed = snapshot.rows.ids, snapshot.row_data.mask(snapshot, where, None)
    (found,) = snapshot.lexical.search([query], k=k, config=core.config.lexical, allowed=allowed, id_of=ids.__getitem__)
    return [(ids[row], score) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True)]
