"""BM25 over whole sources: every source's live rows as one document, with statistics over sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.store.bm25 import Weighting, mean_okapi_idf
from umi_common.store.scorer import QueryTerms, Scorer
from umi_common.store.terms import SourceImpacts, Term, all_postings


@dataclass(eq=False)
class SourceScorer:
    """Like `Scorer`, a level up; rows without a source take no part."""

    scorer: Scorer

    @cached_property
    def weighting(self) -> Weighting:
        """Over the sources that have a live row."""
        corpus = self.scorer.corpus
        count = int(np.count_nonzero(corpus.source_documents))
        total = int(corpus.source_lengths.sum())
        average = total / count if total else 1.0
        return Weighting(self.scorer.config, count, average, lambda: mean_okapi_idf(count, corpus.source_frequencies()))

    @cached_property
    def norms(self) -> Floats:
        """By source code."""
        return self.weighting.norms(self.scorer.corpus.source_lengths)

    def score(self, query: QueryTerms, sources: Ints) -> tuple[Floats, float]:
        """(score of each source code asked for, the largest any source could reach); 0 for NO_SOURCE."""
        every = np.zeros(len(self.norms) + 1, np.float64)  # the last is that of NO_SOURCE
        bound = floor = 0.0
        for found, repeats in zip(self._impacts(query.terms), query.repeats, strict=True):
            every[found.codes] += found.worth if repeats == 1 else repeats * found.worth
            bound += repeats * found.upper
            floor += repeats * found.idf
        floor *= self.weighting.floor
        if floor:
            every[every > 0.0] += floor
        return every.take(sources), bound + floor

    def _impacts(self, terms: Sequence[Term]) -> list[SourceImpacts]:
        """What each term is worth in the sources that hold it."""
        new = [term for term in terms if term.of_sources is None]
        if new:
            for term, found in zip(new, self._worked_out(new), strict=True):
                term.of_sources = found
                self.scorer.remembers(len(found.codes))
        return [term.of_sources for term in terms if term.of_sources is not None]

    def _worked_out(self, terms: Sequence[Term]) -> list[SourceImpacts]:
        """In one pass over all their postings."""
        corpus, width = self.scorer.corpus, len(self.norms) + 1
        rows, tf, ends = all_postings(terms)
        if corpus.documents < corpus.rows:
            tf *= corpus.alive.take(rows)
        place = corpus.sources.take(rows) + 1  # the first is that of NO_SOURCE
        start = ends[0]
        for which, stop in enumerate(ends[1:], 1):
            place[start:stop] += which * width
            start = stop
        totals = np.bincount(place, tf, len(terms) * width)
        totals[::width] = 0.0
        held = totals.nonzero()[0]
        codes = held % width - 1
        worth = self.weighting.gains(totals.take(held), self.norms.take(codes))
        found, edges = [], held.searchsorted(np.arange(len(terms) + 1) * width).tolist()
        for start, stop in pairwise(edges):
            found.append(self._of_one(codes[start:stop], worth[start:stop]))
        return found

    def _of_one(self, codes: Ints, gains: Floats) -> SourceImpacts:
        if not len(codes):
            return SourceImpacts(codes, gains, 0.0, 0.0)
        idf = self.weighting.idf(len(codes))
        worth = idf * gains
        return SourceImpacts(codes, worth, idf, max(0.0, float(worth.max())))
