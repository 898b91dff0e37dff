"""Exact nearest neighbours by cosine: one pass over the stored vectors, or over their codes where there are many.

A chunk's score is computed in a fixed order of operations, so it does not depend on where its row lies. No BLAS: its
threads would fight over the cores with those of other searches. Ties fall to the smaller id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.quantised import Quantised, QuantisedRows, kernel
from umi_common.store.rows import Mask
from umi_common.store.topk import Ranking

QUANTISED_FROM = 4_000
"""Rows from which the codes are read first."""
NOWHERE = -np.inf
FEW = 8
"""Where at most one in so many rows is allowed, their vectors are gathered first."""
NOTHING = Ranking(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


def cosines(vectors: Vectors, queries: Vectors) -> Floats:
    """(V, n) cosine of V unit queries with n unit vectors; 0 for rows of zeros.

    A pair's score depends on the pair alone, to the last bit, whatever else is in the arrays.
    """
    scores = np.empty((len(queries), len(vectors)))
    for score, query in zip(scores, queries, strict=True):
        score[:] = np.einsum("ij,j->i", vectors, query)
    return scores


def decayed(scores: Floats | Vectors, weights: Floats) -> Floats:
    """Scores times weights; what is not above 0 stays, or decay would lift it."""
    return np.where(scores > 0, scores * weights, scores)


def search_exact(
    matrix: Vectors,
    queries: Vectors,
    *,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    ids: Sequence[str],
    quantised: QuantisedRows | None = None,
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
    """
    if not len(matrix):
        return [NOTHING for _ in queries]
    few = None if allowed is None or int(allowed.sum()) * FEW > len(matrix) else np.flatnonzero(allowed)
    if few is not None:
        scores = cosines(matrix[few], queries)
        found = [(few, row_scores) for row_scores in scores]
    elif quantised is not None and len(matrix) >= QUANTISED_FROM and kernel() is not None:
        found = _near_the_best(matrix, queries, quantised.of(matrix), k, allowed, weights)
    else:
        found = []
        for row_scores in cosines(matrix, queries):
            rows = best_rows(row_scores, k, allowed, weights)
            found.append((rows, row_scores[rows]))
    return [
        rank_rows(rows, row_scores, k=k, weights=weights, ids=ids) if query.any() else NOTHING
        for query, (rows, row_scores) in zip(queries, found, strict=True)
    ]


def _near_the_best(
    matrix: Vectors, queries: Vectors, codes: Quantised, k: int, allowed: Mask | None, weights: Floats | None
) -> list[tuple[Ints, Floats]]:
    """For each query the rows that may be among the best k, and their exact cosines."""
    found = []
    for query, scores, off in zip(queries, *codes.scores(queries), strict=True):
        rows = best_rows(scores, k, allowed, weights, off=off)
        found.append((rows, cosines(matrix[rows], query[None])[0]))
    return found


def best_rows(
    scores: Floats | Vectors, k: int, allowed: Mask | None, weights: Floats | None, *, off: Vectors | None = None
) -> Ints:
    """Rows that may be among the best k by decayed score, each score being at most `off` off (None: exact); rising,
    ties included.
    """
    least = _held(scores if off is None else scores - off, allowed, weights)
    most = least if off is None else _held(scores + off, allowed, weights)
    cut = np.partition(least, len(least) - k)[len(least) - k] if len(least) > k else NOWHERE
    return np.flatnonzero(most >= cut) if cut > NOWHERE else np.flatnonzero(most > NOWHERE)


def _held(scores: Floats | Vectors, allowed: Mask | None, weights: Floats | None) -> Floats | Vectors:
    if weights is not None:
        scores = decayed(scores, weights)
    return scores if allowed is None else np.where(allowed, scores, NOWHERE)


def rank_rows(rows: Ints, scores: Floats, *, k: int, weights: Floats | None, ids: Sequence[str]) -> Ranking:
    """The best k of `rows` by their cosines, decayed; best first, ties to the smaller id."""
    decided = scores if weights is None else decayed(scores, weights[rows])
    order = np.argsort(-decided, kind="stable")
    falling = decided[order]
    for first, last in runs(falling, k):
        order[first:last] = sorted(order[first:last].tolist(), key=lambda place: ids[int(rows[place])])
    best = order[:k]
    return Ranking(rows[best], falling[:k], scores[best])


def runs(falling: Floats, k: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of each run of equal values that begins among the first k."""
    equal = np.flatnonzero(falling[1:] == falling[:-1])
    if len(equal):
        breaks = np.flatnonzero(np.diff(equal) > 1)
        firsts = equal[np.append(0, breaks + 1)].tolist()
        lasts = (equal[np.append(breaks, -1)] + 2).tolist()
        yield from ((first, last) for first, last in zip(firsts, lasts, strict=True) if first < k)
