"""Sums by row over a few lists of postings, in arrays that are made once and left as they were found: all 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from umi_common.pool import Floats
from umi_common.stores.lexical.terms import Impacts


@dataclass(eq=False, slots=True)
class Totals:
    """For one number of rows. A sum costs what the lists hold, however many rows there are. Thread-safe."""

    rows: int
    _spare: list[Floats] = field(default_factory=list)
    """As many as have been in use at once."""

    def summed(self, lists: Sequence[Impacts]) -> Impacts:
        """The rows of all lists in their order, and each row's sum at its first place; at later ones 0."""
        totals = self._taken()
        for rows, worth in lists:
            np.add.at(totals, rows, worth)
        sums = []
        for rows, _ in lists:
            sums.append(totals.take(rows))
            totals[rows] = 0.0
        self._spare.append(totals)
        if len(lists) == 1:
            return lists[0][0], sums[0]
        return np.concatenate([rows for rows, _ in lists]), np.concatenate(sums)

    def _taken(self) -> Floats:
        try:
            return self._spare.pop()
        except IndexError:
            return np.zeros(self.rows, np.float64)
