"""Exact nearest neighbours by cosine: one pass over the stored vectors, or over their codes where there are many.

A chunk's score is computed in a fixed order of operations, so it does not depend on where its row lies. No BLAS: its
threads would fight over the cores with those of other searches. Ties fall to the smaller id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.quantised import Off, QuantisedRows, Scan, kernel
from umi_common.store.rows import Mask
from umi_common.store.topk import Ranking

QUANTISED_FROM = 4_000
"""Rows from which the codes are read first."""
NOWHERE, SOMEWHERE = -np.inf, -1e9
"""Stands for the score of a row that must not be found, and lies below all others."""
FEW = 8
"""Where at most one in so many rows is allowed, their vectors are gathered first."""
GATHERED_AT_ONCE = 128
"""Vectors gathered at a time: they stay in a core's cache until all queries have been compared with them."""
NOTHING = Ranking(np.zeros(0, dtype=np.int64), np.zeros(0), cosines=np.zeros(0))


def cosines(vectors: Vectors, queries: Vectors) -> Floats:
    """(V, n) cosine of V unit queries with n unit vectors; 0 for rows of zeros.

    A pair's score depends on the pair alone, to the last bit, whatever else is in the arrays.
    """
    scores = np.empty((len(queries), len(vectors)))
    for score, query in zip(scores, queries, strict=True):
        score[:] = np.einsum("ij,j->i", vectors, query)
    return scores


def cosines_at(matrix: Vectors, rows: Ints, queries: Vectors) -> Floats:
    """(V, m) cosines of V unit queries with m of the matrix's unit rows; see `cosines`."""
    scores = np.empty((len(queries), len(rows)))
    for start in range(0, len(rows), GATHERED_AT_ONCE):
        some = slice(start, start + GATHERED_AT_ONCE)
        scores[:, some] = cosines(matrix.take(rows[some], axis=0), queries)
    return scores


def decayed(scores: Floats | Vectors, weights: Floats) -> Floats:
    """Scores times weights; what is not above 0 stays, or decay would lift it."""
    return np.where(scores > 0, scores * weights, scores)


def scanned_by_codes(count: int) -> bool:
    """Whether an exact search of so many rows reads their codes first."""
    return count >= QUANTISED_FROM and kernel() is not None


def search_exact(
    matrix: Vectors,
    queries: Vectors,
    *,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    ids: Sequence[str],
    quantised: QuantisedRows | None = None,
    first: int = 0,
    scan: Scan | None = None,
) -> list[Ranking]:
    """For each of V unit queries the best k rows by decayed cosine, best first.

    Args:
        matrix: (n, dim) unit rows.
        queries: (V, dim) unit rows; a row of zeros finds nothing.
        k: At most so many.
        allowed: (n,) rows that may be found, none of them zeros; None: all.
        weights: (n,) in (0, 1]; None: 1.
        ids: By row, for ties.
        quantised: The codes of the matrix, used where it is large; None: never.
        first: Rows before it are left out.
        scan: What the codes say of the queries, where that is known.
    """
    if len(matrix) <= first:
        return [NOTHING for _ in queries]
    held = _Held(k, None if allowed is None else allowed[first:], None if weights is None else weights[first:])
    some, few = matrix[first:], held.few()
    if few is not None:
        found = [(few, scores) for scores in cosines_at(some, few, queries)]
    elif quantised is not None and scanned_by_codes(len(some)):
        found = _near_the_best(some, queries, scan or quantised.of(matrix, first).scan(queries), held)
    else:
        found = []
        for scores in cosines(some, queries):
            rows = held.best(scores)
            found.append((rows, scores[rows]))
    return [
        rank_rows(first + rows, scores, k=k, weights=weights, ids=ids) if query.any() else NOTHING
        for query, (rows, scores) in zip(queries, found, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """What one scan is held to; see `search_exact`."""

    k: int
    allowed: Mask | None
    weights: Floats | None

    def few(self) -> Ints | None:
        """The allowed rows where they are so few that they are better gathered; None: they are not."""
        if self.allowed is None or int(self.allowed.sum()) * FEW > len(self.allowed):
            return None
        return np.flatnonzero(self.allowed)

    def best(self, scores: Floats | Vectors, off: Off | None = None) -> Ints:
        """Rows that may be among the best k by decayed score, each score being at most `off` off (None: exact); rising,
        ties included.
        """
        decided = self._decided(scores)
        if off is None:
            return np.flatnonzero(decided >= self._kth(decided))
        # Decay makes scores smaller, and what they are off by. The most it may be says which rows are worth a look.
        rows = np.flatnonzero(decided >= max(self._kth(decided) - 2 * off.most, SOMEWHERE))
        some, by = decided[rows], off.at(rows)
        return rows[some + by >= self._kth(some - by)]

    def _kth(self, scores: Floats | Vectors) -> float:
        """The k-th largest, or what every row that may be found reaches."""
        if len(scores) <= self.k:
            return SOMEWHERE
        return max(float(np.partition(scores, len(scores) - self.k)[len(scores) - self.k]), SOMEWHERE)

    def _decided(self, scores: Floats | Vectors) -> Floats | Vectors:
        if self.weights is not None:
            scores = decayed(scores, self.weights)
        return scores if self.allowed is None else np.where(self.allowed, scores, NOWHERE)


def _near_the_best(matrix: Vectors, queries: Vectors, scan: Scan, held: _Held) -> list[tuple[Ints, Floats]]:
    """For each query the rows that may be among the best k, and their exact cosines."""
    found = []
    for query, scores, off in zip(queries, scan.scores, scan.offs, strict=True):
        rows = held.best(scores, off)
        found.append((rows, cosines_at(matrix, rows, query[None])[0]))
    return found


def rank_rows(rows: Ints, scores: Floats, *, k: int, weights: Floats | None, ids: Sequence[str]) -> Ranking:
    """The best k of `rows` by their cosines, decayed; best first, ties to the smaller id."""
    decided = scores if weights is None else decayed(scores, weights[rows])
    order = np.argsort(-decided)
    falling = decided[order]
    for first, last in _runs(falling, k):
        order[first:last] = sorted(order[first:last].tolist(), key=lambda place: ids[int(rows[place])])
    best = order[:k]
    return Ranking(rows[best], falling[:k], cosines=scores[best])


def _runs(falling: Floats, k: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of each run of equal values that begins among the first k."""
    equal = (falling[1:] == falling[:-1]).nonzero()[0]
    if len(equal):
        breaks = (np.diff(equal) > 1).nonzero()[0]
        firsts = equal[np.append(0, breaks + 1)].tolist()
        lasts = (equal[np.append(breaks, -1)] + 2).tolist()
        yield from ((first, last) for first, last in zip(firsts, lasts, strict=True) if first < k)
