"""Put a candidate that holds a rare term of the query before candidates whose BM25 is much smaller. Pure.

If candidate i holds a rare term of the query (`pool.RARE`) and bm25(i) >= `LEADING` * max bm25:

    raised(i) = max(score(i), (1 + `LEAD` * bm25(i) / max bm25) * max score(j))

where j is any candidate with bm25(j) < `PASSED` * bm25(i), except candidates in another language than the query, whose
BM25 says little. All other scores stay.

For "which service uses port 518?", the row of a table with 518 shares fewer words with the query than a row that holds
the names of the columns ("TCP port service multiplexer"). Vectors place numbers, codes and other rare strings by
chance.
"""

from __future__ import annotations

import numpy as np

from umi_common.pool import Bools, Floats

PASSED = 0.8
"""A candidate passes candidates whose BM25 is below this share of its own BM25."""
LEADING = 0.8
"""A candidate passes other candidates only if it has at least this share of the best BM25."""
LEAD = 0.05
"""Lead of the candidate with the best BM25 over the candidates that it passes, as a share of their best score. The lead
of another candidate is smaller, in proportion to its BM25. Without a lead, later stages would raise texts that resemble
the passed candidates above it."""


def with_rare_terms(scores: Floats, lexical: Floats, rare: Bools, other_language: Bools) -> Floats:
    """(n,) scores by the formula at the top of this file; the largest score may grow by the share `LEAD`.

    Args:
        scores: (n,) fused scores, >= 0.
        lexical, rare, other_language: (n,) fields of `Pool`, for the original query.
    """
    raised, best = np.array(scores), lexical.max(initial=0.0)
    for row in rare.nonzero()[0].tolist() if best > 0 else ():
        if lexical[row] >= LEADING * best:
            passed = scores[(lexical < PASSED * lexical[row]) & ~other_language].max(initial=0.0)
            raised[row] = max(scores[row], passed * (1.0 + LEAD * lexical[row] / best))
    return raised
