"""Small pools with given scores."""

from __future__ import annotations

import numpy as np

from umi_common.pool import Pool, ranked


def pool_of(*, lexical, dense, bound, mode="hybrid") -> Pool:
    """A pool of chunks of 10 terms with these scores. Each arm ranks the rows with a score above 0."""
    words, meaning = np.array(lexical, dtype=np.float64), np.array(dense, dtype=np.float64)
    variations, n = words.shape
    return Pool.of(
        [f"c{row:03d}" for row in range(n)],
        lexical=words,
        dense=meaning,
        lexical_bound=np.array(bound, dtype=np.float64),
        coverage=np.ones(variations),
        dense_rank=ranked(meaning, meaning > 0),
        length=np.full(n, 10),
        mode=mode,
    )
