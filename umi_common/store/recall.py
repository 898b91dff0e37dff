"""One search of the store: both arms for all probes, one pool.

Each arm gives its best; the union, with the chunks beside the best of it, is then scored by both arms, so that
what ranks it sees no holes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from umi_common.config import DecayConfig, LexicalConfig
from umi_common.errors import EmbedderError, InvalidVector, SearchUnavailable
from umi_common.filters import Filter
from umi_common.pool import Floats, Ints, Pool, Vectors
from umi_common.protocols import Embedder, Probe
from umi_common.store.candidates import Found, Notes, Request, pool_of
from umi_common.store.codec import microseconds
from umi_common.store.dense_arm import DenseSearch
from umi_common.store.indexes import Indexes
from umi_common.store.ingest import unit_rows
from umi_common.store.rows import Mask
from umi_common.store.state import State
from umi_common.store.topk import Ranking
from umi_common.types import TimeRange


def recall(indexes: Indexes, embedder: Embedder, request: Request) -> Pool:
    """The candidates of one search; see `protocols.Store.recall`.

    Raises:
        SearchUnavailable: If neither arm can answer.
    """
    notes = Notes()
    state = indexes.state
    begun = time.perf_counter()
    queries = query_vectors(request.probes, embedder, state.vectors.shape[1], notes)
    notes.facts["embed_ms"] = (time.perf_counter() - begun) * 1e3
    with indexes.turns:
        return _searched(indexes, state, queries, request, notes)


def _searched(indexes: Indexes, state: State, queries: Vectors | None, request: Request, notes: Notes) -> Pool:
    begun = time.perf_counter()
    allowed = indexes.mask(state, request.where, request.window)
    weights = state.rows.decay(request.now, request.decay)
    lexical = _lexical_arm(indexes, state, request, allowed, weights, notes)
    dense = _dense_arm(indexes, state, queries, request, allowed, weights, notes)
    if lexical is None and dense is None:
        raise SearchUnavailable("; ".join(f"{loss.part}: {loss.reason}" for loss in notes.degraded))
    notes.facts |= {"chunks": state.rows.living, "arms_ms": (time.perf_counter() - begun) * 1e3}
    named = _named(indexes, state, request, allowed)
    corpus = _about_the_corpus(indexes, state, queries)
    return pool_of(state, Found(queries, lexical, dense, named), request, allowed, notes, corpus)


def _named(indexes: Indexes, state: State, request: Request, allowed: Mask | None) -> Ints:
    """Rows that the probes name and that may be seen."""
    found = [indexes.row_of(id) for probe in request.probes for id in probe.ids]
    rows = np.array([row for row in found if row is not None and row < len(state.rows)], dtype=np.int64)
    return rows[(state.rows.alive if allowed is None else allowed)[rows]]


def _about_the_corpus(indexes: Indexes, state: State, queries: Vectors | None) -> dict[str, Any]:
    """The pool's fields that do not depend on what was found."""
    rows, lexical = state.rows, state.lexical
    numbers = indexes.calibration.numbers(rows, state.vectors, lambda: lexical.lengths(len(rows)), indexes.sources)
    if queries is None:
        return {"calibration": numbers}
    usual = indexes.calibration.background(state.rows, state.vectors, queries)
    return {
        "calibration": numbers,
        "dense_mean": usual.mean,
        "dense_deviation": usual.deviation,
        "dense_count": usual.chunks,
    }


def query_vectors(probes: Sequence[Probe], embedder: Embedder, dim: int, notes: Notes) -> Vectors | None:
    """(V, dim) unit rows, embedding in one call what has no vector yet; None: there is not one vector."""
    given = {place: probe.vector for place, probe in enumerate(probes) if probe.vector is not None}
    for vector in given.values():
        if vector.ndim != 1 or not np.isfinite(vector).all() or (dim and len(vector) != dim):
            raise InvalidVector(f"a query vector has shape {vector.shape}; expected ({dim or 'dim'},), finite")
    missing = [place for place in range(len(probes)) if place not in given]
    if missing:
        try:
            made = np.asarray(embedder.embed_queries([probes[place].text for place in missing]), dtype=np.float32)
            if made.ndim != 2 or len(made) != len(missing) or (dim and made.shape[1] != dim):
                raise EmbedderError(f"it gave shape {made.shape}, expected ({len(missing)}, {dim or 'dim'})")
            if not np.isfinite(made).all():
                raise EmbedderError("it gave NaN or infinity")
        except Exception as error:  # noqa: BLE001 an embedder may fail in any way; the lexical arm does not need it
            notes.lost("embedder", error, "searched by words alone" if not given else "some variations by words alone")
        else:
            given.update(zip(missing, made, strict=True))
    if not given:
        return None
    width = dim or len(next(iter(given.values())))
    queries = np.zeros((len(probes), width), dtype=np.float32)
    for place, vector in given.items():
        queries[place] = vector
    return unit_rows(queries)


def _lexical_arm(
    indexes: Indexes, state: State, request: Request, allowed: Mask | None, weights: Floats | None, notes: Notes
) -> list[Ranking] | None:
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
            ranks_of=lambda compared: state.id_order.ranks_for(compared, state.rows.ids, len(state.rows)),
        )
    except Exception as error:  # noqa: BLE001 one arm out, whatever the cause
        notes.lost("lexical", error, "searched by meaning alone")
        return None


def _dense_arm(
    indexes: Indexes,
    state: State,
    queries: Vectors | None,
    request: Request,
    allowed: Mask | None,
    weights: Floats | None,
    notes: Notes,
) -> list[Ranking] | None:
    if queries is None:
        return None
    if state.present is not None:
        allowed = state.present if allowed is None else state.present & allowed
    rows, vectors = state.rows, state.vectors
    search = DenseSearch(vectors, rows.seq, rows.ids, queries, request.depth, allowed, weights, state.quantised)
    found, notes.facts["dense_engine"] = search.run(indexes.generations)
    fault = indexes.generations.fault
    if fault is not None:
        notes.lost("dense", fault, "answered by exact search over the stored vectors")
    return found


def request_of(
    probes: Sequence[Probe],
    *,
    depth: int,
    now: datetime,
    where: Filter | None,
    window: TimeRange | None,
    lexical: LexicalConfig,
    decay: DecayConfig,
    around: int,
) -> Request:
    """A request from the arguments of `Store.recall`."""
    return Request(tuple(probes), depth, microseconds(now), where, window, lexical, decay, around)
