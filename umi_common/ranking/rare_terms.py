"""A candidate that holds a rare term of the query stands before those whose BM25 is much smaller. Pure.

    raised(i) = max(score(i), (1 + `LEAD` * bm25(i) / max bm25) * max score(j)), over all j with
                bm25(j) < `PASSED` * bm25(i), if i holds a rare term of the query (`pool.RARE`) and
                bm25(i) >= `LEADING` * max bm25; else score(i)

A candidate j in another language than the query is left out, because its BM25 says little.

The row of a table that holds the value sought ("which service uses port 518?") shares fewer words with the query than a
row that holds the names of its columns ("TCP port service multiplexer"), and vectors place numbers, codes and other
rare strings by chance. Measured in docs/decisions.md.
"""

from __future__ import annotations

import numpy as np

from umi_common.pool import Bools, Floats

PASSED = 0.8
"""A candidate passes those whose BM25 is below this share of its own."""
LEADING = 0.8
"""A candidate passes others only if it has at least this share of the best BM25."""
LEAD = 0.05
"""How far the candidate with the best BM25 comes before those that it passes, as a share of their best score. The lead
of another candidate is smaller, in proportion to its BM25. Without a lead, the next stages would raise texts that
resemble the passed ones above it."""


def with_rare_terms(scores: Floats, lexical: Floats, rare: Bools, other_language: Bools) -> Floats:
    """(n,) scores by the formula at the top of this file; the largest may grow by the share `LEAD`.

    Args:
        scores: (n,) fused scores, >= 0.
        lexical: (n,) BM25 for the query.
        rare: (n,) whether a candidate holds a rare term of the query.
        other_language: (n,) whether a candidate is in another language than the query.
    """
    raised, best = np.array(scores), lexical.max(initial=0.0)
    for row in rare.nonzero()[0].tolist() if best > 0 else ():
        if lexical[row] >= LEADING * best:
            passed = scores[(lexical < PASSED * lexical[row]) & ~other_language].max(initial=0.0)
            raised[row] = max(scores[row], passed * (1.0 + LEAD * lexical[row] / best))
    return raised
