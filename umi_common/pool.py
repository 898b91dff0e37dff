"""The candidates of one call as arrays: what flows from recall to shape.

Rows are sorted by id, so a stable sort by falling score gives every tie to the smaller id.
V is the number of query variations (the original is 0), n the number of candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.errors import SearchUnavailable
from umi_common.types import Degradation

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

NO_SOURCE = -1
NO_POSITION = -1
NOT_RANKED = 0
"""In a rank array: the arm scored the row but does not have it among its own best."""
FIRST_RANK = 1

ROUNDING = 1e-7
"""How far from 1 rounding to float32 leaves a length: half a unit in the last place of each coordinate, 6e-8 in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """E references between rows of a pool or of a store: from a candidate to a chunk that holds query terms which it
    lacks.
    """

    source: Ints
    """(E,) rows."""
    target: Ints
    """(E,) rows; no pair of source and target occurs twice."""
    weight: Floats
    """(E,) > 0; those of one source add up to at most 1."""

    def of_rows(self, which: Ints, count: int) -> Links:
        """The references among some of `count` rows, which are numbered by their place in `which`."""
        place = np.full(count, -1)
        place[which] = np.arange(len(which))
        source, target = place[self.source], place[self.target]
        kept = (source >= 0) & (target >= 0)
        return Links(source[kept], target[kept], self.weight[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """One frozen struct of arrays. No stage changes it."""

    ids: tuple[str, ...]
    """(n,) rising."""
    lexical: Floats
    """(V, n) raw BM25; 0 where no term matches."""
    dense: Floats
    """(V, n) cosine, -1..1; all 0 in mode "text"."""
    lexical_rank: Ints
    """(V, n) from FIRST_RANK in the arm's own list; NOT_RANKED outside it."""
    dense_rank: Ints
    """(V, n) likewise."""
    lexical_bound: Floats
    """(V,) the largest BM25 this query could reach: sum of its terms' largest impacts; 0: no term is known."""
    coverage: Floats
    """(V,) idf-weighted share of the query's terms that the corpus holds, 0..1."""
    source_lexical: Floats
    """(V, n) BM25 of the row's whole source as one document; 0 without a source."""
    source_bound: Floats
    """(V,) the largest BM25 a whole source could reach."""
    source: Ints
    """(n,) a code per source; NO_SOURCE."""
    position: Ints
    """(n,) order in the source: chunks side by side differ by exactly 1; NO_POSITION."""
    length: Ints
    """(n,) terms in the chunk."""
    age_hours: Floats
    """(n,) at `now`; negative in the future; NaN without a time."""
    vectors: Vectors
    """(n, dim) L2-normalised; a zero row where there is none."""
    query_vectors: Vectors
    """(V, dim) L2-normalised; (V, 0) in mode "text"."""
    dense_mean: Floats = field(default_factory=lambda: np.zeros(0))
    """(V,) mean of each query's cosines over the corpus or a sample of it; (0,): not known."""
    dense_deviation: Floats = field(default_factory=lambda: np.zeros(0))
    """(V,) their standard deviation."""
    dense_count: int = 0
    """Chunks behind `dense_mean`."""
    version: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(n,) version of each chunk that was scored, for `Store.get_versions`; 0: not known; (0,): the store has none."""
    mode: str = "hybrid"
    """"hybrid", "text" or "vector": the arms that answered."""
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """Further arms by name, each (n,): its score for the original query, > 0; 0: not found by it."""
    links: Links | None = None
    """References of the best candidates for the original query; None: none, or the store does not look for them."""
    calibration: Mapping[str, float] = field(default_factory=dict)
    """Numbers about the corpus, taken at indexing time without labels; empty: none yet."""
    degraded: tuple[Degradation, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the trace: which engine answered, how many rows each gave, timings in ms."""

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        *,
        lexical: Floats | None = None,
        dense: Floats | None = None,
        vectors: Vectors | None = None,
        query_vectors: Vectors | None = None,
        weights: Floats | None = None,
        **others: Any,
    ) -> Pool:
        """The pool of n chunks, sorted by id; each field that is left out is neutral or follows from those given.

        Args:
            ids: n distinct ids in any order; the arrays of rows are in the same order.
            lexical: (V, n) BM25; None: no lexical arm. One arm at least is given.
            dense: (V, n) cosines; None: no dense arm.
            vectors: (n, dim) unit rows; None: not known, (n, 0).
            query_vectors: (V, dim) unit rows; None: not known, (V, 0).
            weights: (n,) >= 0, such as a decay: scores above 0 are multiplied by them before they are ranked; None: 1.
            others: Further fields of a pool. Left out, `lexical_rank` ranks every row with a BM25 above 0, `dense_rank`
                every row and query with a vector, `lexical_bound` is the largest BM25, and `coverage` is 1 where some
                row matches. The rest says: not known.
        """
        given = {"lexical": lexical, "dense": dense, "vectors": vectors, "query_vectors": query_vectors}
        arrays = {name: array for name, array in given.items() if array is not None} | others
        shape = arrays["dense" if lexical is None else "lexical"].shape
        shapes = {"V": shape[:1], "n": shape[1:], "Vn": shape, "n0": (shape[1], 0), "V0": (shape[0], 0)}
        for name, (axes, neutral) in NEUTRAL.items():
            if name not in arrays:
                arrays[name] = np.full(shapes[axes], neutral)
        arrays.setdefault("mode", "text" if dense is None else "vector" if lexical is None else "hybrid")
        arrays.setdefault("lexical_bound", arrays["lexical"].max(axis=1, initial=0.0))
        arrays.setdefault("coverage", np.where(arrays["lexical_bound"] > 0, 1.0, 0.0))
        pool = cls(ids=tuple(ids), **arrays)
        if list(pool.ids) != sorted(pool.ids):
            order = np.array(sorted(range(len(pool)), key=pool.ids.__getitem__), dtype=np.int64)
            pool, weights = pool.rows(order), None if weights is None else weights[order]
        ranks: dict[str, Any] = {}
        if "lexical_rank" not in others and lexical is not None:
            ranks["lexical_rank"] = ranked(weighted(pool.lexical, weights), pool.lexical > 0)
        if "dense_rank" not in others and dense is not None:
            ranks["dense_rank"] = ranked(weighted(pool.dense, weights), pool._has_cosine())
        return replace(pool, **ranks) if ranks else pool

    def _has_cosine(self) -> Bools:
        """(V, n) whether query and row both have a vector; all of them where vectors are not known."""
        query, row = (
            np.any(each, axis=1) if each.shape[1] else np.ones(len(each), dtype=np.bool_)
            for each in (self.query_vectors, self.vectors)
        )
        has: Bools = np.logical_and.outer(query, row)
        return has

    def __len__(self) -> int:
        return len(self.ids)

    def ids_at(self, rows: Ints) -> list[str]:
        """The ids of some rows."""
        return [self.ids[row] for row in rows.tolist()]

    @property
    def variations(self) -> int:
        """V."""
        return int(self.lexical.shape[0])

    def only(self, strategy: str) -> Pool:
        """The same rows with one arm silenced: "text" keeps the lexical arm, "vector" the dense one.

        Raises:
            SearchUnavailable: If the arm that is asked for did not answer.
        """
        if self.mode not in ("hybrid", strategy):
            raise SearchUnavailable(
                f'strategy "{strategy}" needs an arm that could not answer; see the store\'s status'
            )
        keep = np.any((self.lexical if strategy == "text" else self.dense) > 0, axis=0)
        silent = np.zeros_like(self.lexical)
        unranked = np.zeros_like(self.lexical_rank)
        arms: dict[str, Any] = (
            {"dense": silent, "dense_rank": unranked}
            if strategy == "text"
            else {"lexical": silent, "lexical_rank": unranked, "source_lexical": silent}
        )
        return replace(self, mode=strategy, **arms).rows(np.flatnonzero(keep))

    def asked_alone(self, which: slice, *, best: int, around: int, ids: Collection[str] = ()) -> Pool:
        """The pool as if these variations had been the whole search: their rows of the arrays, and the chunks that they
        found, that stand up to `around` beside one of the `best` first of an arm, or that are among `ids`.
        """
        asked: dict[str, Any] = {name: getattr(self, name)[which] for name in (*PER_VARIATION, *PER_VARIATION_AND_ROW)}
        own = replace(self, **asked)
        ranks = np.concatenate([own.lexical_rank, own.dense_rank])
        found = (ranks != NOT_RANKED).any(axis=0)
        if around:
            found |= self._beside(((ranks != NOT_RANKED) & (ranks <= best)).any(axis=0), around)
        if ids:
            found |= np.array([id in ids for id in self.ids], dtype=np.bool_)
        return own.rows(np.flatnonzero(found))

    def with_rows(self, ids: Sequence[str], age_hours: Sequence[float]) -> Pool:
        """The pool and chunks of which its arms have not heard: without scores, source and vector."""
        more = len(ids)
        neutral = {"source": NO_SOURCE, "position": NO_POSITION}
        wider: dict[str, Any] = {
            name: np.concatenate([array, np.full((more, *array.shape[1:]), neutral.get(name, 0), dtype=array.dtype)])
            for name, array in ((name, getattr(self, name)) for name in self._per_row)
        }
        wider["age_hours"] = np.concatenate([self.age_hours, age_hours])
        wider |= {name: np.pad(getattr(self, name), ((0, 0), (0, more))) for name in PER_VARIATION_AND_ROW}
        wider["extra"] = {name: np.pad(scores, (0, more)) for name, scores in self.extra.items()}
        together = (*self.ids, *ids)
        order = sorted(range(len(together)), key=together.__getitem__)
        return replace(self, ids=together, **wider).rows(np.array(order, dtype=np.int64))

    @property
    def _per_row(self) -> tuple[str, ...]:
        return (*PER_ROW, "version") if len(self.version) else PER_ROW

    def _beside(self, which: Bools, around: int) -> Bools:
        """(n,) whether a row stands at most `around` places from one of `which` in its source."""
        width = int(self.position.max(initial=0)) + 2 * around + 1
        place = self.source * width + self.position
        placed = (self.source != NO_SOURCE) & (self.position != NO_POSITION)
        near = place[which & placed][:, np.newaxis] + np.arange(-around, around + 1)
        beside: Bools = placed & np.isin(place, near)
        return beside

    def rows(self, which: Ints) -> Pool:
        """The pool of these rows, in this order; it must be that of the ids."""
        per_row: dict[str, Any] = {name: getattr(self, name)[which] for name in self._per_row}
        per_variation: dict[str, Any] = {
            name: np.take(getattr(self, name), which, axis=1) for name in PER_VARIATION_AND_ROW
        }
        extra = {name: scores[which] for name, scores in self.extra.items()}
        links = None if self.links is None else self.links.of_rows(which, len(self))
        return replace(self, ids=tuple(self.ids_at(which)), extra=extra, links=links, **per_row, **per_variation)


NEUTRAL: Mapping[str, tuple[str, Any]] = {
    "lexical": ("Vn", 0.0),
    "dense": ("Vn", 0.0),
    "lexical_rank": ("Vn", NOT_RANKED),
    "dense_rank": ("Vn", NOT_RANKED),
    "source_lexical": ("Vn", 0.0),
    "source_bound": ("V", 0.0),
    "source": ("n", NO_SOURCE),
    "position": ("n", NO_POSITION),
    "length": ("n", 0),
    "age_hours": ("n", np.nan),
    "vectors": ("n0", np.float32(0.0)),
    "query_vectors": ("V0", np.float32(0.0)),
}
"""Axes and value of each array that `Pool.of` may be left without; "n0": (n, 0)."""
PER_ROW = ("source", "position", "length", "age_hours", "vectors")
PER_VARIATION = (
    "lexical_bound",
    "coverage",
    "source_bound",
    "query_vectors",
    "dense_mean",
    "dense_deviation",
)
PER_VARIATION_AND_ROW = ("lexical", "dense", "lexical_rank", "dense_rank", "source_lexical")


def source_codes(sources: Iterable[str | None]) -> Ints:
    """(n,) a code for each distinct source by first appearance, from 0; NO_SOURCE for None."""
    codes: dict[str, int] = {}
    return np.array([NO_SOURCE if name is None else codes.setdefault(name, len(codes)) for name in sources], np.int64)


def unit_vectors(vectors: Vectors) -> Vectors:
    """Rows of length 1; rows of zeros stay, and so do, to the last bit, rows that this function gave."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    rows = np.array(vectors, dtype=np.float32, order="C")  # a copy: the caller may go on to change theirs
    other = np.flatnonzero((np.abs(norms - 1.0) > ROUNDING) & (norms > 0))  # a copied store keeps its vectors
    if len(other):  # divided as float64: a length may lie outside float32 where no coordinate does
        rows[other] = vectors[other] / norms[other, np.newaxis]
    return rows


def weighted(scores: Floats, weights: Floats | None) -> Floats:
    """Scores above 0 times the weights of their rows; the others as they are."""
    return scores if weights is None else np.where(scores > 0, scores * weights, scores)


def ranked(scores: Floats, found: Bools, depth: int | None = None) -> Ints:
    """(V, n) ranks from FIRST_RANK by falling score, ties by row; NOT_RANKED beyond `depth` and where `found` is False.

    Args:
        scores: (V, n)
        found: (V, n)
        depth: Rows ranked for each variation; None: all.
    """
    ranks = np.full(scores.shape, NOT_RANKED, dtype=np.int64)
    for rank, score, hit in zip(ranks, scores, found, strict=True):
        order = np.argsort(np.where(hit, -score, np.inf), kind="stable")[: int(hit.sum())][:depth]
        rank[order] = np.arange(FIRST_RANK, len(order) + FIRST_RANK)
    return ranks
