"""The candidates of one recall as arrays: `Store.recall` returns a `Pool`, and ranking reads it.

A recall gets the candidates of a search from the store's two arms: the lexical arm ranks chunks by BM25, the dense arm
by cosine. Extra arms are functions of the user that find further chunks. The variations of a query are the query, other
wordings of it, and the questions that it holds beside other text; the two arms search each of them.

A row stands for one candidate. Rows are sorted by id, so a stable sort by falling score puts equal scores in the order
of their ids. V is the number of query variations (number 0 is the original query), n the number of candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from umi_common.errors import SearchUnavailable
from umi_common.types import Degradation

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Scores = TypeVar("Scores", bound=npt.NDArray[np.floating[Any]])

NO_SOURCE = -1
NO_POSITION = -1
NOT_RANKED = 0
"""Rank of a row that is not in the arm's list; the arm may have scored it."""
FIRST_RANK = 1

RARE = 2
"""A term is rare only if at most this many chunks hold it."""
RARE_SHARE = 100
"""A term is rare only if at most 1 in this many chunks holds it. In a store of a few chunks, common words, too, occur
in only one or two chunks."""
CHUNKS_WITH_TIME = "chunks_with_time"
"""Key of `Pool.facts`, with the value 0: the time range excludes all chunks, because no chunk of the store has a time.
In all other cases the key is missing."""
ROUNDING = 1e-7
"""A vector whose length differs from 1 by at most this counts as a unit vector: rounding its coordinates to float32
changes the length by up to 6e-8."""


def rare_frequency(chunks: int) -> int:
    """Largest number of chunks that hold a rare term, in a store of `chunks` chunks; 0: no term is rare."""
    return min(RARE, chunks // RARE_SHARE)


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Mean and standard deviation of the cosines of V queries over the corpus, or over a sample of it."""

    mean: Floats
    """(V,)"""
    deviation: Floats
    """(V,) >= 0."""
    count: int
    """Number of chunks from which mean and deviation were computed; 0: they are not known."""

    def of_queries(self, which: slice) -> Background:
        """The background of some of the queries."""
        return Background(self.mean[which], self.deviation[which], self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """E references from one row to another, of a pool or of a store.

    The first row, here called the source, is a candidate; the target is a chunk with query terms that it lacks.
    """

    source: Ints
    """(E,) rows."""
    target: Ints
    """(E,) rows; no pair of source and target occurs twice."""
    weight: Floats
    """(E,) > 0; the weights of the references from one source add up to at most 1."""

    def of_rows(self, which: Ints, count: int) -> Links:
        """The references whose two rows are both in `which`; row which[i] of the `count` rows becomes row i."""
        new_row = np.full(count, -1)
        new_row[which] = np.arange(len(which))
        source, target = new_row[self.source], new_row[self.target]
        kept = (source >= 0) & (target >= 0)
        return Links(source[kept], target[kept], self.weight[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The candidates of one recall. Immutable: no ranking stage changes its arrays."""

    ids: tuple[str, ...]
    """(n,) rising."""
    lexical: Floats
    """(V, n) raw BM25; 0 where no term matches."""
    dense: Floats
    """(V, n) cosine, -1..1; all 0 in mode "text"."""
    lexical_rank: Ints
    """(V, n) rank in the lexical arm's list, from FIRST_RANK; NOT_RANKED if the list lacks the row."""
    dense_rank: Ints
    """(V, n) rank in the dense arm's list, from FIRST_RANK; NOT_RANKED if the list lacks the row."""
    lexical_bound: Floats
    """(V,) an upper bound of BM25: the sum, over the query's terms, of the largest score that the term adds to any
    chunk; 0: the corpus holds none of the terms."""
    coverage: Floats
    """(V,) idf-weighted share of the query's terms that the corpus holds, 0..1."""
    source_lexical: Floats
    """(V, n) BM25 of the row's whole source as one document; 0 without a source."""
    other_language: Bools
    """(V, n) whether the row is known to be in another language than the query, so that a low BM25 says little."""
    rare: Bools
    """(V, n) whether the row holds a rare term of the query itself, not one of the other spellings and forms that are
    sought for it; function words do not count. See `RARE`."""
    source: Ints
    """(n,) a number for each source, such as the file of the chunk; NO_SOURCE for a chunk without one."""
    position: Ints
    """(n,) a number in the order of `Chunk.position` in the source: adjacent chunks differ by exactly 1; NO_POSITION
    for a chunk without one."""
    length: Ints
    """(n,) number of terms in the chunk."""
    age_hours: Floats
    """(n,) age in hours at `now` of the recall; negative in the future; NaN without a time."""
    vectors: Vectors
    """(n, dim) L2-normalised; a row of zeros for a chunk without a vector."""
    query_vectors: Vectors
    """(V, dim) L2-normalised; (V, 0) in mode "text"."""
    version: Ints
    """(n,) the version of the chunk that was scored, for `Store.get_versions`; 0: not known."""
    named: Floats
    """(n,) 0..1, how certain it is that the query, or a question in it, names the chunk by its heading."""
    mentioning: Floats
    """(n,) 0..1, how certain it is that the row is about a named chunk: the `named` of a chunk if the row holds all
    terms of its heading, and more of the query's terms than it; 0 for other rows and for the named chunks."""
    unscored: Bools
    """(n,) whether the store did not score the row: only extra arms found it."""
    background: Background | None = None
    """The cosines of the queries over the corpus or a sample of it; None: not known."""
    mode: str = "hybrid"
    """"hybrid", "text" or "vector": the arms that answered."""
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """By the name of an extra arm, its (n,) scores for the original query: above 0 for the chunks that the arm found,
    else 0."""
    links: Links | None = None
    """References in the best candidates for the query or for its questions; None: the store found none or does not look
    for any."""
    query_weight: float = 1.0
    """Weight of the original query in fusion; each variation has the weight `FusionConfig.variation_weight`. It may be
    below 1 if the query holds questions beside other text; the questions are then among the variations."""
    calibration: Mapping[str, float] = field(default_factory=dict)
    """Numbers by name that say how alike adjacent chunks, and chunks of one source, are; empty: not computed yet. They
    decide how much a chunk gains from its neighbours (`shares_of` in `ranking.neighbours`)."""
    degraded: tuple[Degradation, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the trace: the engine that answered, the number of rows that each arm found, times in milliseconds."""

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
        depth: int | None = None,
        **others: Any,
    ) -> Pool:
        """The pool of n chunks, sorted by id. A field that is left out is computed from other fields or set to its
        value for "not known".

        Args:
            ids: n distinct ids in any order; all arrays of n rows have the same order.
            lexical: (V, n) BM25; None: no lexical arm. At least one of `lexical` and `dense` is given.
            dense: (V, n) cosines; None: no dense arm.
            vectors: (n, dim) unit rows; None: not known, (n, 0).
            query_vectors: (V, dim) unit rows; None: not known, (V, 0).
            weights: (n,) >= 0, such as decay factors, by which scores above 0 are multiplied before ranking; None: 1.
            depth: Largest number of rows that an arm ranks for each variation; None: all.
            others: Further fields of a pool. If left out, `lexical_rank` ranks the rows whose weighted BM25 is above
                0; `dense_rank` ranks the rows with a vector, for the variations with a vector; `lexical_bound` is the
                largest BM25; and `coverage` is 1 for a variation that some row matches, else 0.
        """
        given = {"lexical": lexical, "dense": dense, "vectors": vectors, "query_vectors": query_vectors}
        arrays = {name: array for name, array in given.items() if array is not None} | others
        shape = arrays["dense" if lexical is None else "lexical"].shape
        shapes = {"V": shape[:1], "n": shape[1:], "Vn": shape, "n0": (shape[1], 0), "V0": (shape[0], 0)}
        for name, (axes, value) in POOL_ARRAYS.items():
            if name not in arrays and value is not None:
                arrays[name] = np.full(shapes[axes], value)
        arrays.setdefault("mode", "text" if dense is None else "vector" if lexical is None else "hybrid")
        arrays.setdefault("lexical_bound", arrays["lexical"].max(axis=1, initial=0.0))
        arrays.setdefault("coverage", np.where(arrays["lexical_bound"] > 0, 1.0, 0.0))
        pool = cls(ids=tuple(ids), **arrays)
        if list(pool.ids) != sorted(pool.ids):
            order = np.array(sorted(range(len(pool)), key=pool.ids.__getitem__), dtype=np.int64)
            pool, weights = pool.rows(order), None if weights is None else weights[order]
        if "lexical_rank" not in others and lexical is not None:
            decayed = weighted(pool.lexical, weights)
            pool.lexical_rank[:] = ranked(decayed, decayed > 0, depth)
        if "dense_rank" not in others and dense is not None:
            pool.dense_rank[:] = ranked(weighted(pool.dense, weights), pool._has_cosine(), depth)
        return pool

    def _has_cosine(self) -> Bools:
        """(V, n) whether variation and row both have a vector. If `query_vectors` is not known, all variations count as
        having one; if `vectors` is not known, all rows do."""
        if self.dense.all():  # only vectors have a cosine other than 0
            return np.ones(self.dense.shape, dtype=np.bool_)
        both = self.query_vectors, self.vectors
        known = [each.any(axis=1) if each.shape[1] else np.ones(len(each), dtype=np.bool_) for each in both]
        return np.asarray(np.logical_and.outer(*known))

    def __len__(self) -> int:
        return len(self.ids)

    def ranked_within(self, rank: int) -> Bools:
        """(n,) whether a row has at most this rank in the list of the lexical or dense arm, for any query variation."""
        ranks = np.concatenate([self.lexical_rank, self.dense_rank])
        return np.asarray(((ranks != NOT_RANKED) & (ranks <= rank)).any(axis=0))

    def ids_at(self, rows: Ints) -> list[str]:
        """Ids of the rows with these indices."""
        return [self.ids[row] for row in rows.tolist()]

    @property
    def variations(self) -> int:
        """V, the number of query variations."""
        return int(self.lexical.shape[0])

    def only(self, strategy: str) -> Pool:
        """The pool of one arm alone: the rows that this arm scored, without the other arm's scores.

        Args:
            strategy: "text" keeps the lexical arm and the rows with a BM25 above 0; "vector" keeps the dense arm and
                the rows with a cosine.

        Raises:
            SearchUnavailable: If the arm to keep did not answer.
        """
        if self.mode not in ("hybrid", strategy):
            arm = "lexical" if strategy == "text" else "dense"
            raise SearchUnavailable(
                f'strategy "{strategy}" needs the {arm} arm, which did not answer; see the store\'s status'
            )
        keep = np.any(self.lexical > 0 if strategy == "text" else self._has_cosine(), axis=0)
        lexical_fields = ("lexical", "lexical_rank", "source_lexical", "rare")
        cleared = ("dense", "dense_rank") if strategy == "text" else lexical_fields
        unknown: dict[str, Any] = {name: np.full_like(getattr(self, name), POOL_ARRAYS[name][1]) for name in cleared}
        return replace(self, mode=strategy, **unknown).rows(np.flatnonzero(keep))

    def of_variations(self, which: slice, *, best: int, around: int, ids: Collection[str] = ()) -> Pool:
        """The candidates of the variations `which` alone, with their scores; fields without a V do not change.

        Args:
            best: A chunk with at most this rank in an arm also keeps its neighbours in the pool.
            around: Number of neighbours on each side of the chunk, in its source.
            ids: Chunks that stay in the pool even if no arm found them.
        """
        arrays: dict[str, Any] = {name: getattr(self, name)[which] for name in (*PER_VARIATION, *PER_VARIATION_AND_ROW)}
        background = None if self.background is None else self.background.of_queries(which)
        own = replace(self, background=background, **arrays)
        found = np.any(own.lexical_rank != NOT_RANKED, axis=0) | np.any(own.dense_rank != NOT_RANKED, axis=0)
        if around:
            found |= self._beside(own.ranked_within(best), around)
        if ids:
            found |= np.array([id in ids for id in self.ids], dtype=np.bool_)
        return own.rows(np.flatnonzero(found))

    def with_rows(self, ids: Sequence[str], age_hours: Sequence[float]) -> Pool:
        """The pool with further chunks, which have no scores, source, position or vector."""
        more, wider, known = len(ids), dict[str, Any](), {"age_hours": age_hours, "unscored": True}
        for name in PER_ROW:
            array = getattr(self, name)
            values = np.full((more, *array.shape[1:]), known.get(name, POOL_ARRAYS[name][1]), dtype=array.dtype)
            wider[name] = np.concatenate([array, values])
        wider |= {name: np.pad(getattr(self, name), ((0, 0), (0, more))) for name in PER_VARIATION_AND_ROW}
        wider["extra"] = {name: np.pad(scores, (0, more)) for name, scores in self.extra.items()}
        all_ids = (*self.ids, *ids)
        order = sorted(range(len(all_ids)), key=all_ids.__getitem__)
        return replace(self, ids=all_ids, **wider).rows(np.array(order, dtype=np.int64))

    def _beside(self, which: Bools, around: int) -> Bools:
        """(n,) whether a row is at most `around` positions from a row of the mask `which` (n,), in the same source."""
        width = int(self.position.max(initial=0)) + 2 * around + 1
        code = self.source * width + self.position  # the codes of two sources differ by more than `around`
        positioned = (self.source != NO_SOURCE) & (self.position != NO_POSITION)
        near = code[which & positioned][:, np.newaxis] + np.arange(-around, around + 1)
        beside: Bools = positioned & np.isin(code, near)
        return beside

    def rows(self, which: Ints) -> Pool:
        """The pool of the rows with the indices `which`. Their ids must be rising."""
        per_row: dict[str, Any] = {name: getattr(self, name)[which] for name in PER_ROW}
        per_variation: dict[str, Any] = {
            name: np.take(getattr(self, name), which, axis=1) for name in PER_VARIATION_AND_ROW
        }
        extra = {name: scores[which] for name, scores in self.extra.items()}
        links = None if self.links is None else self.links.of_rows(which, len(self))
        return replace(self, ids=tuple(self.ids_at(which)), extra=extra, links=links, **per_row, **per_variation)


POOL_ARRAYS: Mapping[str, tuple[str, Any]] = {
    "lexical": ("Vn", 0.0),
    "dense": ("Vn", 0.0),
    "lexical_rank": ("Vn", NOT_RANKED),
    "dense_rank": ("Vn", NOT_RANKED),
    "source_lexical": ("Vn", 0.0),
    "other_language": ("Vn", False),
    "rare": ("Vn", False),
    "lexical_bound": ("V", None),
    "coverage": ("V", None),
    "query_vectors": ("V0", np.float32(0.0)),
    "source": ("n", NO_SOURCE),
    "position": ("n", NO_POSITION),
    "length": ("n", 0),
    "age_hours": ("n", np.nan),
    "vectors": ("n0", np.float32(0.0)),
    "version": ("n", 0),
    "named": ("n", 0.0),
    "mentioning": ("n", 0.0),
    "unscored": ("n", False),
}
"""By the name of each array of a pool, its shape, and the value that fills the array if `Pool.of` is called without it.

Shapes: "V" is (V,), "n" (n,), "Vn" (V, n), "n0" (n, dim) and "V0" (V, dim), with dim = 0 if the array is left out. A
value of None: `Pool.of` computes the array from others."""
PER_ROW = tuple(name for name, (axes, _) in POOL_ARRAYS.items() if axes.startswith("n"))
PER_VARIATION = tuple(name for name, (axes, _) in POOL_ARRAYS.items() if axes in ("V", "V0"))
PER_VARIATION_AND_ROW = tuple(name for name, (axes, _) in POOL_ARRAYS.items() if axes == "Vn")


def source_codes(sources: Iterable[str | int | None]) -> Ints:
    """(n,) a number for each row's source, from 0 in the order of first appearance; NO_SOURCE for None or NO_SOURCE.

    Args:
        sources: The name of each row's source, or its number in a store.
    """
    codes: dict[str | int | None, int] = defaultdict(count().__next__, {None: NO_SOURCE, NO_SOURCE: NO_SOURCE})
    return np.fromiter(map(codes.__getitem__, sources), np.int64)


def sums_by(places: Ints, values: Floats, count: int) -> Floats:
    """(count,) sums: entry i is the sum of the values (n,) whose entry in `places` (n,) is i.

    The values of a sum are added by rising size. It is then the same, to the last bit, in whatever order the rows of a
    store were written.
    """
    rising = np.argsort(values)
    sums: Floats = np.bincount(places[rising], weights=values[rising], minlength=count)  # type: ignore[assignment]
    return sums


def unit_vectors(vectors: Vectors) -> Vectors:
    """A float32 copy of the rows, scaled to length 1. Rows of zeros, and unit vectors (see ROUNDING), stay equal bit by
    bit."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    rows = np.array(vectors, dtype=np.float32, order="C")  # a copy: the caller may change `vectors` later
    scaled = ((np.abs(norms - 1.0) > ROUNDING) & (norms > 0)).nonzero()[0]
    if len(scaled):  # in float64: a length may be too large for float32 although each coordinate fits
        rows[scaled] = vectors[scaled] / norms[scaled, np.newaxis]
    return rows


def weighted(scores: Scores, weights: Floats | None) -> Scores:
    """Scores above 0 times the weights of their rows. Other scores stay, because a weight below 1 would raise a score
    below 0."""
    if weights is None:
        return scores
    changed: Scores = np.where(scores > 0, scores * weights, scores)  # type: ignore[assignment]
    return changed


def best_first(scores: Floats) -> Ints:
    """(n,) rows by falling score, ties to the smaller row; scores must not be NaN."""
    return (-scores).argsort(kind="stable")


def ranked(scores: Floats, found: Bools, depth: int | None = None) -> Ints:
    """(V, n) ranks from FIRST_RANK by falling scores (V, n), ties by row; NOT_RANKED where `found` (V, n) is False.

    Args:
        depth: Largest number of rows that are ranked for each variation; None: all.
    """
    ranks = np.full(scores.shape, NOT_RANKED, dtype=np.int64)
    for rank, score, hit in zip(ranks, scores, found, strict=True):
        rows = hit.nonzero()[0]
        order = rows[best_first(score[rows])[:depth]]
        rank[order] = np.arange(FIRST_RANK, len(order) + FIRST_RANK)
    return ranks
