"""Cosines of unit vectors. Each depends on its pair of vectors only, to the last bit, not on other rows.

BLAS is not used: its threads would compete with those of other searches, and its results depend on where a row lies.
"""

from __future__ import annotations

import numpy as np
import simsimd

from umi_common.pool import Floats, Ints, Vectors

GATHERED_AT_ONCE = 128
"""Vectors copied together; as many stay in a core's cache while all queries are compared with them."""


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
