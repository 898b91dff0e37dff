"""Late interaction: a candidate gains by how well its own words match the query's, token by token. Pure.

    m(q, i) = max over tokens t of candidate i of cos(q, t)     how well the candidate says the query's token q
    w(q) = 1 - mean_i m(q, i)                                   a token that every candidate says tells nothing
    s(i) = sum_q w(q) * m(q, i) / sum_q w(q)                    MaxSim
    z(i) = (s(i) - mean s) / deviation of s                     over the candidates; below 0 counts as 0
    final(i) = score(i) * (1 + weight * share * r(i) * z(i)^2)  r: of neighbours, falls with the length of the chunk

Afterwards the search divides all scores so that the largest is as large as before.

The stage of neighbours raises the turns around an answer, too; this one compares the words of each turn itself. The
share is how far positions carry in the corpus (`neighbours.order_share`): 0 where chunks have none. Measured in
docs/decisions.md.

Source: MaxSim is that of ColBERT (Khattab, Zaharia, SIGIR 2020), here with static token vectors.
"""

from __future__ import annotations

import numpy as np

from umi_common.pool import Floats, Ints, Vectors
from umi_common.ranking.neighbours import needs

DEVIATION_MIN = 0.01
"""Smallest divisor of z, so that candidates that are as good as alike gain nothing."""


def max_similarity(query: Vectors, vectors: Vectors, rows: Ints, counts: Ints) -> Floats:
    """(Q, n) m: for each token of the query its largest cosine with a token of each candidate.

    No BLAS: its threads would compete with those of other searches, and its bits depend on where a row lies.

    Args:
        query: (Q, dim) unit rows.
        vectors: (T, dim) unit rows.
        rows: (L,) rows of `vectors`: the tokens of the first candidate, then those of the second, and so on.
        counts: (n,) tokens of each candidate, adding up to L; for one without tokens m is 0.
    """
    found: Floats = np.zeros((len(counts), len(query)))
    filled = np.flatnonzero(counts)
    if len(filled) and len(query):
        cosines = np.einsum("td,qd->tq", vectors, query)[rows]
        found[filled] = np.maximum.reduceat(cosines, np.cumsum(counts[filled]) - counts[filled], axis=0)
    return np.asarray(found.T)


def with_late_interaction(scores: Floats, matches: Floats, length: Ints, weight: float) -> Floats:
    """(n,) scores by the formula at the top of this file; those below 0 gain nothing.

    Args:
        scores: (n,) of the stages before.
        matches: (Q, n) m.
        length: (n,) terms in the chunk.
        weight: weight * share, >= 0.
    """
    telling = 1.0 - matches.mean(axis=1)
    if not scores.size or telling.sum() <= 0:
        return np.array(scores)
    said = telling @ matches / telling.sum()
    above = np.maximum(said - said.mean(), 0.0) / max(float(said.std()), DEVIATION_MIN)
    return np.asarray(scores + np.maximum(scores, 0.0) * weight * needs(length) * above * above, dtype=np.float64)
