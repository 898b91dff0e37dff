"""Exact nearest neighbours by cosine: one pass over the stored vectors, or, if there are many, over their codes first.

Ties fall to the smaller id. A cosine depends only on its two vectors, to the last bit. BLAS is not used: its threads
would compete with the threads of other searches, and its results depend on the position of a row in the matrix.

Codes are stored beside the float32 vectors and have one byte per coordinate, so a scan of them reads a quarter of the
memory. A vector is d = s c + e, with the step s = max |d_i| / 127, the codes c = round(d / s), whole numbers from -127
to 127, and the residual e. The approximate score of a query q and a unit row d is s_q s_d c_q.c_d. By the
Cauchy-Schwarz inequality, its error is at most

    |q.d - s_q s_d c_q.c_d|  <=  |s_q c_q| |e_d| + |e_q|

A row is not among the best k if for at least k other rows, score minus error bound is above its own score plus error
bound. The remaining rows, some hundred, are scored exactly. The result equals that of a full exact scan, to the last
bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt
import simsimd

from umi_common.pool import Floats, Ints, Vectors, weighted
from umi_common.stores.arrays import Growing, at_most_kth, best_rows, kth
from umi_common.stores.rows.rows import Mask

QUANTISED_FROM, QUANTISED_FROM_FOR_SEVERAL = 7_000, 12_000
"""Smallest numbers of rows for which the codes are scanned first: for one query, and for several queries, which share
one pass over the vectors. With fewer rows, the exact cosines of some hundred rows after the scan of the codes take more
time than the codes save."""
EXCLUDED, LOWEST_ALLOWED = -np.inf, -1e9
"""Score of a row that may not be found, and a lower bound of the scores of rows that may be found."""
FEW = 8
"""If at most 1 / FEW of the rows may be found, only the vectors of these rows are read, from a copy."""
GATHERED_AT_ONCE = 128
"""Number of vectors copied together; so few stay in a core's cache while all queries are compared with them."""
Int8Codes = npt.NDArray[np.int8]
NO_FLOATS: Vectors = np.zeros(0, dtype=np.float32)
FLOAT32_ROUNDING = 1e-5
"""Largest rounding error of a float32 sum."""
CODE_MAX = 127
"""Largest absolute value of a code."""
SCAN_THREADS_MAX = os.cpu_count() or 1
"""Largest number of threads of one scan: one for each core."""
BYTES_A_THREAD = 50_000_000
"""Smallest number of bytes of codes for each thread of a scan, which take about 2 ms. For 25 MB, a second thread saves
0.3 ms, and beside other programs it may wait 10 ms for a core."""
BLOCK = 256
"""Number of rows that are quantised together; the intermediate arrays of so few rows fit into a core's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """The codes of n rows, with their steps s and the lengths of their residuals e."""

    codes: Int8Codes
    """(n, dim)"""
    steps: Vectors
    """(n,) s of each row."""
    errors: Vectors
    """(n,) |e| of each row."""

    @classmethod
    def of(cls, vectors: Vectors) -> Quantised:
        """Codes of (n, dim) vectors; a row of zeros has codes of zeros."""
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        steps = (np.where(largest > 0, largest, CODE_MAX) / CODE_MAX).astype(np.float32)
        codes = np.rint(vectors / steps[:, np.newaxis])
        residuals = vectors - codes * steps[:, np.newaxis]
        return cls(codes.astype(np.int8), steps, np.sqrt(np.einsum("ij,ij->i", residuals, residuals)))

    def scan(self, queries: Vectors) -> Scan:
        """Approximate cosines of V unit queries (V, dim) with all rows."""
        query = Quantised.of(queries)
        scores = self._products(query.codes)
        scores *= self.steps
        scores *= query.steps[:, np.newaxis]
        lengths = query.steps * np.sqrt(np.einsum("ij,ij->i", query.codes, query.codes, dtype=np.float32))
        rests = query.errors + np.float32(FLOAT32_ROUNDING)
        pairs = zip(lengths.tolist(), rests.tolist(), strict=True)
        return Scan(scores, [ErrorBound(self.errors, *pair) for pair in pairs])

    def _products(self, queries: Int8Codes) -> Vectors:
        """(V, n) inner products of the codes of V queries with the codes of all rows. Each row is read once.

        A long scan is limited by memory bandwidth. It uses several threads, since several cores have more bandwidth.
        """

        threads = min(SCAN_THREADS_MAX, self.codes.nbytes // BYTES_A_THREAD)
        if threads < 2:
            return _products(self.codes, queries)
        with ThreadPoolExecutor(threads - 1, "umi-scan") as pool:
            first, *others = np.array_split(self.codes, threads)
            found = [pool.submit(_products, codes, queries) for codes in others]
            return np.concatenate([_products(first, queries), *[each.result() for each in found]], axis=1)


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """Upper bounds of the differences between the approximate scores and the cosines of one query."""

    errors: Vectors
    """(n,) |e| of each row."""
    length: float
    """|s_q c_q|"""
    rest: float
    """|e_q| + FLOAT32_ROUNDING"""

    @property
    def largest(self) -> float:
        """Bound for all rows."""
        return self.length * float(self.errors.max(initial=0.0)) + self.rest

    def at(self, rows: Ints) -> Vectors:
        """(m,) bounds for these rows."""
        return self.length * self.errors[rows] + self.rest


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Scores of V queries with all n rows."""

    scores: Vectors
    """(V, n) cosines, or approximations from codes."""
    bounds: Sequence[ErrorBound] | None = None
    """V error bounds of the scores; None: the scores are the cosines."""

    def of(self, which: slice) -> Scan:
        """The scan of some of the queries."""
        return Scan(self.scores[which], None if self.bounds is None else self.bounds[which])


class QuantisedRows:
    """The codes of one growing array of vectors, computed when needed and cached. Thread-safe.

    Args:
        codes, steps, errors: Of the first rows, as in `Quantised`.
    """

    def __init__(self, codes: Growing[np.int8], steps: Vectors = NO_FLOATS, errors: Vectors = NO_FLOATS) -> None:
        self._lock = threading.Lock()
        self._codes = codes
        self._steps = Growing.copied(steps)
        self._errors = Growing.copied(errors)

    def of(self, vectors: Vectors) -> Quantised:
        """Codes of the first n rows, given as (n, dim) vectors; n may be larger or smaller than in earlier calls."""
        with self._lock:
            for start in range(len(self._steps.view), len(vectors), BLOCK):
                new = Quantised.of(vectors[start : start + BLOCK])
                self._codes.extend(new.codes)
                self._steps.extend(new.steps)
                self._errors.extend(new.errors)
            rows = slice(len(vectors))
            return Quantised(self._codes.view[rows], self._steps.view[rows], self._errors.view[rows])

    def continue_in(self, codes: Growing[np.int8]) -> None:
        """Replace the array of codes by another array with the same content, such as a mapped file."""
        with self._lock:
            self._codes = codes


def cosines(vectors: Vectors, queries: Vectors) -> Vectors:
    """(V, n) cosines of V unit queries with n unit vectors; 0 for a row of zeros. Each vector is read once."""
    if not vectors.size:
        return np.zeros((len(queries), len(vectors)), dtype=np.float32)
    return _products(vectors, queries)


def cosines_at(matrix: Vectors, rows: Ints, queries: Vectors) -> Floats:
    """(V, m) cosines of V unit queries with m rows of the matrix, which are unit vectors."""
    scores = np.empty((len(queries), len(rows)))
    for start in range(0, len(rows), GATHERED_AT_ONCE):
        some = slice(start, start + GATHERED_AT_ONCE)
        scores[:, some] = cosines(matrix.take(rows[some], axis=0), queries)
    return scores


def _products(rows: Vectors | Int8Codes, queries: Vectors | Int8Codes) -> Vectors:
    """(V, n) inner products of V queries with n rows, n >= 1."""
    return np.ascontiguousarray(np.asarray(simsimd.cdist(rows, queries, metric="dot", out_dtype="float32")).T)


@dataclass(frozen=True, slots=True, eq=False)
class DenseHits:
    """The best rows for one query, best first, and their cosines times decay; ties by the smaller id."""

    rows: Ints
    scores: Floats
    all_cosines: Vectors | None = None
    """(n,) exact cosines of all rows; None: the search did not compute them."""


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
        quantised: The codes of the matrix, which `scan_of` uses if there are many rows; None: codes are not used.
        scan: Result of `scan_of` for these arguments; None: `search` computes it.
    """
    if allowed is not None and int(allowed.sum()) * FEW <= len(allowed):
        few = np.flatnonzero(allowed)
        found = [(few, scores, None) for scores in cosines_at(matrix, few, queries)]
    else:
        scan, found = scan or scan_of(matrix, queries, quantised), []
        for query, scores, bound in zip(queries, scan.scores, scan.bounds or repeat(None), strict=False):
            rows = _near_the_best(scores, bound, k, allowed, weights)
            if bound is None:
                found.append((rows, scores[rows].astype(np.float64), scores))
            else:
                found.append((rows, cosines_at(matrix, rows, query[None])[0], None))
    results = []
    for query, (rows, exact, all_cosines) in zip(queries, found, strict=True):
        decayed = weighted(exact, None if weights is None else weights[rows])
        best = best_rows(rows, decayed, k, ids.__getitem__)
        results.append(DenseHits(*best, all_cosines) if query.any() else DenseHits(rows[:0], exact[:0]))
    return results


def _near_the_best(
    scores: Vectors, bound: ErrorBound | None, k: int, allowed: Mask | None, weights: Floats | None
) -> Ints:
    """Rows that may be among the best k by decayed score, rising, ties included.

    Args:
        scores: (n,) scores of all rows.
        bound: The error bounds of the scores; None: the scores are the cosines.
        k, allowed, weights: As for `search`.
    """
    ranked = weighted(scores, weights)
    if allowed is not None:
        ranked = np.where(allowed, ranked, EXCLUDED)
    # Decay shrinks a score and its error alike, so the bound without decay is valid for a first selection. It is
    # subtracted twice: the k-th best score may be too high by the bound, and the score of a row too low.
    error = 0.0 if bound is None else 2 * bound.largest
    least = at_most_kth(ranked, k, LOWEST_ALLOWED) - error
    rows = (ranked >= max(least, LOWEST_ALLOWED)).nonzero()[0]
    if bound is None:
        return rows
    left, errors = ranked[rows], bound.at(rows)
    return rows[left + errors >= kth(left - errors, k, LOWEST_ALLOWED)]


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
