"""The order of all ids as numbers, so that thousands of equal scores are sorted by integers and not by strings."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints

Ranks = npt.NDArray[np.int32]
RANKED_UP_TO = 200_000
"""Rows up to which all ids are sorted as soon as that pays; with more, sorting would delay one search too long."""
MANY = 10_000
"""Ids compared in one search from which all ids are sorted in any case, since each such search is slow."""
RESORTED_FROM = 100
"""New ids from which all are sorted again; fewer are inserted one by one."""


class IdOrder:
    """Ranks of the ids by row, computed when first needed and extended as rows are appended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: Sequence[str] = ()
        self._ordered: Ranks = np.zeros(0, dtype=np.int32)
        self._ranks: Ranks = self._ordered
        self._compared = 0

    def ranks(self, ids: Sequence[str], count: int) -> Ranks:
        """(at least count,) the rank of each row's id; equal ids have adjacent ranks in any order.

        Args:
            ids: By row; append-only. Another list discards the ranks.
            count: Number of rows of the snapshot; `ids` may be longer.
        """
        with self._lock:
            if ids is not self._ids:
                self._ids, self._ordered = ids, self._ordered[:0]
            known = len(self._ordered)
            if known < count:
                self._ordered = self._resorted(count) if count - known > RESORTED_FROM else self._with(known, count)
                self._ranks = np.empty(count, dtype=np.int32)
                self._ranks[self._ordered] = np.arange(count, dtype=np.int32)
            return self._ranks

    def ranks_for(self, compared: int, ids: Sequence[str], count: int) -> Ranks | None:
        """`ranks` if they are known or pay; None: compare the ids themselves.

        Ids are compared until as many were compared as there are rows. Then all are sorted, which takes as long again
        and makes later calls ten times as fast.

        Args:
            compared: Ids that would have to be compared now.
            ids, count: As for `ranks`.
        """
        if ids is not self._ids or len(self._ordered) < count:
            self._compared += compared
            if self._compared < count or (count > RANKED_UP_TO and compared < MANY):
                return None
        self._compared = 0
        return self.ranks(ids, count)

    def in_order(self, ids: Sequence[str], count: int, rows: Ints) -> Ints:
        """Some rows, all below count, in the order of their ids."""
        ranks = self.ranks_for(len(rows), ids, count)
        if ranks is None:
            return np.array(sorted(rows.tolist(), key=ids.__getitem__), dtype=np.int64)
        return rows[np.argsort(ranks[rows])]

    def _resorted(self, count: int) -> Ranks:
        return np.array(sorted(range(count), key=self._ids.__getitem__), dtype=np.int32)

    def _with(self, known: int, count: int) -> Ranks:
        name = self._ids.__getitem__
        new = sorted(range(known, count), key=name)
        return np.insert(self._ordered, [bisect_left(self._ordered, name(row), key=name) for row in new], new)
