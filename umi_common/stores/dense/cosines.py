"""Exact nearest neighbours by cosine: one pass over the stored vectors, or, if there are many, over their codes first.

Ties fall to the smaller id. A cosine depends only on its two vectors, to the last bit. BLAS is not used: its threads
would compete with the threads of other searches, and its results depend on the position of a row in the matrix.

Codes are stored beside the float32 vectors and have one byte per coordinate, so a scan of them reads a quarter of the
memory. A vector is d = s c + e, with the step s = max |d_i| / 127, the codes c = round(d / s), whole numbers from -127
to 127, and the residual e. The approximate score of a query q and a unit row d is s_q s_d c_q.c_d. By the
Cauchy-Schwarz inequality, its error is at most

    |q.d - s_q s_d c_q.c_d|  <=  |s_q c_q| |e_d| + |e_q|

With the largest such bound, a row is not among the best k if for at least k other rows, score minus bound is above its
own score plus bound. The remaining rows, some hundred, are scored exactly. The result equals that of a full exact scan,
to the last bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import simsimd

from umi_common.pool import Floats, Ints, Vectors, weighted
from umi_common.stores.arrays import Growing, at_most_kth, best_rows
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
BYTES_A_THREAD = 12_000_000
"""Smallest number of bytes of codes for each thread of a scan, which take about 1 ms. For fewer bytes, starting a
thread takes more time than it saves."""
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

    def scan(self, queries: Vectors) -> tuple[Vectors, Vectors]:
        """Approximate cosines (V, n) of V unit queries (V, dim) with all rows, and (V,) bounds of their errors."""
        query = Quantised.of(queries)
        scores = self._products(query.codes)
        scores *= self.steps
        scores *= query.steps[:, np.newaxis]
        lengths = query.steps * np.sqrt(np.einsum("ij,ij->i", query.codes, query.codes, dtype=np.float32))
        return scores, lengths * self.errors.max(initial=0.0) + query.errors + np.float32(FLOAT32_ROUNDING)

    def _products(self, queries: Int8Codes) -> Vectors:
        """(V, n) inner products of the codes of V queries with the codes of all rows. Each row is read once.

        A long scan is limited by memory bandwidth. It uses several threads, since several cores have more bandwidth.
        """

        def product(codes: Int8Codes) -> Vectors:
            return np.asarray(simsimd.cdist(codes, queries, metric="dot", out_dtype="float32"))

        threads = min(SCAN_THREADS_MAX, self.codes.nbytes // BYTES_A_THREAD)
        if threads < 2:
            return np.ascontiguousarray(product(self.codes).T)
        with ThreadPoolExecutor(threads - 1, "umi-scan") as pool:
            first, *others = np.array_split(self.codes, threads)
            found = [pool.submit(product, codes) for codes in others]
            return np.ascontiguousarray(np.concatenate([product(first), *[each.result() for each in found]]).T)


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
    products = np.asarray(simsimd.cdist(vectors, queries, metric="dot", out_dtype="float32"))
    return np.ascontiguousarray(products.T)


def cosines_at(matrix: Vectors, rows: Ints, queries: Vectors) -> Floats:
    """(V, m) cosines of V unit queries with m rows of the matrix, which are unit vectors."""
    scores = np.empty((len(queries), len(rows)))
    for start in range(0, len(rows), GATHERED_AT_ONCE):
        some = slice(start, start + GATHERED_AT_ONCE)
        scores[:, some] = cosines(matrix.take(rows[some], axis=0), queries)
    return scores


class DenseHits(NamedTuple):
    """The best rows for one query, best first, and their cosines times decay; ties by the smaller id."""

    rows: Ints
    scores: Floats


def search(
    matrix: Vectors,
    queries: Vectors,
    *,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    ids: Sequence[str],
    quantised: QuantisedRows | None = None,
) -> list[DenseHits]:
    """For each of V unit queries the best k rows by decayed cosine, best first.

    Args:
        matrix: (n, dim) unit rows.
        queries: (V, dim) unit rows; a row of zeros finds nothing.
        k: Largest number of rows in a result.
        allowed: (n,) whether each row may be found; False for every row of zeros. None: all rows may be found.
        weights: (n,) factors of decay in (0, 1]; None: all are 1.
        ids: Ids by row, which order ties.
        quantised: The codes of the matrix, which are scanned first if there are many rows; None: codes are not used.
    """
    many = len(matrix) >= (QUANTISED_FROM if len(queries) == 1 else QUANTISED_FROM_FOR_SEVERAL)
    if allowed is not None and int(allowed.sum()) * FEW <= len(allowed):
        few = np.flatnonzero(allowed)
        found = [(few, scores) for scores in cosines_at(matrix, few, queries)]
    elif quantised is not None and many:
        found = []
        for query, scores, error in zip(queries, *quantised.of(matrix).scan(queries), strict=True):
            rows = _near_the_best(scores, float(error), k, allowed, weights)
            found.append((rows, cosines_at(matrix, rows, query[None])[0]))
    else:
        in_all = [(scores, _near_the_best(scores, 0.0, k, allowed, weights)) for scores in cosines(matrix, queries)]
        found = [(rows, scores[rows].astype(np.float64)) for scores, rows in in_all]
    results = []
    for query, (rows, exact) in zip(queries, found, strict=True):
        decayed = weighted(exact, None if weights is None else weights[rows])
        best = best_rows(rows, decayed, k, ids.__getitem__)
        results.append(DenseHits(*best) if query.any() else DenseHits(rows[:0], exact[:0]))
    return results


def _near_the_best(scores: Vectors, error: float, k: int, allowed: Mask | None, weights: Floats | None) -> Ints:
    """Rows that may be among the best k by decayed score, rising, ties included.

    Args:
        scores: (n,) scores of all rows, each at most `error` from the cosine.
        k, allowed, weights: As for `search`.
    """
    ranked = weighted(scores, weights)
    if allowed is not None:
        ranked = np.where(allowed, ranked, EXCLUDED)
    # Decay shrinks a score and its error alike, so the error without decay is a valid bound. It is subtracted twice:
    # the k-th best score may be too high by it, and the score of a row too low.
    least = at_most_kth(ranked, k, LOWEST_ALLOWED) - 2 * error
    return np.flatnonzero(ranked >= max(least, LOWEST_ALLOWED))
