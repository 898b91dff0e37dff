"""Exact nearest neighbours by cosine: one pass over the stored vectors.

A chunk's score is computed in a fixed order of operations, so it does not depend on where its row lies. For a few
queries that is done for every row, by code that leaves the other cores to other searches; for many at once a matrix
product, which is faster then but starts threads and rounds as it likes, picks the candidates. Ties fall to the smaller
id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.store.rows import Mask
from umi_common.store.topk import Ranking

SLACK = 1e-5
"""How far a float32 product may lie from the exact score; candidates this near the cut are looked at twice."""
MANY = 4
"""Queries from which one matrix product beats a pass for each."""
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
    among = matrix if few is None else matrix[few]
    near = None if weights is None else weights if few is None else weights[few]
    exact = len(queries) < MANY
    scores = cosines(among, queries) if exact else (among @ queries.T).T
    rankings = []
    for query, row_scores in zip(queries, scores, strict=True):
        if not query.any():
            rankings.append(NOTHING)
            continue
        places = candidates(row_scores, k, allowed, near, slack=0.0 if exact else SLACK)
        rows = places if few is None else few[places]
        known = row_scores[places] if exact else cosines(matrix[rows], query[None])[0]
        rankings.append(rank_rows(rows, known, k=k, weights=weights, ids=ids))
    return rankings


def candidates(
    scores: Floats | Vectors, k: int, allowed: Mask | None, weights: Floats | None, *, slack: float = SLACK
) -> Ints:
    """Rows that may be among the best k: the best k by these scores, and all within `slack` of the k-th."""
    if weights is not None:
        scores = decayed(scores, weights)
    if allowed is not None:
        scores = np.where(allowed, scores, NOWHERE)
    if len(scores) > k:
        cut = np.partition(scores, len(scores) - k)[len(scores) - k]
        return np.flatnonzero(scores >= cut - slack) if cut > NOWHERE else np.flatnonzero(scores > NOWHERE)
    return np.flatnonzero(scores > NOWHERE)


def rank_rows(rows: Ints, scores: Floats, *, k: int, weights: Floats | None, ids: Sequence[str]) -> Ranking:
    """The best k of `rows` by their cosines, decayed; best first, ties to the smaller id."""
    if weights is not None:
        scores = decayed(scores, weights[rows])
    names = [ids[row] for row in rows.tolist()]
    best = [place for _, _, place in sorted(zip((-scores).tolist(), names, range(len(names)), strict=True))[:k]]
    return Ranking(rows[best], scores[best])
