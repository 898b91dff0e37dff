"""BM25 of every row for every query variation, from Qdrant's idf and the rows' stored sparse vectors.

The batch of a search has one request for each query term, with limit 1 and without the filter. It returns the chunk in
which the term has its largest stored value, and the chunk's score. From these umi computes the term's idf, which is
score / value, and its largest impact in the collection. Stored values give term frequencies, so umi sums BM25 itself:
in float64, in one order of the terms, with the true average length and any k1 and b. A source is scored by its chunks
that an arm has ranked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.errors import ConfigError
from umi_common.pool import NO_SOURCE, Bools, Floats, Ints, rare_frequency
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.bm25 import Weighting
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.points import LEXICAL, Candidate, Saturation, frequencies, index_of, payload_of
from umi_common.stores.qdrant.statistics import Statistics

TERMS_MAX = 256
"""Largest number of distinct terms of one variation that are searched; further terms are left out."""

TermWeights = Mapping[int, float]
"""Index of a term in the sparse vectors -> its weight in a query variation."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A term and the chunk with its largest stored value."""

    idf: float
    """Lucene's idf, as the server computes it now."""
    value: float
    """The chunk's stored value for the term."""
    length: int
    """Length of the chunk, in terms."""


def weighted_indices(text: str, analyzer: Analyzer, function_word_weight: float) -> TermWeights:
    """Index of a term -> its weight, for the first TERMS_MAX distinct terms of a query variation."""
    weights: dict[int, float] = {}
    for term, weight in analyzer.weighted_terms(text, function_word_weight).items():
        index = index_of(term)
        weights[index] = weights.get(index, 0.0) + weight
    return dict(list(weights.items())[:TERMS_MAX])


def distinct_indices(variations: Sequence[TermWeights]) -> list[int]:
    """Indices of the distinct terms of several variations, rising."""
    return sorted({index for weights in variations for index in weights})


def query_vector(counts: TermWeights) -> Any:
    """The sparse query vector of a variation."""
    indices = sorted(counts)
    return models().SparseVector(indices=indices, values=[float(counts[index]) for index in indices])


def peak_requests(variations: Sequence[TermWeights]) -> list[Any]:
    """One request for each distinct term, in the order of `distinct_indices`; see the module."""
    return [
        models().QueryRequest(
            query=query_vector({index: 1}), using=LEXICAL, limit=1, with_payload=["length"], with_vector=[LEXICAL]
        )
        for index in distinct_indices(variations)
    ]


def peaks_of(variations: Sequence[TermWeights], answers: Sequence[Sequence[Any]]) -> dict[int, Peak]:
    """Index of each term -> its peak, from the answers to `peak_requests`; a term that no chunk has is left out."""
    peaks = {}
    for index, points in zip(distinct_indices(variations), answers, strict=True):
        if points:
            length = payload_of(points[0], ["length"])["length"]
            stored = points[0].vector[LEXICAL]
            value = float(stored.values[list(stored.indices).index(index)])
            peaks[index] = Peak(points[0].score / value, value, length)
    return peaks


@dataclass(frozen=True, slots=True)
class RowScores:
    """BM25 of n rows, or of the sources of n rows, for V variations."""

    scores: Floats
    """(V, n)"""
    bound: Floats
    """(V,) an upper bound of the score of any row, or any source."""


@dataclass(frozen=True)
class CandidateScorer:
    """BM25 of one search.

    Args:
        variations: Terms of the V variations, with their weights.
        peaks: Index of each term -> its peak; a term that no chunk has is left out.
        config: Variant and parameters of BM25.
    """

    variations: Sequence[TermWeights]
    peaks: Mapping[int, Peak]
    saturation: Saturation
    config: LexicalConfig
    statistics: Statistics

    @cached_property
    def indices(self) -> Ints:
        """(T,) indices of the distinct terms, rising."""
        return np.array(distinct_indices(self.variations), dtype=np.int64)

    def score(self, found: Sequence[Candidate]) -> RowScores:
        """BM25 of the rows."""
        weighting = self._weighting
        idf = np.array([self._idf(index) for index in self.indices.tolist()])
        largest = np.array([self._largest(index) for index in self.indices.tolist()])
        tf, lengths = self._frequencies(found)
        impacts, floors = idf[:, np.newaxis] * weighting.gains(tf, weighting.norms(lengths)), weighting.floor * idf
        # The largest stored value need not give the largest impact under the true average length.
        largest = np.maximum(largest, impacts.max(axis=1, initial=0.0))
        every = range(len(self.variations))
        scores = np.array([self._summed(v, impacts, tf > 0, floors) for v in every]).reshape(len(every), len(found))
        bounds = [self._summed(v, largest[:, np.newaxis], idf[:, np.newaxis] > 0, floors)[0] for v in every]
        return RowScores(scores, np.array(bounds))

    def rare(self, found: Sequence[Candidate]) -> Bools:
        """(V, n) whether the rows hold a rare term of weight 1 or more; see `Pool.rare`."""
        most = rare_frequency(self.statistics.chunks)
        rare = {index for index, peak in self.peaks.items() if self._frequency(peak) <= most}
        held = self._frequencies(found)[0] > 0
        found_by = np.zeros((len(self.variations), len(found)), dtype=np.bool_)
        for own, weights in zip(found_by, self.variations, strict=True):
            for at, index in enumerate(self.indices.tolist()):
                if index in rare and weights.get(index, 0) >= 1:
                    own |= held[at]
        return found_by

    def sources(self, found: Sequence[Candidate], source: Ints, listed: Bools) -> RowScores:
        """BM25 of each row's source as one document, which holds the chunks of the source that an arm ranks.

        The statistics count the documents of one variation, so its scores do not depend on other variations.

        Args:
            found: n rows.
            source: (n,) source code of each row; a row with NO_SOURCE scores 0.
            listed: (V, n) whether an arm ranks the row for the variation.
        """
        tf, lengths = self._frequencies(found)
        scores, bounds = np.zeros(listed.shape), np.zeros(len(listed))
        for v, ranked in enumerate(listed):
            rows = np.flatnonzero(ranked & (source != NO_SOURCE))
            if len(rows):
                codes, column = np.unique(source[rows], return_inverse=True)
                belongs = np.zeros((len(rows), len(codes)))
                belongs[np.arange(len(rows)), column] = 1.0
                of_codes, bounds[v] = self._source_scores(v, tf[:, rows] @ belongs, lengths[rows] @ belongs)
                at = np.minimum(codes.searchsorted(source), len(codes) - 1)
                scores[v] = np.where(codes[at] == source, of_codes[at], 0.0)
        return RowScores(scores, bounds)

    def coverage(self) -> Floats:
        """(V,) idf-weighted share of the distinct terms that the corpus holds, 0..1."""
        unknown = math.log(1.0 + (self.statistics.chunks + 0.5) / 0.5)
        shares = np.zeros(len(self.variations))
        for v, counts in enumerate(self.variations):
            share = {index: min(weight, 1.0) for index, weight in counts.items()}
            known = sum(share[index] * self.peaks[index].idf for index in sorted(counts) if index in self.peaks)
            missing = sum(weight for index, weight in share.items() if index not in self.peaks)
            shares[v] = known / (known + missing * unknown) if known else 0.0
        return shares

    @cached_property
    def _weighting(self) -> Weighting:
        return Weighting(self.config, self.statistics.chunks, self.statistics.average_length)

    def _idf(self, index: int) -> float:
        """The variant's idf of a term, from the server's idf, which is Lucene's; 0 if no chunk has the term."""
        peak = self.peaks.get(index)
        if peak is None:
            return 0.0
        if self.config.variant == "lucene":
            return peak.idf
        return self._weighting.idf(self._frequency(peak))

    def _frequency(self, peak: Peak) -> int:
        """The number of chunks that hold a term, computed from its idf."""
        chunks = self.statistics.chunks
        return min(max(round((chunks + 1) / math.exp(peak.idf) - 0.5), 1), chunks)

    def _largest(self, index: int) -> float:
        """The largest impact of the term in any row."""
        peak = self.peaks.get(index)
        if peak is None:
            return 0.0
        length = np.array([peak.length])
        tf = frequencies(np.array([peak.value]), length, self.saturation)
        return self._idf(index) * float(self._weighting.gains(tf, self._weighting.norms(length))[0])

    def _source_scores(self, v: int, tf: Floats, lengths: Floats) -> tuple[Floats, float]:
        """Scores of the sources for one variation, and their bound."""
        count, total = len(lengths), float(lengths.sum())
        weighting = Weighting(self.config, count, total / count if total else 1.0)
        idf = np.array([weighting.idf(df) if df else 0.0 for df in np.count_nonzero(tf, axis=1).tolist()])
        impacts, floors = idf[:, np.newaxis] * weighting.gains(tf, weighting.norms(lengths)), weighting.floor * idf
        largest = impacts.max(axis=1, initial=0.0)[:, np.newaxis]
        bound = self._summed(v, largest, idf[:, np.newaxis] > 0, floors)
        return self._summed(v, impacts, tf > 0, floors), float(bound[0])

    def _frequencies(self, found: Sequence[Candidate]) -> tuple[Floats, Ints]:
        """(T, n) occurrences of each term in each row, and (n,) length of each row in terms."""
        lengths = np.array([each.length for each in found], dtype=np.int64)
        values = np.zeros((len(self.indices), len(found)))
        sizes = [len(each.indices) for each in found]
        if len(self.indices) and sum(sizes):
            held = np.concatenate([np.asarray(each.indices, dtype=np.int64) for each in found])
            stored = np.concatenate([np.asarray(each.values, dtype=np.float64) for each in found])
            at = np.minimum(self.indices.searchsorted(held), len(self.indices) - 1)
            mine = self.indices[at] == held
            values[at[mine], np.repeat(np.arange(len(found)), sizes)[mine]] = stored[mine]
        return frequencies(values, lengths, self.saturation), lengths

    def _summed(self, v: int, impacts: Floats, held: Bools, floors: Floats) -> Floats:
        """(n,) scores of variation v, summed in the order of `indices`, so that equal rows get equal bits."""
        scores, floor = np.zeros(impacts.shape[1]), 0.0
        matched = np.zeros(impacts.shape[1], dtype=np.bool_)
        for at, index in enumerate(self.indices.tolist()):
            count = self.variations[v].get(index, 0)
            if count:
                scores += count * impacts[at]
                matched |= held[at]
                floor += count * float(floors[at])
        scores[matched] += floor
        return scores


def refuse_unknown(config: LexicalConfig) -> None:
    """Raise if the variant of BM25 needs statistics that Qdrant does not have.

    Raises:
        ConfigError: If the variant is Okapi's.
    """
    if config.variant == "okapi":
        raise ConfigError(
            'BM25 variant "okapi" needs the idf of every term, which Qdrant does not give; '
            'set lexical.variant to "lucene", "l" or "plus"'
        )
