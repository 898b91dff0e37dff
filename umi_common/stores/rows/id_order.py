"""The order of all ids as numbers, so that thousands of equal scores are settled by an array and not by strings."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umi_common.pool import Ints

Ranks = npt.NDArray[np.int32]
RANKED_UP_TO = 200_000
"""Rows up to which all ids are ranked as soon as that pays; for more it would hold a search up too long."""
MANY = 10_000
"""Unless so many would have to be compared in one search, which holds each such search up."""
RESORTED_FROM = 100
"""New ids at which all are sorted afresh; fewer are put in one by one."""


class IdOrder:
    """Ranks of the ids by row, worked out when first asked for and carried on as rows are appended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: Sequence[str] = ()
        self._ordered: Ranks = np.zeros(0, dtype=np.int32)
        self._ranks: Ranks = self._ordered
        self._compared = 0

    def ranks(self, ids: Sequence[str], count: int) -> Ranks:
        """(count or more,) a number for each row, in the order of the ids; rows of one id in any order.

        Args:
            ids: By row; only ever appended to. Another list starts afresh.
            count: Rows of this moment; what lies beyond belongs to later ones and does no harm.
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
        """`ranks` where they are known or pay; None: the ids are to be compared.

        As many are compared as there are rows; then all are ranked, which costs as much again and makes every later
        call ten times as fast.

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
