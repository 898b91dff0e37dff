"""Codes of one byte per coordinate, beside the float32 vectors: an exact scan that reads a quarter of the memory.

A vector is d = s c + e, with the step s = max |d_i| / 127, the codes c = round(d / s), whole numbers from -127 to 127,
and the residual e. The approximate score of a query q and a unit row d is s_q s_d c_q.c_d. By the inequality of Cauchy
and Schwarz, it differs from the cosine by at most

    |q.d - s_q s_d c_q.c_d|  <=  |s_q c_q| |e_d| + |e_q|

So a row is not among the best k if its score plus its bound is below score minus bound of at least k other rows. The
remaining rows, some hundred, are scored exactly. The result equals that of an exact full scan to the last bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import simsimd

from umi_common.pool import Ints, Vectors
from umi_common.stores.arrays import Growing

Int8Codes = npt.NDArray[np.int8]
FLOAT32_ROUNDING = 1e-5
"""Largest rounding error of a float32 sum."""
CODE_MAX = 127
"""Largest absolute value of a code."""
SCAN_THREADS_MAX = os.cpu_count() or 1
"""Largest number of threads of one scan: one for each core."""
BYTES_A_THREAD = 12_000_000
"""Bytes of codes for each thread of a scan, which take about 1 ms. For fewer bytes, starting a thread costs more than
it saves."""
BLOCK = 256
"""Number of rows quantised together; the intermediate arrays of so few rows fit into a core's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """n rows as codes."""

    codes: Int8Codes
    """(n, dim)"""
    steps: Vectors
    """(n,) s of each row."""
    errors: Vectors
    """(n,) |e| of each row."""
    largest_error: float
    """Upper bound of the errors."""

    @classmethod
    def of(cls, vectors: Vectors) -> Quantised:
        """Codes of (n, dim) vectors; a row of zeros has codes of zeros."""
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        steps = (np.where(largest > 0, largest, CODE_MAX) / CODE_MAX).astype(np.float32)
        codes = np.rint(vectors / steps[:, np.newaxis])
        residuals = vectors - codes * steps[:, np.newaxis]
        errors = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        return cls(codes.astype(np.int8), steps, errors, float(errors.max(initial=0.0)))

    def scan(self, queries: Vectors) -> Scan:
        """Approximate cosines of V unit queries (V, dim) with all rows."""
        query = Quantised.of(queries)
        scores = self._products(query.codes)
        scores *= self.steps
        scores *= query.steps[:, np.newaxis]
        lengths = query.steps * np.sqrt(np.einsum("ij,ij->i", query.codes, query.codes, dtype=np.float32))
        rest = query.errors + np.float32(FLOAT32_ROUNDING)
        return Scan(scores, [ErrorBound(self, *pair) for pair in zip(lengths.tolist(), rest.tolist(), strict=True)])

    def _products(self, queries: Int8Codes) -> Vectors:
        """(V, n) inner products of the codes of V queries with the codes of all rows. Each row is read once.

        Memory bandwidth limits a long scan, and more cores together have more of it, so a long scan uses several.
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


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """Upper bound of the difference between the approximate scores of one query and its cosines."""

    quantised: Quantised
    """The rows that were scored."""
    length: float
    """|s_q c_q|"""
    rest: float
    """|e_q| + FLOAT32_ROUNDING"""

    @property
    def largest(self) -> float:
        """Bound for all rows."""
        return self.length * self.quantised.largest_error + self.rest

    def at(self, rows: Ints) -> Vectors:
        """(m,) bounds for these rows."""
        return self.length * self.quantised.errors[rows] + self.rest


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
    """The codes of one growing array of vectors, computed when needed and cached. Thread-safe."""

    def __init__(self, dim: int) -> None:
        self._lock = threading.Lock()
        self._codes = Growing(np.int8, dim)
        self._steps = Growing(np.float32)
        self._errors = Growing(np.float32)
        self._largest_error = 0.0

    @classmethod
    def restored(cls, codes: Growing[np.int8], steps: Vectors, errors: Vectors) -> QuantisedRows:
        """The codes of an array of vectors whose first rows are quantised already; arguments as in `Quantised`."""
        rows = cls(0)
        rows._codes, rows._steps, rows._errors = codes, Growing.copied(steps), Growing.copied(errors)
        rows._largest_error = float(errors.max(initial=0.0))
        return rows

    def of(self, vectors: Vectors) -> Quantised:
        """Codes of the first n rows, given as (n, dim) vectors; n may be larger or smaller than in earlier calls."""
        with self._lock:
            for start in range(len(self._steps.view), len(vectors), BLOCK):
                new = Quantised.of(vectors[start : start + BLOCK])
                self._codes.extend(new.codes)
                self._steps.extend(new.steps)
                self._errors.extend(new.errors)
                self._largest_error = max(self._largest_error, new.largest_error)
            rows = slice(len(vectors))
            return Quantised(
                self._codes.view[rows], self._steps.view[rows], self._errors.view[rows], self._largest_error
            )

    def continue_in(self, codes: Growing[np.int8]) -> None:
        """Replace the array of codes by another array with the same content, such as a mapped file."""
        with self._lock:
            self._codes = codes
