"""The best candidates of one search, and the ways in which a stage of `reorder` puts them into a new order.

In: a `RankedPool` and the chunks of its first rows. Out: a `RankedPool` in which these rows may stand in another order.
`sorted_by` sorts them by new scores, `in_order` takes an order, such as that of the insertion sort `inserted`, and
`put_beside` moves rows up behind or before others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from umi_common.pool import Floats, Ints, Pool, best_first
from umi_common.search.rank import RankedPool
from umi_common.types import Chunk

CANDIDATES = 50
"""Number of best candidates that most stages read."""
FAR_CANDIDATES = 200
"""Number of best candidates of stages that look for numbers or quotations of the query, which a text may hold although
its score is low."""
BEHIND = 0.99
"""See `Best.put_beside`; near 1, so that other candidates rarely come between the two."""
BEFORE = 2.0 - BEHIND
"""The same for a candidate that comes before the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best k candidates of a ranking, sorted by row. An index of a candidate is its index in `rows`."""

    stage: str
    """Name of the stage in `Hit.stages` and in the trace."""
    pool: Pool
    ranked: RankedPool
    """The ranking before the stage."""
    rows: Ints
    """(k,) the first k rows of `ranked.order`, rising."""
    chunks: list[Chunk]
    """Chunk of each row."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The facts of the stage, for the trace."""

    @property
    def texts(self) -> list[str]:
        """The indexed text of each row."""
        return [chunk.search_text or chunk.text for chunk in self.chunks]

    @property
    def scores(self) -> Floats:
        """(k,) a copy of the rows' scores."""
        return self.ranked.scores[self.rows]

    @property
    def order(self) -> list[int]:
        """The indices of all candidates, best first."""
        return self.indices_of(self.ranked.order[: len(self.rows)])

    def indices_of(self, rows: Ints) -> list[int]:
        """The index of each of some rows that are among `rows`."""
        indices: list[int] = np.searchsorted(self.rows, rows).tolist()
        return indices

    def sorted_by(self, scores: Floats) -> RankedPool:
        """The ranking with these candidates sorted by new scores (k,).

        All scores are then multiplied by one factor, so that the largest score stays the same.
        """
        ranked, changed = self.ranked, np.array(self.ranked.scores)
        changed[self.rows] = scores
        if changed.max(initial=0.0) > 0:
            changed *= ranked.scores.max() / changed.max()
        return self._changed(self.rows[best_first(changed[self.rows])], changed)

    def in_order(self, order: Sequence[int]) -> RankedPool:
        """The ranking with these candidates in another order; the i-th of them gets the score of the former i-th.

        Args:
            order: The indices of all candidates, best first.
        """
        first = self.ranked.order[: len(self.rows)]
        rows = self.rows[list(order)]
        if rows.tolist() == first.tolist():
            return self.ranked
        changed = np.array(self.ranked.scores)
        changed[rows] = self.ranked.scores[first]
        return self._changed(rows, changed)

    def put_beside(self, pairs: Iterable[tuple[int, int]], before: Set[int] = frozenset()) -> RankedPool:
        """The ranking with b moved up behind a, for each pair (a, b): it is sorted as if the score of b were
        max(score(b), `BEHIND` * score(a) + (1 - `BEHIND`) * score(b)). The i-th candidate then gets the score of the
        former i-th. The relevance of b is raised to that of a, if it is smaller.

        Args:
            pairs: Indices of candidates.
            before: Those b that are moved up before a: their scores have `BEFORE` in place of `BEHIND`.
        """
        former, relevance = self.scores, self.ranked.relevance
        scores = np.array(former)
        relevance = None if relevance is None else np.array(relevance)
        for one, moved in pairs:
            share = BEFORE if moved in before else BEHIND
            scores[moved] = max(scores[moved], share * former[one] + (1.0 - share) * former[moved])
            if relevance is not None:
                row = self.rows[moved]
                relevance[row] = max(relevance[row], relevance[self.rows[one]])
        raised = scores > former
        self.facts["raised"] = int(raised.sum())
        order = inserted(self.order, lambda one, other: bool(raised[one] and scores[one] > scores[other]))
        return replace(self.in_order(order), relevance=relevance)

    def _changed(self, rows: Ints, scores: Floats) -> RankedPool:
        """The ranking with its first k rows in the order of `rows`, and with new scores (n,)."""
        order = np.concatenate([rows, self.ranked.order[len(rows) :]])
        return replace(self.ranked, order=order, scores=scores, stages={**self.ranked.stages, self.stage: scores})


def inserted(order: Iterable[int], passes: Callable[[int, int], bool]) -> list[int]:
    """An order after an insertion sort: from the first to the last, each moves forward as long as it passes the one
    directly before it.

    Args:
        passes: (a, b) -> whether a passes b.
    """
    after: list[int] = []
    for new in order:
        at = len(after)
        while at and passes(new, after[at - 1]):
            at -= 1
        after.insert(at, new)
    return after
