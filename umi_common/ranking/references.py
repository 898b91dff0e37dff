"""Stage: a chunk gains if a good candidate refers to it and lacks query terms that the chunk holds. Pure.

    e(i) = score(i) / max                            the chunk's own score
    gain(j) = sum over references i -> j of e(i)^5 * weight(i, j)
    final(j) = e(j) + share * min(1, gain(j))

i refers to j if one of the two texts mentions a name of the other, or both hold a rare term. The more query terms j
holds and i lacks, the larger is the weight (`stores.references`). A candidate that holds all query terms
gives no chunk a gain. This helps if the answer is spread over two chunks and only one of them resembles the query.
Measured in docs/decisions.md.
"""

from __future__ import annotations

import numpy as np

from umi_common.config import ReferencesConfig
from umi_common.pool import Floats, Links, Pool

POWER = 5
"""So large that only the best few candidates count: one with half the best score gives 3 % of its weight."""


def apply(pool: Pool, scores: Floats, settings: ReferencesConfig, facts: dict[str, object]) -> Floats:
    """(n,) scores with the gain of `with_references`; the number of references goes into `facts`."""
    if pool.links is None:
        return scores
    facts["references"] = len(pool.links.source)
    return with_references(scores, pool.links, settings.share)


def with_references(scores: Floats, links: Links, share: float) -> Floats:
    """(n,) scores by the formula at the top of this file, divided by their best.

    Args:
        scores: (n,) of the stages before; below 0 counts as 0.
        links: References between candidates, as row numbers 0..n-1, with their weights.
        share: Upper bound of a chunk's gain, as a share of the best score, >= 0.
    """
    own = np.maximum(scores, 0.0)
    best = float(own.max(initial=0.0))
    if best <= 0:
        return np.array(scores)
    own = own / best
    gain = np.bincount(links.target, weights=own[links.source] ** POWER * links.weight, minlength=len(own))
    final = own + share * np.minimum(1.0, gain)
    return np.asarray(final / final.max(), dtype=np.float64)
