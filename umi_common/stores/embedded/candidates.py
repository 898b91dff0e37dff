"""From the best rows of both arms to a pool: their neighbours join, both arms score every row, ids sort them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from umi_common.config import DecayConfig, LexicalConfig
from umi_common.errors import SearchUnavailable, UmiError
from umi_common.filters import Filter
from umi_common.pool import FIRST_RANK, NO_SOURCE, NOT_RANKED, Ints, Pool, Vectors
from umi_common.protocols import NEIGHBOURS_OF, Probe, Strategy
from umi_common.stores.dense import index as dense_index
from umi_common.stores.dense.index import DenseHits
from umi_common.stores.embedded.state import State
from umi_common.stores.lexical.index import LexicalScores
from umi_common.stores.lexical.top_k import LexicalHits
from umi_common.stores.rows.rows import Mask
from umi_common.taken import TakenIds, TakenRows
from umi_common.types import Degradation, TimeRange

NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of both arms."""

    probes: Sequence[Probe]
    depth: int
    now: int
    """Microseconds since 1970."""
    where: Filter | None
    window: TimeRange | None
    lexical: LexicalConfig
    decay: DecayConfig
    around: int
    strategy: Strategy
    embedder_timeout_seconds: float


@dataclass(slots=True)
class Notes:
    """What went on, for the pool."""

    degraded: list[Degradation] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def lost(self, part: str, error: Exception | str, consequence: str) -> None:
        """A part that failed. A stranger's message may hold the query, so only its type is told."""
        reason = str(error)[:200] if isinstance(error, (str, UmiError)) else type(error).__name__
        self.degraded.append(Degradation(part, reason, consequence))


@dataclass(frozen=True, slots=True)
class Found:
    """What the arms brought; None: the arm did not answer."""

    queries: Vectors | None
    lexical: Sequence[LexicalHits] | None
    dense: Sequence[DenseHits] | None
    named: Ints = field(default_factory=lambda: NO_ROWS)
    """Rows that join whether an arm found them or not."""


def pool_rows(state: State, found: Found, request: Request, allowed: Mask | None) -> Ints:
    """All found, and beside the best of each ranking its neighbours that may be seen; sorted by id."""
    each: list[LexicalHits | DenseHits] = [*(found.lexical or ()), *(found.dense or ())]
    rankings = [ranking.rows for ranking in each]
    joins = np.zeros(len(state.rows), dtype=np.bool_)  # marking beats sorting, which np.unique would do three times
    for rows in (*rankings, found.named):
        joins[rows] = True
    if request.around and joins.any():
        best = np.concatenate([rows[: request.depth // NEIGHBOURS_OF] for rows in rankings]).astype(np.int64)
        beside = state.rows.beside(best, request.around)
        joins[beside if allowed is None else beside[allowed[beside]]] = True
    return state.by_row.id_order.in_order(state.rows.ids, len(state.rows), np.flatnonzero(joins))


def _places(rankings: Sequence[LexicalHits | DenseHits] | None, rows: Ints, among: int) -> list[Ints]:
    """For each ranking where its rows, all below `among`, stand in the pool."""
    place = np.empty(among, dtype=np.int64)  # never read but where it is written: a pool is much smaller than a store
    place[rows] = np.arange(len(rows))
    return [place[ranking.rows] for ranking in rankings or ()]


def pool_of(
    state: State, found: Found, request: Request, allowed: Mask | None, notes: Notes, corpus: Mapping[str, Any]
) -> Pool:
    """The pool of what was found; `corpus` holds its fields that do not depend on that."""
    rows = pool_rows(state, found, request, allowed)
    shape = (len(request.probes), len(rows))
    if found.lexical is None:
        words = _no_words(shape)
        if request.strategy == "vector":  # the arm was not asked, and lengths are known without it
            words = replace(words, length=state.lexical.lengths(len(state.rows))[rows])
    else:
        try:
            texts = [probe.text for probe in request.probes]
            words = state.lexical.score(texts, rows, config=request.lexical, searched=found.lexical)
        except Exception as error:
            if found.dense is None:
                raise SearchUnavailable(f"lexical: {type(error).__name__}") from error
            notes.lost("lexical", error, "searched by meaning alone")
            return pool_of(state, replace(found, lexical=None), request, allowed, notes, corpus)
    near = _places(found.dense, rows, len(state.rows))
    queries = np.zeros((shape[0], 0), dtype=np.float32) if found.queries is None else found.queries
    return Pool(
        ids=TakenIds(state.rows.ids, rows),
        lexical=words.lexical,
        dense=np.zeros(shape)
        if found.dense is None
        else dense_index.score(state.vectors, queries, rows, searched=found.dense, places=near),
        lexical_rank=_ranks(_places(found.lexical, rows, len(state.rows)), shape),
        dense_rank=_ranks(near, shape),
        lexical_bound=words.bound,
        coverage=words.coverage,
        source_lexical=words.source,
        source_bound=words.source_bound,
        source=_renumbered(state.rows.source[rows]),
        position=state.rows.place[rows],
        length=words.length,
        age_hours=state.rows.age_hours(request.now, rows),
        vectors=TakenRows(state.vectors, rows),
        version=state.rows.seq[rows],
        query_vectors=queries,
        mode="text" if found.dense is None else "vector" if found.lexical is None else "hybrid",
        degraded=tuple(notes.degraded),
        facts=notes.facts,
        **corpus,
    )


def _no_words(shape: tuple[int, int]) -> LexicalScores:
    """Of a lexical arm that does not answer."""
    each, every = np.zeros(shape[0]), np.zeros(shape)
    length = np.zeros(shape[1], dtype=np.int64)
    return LexicalScores(every, each, each, every, each, length)


def _ranks(places: Sequence[Ints], shape: tuple[int, int]) -> Ints:
    """(V, n) rank of each pool row in each ranking, from FIRST_RANK; NOT_RANKED."""
    ranks = np.full(shape, NOT_RANKED, dtype=np.int64)
    for variation, each in enumerate(places):
        ranks[variation, each] = np.arange(FIRST_RANK, len(each) + FIRST_RANK)
    return ranks


def _renumbered(codes: Ints) -> Ints:
    """Source codes by first appearance in the pool, so that they do not depend on the history of writes."""
    row = np.arange(len(codes))
    first = np.empty(int(codes.max(initial=0)) + 2, dtype=np.int64)  # the last is that of NO_SOURCE, which is -1
    first[codes[::-1]] = row[::-1]  # of equal codes the one written last stays
    appeared = first[codes]
    number = np.cumsum((appeared == row) & (codes != NO_SOURCE)) - 1
    return np.where(codes == NO_SOURCE, NO_SOURCE, number[appeared])
