"""Exact nearest neighbours by cosine: one pass over the stored vectors, or over their codes where there are many.

Ties fall to the smaller id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.stores.dense.cosines import cosines, cosines_at, kernel
from umi_common.stores.dense.int8 import Off, QuantisedRows, Scan
from umi_common.stores.lexical.top_k import Ranking
from umi_common.stores.rows.rows import Mask

QUANTISED_FROM, QUANTISED_FROM_FOR_SEVERAL = 7_000, 12_000
"""Rows from which the codes are read first, for one query and for several, which share the reading of the floats; what
the codes say has to be worked out again for some hundred rows."""
NOWHERE, SOMEWHERE = -np.inf, -1e9
"""Stands for the score of a row that must not be found, and lies below all others."""
FEW = 8
"""Where at most one in so many rows is allowed, their vectors are gathered first."""
NOTHING = Ranking(np.zeros(0, dtype=np.int64), np.zeros(0), cosines=np.zeros(0))


def decayed(scores: Floats | Vectors, weights: Floats) -> Floats:
    """Scores times weights; what is not above 0 stays, or decay would lift it."""
    return np.where(scores > 0, scores * weights, scores)


def scan_of(matrix: Vectors, queries: Vectors, quantised: QuantisedRows | None) -> Scan:
    """V unit queries and all rows of the matrix: by their codes, if any, where that is faster."""
    by_codes = len(matrix) >= (QUANTISED_FROM if len(queries) == 1 else QUANTISED_FROM_FOR_SEVERAL)
    if quantised is not None and by_codes and kernel() is not None:
        return quantised.of(matrix).scan(queries)
    return Scan(cosines(matrix, queries))


def search_exact(
    matrix: Vectors,
    queries: Vectors,
    *,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    ids: Sequence[str],
    quantised: QuantisedRows | None = None,
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
        scan: `scan_of` these, where that is known.
    """
    if not len(matrix):
        return [NOTHING for _ in queries]
    held = _Held(k, allowed, weights)
    few, every = held.few(), [None] * len(queries)
    if few is not None:
        found = [(few, scores) for scores in cosines_at(matrix, few, queries)]
    else:
        scan = scan or scan_of(matrix, queries, quantised)
        found = _near_the_best(matrix, queries, scan, held)
        if scan.offs is None:
            every = list(scan.scores)
    return [
        rank_rows(rows, scores, k=k, weights=weights, ids=ids, every=known) if query.any() else NOTHING
        for query, (rows, scores), known in zip(queries, found, every, strict=True)
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
    """For each query the rows that may be among the best k, and their cosines."""
    found = []
    for query, scores, off in zip(queries, scan.scores, scan.offs or repeat(None), strict=False):
        rows = held.best(scores, off)
        found.append(
            (rows, scores[rows].astype(np.float64) if off is None else cosines_at(matrix, rows, query[None])[0])
        )
    return found


def rank_rows(
    rows: Ints,
    scores: Floats,
    *,
    k: int,
    weights: Floats | None,
    ids: Sequence[str],
    every: Vectors | None = None,
) -> Ranking:
    """The best k of `rows` by their cosines, decayed; best first, ties to the smaller id; `every` goes with them."""
    decided = scores if weights is None else decayed(scores, weights[rows])
    order = np.argsort(-decided)
    falling = decided[order]
    for first, last in _runs(falling, k):
        order[first:last] = sorted(order[first:last].tolist(), key=lambda place: ids[int(rows[place])])
    best = order[:k]
    return Ranking(rows[best], falling[:k], cosines=scores[best], every_cosine=every)


def _runs(falling: Floats, k: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of each run of equal values that begins among the first k."""
    equal = (falling[1:] == falling[:-1]).nonzero()[0]
    if len(equal):
        breaks = (np.diff(equal) > 1).nonzero()[0]
        firsts = equal[np.append(0, breaks + 1)].tolist()
        lasts = (equal[np.append(breaks, -1)] + 2).tolist()
        yield from ((first, last) for first, last in zip(firsts, lasts, strict=True) if first < k)
