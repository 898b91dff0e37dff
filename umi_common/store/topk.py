"""The best k rows of a query, exactly: dynamic pruning in the manner of MaxScore over numpy arrays.

The best rows of the rarest terms are scored first; the k-th best of them is a threshold that every answer must reach.
The common terms that cannot reach it even together admit no rows: they are only looked up for the rows that the other
terms admit. Source: Turtle and Flood, Query evaluation: strategies and optimizations, IPM 1995.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from umi_common.pool import Floats, Ints
from umi_common.store.distinct import distinct
from umi_common.store.postings import Mask
from umi_common.store.scorer import QueryTerms, Scorer

IdOf = Callable[[int], str]
RanksOf = Callable[[], npt.NDArray[np.integer]]
TIED = 500
"""Rows tied at the k-th score from which the order of all ids is asked for; fewer are compared by their ids."""
PRUNING_PAYS = 30_000
"""Postings plus rows below which adding everything up is faster."""
SPARSE_SHARE = 64
"""Postings that are fewer than 1/64 of the rows are added up by sorting, more by an array over all rows."""
_SLACK = 1.0 + 1e-12
"""Bounds are sums too; rounding must never make one too small."""
_SMALLEST = 5e-324
"""The smallest number above 0: rows that none of the terms taken so far admits stay out."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Rows best first and their scores, > 0; ties by the smaller id."""

    rows: Ints
    scores: Floats
    every: Floats | None = None
    """By row, unweighted, where the search has worked out the score of every living row; None: it has not."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What a search is held to beside its query."""

    k: int
    mask: Mask | None
    """By row: alive and allowed; None: all."""
    weights: Floats | None
    """By row, >= 0, times the score; None: 1."""
    weight_max: float
    id_of: IdOf
    ranks_of: RanksOf | None = None
    """Gives a number for each row in the order of the ids; None: ids are compared."""


def top_k(scorer: Scorer, query: QueryTerms, limits: Limits) -> Ranking:
    """The best rows of a query by the cheapest of three ways that give the same bits."""
    postings = sum(term.df for term, _ in query.terms)
    if not postings:
        return best(np.zeros(0, np.int64), np.zeros(0), limits)
    if limits.mask is not None and np.count_nonzero(limits.mask) * len(query.terms) * 2 < postings:
        rows = np.flatnonzero(limits.mask)
        return best(rows, scorer.score(query, rows), limits)
    if postings + scorer.corpus.rows < PRUNING_PAYS or query.terms[-1][0].idf < 0.0:
        return exhaustive(scorer, query, limits)
    return pruned(scorer, query, limits)


def exhaustive(scorer: Scorer, query: QueryTerms, limits: Limits) -> Ranking:
    """Every posting of every term: the definition that the other ways must equal."""
    rows, scores = _accumulated(scorer, query, len(query.terms))
    if query.floor:
        scores = np.where(scores > 0.0, scores + query.floor, 0.0)
    every = scores if rows is None else None
    if limits.mask is not None:
        scores = scores * (limits.mask if rows is None else limits.mask[rows])
    return replace(best(rows, scores, limits), every=every)


def pruned(scorer: Scorer, query: QueryTerms, limits: Limits) -> Ranking:
    """Only the postings that can matter. Needs every idf >= 0."""
    threshold = _threshold(scorer, query, limits)
    if threshold <= 0.0:
        return exhaustive(scorer, query, limits)
    split, rest = len(query.terms), query.floor
    while split > 1:
        term, repeats = query.terms[split - 1]
        more = rest + repeats * term.upper
        if more * limits.weight_max * _SLACK >= threshold:
            break
        split, rest = split - 1, more
    rows, scores = _accumulated(scorer, query, split)
    needed = max(threshold / (limits.weight_max * _SLACK) - rest * _SLACK, _SMALLEST)
    keep = np.flatnonzero(scores * _SLACK >= needed)
    rows, scores = keep if rows is None else rows[keep], scores[keep]
    if limits.mask is not None:
        keep = np.flatnonzero(limits.mask[rows])
        rows, scores = rows[keep], scores[keep]
    for term, repeats in query.terms[split:]:
        scores += repeats * scorer.lookup(term, rows)
    return best(rows, scores + query.floor, limits)


def best(rows: Ints | None, scores: Floats, limits: Limits) -> Ranking:
    """The best k of distinct rows (None: of all) under weighted scores > 0."""
    if limits.weights is not None:
        scores = scores * (limits.weights[: len(scores)] if rows is None else limits.weights[rows])
    above = np.flatnonzero(scores > 0.0)
    rows, scores = above if rows is None else rows[above], scores[above]
    if len(scores) > limits.k:
        least = float(np.partition(scores, len(scores) - limits.k)[len(scores) - limits.k])
        keep = np.flatnonzero(scores >= least)
        rows, scores = rows[keep], scores[keep]
        if len(rows) > limits.k:
            rows, scores = _without_tied(rows, scores, least, limits)
    ids = [limits.id_of(row) for row in rows.tolist()]
    order = [place for _, _, place in sorted(zip((-scores).tolist(), ids, range(len(ids)), strict=True))]
    return Ranking(rows[order], scores[order])


def _without_tied(rows: Ints, scores: Floats, least: float, limits: Limits) -> tuple[Ints, Floats]:
    """Of the rows tied at the k-th score, only those of the smallest ids that still fit."""
    surely = scores > least
    room, tied = limits.k - int(np.count_nonzero(surely)), np.flatnonzero(~surely)
    if len(tied) > TIED and limits.ranks_of is not None:
        chosen = tied[np.argpartition(limits.ranks_of()[rows[tied]], room - 1)[:room]]
    else:
        chosen = np.array(heapq.nsmallest(room, tied.tolist(), key=lambda place: limits.id_of(int(rows[place]))))
    surely[chosen] = True
    return rows[surely], scores[surely]


def _threshold(scorer: Scorer, query: QueryTerms, limits: Limits) -> float:
    """A weighted score that k rows are known to reach; 0 if not so many were tried."""
    wanted, tried = 2 * limits.k, 0
    lists = []
    for term, _ in query.terms:
        lists.append(scorer.champions(term, wanted))
        tried += len(lists[-1])
        if tried >= wanted:
            break
    rows = lists[0] if len(lists) == 1 else distinct(np.concatenate(lists))
    if limits.mask is not None:
        rows = rows[limits.mask[rows]]
    if len(rows) < limits.k:
        return 0.0
    scores = scorer.score(query, rows)
    if limits.weights is not None:
        scores *= limits.weights[rows]
    return float(np.partition(scores, len(scores) - limits.k)[len(scores) - limits.k])


def _accumulated(scorer: Scorer, query: QueryTerms, split: int) -> tuple[Ints | None, Floats]:
    """(rows rising or None: all, the sum of the first terms' impacts), added up in the order of the terms."""
    lists = []
    for term, repeats in query.terms[:split]:
        rows, worth = scorer.impacts(term)
        lists.append((rows, worth if repeats == 1 else repeats * worth))
    if len(lists) == 1:
        return lists[0]
    if SPARSE_SHARE * sum(len(rows) for rows, _ in lists) < scorer.corpus.rows:
        rows, place = np.unique(np.concatenate([rows for rows, _ in lists]), return_inverse=True)
        return rows, np.bincount(place, np.concatenate([worth for _, worth in lists])).astype(np.float64, copy=False)
    scores = np.zeros(scorer.corpus.rows, np.float64)
    for rows, worth in lists:
        np.add.at(scores, rows, worth)
    return None, scores
