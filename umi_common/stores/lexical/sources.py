"""BM25 over whole sources: every source's live rows as one document, with statistics over sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from umi_common.pool import Floats, Ints
from umi_common.stores.lexical.bm25 import Weighting, mean_okapi_idf
from umi_common.stores.lexical.scorer import QueryTerms, Scorer
from umi_common.stores.lexical.terms import SourceImpacts, Term, all_postings
from umi_common.stores.lexical.unpacked import UnpackedSources, in_sources

SOURCES_ADDED_UP = 65_536
"""Sources up to which adding up what all of them are worth is faster than looking up those asked for."""
NEW_TERM = 1_000
"""What working out a term by itself costs beside its postings, in postings unpacked."""


@dataclass(eq=False)
class SourceScorer:
    """Like `Scorer`, a level up; rows without a source take no part."""

    scorer: Scorer
    _unpacked: UnpackedSources | None = None
    _spent: int = 0
    """On terms worked out one by one, in postings."""

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
        impacts = self._impacts(query.terms)
        worth = _looked_up if len(self.norms) > SOURCES_ADDED_UP else _added_up
        scores = worth(impacts, query.repeats, sources, len(self.norms))
        pairs = list(zip(impacts, query.repeats, strict=True))
        bound = sum([repeats * found.upper for found, repeats in pairs])
        floor = self.weighting.floor
        if floor:
            floor *= sum([repeats * found.idf for found, repeats in pairs])
            scores[scores > 0.0] += floor
        return scores, bound + floor

    def _impacts(self, terms: Sequence[Term]) -> list[SourceImpacts]:
        """What each term is worth in the sources that hold it."""
        new = [term for term in terms if term.of_sources is None]
        if new:
            if self._unpacked is None:
                self._work_out(new)
            else:
                for term in new:
                    term.of_sources = self._unpacked.of(term)
        return [term.of_sources for term in terms if term.of_sources is not None]

    def _work_out(self, terms: Sequence[Term]) -> None:
        """In one pass over all their postings."""
        corpus, width = self.scorer.corpus, len(self.norms)
        rows, tf, ends = all_postings(terms)
        if corpus.documents < corpus.rows:
            tf *= corpus.alive.take(rows)
        sizes = [stop - start for start, stop in pairwise([0, *ends])]
        starts, codes, counts = in_sources(sizes, corpus.sources.take(rows), tf, width)
        gains = self.weighting.gains(counts, self.norms.take(codes))
        for term, (start, stop) in zip(terms, pairwise(starts.tolist()), strict=True):
            term.of_sources = SourceImpacts.of(self.weighting, codes[start:stop], gains[start:stop])
            self.scorer.remembers(stop - start)
        self._spent += ends[-1] + NEW_TERM * len(terms)
        if self.scorer.unpacks(self._spent):
            self._unpacked = UnpackedSources(corpus, self.weighting, self.norms)


def _added_up(impacts: Sequence[SourceImpacts], repeats: Sequence[int], sources: Ints, count: int) -> Floats:
    """What each of `sources` (NO_SOURCE among them) is worth, from sums over all `count` sources."""
    every = np.zeros(count + 1, np.float64)  # the last is that of NO_SOURCE
    for found, times in zip(impacts, repeats, strict=True):
        every[found.codes] += found.worth if times == 1 else times * found.worth
    return every.take(sources)


def _looked_up(impacts: Sequence[SourceImpacts], repeats: Sequence[int], sources: Ints, _: int) -> Floats:
    """The same for the sources asked for alone."""
    scores = np.zeros(len(sources), np.float64)
    for found, times in zip(impacts, repeats, strict=True):
        if len(found.codes):
            at = found.codes.searchsorted(sources)
            worth = times * found.worth.take(at, mode="clip")
            worth *= found.codes.take(at, mode="clip") == sources
            scores += worth
    return scores
