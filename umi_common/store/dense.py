"""Exact nearest neighbours by cosine: one matrix product over the stored vectors.

The product picks candidates; their scores are then computed row by row in a fixed order of operations, so a chunk's
score does not depend on where its row lies. Ties fall to the smaller id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.rows import Mask
from umi_common.store.topk import Ranking

SLACK = 1e-5
"""How far a float32 product may lie from the exact score; candidates this near the cut are looked at twice."""
NOWHERE = -np.inf
FEW = 8
"""Where at most one in so many rows is allowed, their vectors are gathered first."""
NOTHING = Ranking(np.zeros(0, dtype=np.int64), np.zeros(0))


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
) -> list[Ranking]:
    """For each of V unit queries the best k rows by decayed cosine, best first.

    Args:
        matrix: (n, dim) unit rows.
        queries: (V, dim) unit rows; a row of zeros finds nothing.
        k: At most so many.
        allowed: (n,) rows that may be found, none of them zeros; None: all.
        weights: (n,) in (0, 1]; None: 1.
        ids: By row, for ties.
    """
    if not len(matrix):
        return [NOTHING for _ in queries]
    few = None
    if allowed is not None and int(allowed.sum()) * FEW <= len(matrix):
        few, allowed = np.flatnonzero(allowed), None
    products = queries @ (matrix if few is None else matrix[few]).T
    near = None if weights is None else weights if few is None else weights[few]
    rankings = []
    for query, product in zip(queries, products, strict=True):
        rows = candidates(product, k, allowed, near)
        rows = rows if few is None else few[rows]
        ranking = rank_rows(matrix, query, rows, k=k, weights=weights, ids=ids) if query.any() else NOTHING
        rankings.append(ranking)
    return rankings


def candidates(product: Vectors, k: int, allowed: Mask | None, weights: Floats | None) -> Ints:
    """Rows that may be among the best k: the best k by the product, and all within SLACK of the k-th."""
    scores = product if weights is None else decayed(product, weights)
    if allowed is not None:
        scores = np.where(allowed, scores, NOWHERE)
    if len(scores) > k:
        cut = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows = np.flatnonzero(scores >= cut - SLACK) if cut > NOWHERE else np.flatnonzero(scores > NOWHERE)
    else:
        rows = np.flatnonzero(scores > NOWHERE)
    return rows


def rank_rows(
    matrix: Vectors, query: Vectors, rows: Ints, *, k: int, weights: Floats | None, ids: Sequence[str]
) -> Ranking:
    """The best k of `rows` for one unit query, best first, ties to the smaller id."""
    scores = cosines(matrix[rows], query[None])[0]
    if weights is not None:
        scores = decayed(scores, weights[rows])
    names = [ids[row] for row in rows.tolist()]
    order = sorted(range(len(names)), key=names.__getitem__)
    best = np.array(order, dtype=np.int64)[np.argsort(-scores[order], kind="stable")[:k]]
    return Ranking(rows[best], scores[best])
