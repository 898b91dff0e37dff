"""One search of the store: both arms for all probes, one pool; and search by words alone.

Each arm finds its best chunks. Both arms then score all of them, and their neighbours, so every row of the pool has a
score from each arm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from umi_common.errors import IndexUnavailable, InvalidLimit, SearchUnavailable
from umi_common.filters import Filter
from umi_common.pool import Floats, Ints, Links, Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.runtime.limits import COMPUTE_SLOTS
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.int8 import Scan
from umi_common.stores.distinct import distinct
from umi_common.stores.embedded.candidates import NO_ROWS, StoreHits, pool_of
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.row_data import StoreSnapshot
from umi_common.stores.ledger.codec import decode
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.query_embedder import query_vectors
from umi_common.stores.references.find import find_references
from umi_common.stores.rows.rows import Mask
from umi_common.stores.values import RecallTrace
from umi_common.types import microseconds

SCANNED_TOGETHER = 4_000_000
"""Largest number of scores, 4 bytes each, that one scan for several searches may give; else each search scans alone."""
REFERRING_OF_EACH_ARM = 3
"""Best chunks of each arm whose references are looked for; ranking gives weight to those of the best few."""
REFERENCES_ROWS_MAX = 200_000
"""Rows above which no references are looked for: reading all names at the first search would take seconds."""
PAUSES_SECONDS = (0.05, 0.1)
"""Pauses of `search_lexical` before each new attempt: another thread may be repairing the index."""


def recall_pools(core: Core, requests: Sequence[RecallRequest]) -> list[Pool]:
    """The pool of each search, all of one snapshot, with one embedding call; see `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If no arm that is asked for can answer.
    """
    traces = [RecallTrace() for _ in requests]
    snapshot = core.indexes.snapshot
    queries = query_vectors(requests, core.query_embedder, snapshot.vectors.shape[1], traces)
    scans, backgrounds = _scans_and_backgrounds(snapshot, queries)
    with COMPUTE_SLOTS.held():
        numbers = {"calibration": _numbers(snapshot)}
        corpus = [numbers | background for background in backgrounds]
        each = zip(queries, scans, requests, traces, corpus, strict=True)
        return [_searched(core, snapshot, *asked) for asked in each]


def _scans_and_backgrounds(
    snapshot: StoreSnapshot, queries: Sequence[Vectors | None]
) -> tuple[list[Scan | None], list[dict[str, Any]]]:
    """For each search the scan of its queries, None if it must scan alone, and the pool fields of its background."""
    scans: list[Scan | None] = [None] * len(queries)
    backgrounds: list[dict[str, Any]] = [{} for _ in queries]
    every, places = _as_one(queries)
    if not places:
        return scans, backgrounds
    scan = None
    if len(places) > 1 and len(every) * len(snapshot.rows) <= SCANNED_TOGETHER:
        scan = dense_index.scan_of(snapshot.vectors, every, snapshot.row_data.quantised)
    known = None if scan is None or scan.bounds is not None else scan.scores
    usual = snapshot.row_data.calibration.background(snapshot.rows, snapshot.vectors, every, known)
    for place, which in places.items():
        scans[place] = scan and scan.of(which)
        mean, deviation = usual.mean[which], usual.deviation[which]
        backgrounds[place] = {"dense_mean": mean, "dense_deviation": deviation, "dense_count": usual.chunks}
    return scans, backgrounds


def _as_one(queries: Sequence[Vectors | None]) -> tuple[Vectors, dict[int, slice]]:
    """All query vectors as one array, and the slice of each search that has any, by its place in `queries`."""
    places, stop = {}, 0
    for place, vectors in enumerate(queries):
        if vectors is not None:
            start, stop = stop, stop + len(vectors)
            places[place] = slice(start, stop)
    own = [vectors for vectors in queries if vectors is not None]
    return np.concatenate(own) if own else np.zeros((0, 0), dtype=np.float32), places


def _searched(
    core: Core,
    snapshot: StoreSnapshot,
    queries: Vectors | None,
    scan: Scan | None,
    request: RecallRequest,
    trace: RecallTrace,
    corpus: Mapping[str, Any],
) -> Pool:
    begun = time.perf_counter()
    allowed = snapshot.row_data.mask(snapshot, request.where, request.window)
    weights = snapshot.rows.decay(microseconds(request.now), request.decay)
    lexical = _lexical_arm(snapshot, request, allowed, weights, trace)
    dense = _dense_arm(snapshot, queries, scan, request, allowed, weights, trace)
    if lexical is None and dense is None:
        raise SearchUnavailable(trace.reasons())
    trace.facts |= {"chunks": snapshot.rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    named = _named(snapshot, request, allowed)
    links = None if lexical is None else _references(core, snapshot, request, lexical, dense, allowed, trace)
    return pool_of(snapshot, StoreHits(queries, lexical, dense, named, links), request, allowed, trace, corpus)


def _references(
    core: Core,
    snapshot: StoreSnapshot,
    request: RecallRequest,
    lexical: Sequence[LexicalHits],
    dense: Sequence[dense_index.DenseHits] | None,
    allowed: Mask | None,
    trace: RecallTrace,
) -> Links | None:
    """The references of the best chunks that both arms found for the first probe; None: not asked for, or none."""
    if not request.references:
        return None
    if len(snapshot.rows) > REFERENCES_ROWS_MAX:
        trace.facts["references"] = f"off above {REFERENCES_ROWS_MAX} rows"
        return None
    best = [ranking[0].rows[:REFERRING_OF_EACH_ARM] for ranking in (lexical, dense or ()) if ranking]
    begun = time.perf_counter()
    try:
        links = find_references(
            snapshot.lexical,
            snapshot.row_data.names(),
            request.probes[0].text,
            distinct(np.concatenate(best, dtype=np.int64)),
            lambda rows: _terms(core, snapshot, rows),
            snapshot.rows.alive if allowed is None else allowed,
            request.lexical,
        )
    except Exception as error:  # noqa: BLE001 an optional part, whatever the cause
        trace.lost("references", error, "searched without references between chunks")
        return None
    trace.facts["references_ms"] = (time.perf_counter() - begun) * 1e3
    return links


def _terms(core: Core, snapshot: StoreSnapshot, rows: Sequence[int]) -> list[Sequence[str]]:
    """The terms of each row's indexed text; none where the chunk was removed after the snapshot."""
    seqs = snapshot.rows.seq[rows].tolist()
    found, missing = snapshot.row_data.terms.known(seqs)
    if missing:  # not by `Core.chunks`, which takes a compute slot: the caller holds one
        chunks, unread = snapshot.row_data.chunks.known(missing)
        fresh = {seq: decode(entry) for seq, entry in core.ledger.entries(unread).items()} if unread else {}
        snapshot.row_data.chunks.keep(fresh)  # the best candidates are fetched as hits next
        chunks |= fresh
        read = {seq: tuple(snapshot.lexical.analyzer.terms(chunk.indexed_text)) for seq, chunk in chunks.items()}
        snapshot.row_data.terms.keep(read)
        found |= read
    return [found.get(seq, ()) for seq in seqs]


def _named(snapshot: StoreSnapshot, request: RecallRequest, allowed: Mask | None) -> Ints:
    """Rows of the ids that the probes name, without those that may not be found."""
    found = [snapshot.row_data.row_of(id) for probe in request.probes for id in probe.ids]
    if not found:
        return NO_ROWS
    rows = np.array([row for row in found if row is not None and row < len(snapshot.rows)], dtype=np.int64)
    return rows[(snapshot.rows.alive if allowed is None else allowed)[rows]]


def _numbers(snapshot: StoreSnapshot) -> Mapping[str, float]:
    rows, lexical, row_data = snapshot.rows, snapshot.lexical, snapshot.row_data
    return row_data.calibration.numbers(rows, snapshot.vectors, lambda: lexical.lengths(len(rows)), row_data.sources)


def _lexical_arm(
    snapshot: StoreSnapshot, request: RecallRequest, allowed: Mask | None, weights: Floats | None, trace: RecallTrace
) -> list[LexicalHits] | None:
    if request.strategy == "vector":
        return None
    if snapshot.lexical_fault is not None:
        trace.lost("lexical", snapshot.lexical_fault, "searched by meaning alone; repair() brings it back")
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
        trace.lost("lexical", error, "searched by meaning alone")
        return None


def _dense_arm(
    snapshot: StoreSnapshot,
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
