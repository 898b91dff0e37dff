"""The order of rows by their scores."""

from __future__ import annotations

import numpy as np

from umi_common.pool import Floats, Ints


def best_first(scores: Floats) -> Ints:
    """(n,) rows by falling score, ties to the smaller row: a stable argsort of -scores, which must not be NaN.

    A sort that need not be stable compares many numbers at once and takes half the time.
    """
    order = np.argsort(-scores)
    falling = scores[order]
    tied = bool((falling[1:] == falling[:-1]).any())
    return np.argsort(-scores, kind="stable") if tied else order
