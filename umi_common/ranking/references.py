"""Stage: a chunk gains if the query names it, or if a good candidate refers to it.

    own(i) = score(i) / max score + share * (named(i) + 1/2 * mentioning(i))
    named(i)      = `Pool.named`: how certain it is that the query names i, 0..1
    mentioning(i) = `Pool.mentioning`, if score(i) is larger than the score of every named candidate; else 0
    before(i) = own(i) / max own
    gain(j) = sum over references i -> j of before(i)^5 * weight(i, j)
    final(j) = before(j) + share * min(1, gain(j)), divided by the largest

A query that names a chunk asks about this chunk, even if other chunks hold more of the query's words. But the named
chunk may be a heading without content. So another chunk that holds all terms of the name and further query terms, and
scores above all named chunks, gains half as much (`Pool.mentioning`).

A candidate i refers to a chunk j if j holds query terms that i lacks, and if one of these is true: i mentions the name
of j; j holds all terms of the name of i; both hold the same rare term. The more query terms only j holds, the larger is
the weight (`stores.references`). This helps if the answer is spread over two chunks and only one of them resembles the
query.

In a small store nearly all words are rare, and a reference tells little: its gain raises no score above
`SMALL_STORE_LIMIT`. The limit does not hold for a chunk that ranks first in both arms for a variation of the query,
such as one of its questions.
"""

from __future__ import annotations

import numpy as np

from umi_common.config import ReferencesConfig
from umi_common.pool import FIRST_RANK, Floats, Links, Pool, sums_by

MENTIONING = 0.5
"""Factor on mentioning(i)."""
POWER = 5
"""Exponent of before(i), so large that only the best few candidates count: of a candidate with half the best score, 3 %
of its weight counts."""

SMALL_STORE = 100
"""A store with fewer chunks is small."""
SMALL_STORE_LIMIT = 0.999
"""Largest score after a gain in a small store, as a share of the best score: just below 1, so that the best chunk stays
first unless a later stage raises another."""


def apply(pool: Pool, scores: Floats, settings: ReferencesConfig, facts: dict[str, object]) -> Floats:
    """(n,) `with_references` of the pool; `facts` gets the numbers of named candidates and of references."""
    facts["named"] = int(np.count_nonzero(pool.named))
    facts["references"] = 0 if pool.links is None else len(pool.links.source)
    limit = None
    if pool.background is not None and 0 < pool.background.count < SMALL_STORE:
        first_in_both = (pool.lexical_rank[1:] == FIRST_RANK) & (pool.dense_rank[1:] == FIRST_RANK)
        limit = np.where(first_in_both.any(axis=0), np.inf, SMALL_STORE_LIMIT)
    return with_references(scores, pool.named, pool.mentioning, pool.links, settings.share, limit)


def referring(pool: Pool, scores: Floats) -> dict[int, int]:
    """For each row to which candidates refer: the row of the candidate that adds most to its gain.

    Args:
        scores: (n,) scores after this stage, which stand for before(i) in the gain.
    """
    if pool.links is None:
        return {}
    gains = scores[pool.links.source] ** POWER * pool.links.weight
    rising = np.argsort(gains, kind="stable")  # the dict keeps the last source of each target, with the largest gain
    return dict(zip(pool.links.target[rising].tolist(), pool.links.source[rising].tolist(), strict=True))


def with_references(
    scores: Floats, named: Floats, mentioning: Floats, links: Links | None, share: float, limit: Floats | None = None
) -> Floats:
    """(n,) final(i) by the formula at the top of this file; the scores unchanged if none is above 0.

    Args:
        scores: (n,) scores after the stages before; a score below 0 counts as 0.
        named: (n,) 0..1, field of `Pool`; (0,): the query names no chunk.
        mentioning: (n,) 0..1, field of `Pool`; (0,): no chunk mentions a named one.
        links: References between candidates; None: there are none.
        share: Largest gain by a name, and largest gain by references; >= 0, as a share of the best score.
        limit: (n,) largest score after a gain by references, as a share of the best score; None: there is no limit.
    """
    best = float(scores.max(initial=0.0))
    if best <= 0:
        return np.array(scores)
    own = np.maximum(scores, 0.0) / best
    if named.any():
        above_named = own > own[named > 0].max(initial=0.0)
        own = own + share * (named + MENTIONING * mentioning * above_named if len(mentioning) else named)
    before = np.asarray(own / own.max(), dtype=np.float64)
    if links is None:
        return before
    gain = sums_by(links.target, before[links.source] ** POWER * links.weight, len(before))
    final = before + share * np.minimum(1.0, gain)
    final = final if limit is None else np.maximum(before, np.minimum(final, limit))
    return np.asarray(final / final.max(), dtype=np.float64)
