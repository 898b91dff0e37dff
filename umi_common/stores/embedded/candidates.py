"""From the best rows of both arms to a pool: adds their neighbours, scores all rows by both arms, sorts by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from umi_common.errors import SearchUnavailable
from umi_common.pool import FIRST_RANK, NO_SOURCE, NOT_RANKED, Ints, Links, Pool, Vectors
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.index import DenseHits
from umi_common.stores.embedded.row_data import StoreSnapshot
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.rows.rows import Mask
from umi_common.stores.values import RecallTrace
from umi_common.types import microseconds

NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StoreHits:
    """The rankings of both arms; None: the arm did not answer."""

    queries: Vectors | None
    lexical: Sequence[LexicalHits] | None
    dense: Sequence[DenseHits] | None
    named: Ints = field(default_factory=lambda: NO_ROWS)
    """Rows that enter the pool in any case."""
    links: Links | None = None
    """References of the best rows; their targets enter the pool."""


def pool_rows(snapshot: StoreSnapshot, found: StoreHits, request: RecallRequest, allowed: Mask | None) -> Ints:
    """All found rows, and the neighbours of the best of each ranking that may be found; sorted by id."""
    each: list[LexicalHits | DenseHits] = [*(found.lexical or ()), *(found.dense or ())]
    rankings = [ranking.rows for ranking in each]
    joins = np.zeros(len(snapshot.rows), dtype=np.bool_)  # faster than np.unique, which sorts
    for rows in (*rankings, found.named, NO_ROWS if found.links is None else found.links.target):
        joins[rows] = True
    if request.around and joins.any():
        best = np.concatenate([rows[: request.depth // NEIGHBOURS_OF] for rows in rankings]).astype(np.int64)
        beside = snapshot.rows.beside(best, request.around)
        joins[beside if allowed is None else beside[allowed[beside]]] = True
    return snapshot.rows.by_id(np.flatnonzero(joins))


def _places(rankings: Sequence[LexicalHits | DenseHits] | None, rows: Ints, among: int) -> list[Ints]:
    """For each ranking, the places of its rows in the pool; all row numbers are below `among`."""
    place = np.empty(among, dtype=np.int64)  # not initialised: only entries written below are read
    place[rows] = np.arange(len(rows))
    return [place[ranking.rows] for ranking in rankings or ()]


def pool_of(
    snapshot: StoreSnapshot,
    found: StoreHits,
    request: RecallRequest,
    allowed: Mask | None,
    trace: RecallTrace,
    corpus: Mapping[str, Any],
) -> Pool:
    """The pool of the found rows; `corpus` holds the pool fields that do not depend on them."""
    rows = pool_rows(snapshot, found, request, allowed)
    shape = (len(request.probes), len(rows))
    words: dict[str, Any] = {}
    if found.lexical is not None:
        try:
            texts = [probe.text for probe in request.probes]
            scored = snapshot.lexical.score(texts, rows, config=request.lexical, searched=found.lexical)
        except Exception as error:
            if found.dense is None:
                raise SearchUnavailable(f"lexical: {type(error).__name__}") from error
            trace.lost("lexical", error, "searched by meaning alone")
            return pool_of(snapshot, replace(found, lexical=None), request, allowed, trace, corpus)
        words = {
            "lexical": scored.lexical,
            "lexical_rank": _ranks(_places(found.lexical, rows, len(snapshot.rows)), shape),
            "lexical_bound": scored.bound,
            "coverage": scored.coverage,
            "source_lexical": scored.source,
            "source_bound": scored.source_bound,
            "length": scored.length,
        }
    elif request.strategy == "vector":  # the arm was not asked
        words = {"length": snapshot.lexical.lengths(len(snapshot.rows))[rows].astype(np.int64)}
    meaning: dict[str, Any] = {}
    if found.queries is not None and found.dense is not None:
        places = _places(found.dense, rows, len(snapshot.rows))
        meaning = {
            "dense": dense_index.score(snapshot.vectors, found.queries, rows, searched=found.dense, places=places),
            "dense_rank": _ranks(places, shape),
            "query_vectors": found.queries,
        }
    return Pool.of(
        list(map(snapshot.rows.ids.__getitem__, rows.tolist())),
        **words,
        **meaning,
        vectors=snapshot.vectors.take(rows, axis=0),
        source=_renumbered(snapshot.rows.source[rows]),
        position=snapshot.rows.place[rows],
        age_hours=snapshot.rows.age_hours(microseconds(request.now), rows),
        version=snapshot.rows.seq[rows],
        links=None if found.links is None else found.links.of_rows(rows, len(snapshot.rows)),
        degraded=tuple(trace.degraded),
        facts=trace.facts,
        **corpus,
    )


def _ranks(places: Sequence[Ints], shape: tuple[int, int]) -> Ints:
    """(V, n) rank of each pool row in each ranking, from FIRST_RANK; NOT_RANKED."""
    ranks = np.full(shape, NOT_RANKED, dtype=np.int64)
    for variation, each in enumerate(places):
        ranks[variation, each] = np.arange(FIRST_RANK, len(each) + FIRST_RANK)
    return ranks


def _renumbered(codes: Ints) -> Ints:
    """Source codes numbered by first appearance in the pool, so they do not depend on the order of writes."""
    row = np.arange(len(codes))
    first = np.empty(int(codes.max(initial=0)) + 2, dtype=np.int64)  # NO_SOURCE, which is -1, uses the last entry
    first[codes[::-1]] = row[::-1]  # in reverse, so the first row of each code is written last
    appeared = first[codes]
    number = np.cumsum((appeared == row) & (codes != NO_SOURCE)) - 1
    return np.where(codes == NO_SOURCE, NO_SOURCE, number[appeared])
