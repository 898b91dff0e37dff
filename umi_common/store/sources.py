"""BM25 over whole sources: every source's live rows as one document, with statistics over sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from umi_common.pool import NO_SOURCE, Floats, Ints
from umi_common.store.bm25 import Weighting, mean_okapi_idf
from umi_common.store.scorer import QueryTerms, Scorer
from umi_common.store.terms import Term


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
        scores = np.zeros(len(sources), np.float64)
        matched = np.zeros(len(sources), np.bool_)
        bound = floor = 0.0
        for term, repeats in query.terms:
            codes, tf = self._tf(term)
            if not len(codes):
                continue
            idf = self.weighting.idf(len(codes)) * repeats
            worth = idf * self.weighting.gains(tf, self.norms[codes])
            floor += self.weighting.floor * idf
            bound += max(float(worth.max()), 0.0)
            at = codes.searchsorted(sources)
            at[at == len(codes)] = 0
            held = codes[at] == sources
            scores[held] += worth[at[held]]
            matched |= held
        scores[matched] += floor
        return scores, bound + floor

    def _tf(self, term: Term) -> tuple[Ints, Floats]:
        """(source codes rising, the term's occurrences in each)."""
        if term.source_tf is None:
            corpus, width = self.scorer.corpus, len(self.scorer.corpus.source_documents)
            totals = np.zeros(width, np.float64)
            for part, place in term.places:
                rows, tf = corpus.live_postings(part, place)
                source = corpus.sources[rows]
                owned = source != NO_SOURCE
                totals += np.bincount(source[owned], weights=tf[owned], minlength=width)
            codes = np.flatnonzero(totals)
            found = codes, totals[codes]
            if self.scorer.remembers(len(codes)):
                term.source_tf = found
            return found
        return term.source_tf
