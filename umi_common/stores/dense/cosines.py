"""Exact nearest neighbours by cosine: one pass over the stored vectors, or, if there are many, over their codes first.

Ties fall to the smaller id. To the last bit, a cosine depends only on its two vectors. BLAS is not used: its threads
would compete with the threads of other searches, and its results depend on the position of a row in the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import simsimd

from umi_common.pool import Floats, Ints, Vectors, weighted
from umi_common.stores.arrays import at_most_kth, best_rows, kth
from umi_common.stores.dense.int8 import ErrorBound, QuantisedRows, Scan
from umi_common.stores.rows.rows import Mask

QUANTISED_FROM, QUANTISED_FROM_FOR_SEVERAL = 7_000, 12_000
"""Smallest numbers of rows for which the codes are read first: for one query, and for several queries, which would
share one pass over the floats. With fewer rows, the exact cosines of some hundred rows, which are computed after the
scan of the codes, cost more than the codes save."""
EXCLUDED, LOWEST_ALLOWED = -np.inf, -1e9
"""Score of a row that may not be found, and a score below the scores of all rows that may be found."""
FEW = 8
"""If at most 1 / FEW of the rows are allowed, the vectors of these rows are copied, and only they are compared."""
GATHERED_AT_ONCE = 128
"""Number of vectors copied together. So few stay in a core's cache while all queries are compared with them."""


def cosines(vectors: Vectors, queries: Vectors) -> Vectors:
    """(V, n) cosines of V unit queries with n unit vectors; 0 for a row of zeros. Each vector is read once."""
    if not vectors.size:
        return np.zeros((len(queries), len(vectors)), dtype=np.float32)
    products = np.asarray(simsimd.cdist(vectors, queries, metric="dot", out_dtype="float32"))
    return np.ascontiguousarray(products.T)


def cosines_at(matrix: Vectors, rows: Ints, queries: Vectors) -> Floats:
    """(V, m) cosines of V unit queries with m rows of the matrix, which are unit vectors."""
    scores = np.empty((len(queries), len(rows)))
    for start in range(0, len(rows), GATHERED_AT_ONCE):
        some = slice(start, start + GATHERED_AT_ONCE)
        scores[:, some] = cosines(matrix.take(rows[some], axis=0), queries)
    return scores


@dataclass(frozen=True, slots=True, eq=False)
class DenseHits:
    """The best rows for one query, best first, and their cosines after decay; ties by the smaller id."""

    rows: Ints
    scores: Floats
    all_cosines: Vectors | None = None
    """(n,) exact cosines of all rows; None: the search did not compute them."""


NO_HITS = DenseHits(np.zeros(0, dtype=np.int64), np.zeros(0))


def scan_of(matrix: Vectors, queries: Vectors, quantised: QuantisedRows | None) -> Scan:
    """Scores of V unit queries with all rows of the matrix, approximated by codes if that is faster."""
    by_codes = len(matrix) >= (QUANTISED_FROM if len(queries) == 1 else QUANTISED_FROM_FOR_SEVERAL)
    if quantised is not None and by_codes:
        return quantised.of(matrix).scan(queries)
    return Scan(cosines(matrix, queries))


def search(
    matrix: Vectors,
    queries: Vectors,
    *,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    ids: Sequence[str],
    quantised: QuantisedRows | None = None,
    scan: Scan | None = None,
) -> list[DenseHits]:
    """For each of V unit queries the best k rows by decayed cosine, best first.

    Args:
        matrix: (n, dim) unit rows.
        queries: (V, dim) unit rows; a row of zeros finds nothing.
        k: Largest number of rows in a result.
        allowed: (n,) whether each row may be found; False for every row of zeros. None: all rows may be found.
        weights: (n,) factors of decay in (0, 1]; None: all are 1.
        ids: Ids by row, which order ties.
        quantised: The codes of the matrix, which are used from QUANTISED_FROM rows on; None: codes are not used.
        scan: Result of `scan_of` for these arguments; None: `search` computes it.
    """
    if not len(matrix):
        return [NO_HITS for _ in queries]
    selection = _Selection(matrix, k, allowed, weights, ids)
    few, known = selection.few(), [None] * len(queries)
    if few is not None:
        found = [(few, scores) for scores in cosines_at(matrix, few, queries)]
    else:
        scan = scan or scan_of(matrix, queries, quantised)
        found = selection.near_the_best(queries, scan)
        if scan.bounds is None:
            known = list(scan.scores)
    return [
        selection.ranked(rows, scores, each) if query.any() else NO_HITS
        for query, (rows, scores), each in zip(queries, found, known, strict=True)
    ]


def score(vectors: Vectors, queries: Vectors, rows: Ints, *, searched: Sequence[DenseHits]) -> Floats:
    """(V, n) cosines of V unit queries with n rows.

    Args:
        vectors: (n, dim) the unit vectors of these rows.
        queries: (V, dim) unit rows.
        rows: (n,) row numbers, in any order.
        searched: Results of `search` for the same queries. If all of them hold `all_cosines`, nothing is computed.
    """
    known = [hits.all_cosines for hits in searched if hits.all_cosines is not None]
    if len(known) == len(queries):
        return np.array([each.take(rows) for each in known], dtype=np.float64)
    return cosines(vectors, queries).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """The arguments of `search` that select and order rows."""

    matrix: Vectors
    k: int
    allowed: Mask | None
    weights: Floats | None
    ids: Sequence[str]

    def few(self) -> Ints | None:
        """The allowed rows, if they are so few that copying their vectors is faster; else None."""
        if self.allowed is None or int(self.allowed.sum()) * FEW > len(self.allowed):
            return None
        return np.flatnonzero(self.allowed)

    def best(self, scores: Floats | Vectors, bound: ErrorBound | None = None) -> Ints:
        """Rows that may be among the best k by decayed score, rising, ties included.

        Args:
            scores: (n,) scores of all rows.
            bound: Largest difference between a score and the cosine; None: the scores are the cosines.
        """
        ranked = weighted(scores, self.weights)
        if self.allowed is not None:
            ranked = np.where(self.allowed, ranked, EXCLUDED)
        # Decay shrinks scores and their errors alike, so the largest error bound is safe for a first selection. It
        # counts twice: the k-th best score may be too high by it, and the score of a row too low.
        error = 0.0 if bound is None else 2 * bound.largest
        least = at_most_kth(ranked, self.k, LOWEST_ALLOWED) - error
        rows = np.flatnonzero(ranked >= max(least, LOWEST_ALLOWED))
        if bound is None:
            return rows
        left, errors = ranked[rows], bound.at(rows)
        return rows[left + errors >= kth(left - errors, self.k, LOWEST_ALLOWED)]

    def near_the_best(self, queries: Vectors, scan: Scan) -> list[tuple[Ints, Floats]]:
        """For each query the rows that may be among the best k, and their cosines."""
        found = []
        for query, scores, bound in zip(queries, scan.scores, scan.bounds or repeat(None), strict=False):
            rows = self.best(scores, bound)
            exact = scores[rows].astype(np.float64) if bound is None else cosines_at(self.matrix, rows, query[None])[0]
            found.append((rows, exact))
        return found

    def ranked(self, rows: Ints, scores: Floats, all_cosines: Vectors | None) -> DenseHits:
        """The best k of `rows` by their decayed cosines; ties to the smaller id."""
        decayed = weighted(scores, None if self.weights is None else self.weights[rows])
        return DenseHits(*best_rows(rows, decayed, self.k, self.ids.__getitem__), all_cosines)
