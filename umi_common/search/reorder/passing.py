"""Move candidates forward past those before them, without new scores; shared by several stages of `reorder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from umi_common.search.rank import RankedPool


def order_after_passing(count: int, passes: Callable[[int, int], bool]) -> list[int]:
    """The indices 0 to count - 1 in their new order: each in turn moves forward, up to the first that it does not pass.

    Args:
        passes: Whether the candidate of the first index passes that of the second, which stands directly before it.
    """
    order: list[int] = []
    for new in range(count):
        at = len(order)
        while at and passes(new, order[at - 1]):
            at -= 1
        order.insert(at, new)
    return order


def in_order(ranked: RankedPool, order: Sequence[int], stage: str) -> RankedPool:
    """The ranking with its first k rows in a new order; their scores are given to them anew, in falling order.

    Args:
        order: k indices of these rows, in their new order.
        stage: Name in `Hit.stages`.
    """
    if list(order) == sorted(order):
        return ranked
    first = ranked.order[: len(order)]
    rows = first[list(order)]
    changed = np.array(ranked.scores)
    changed[rows] = ranked.scores[first]
    return replace(
        ranked,
        order=np.concatenate([rows, ranked.order[len(order) :]]),
        scores=changed,
        stages={**ranked.stages, stage: changed},
    )
