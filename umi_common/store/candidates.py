"""From the best rows of both arms to a pool: their neighbours join, both arms score every row, ids sort them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from umi_common.config import DecayConfig, LexicalConfig
from umi_common.errors import SearchUnavailable, UmiError
from umi_common.filters import Filter
from umi_common.pool import FIRST_RANK, NO_SOURCE, NOT_RANKED, Ints, Pool, Vectors
from umi_common.protocols import NEIGHBOURS_OF, Probe
from umi_common.store.dense import cosines
from umi_common.store.lexical import LexicalScores
from umi_common.store.rows import Mask
from umi_common.store.state import State
from umi_common.store.topk import Ranking
from umi_common.types import Degradation, TimeRange


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
    lexical: Sequence[Ranking] | None
    dense: Sequence[Ranking] | None
    named: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows that join whether an arm found them or not."""


def pool_rows(state: State, found: Found, request: Request, allowed: Mask | None) -> Ints:
    """All found, and beside the best of each ranking its neighbours that may be seen; sorted by id."""
    rankings = [ranking.rows for ranking in (*(found.lexical or ()), *(found.dense or ()))]
    joins = np.zeros(len(state.rows), dtype=np.bool_)  # marking beats sorting, which np.unique would do three times
    for rows in (*rankings, found.named):
        joins[rows] = True
    if request.around and joins.any():
        best = np.concatenate([rows[: request.depth // NEIGHBOURS_OF] for rows in rankings]).astype(np.int64)
        beside = state.rows.beside(best, request.around)
        joins[beside if allowed is None else beside[allowed[beside]]] = True
    return np.array(sorted(np.flatnonzero(joins).tolist(), key=state.rows.ids.__getitem__), dtype=np.int64)


def pool_of(state: State, found: Found, request: Request, allowed: Mask | None, notes: Notes) -> Pool:
    """The pool of what was found."""
    rows = pool_rows(state, found, request, allowed)
    shape = (len(request.probes), len(rows))
    words = _no_words(shape)
    if found.lexical is not None:
        try:
            texts = [probe.text for probe in request.probes]
            words = state.lexical.score(texts, rows, config=request.lexical, searched=found.lexical)
        except Exception as error:
            if found.dense is None:
                raise SearchUnavailable(f"lexical: {type(error).__name__}") from error
            notes.lost("lexical", error, "searched by meaning alone")
            return pool_of(state, replace(found, lexical=None), request, allowed, notes)
    vectors = state.vectors[rows]
    queries = np.zeros((shape[0], 0), dtype=np.float32) if found.queries is None else found.queries
    return Pool(
        ids=tuple([state.rows.ids[row] for row in rows.tolist()]),
        lexical=words.lexical,
        dense=np.zeros(shape) if found.dense is None or not len(rows) else cosines(vectors, queries),
        lexical_rank=_ranks(found.lexical, rows, shape),
        dense_rank=_ranks(found.dense, rows, shape),
        lexical_bound=words.bound,
        coverage=words.coverage,
        source_lexical=words.source,
        source_bound=words.source_bound,
        source=_renumbered(state.rows.source[rows]),
        position=state.rows.place[rows],
        length=words.length,
        age_hours=state.rows.age_hours(request.now, rows),
        vectors=vectors,
        query_vectors=queries,
        mode="text" if found.dense is None else "vector" if found.lexical is None else "hybrid",
        degraded=tuple(notes.degraded),
        facts=notes.facts,
    )


def _no_words(shape: tuple[int, int]) -> LexicalScores:
    """Of a lexical arm that does not answer."""
    each, every = np.zeros(shape[0]), np.zeros(shape)
    length = np.zeros(shape[1], dtype=np.int64)
    return LexicalScores(every, each, each, every, each, length)


def _ranks(rankings: Sequence[Ranking] | None, rows: Ints, shape: tuple[int, int]) -> Ints:
    """(V, n) rank of each pool row in each ranking, from FIRST_RANK; NOT_RANKED."""
    ranks = np.full(shape, NOT_RANKED, dtype=np.int64)
    by_row = np.argsort(rows)
    rising = rows[by_row]
    for variation, ranking in enumerate(rankings or ()):
        places = by_row[rising.searchsorted(ranking.rows)]
        ranks[variation, places] = np.arange(len(places)) + FIRST_RANK
    return ranks


def _renumbered(codes: Ints) -> Ints:
    """Source codes by first appearance in the pool, so that they do not depend on the history of writes."""
    if (codes == NO_SOURCE).all():
        return codes
    known, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.where(known == NO_SOURCE, -1, first))
    number = np.empty(len(known), dtype=np.int64)
    number[order] = np.arange(len(known)) + (NO_SOURCE if NO_SOURCE in known else 0)
    return number[inverse]
