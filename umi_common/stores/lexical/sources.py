"""BM25 over whole sources: the living rows of a source as one document, with statistics over sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.stores.arrays import beginnings
from umi_common.stores.lexical.bm25 import (
    Numbers,
    QueryTerms,
    RowScorer,
    SourceImpacts,
    Term,
    Weighting,
    all_postings,
    mean_okapi_idf,
)

BINS = 4
"""Largest number of (term, source) pairs per posting for which an array with a sum for each pair is faster than sorting
the postings."""


@dataclass(eq=False)
class SourceScorer:
    """BM25 of the sources of one corpus; rows without a source are left out. Thread-safe as `RowScorer`."""

    row_scorer: RowScorer

    @cached_property
    def weighting(self) -> Weighting:
        """The BM25 formula with the statistics of the sources that have a living row."""
        corpus = self.row_scorer.corpus
        count = int(np.count_nonzero(corpus.source_documents))
        total = int(corpus.source_lengths.sum())
        average = total / count if total else 1.0
        return Weighting(
            self.row_scorer.config, count, average, lambda: mean_okapi_idf(count, corpus.source_frequencies())
        )

    @cached_property
    def norms(self) -> Floats:
        """Length normalisation by source code."""
        return self.weighting.norms(self.row_scorer.corpus.source_lengths)

    def score(self, query: QueryTerms, sources: Ints) -> tuple[Floats, float]:
        """(score of each source code, 0 for NO_SOURCE; an upper bound of the scores of all sources)"""
        if not len(self.row_scorer.corpus.source_documents):  # no row has a source
            return np.zeros(len(sources), np.float64), 0.0
        impacts = self._impacts(query.terms)
        scores = _looked_up(impacts, query.weights, sources)
        pairs = list(zip(impacts, query.weights, strict=True))
        bound = sum([weight * found.upper for found, weight in pairs])
        floor = self.weighting.floor
        if floor:
            floor *= sum([weight * found.idf for found, weight in pairs])
            scores[scores > 0.0] += floor
        return scores, bound + floor

    def _impacts(self, terms: Sequence[Term]) -> list[SourceImpacts]:
        """The impacts of each term; those not cached are computed together."""
        new = [term for term in terms if term.source_impacts is None]
        if new:
            self._compute(new)
        return [term.source_impacts for term in terms if term.source_impacts is not None]

    def _compute(self, terms: Sequence[Term]) -> None:
        """Set `source_impacts` of each term, in one pass over all postings of the terms."""
        corpus, width = self.row_scorer.corpus, len(self.norms)
        rows, tf, ends = all_postings(terms)
        if corpus.documents < corpus.rows:
            tf *= corpus.alive.take(rows)
        sizes = [stop - start for start, stop in pairwise([0, *ends])]
        starts, codes, counts = _summed_by_source(sizes, corpus.sources.take(rows), tf, width)
        gains = self.weighting.gains(counts, self.norms.take(codes))
        self.row_scorer.reserve(len(codes))
        for term, (start, stop) in zip(terms, pairwise(starts.tolist()), strict=True):
            idf = self.weighting.idf(stop - start) if stop > start else 0.0
            worth = idf * gains[start:stop]
            term.source_impacts = SourceImpacts(codes[start:stop], worth, idf, float(worth.max(initial=0.0)))


def _looked_up(impacts: Sequence[SourceImpacts], weights: Sequence[float], sources: Ints) -> Floats:
    """Score of each of `sources`, by binary search; 0 for NO_SOURCE."""
    scores = np.zeros(len(sources), np.float64)
    for found, weight in zip(impacts, weights, strict=True):
        if len(found.codes):
            at = found.codes.searchsorted(sources)
            worth = weight * found.worth.take(at, mode="clip")
            worth *= found.codes.take(at, mode="clip") == sources
            scores += worth
    return scores


def _summed_by_source(sizes: Sequence[int], sources: Ints, tf: Floats, width: int) -> tuple[Ints, Ints, Numbers]:
    """Sum the postings of each term by source.

    Args:
        sizes: (T,) number of postings of each term; the postings of all terms follow one another.
        sources: Source code of each posting's row; a posting with NO_SOURCE is left out.
        tf: Occurrences of the term in each posting's row; a posting with 0 is left out.
        width: Larger than every source code.

    Returns:
        (starts, source codes, occurrences): starts[i]:starts[i + 1] are the entries of term i, by rising code.
    """
    stride = width + 1  # each term's first bin is that of NO_SOURCE
    bins = stride * len(sizes)
    firsts = np.arange(len(sizes) + 1) * stride + 1
    pairs = firsts[:-1].repeat(sizes)
    pairs += sources
    counts: Numbers
    if bins <= BINS * len(pairs):
        totals = np.bincount(pairs, tf, bins)
        totals[::stride] = 0.0
        held = totals.nonzero()[0]
        counts = totals.take(held)
    else:
        held, counts = _summed_by_number(pairs, tf)
        keep = (held % stride > 0) & (counts > 0.0)
        if not keep.all():
            held, counts = held[keep], counts[keep]
    starts = held.searchsorted(firsts)
    return starts, held - firsts[:-1].repeat(starts[1:] - starts[:-1]), counts


def _summed_by_number(numbers: Ints, tf: Floats) -> tuple[Ints, Floats]:
    """The distinct numbers, rising, and the sum of `tf` of each."""
    if (numbers[1:] < numbers[:-1]).any():
        order = numbers.argsort()
        numbers, tf = numbers.take(order), tf.take(order)
    begins = beginnings(numbers).nonzero()[0]
    if not len(begins):
        return numbers, np.zeros(0, np.float64)
    return numbers.take(begins), np.add.reduceat(tf, begins, dtype=np.float64)
