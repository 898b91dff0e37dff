"""The best k rows of a query, exactly: dynamic pruning by MaxScore, over numpy arrays.

`query.terms` are sorted by falling weight * idf. The postings of the first terms, which can add most to a score, are
summed, until a row that holds only the remaining terms cannot reach the k-th best sum. The remaining terms are then
looked up only in the rows that hold one of the first terms. The variant "plus" adds `query.floor` to the score of each
row that holds a term; it is 0 for the others. Source: Turtle and Flood, Query evaluation: strategies and optimizations,
IPM 1995.

For "what is the zeppelin" with three chunks about zeppelins and k = 10, "zeppelin" alone gives no k-th best sum, and
the many postings of "what", "is" and "the" would be read. An upper bound of the score is then computed for every row,
and only rows with a sufficient bound are scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umi_common.pool import Floats, Ints
from umi_common.stores.arrays import IdOf, at_most_kth, best_rows, kth
from umi_common.stores.lexical.bm25 import Impacts, QueryTerms, RowScorer
from umi_common.stores.rows.rows import Mask

PRUNING_PAYS = 60_000
"""Smallest number of postings plus rows for which pruning is faster than summing all postings."""
READ_AT_ONCE = 8_192
"""Largest number of postings that are summed before the first threshold is computed. The postings of the first term are
always summed."""
BOUNDS_PAY = 4
"""Upper bounds of all rows are computed if more postings would be read than the number of rows divided by this."""
_SLACK = 1.0 + 1e-12
"""Factor on upper bounds, and divisor of lower bounds, that are compared with a score: sums in another order differ by
rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class LexicalHits:
    """Rows, best first, and their scores, > 0; ties by the smaller id."""

    rows: Ints
    scores: Floats
    query: QueryTerms
    """The query's terms as the search has looked them up; `LexicalIndex.score` uses them again."""
    all_scores: Floats | None = None
    """(rows,) score of every row, without weights; None: the search did not compute the scores of all rows."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(slots=True, eq=False)
class SearchLimits:
    """How many rows a search returns, which rows may be returned, and how rows are weighted and ordered."""

    k: int
    mask: Mask | None
    """(rows,) whether each row is alive and allowed; None: all are."""
    weights: Floats | None
    """(rows,) factor on the score of each row, >= 0; None: 1."""
    id_of: IdOf

    def factors(self, rows: Ints) -> Floats | Mask | None:
        """Factor on the score of each of `rows`: its weight, or 0 if the mask excludes it; None: all are 1."""
        if self.mask is None:
            return None if self.weights is None else self.weights.take(rows)
        allowed = self.mask.take(rows)
        return allowed if self.weights is None else self.weights.take(rows) * allowed

    def weighted(self, rows: Ints, scores: Floats) -> Floats:
        """Scores of rows times their factors."""
        return _multiplied(scores, self.factors(rows))


def top_k(scorer: RowScorer, query: QueryTerms, limits: SearchLimits) -> LexicalHits:
    """The best rows of a query, by the fastest of several methods, which all give the same scores, to the last bit."""
    terms = query.terms
    postings = sum([term.df for term in terms])
    if not postings:
        return LexicalHits(np.zeros(0, np.int64), np.zeros(0), query)
    if limits.mask is not None and np.count_nonzero(limits.mask) * len(terms) * 2 < postings:
        rows = limits.mask.nonzero()[0]
        return _hits(query, limits, rows, scorer.score(query, rows))
    if postings + scorer.corpus.rows < PRUNING_PAYS or terms[-1].idf < 0.0:
        return exhaustive(scorer, query, limits)
    return pruned(scorer, query, limits)


def exhaustive(scorer: RowScorer, query: QueryTerms, limits: SearchLimits) -> LexicalHits:
    """The best rows by the scores of all rows; the other methods must give the same result."""
    rows, worth = map(np.concatenate, zip(*_impacts(scorer, query, len(query.terms)), strict=True))
    scores: Floats = np.bincount(rows, worth, scorer.corpus.rows)  # type: ignore[assignment]
    scores = _with_floor(scores, query.floor)
    rows = (scores > 0.0).nonzero()[0]
    return _hits(query, limits, rows, scores.take(rows), scores)


def pruned(scorer: RowScorer, query: QueryTerms, limits: SearchLimits) -> LexicalHits:
    """The best rows by MaxScore; see the module. Every idf must be >= 0."""
    terms, rest = query.terms, _rest_bounds(scorer, query)  # rest[i]: the most that terms[i:] add to a score
    largest_weight = _SLACK if limits.weights is None else _SLACK * float(limits.weights.max(initial=0.0))
    taken = max(1, int(np.cumsum([term.df for term in terms]).searchsorted(READ_AT_ONCE, "right")))
    while True:
        read = sum([term.df for term in terms[:taken]])
        if read * BOUNDS_PAY > scorer.corpus.rows and scorer.weighting.ceiling < math.inf:
            return bounded(scorer, query, limits)
        rows, sums = _summed(_impacts(scorer, query, taken), scorer.corpus.rows)
        factors = limits.factors(rows)
        # At least k rows score this or more (0: fewer were found). Terms are taken until a row without them cannot.
        least = kth(_multiplied(_with_floor(sums, query.floor), factors), limits.k) / _SLACK
        more = next((i for i in range(taken, len(terms)) if rest[i] * largest_weight < least), len(terms))
        if more == taken:
            break
        taken = more
    keep = (_multiplied(sums + rest[taken], factors) * _SLACK >= least).nonzero()[0]
    keep = keep[sums[keep] > 0.0]  # drops repetitions of a row, whose sums are 0, see `_summed`
    rows, sums = rows[keep], sums[keep]
    if taken < len(terms):
        order = rows.argsort()
        rows, sums = rows[order], sums[order]
        scorer.add_looked_up(query, taken, rows, sums)
    return _hits(query, limits, rows, _with_floor(sums, query.floor))


def bounded(scorer: RowScorer, query: QueryTerms, limits: SearchLimits) -> LexicalHits:
    """The best rows by upper bounds: only rows whose bound reaches a threshold are scored.

    The rows with the best bounds, at least k, are scored first; the threshold is the k-th best of their scores. Every
    idf must be >= 0, and `scorer.weighting.ceiling` finite.
    """
    bounds: npt.NDArray[np.floating] = scorer.row_bounds(query)
    if limits.mask is not None:
        bounds *= limits.mask
    if limits.weights is not None:
        bounds = bounds * limits.weights  # as float64: a weight may be too small for float32
    least = at_most_kth(bounds, limits.k)
    for _ in range(2):
        rows = (bounds >= least if least > 0.0 else bounds > 0.0).nonzero()[0]
        scores = scorer.score(query, rows)
        least = kth(limits.weighted(rows, scores), limits.k)
    return _hits(query, limits, rows, scores)


def _summed(lists: Sequence[Impacts], count: int) -> Impacts:
    """(the rows of all lists, list after list; for each of them its total, or 0 if the row occurred before).

    Args:
        count: Number of rows of the index.
    """
    totals = np.zeros(count, np.float64)
    for rows, worth in lists:
        np.add.at(totals, rows, worth)
    sums = []
    for rows, _ in lists:
        sums.append(totals.take(rows))
        totals[rows] = 0.0
    return np.concatenate([rows for rows, _ in lists]), np.concatenate(sums)


def _multiplied(scores: Floats, factors: Floats | Mask | None) -> Floats:
    return scores if factors is None else scores * factors


def _with_floor(scores: Floats, floor: float) -> Floats:
    """The scores, with the floor added to those above 0."""
    return np.where(scores > 0.0, scores + floor, 0.0) if floor else scores


def _hits(
    query: QueryTerms, limits: SearchLimits, rows: Ints, scores: Floats, all_scores: Floats | None = None
) -> LexicalHits:
    """The best k of distinct rows by their weighted scores."""
    best = best_rows(rows, limits.weighted(rows, scores), limits.k, limits.id_of, above=0.0)
    return LexicalHits(*best, query, all_scores)


def _rest_bounds(scorer: RowScorer, query: QueryTerms) -> list[float]:
    """Item i is an upper bound of what terms[i:] and the floor add to the score of a row."""
    rest = [query.floor]
    for term, weight in zip(reversed(query.terms), reversed(query.weights), strict=True):
        rest.append(rest[-1] + weight * scorer.ceiling(term))
    return rest[::-1]


def _impacts(scorer: RowScorer, query: QueryTerms, count: int) -> list[Impacts]:
    """Impacts of the first `count` terms, each times the term's weight."""
    found = zip(scorer.impacts(query.terms[:count]), query.weights, strict=False)
    return [(rows, worth if weight == 1 else weight * worth) for (rows, worth), weight in found]
