"""Stage: a chunk gains from the best candidates that refer to it and leave out what it says. Pure.

    e(i) = score(i) / max                            the chunk's own score
    gain(j) = sum over references i -> j of e(i)^5 * weight(i, j)
    final(j) = e(j) + share * min(1, gain(j))

A reference is a name that one of both texts mentions, or a rare term that both hold, and its weight is larger the more
of the query j holds and i lacks (`stores.references.find`). So a question whose answer stands in one chunk changes
nothing, and one that takes two steps finds the second. Measured in docs/decisions.md.
"""

from __future__ import annotations

import numpy as np

from umi_common.config import ReferencesConfig
from umi_common.pool import Floats, Links, Pool

POWER = 5
"""With it only the best few candidates pass anything on: at half the best score 3 %."""


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
        links: Between rows below n.
        share: Most that a chunk gains, in shares of the best score, >= 0.
    """
    own = np.maximum(scores, 0.0)
    best = float(own.max(initial=0.0))
    if best <= 0:
        return np.array(scores)
    own = own / best
    gain = np.bincount(links.target, weights=own[links.source] ** POWER * links.weight, minlength=len(own))
    final = own + share * np.minimum(1.0, gain)
    return np.asarray(final / final.max(), dtype=np.float64)
