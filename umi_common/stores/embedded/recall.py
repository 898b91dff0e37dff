"""One search of the store: both arms for all probes, one pool.

Each arm gives its best; the union, with the chunks beside the best of it, is then scored by both arms, so that
what ranks it sees no holes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.errors import EmbedderError, InvalidVector, SearchUnavailable
from umi_common.pool import Floats, Ints, Pool, Vectors
from umi_common.protocols import Asked
from umi_common.runtime.turns import TURNS
from umi_common.stores.batch_checks import unit_rows
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.int8 import Scan
from umi_common.stores.embedded.candidates import NO_ROWS, Found, Notes, Request, pool_of
from umi_common.stores.embedded.indexes import Indexes
from umi_common.stores.embedded.state import State
from umi_common.stores.ledger.codec import microseconds
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.query_embedder import QueryEmbedder
from umi_common.stores.rows.rows import Mask

SCANNED_TOGETHER = 4_000_000
"""Scores of a scan for several searches, 4 bytes each; for more, each search scans for itself."""


def recall(indexes: Indexes, embedder: QueryEmbedder, requests: Sequence[Request]) -> list[Pool]:
    """The candidates of each search, of one moment, embedded in one call; see `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If no arm that is asked for can answer.
    """
    notes = [Notes() for _ in requests]
    state = indexes.state
    queries = query_vectors(requests, embedder, state.vectors.shape[1], notes)
    scans, backgrounds = _scans_and_backgrounds(state, queries)
    with TURNS.taken():
        numbers = {"calibration": _numbers(state)}
        corpus = [numbers | background for background in backgrounds]
        each = zip(queries, scans, requests, notes, corpus, strict=True)
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
    request: Request,
    notes: Notes,
    corpus: Mapping[str, Any],
) -> Pool:
    begun = time.perf_counter()
    allowed = state.by_row.mask(state, request.where, request.window)
    weights = state.rows.decay(request.now, request.decay)
    lexical = _lexical_arm(state, request, allowed, weights, notes)
    dense = _dense_arm(state, queries, scan, request, allowed, weights, notes)
    if lexical is None and dense is None:
        raise SearchUnavailable("; ".join(f"{loss.part}: {loss.reason}" for loss in notes.degraded))
    notes.facts |= {"chunks": state.rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    named = _named(state, request, allowed)
    return pool_of(state, Found(queries, lexical, dense, named), request, allowed, notes, corpus)


def _named(state: State, request: Request, allowed: Mask | None) -> Ints:
    """Rows that the probes name and that may be seen."""
    found = [state.by_row.row_of(id) for probe in request.probes for id in probe.ids]
    if not found:
        return NO_ROWS
    rows = np.array([row for row in found if row is not None and row < len(state.rows)], dtype=np.int64)
    return rows[(state.rows.alive if allowed is None else allowed)[rows]]


def _numbers(state: State) -> Mapping[str, float]:
    rows, lexical, by_row = state.rows, state.lexical, state.by_row
    return by_row.calibration.numbers(rows, state.vectors, lambda: lexical.lengths(len(rows)), by_row.sources)


def query_vectors(
    requests: Sequence[Request], embedder: QueryEmbedder, dim: int, notes: Sequence[Notes]
) -> list[Vectors | None]:
    """For each request (V, dim) unit rows; None: there is not one vector, or it asks for words alone. What has no
    vector yet is embedded, in one call where the model takes many texts, and if that fails, each of them notes it.

    Raises:
        InvalidVector: If a probe's own vector does not fit.
    """
    begun = time.perf_counter()
    vectors = [
        [None if probe.vector is None else _checked(probe.vector, dim) for probe in request.probes]
        for request in requests
    ]
    missing = [
        (search, place)
        for search, (request, own) in enumerate(zip(requests, vectors, strict=True))
        for place, vector in enumerate(own)
        if vector is None and request.strategy != "text"
    ]
    seconds = max((request.embedder_timeout_seconds for request in requests), default=0.0)
    failure: Exception | None = None
    for places in embedder.calls(missing):
        texts = [requests[search].probes[place].text for search, place in places]
        try:
            made = _embedded(texts, embedder, seconds, dim)
        except Exception as error:  # noqa: BLE001 an embedder may fail in any way; the lexical arm does not need it
            failure = error
            break
        for (search, place), vector in zip(places, made, strict=True):
            vectors[search][place] = vector
    milliseconds = (time.perf_counter() - begun) * 1e3
    found: list[Vectors | None] = []
    for request, noted, own in zip(requests, notes, vectors, strict=True):
        if request.strategy == "text":
            found.append(None)
            continue
        noted.facts["embed_ms"] = milliseconds
        given = [vector for vector in own if vector is not None]
        if failure is not None and len(given) < len(own):
            consequence = "some variations by words alone" if given else "searched by words alone"
            # A message may name texts; where searches share the call, those may be another caller's.
            reason = failure if len(requests) == 1 else type(failure).__name__
            noted.lost("embedder", reason, consequence)
        found.append(unit_rows(np.stack([_or_zeros(vector, given[0]) for vector in own])) if given else None)
    return found


def _checked(vector: Vectors, dim: int) -> Vectors:
    if vector.ndim != 1 or not np.isfinite(vector).all() or (dim and len(vector) != dim):
        raise InvalidVector(f"a query vector has shape {vector.shape}; expected ({dim or 'dim'},), finite")
    return vector


def _embedded(texts: Sequence[str], embedder: QueryEmbedder, seconds: float, dim: int) -> Vectors:
    made = np.asarray(embedder.embed(texts, seconds), dtype=np.float32)
    if made.ndim != 2 or len(made) != len(texts) or (dim and made.shape[1] != dim):
        raise EmbedderError(f"it gave shape {made.shape}, expected ({len(texts)}, {dim or 'dim'})")
    if not np.isfinite(made).all():
        raise EmbedderError("it gave NaN or infinity")
    return made


def _or_zeros(vector: Vectors | None, like: Vectors) -> Vectors:
    return np.zeros_like(like) if vector is None else vector


def _lexical_arm(
    state: State, request: Request, allowed: Mask | None, weights: Floats | None, notes: Notes
) -> list[LexicalHits] | None:
    if request.strategy == "vector":
        return None
    if state.lexical_fault is not None:
        notes.lost("lexical", state.lexical_fault, "searched by meaning alone; repair() brings it back")
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
        notes.lost("lexical", error, "searched by meaning alone")
        return None


def _dense_arm(
    state: State,
    queries: Vectors | None,
    scan: Scan | None,
    request: Request,
    allowed: Mask | None,
    weights: Floats | None,
    notes: Notes,
) -> list[dense_index.DenseHits] | None:
    if queries is None:
        return None
    notes.facts["dense_engine"] = "exact"
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


def request_of(asked: Asked, config: UmiConfig) -> Request:
    """A request as the arms have it; the settings are those of the store, for a caller who has none."""
    seconds = asked.embedder_timeout_seconds
    return Request(
        tuple(asked.probes),
        asked.depth,
        microseconds(asked.now),
        asked.where,
        asked.window,
        config.lexical if asked.lexical is None else asked.lexical,
        config.decay if asked.decay is None else asked.decay,
        asked.around,
        asked.strategy,
        config.recall.embedder_timeout_seconds if seconds is None else seconds,
    )
