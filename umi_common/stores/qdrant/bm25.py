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
        """(T,) indices of the distinct terms that a chunk has, rising."""
        return np.array(sorted(self.peaks), dtype=np.int64)

    def score(self, found: Sequence[Candidate]) -> tuple[Floats, Floats]:
        """(V, n) BM25 of n rows, and (V,) an upper bound of the score of any row."""
        weighting, (tf, lengths) = self._weighting, self._frequencies(found)
        peaks = [self.peaks[index] for index in self.indices.tolist()]
        idf = np.array([peak.idf for peak in peaks])  # Lucene's
        if self.config.variant != "lucene":
            idf = np.array([weighting.idf(df) for df in self._document_frequencies])
        peak_lengths = np.array([peak.length for peak in peaks], dtype=np.int64)
        peak_tf = frequencies(np.array([peak.value for peak in peaks]), peak_lengths, self.saturation)
        # The largest stored value need not give the largest impact under the true average length.
        largest = idf * weighting.gains(peak_tf, weighting.norms(peak_lengths))
        return self._scored(self.variations, weighting, idf, tf, lengths, largest)

    def rare(self, found: Sequence[Candidate]) -> Bools:
        """(V, n) whether the rows hold a rare term of weight 1 or more; see `Pool.rare`."""
        is_rare = np.array(self._document_frequencies) <= rare_frequency(self.statistics.chunks)
        held = self._frequencies(found)[0] > 0
        asked = [[weights.get(index, 0) >= 1 for index in self.indices.tolist()] for weights in self.variations]
        rare = [held[is_rare & np.array(own, np.bool_)].any(axis=0) for own in asked]
        return np.array(rare).reshape(len(asked), len(found))

    def sources(self, found: Sequence[Candidate], source: Ints, listed: Bools) -> tuple[Floats, Floats]:
        """(V, n) BM25 of each row's source as one document, and (V,) an upper bound of the score of any source. The
        document holds the chunks of the source that an arm ranks.

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
                tf_of_codes, lengths_of_codes = tf[:, rows] @ belongs, lengths[rows] @ belongs
                weighting = Weighting(self.config, len(codes), float(lengths_of_codes.sum()) / len(codes) or 1.0)
                idf = np.array([weighting.idf(df) if df else 0.0 for df in (tf_of_codes > 0).sum(axis=1).tolist()])
                own, bound = self._scored([self.variations[v]], weighting, idf, tf_of_codes, lengths_of_codes)
                at = np.minimum(codes.searchsorted(source), len(codes) - 1)
                scores[v], bounds[v] = np.where(codes[at] == source, own[0, at], 0.0), bound[0]
        return scores, bounds

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

    @cached_property
    def _document_frequencies(self) -> list[int]:
        """(T,) the number of chunks that hold each term, computed from its idf."""
        chunks, peaks = self.statistics.chunks, (self.peaks[index] for index in self.indices.tolist())
        return [min(max(round((chunks + 1) / math.exp(peak.idf) - 0.5), 1), chunks) for peak in peaks]

    def _frequencies(self, found: Sequence[Candidate]) -> tuple[Floats, Ints]:
        """(T, n) occurrences of each term in each row, and (n,) length of each row in terms."""
        lengths = np.array([each.length for each in found], dtype=np.int64)
        values = np.zeros((len(self.indices), len(found)))
        line_of = {index: line for line, index in enumerate(self.indices.tolist())}
        for row, each in enumerate(found):
            for index, value in zip(each.indices, each.values, strict=True):
                if index in line_of:
                    values[line_of[index], row] = value
        return frequencies(values, lengths, self.saturation), lengths

    def _scored(
        self,
        variations: Sequence[TermWeights],
        weighting: Weighting,
        idf: Floats,
        tf: Floats,
        lengths: Floats | Ints,
        largest: Floats | float = 0.0,
    ) -> tuple[Floats, Floats]:
        """The result of `score` for n texts and some variations, from the (T, n) `tf` and the (n,) `lengths`.

        Args:
            largest: (T,) a known impact of each term, for the bounds.
        """
        impacts, floors = idf[:, np.newaxis] * weighting.gains(tf, weighting.norms(lengths)), weighting.floor * idf
        most = np.maximum(largest, impacts.max(axis=1, initial=0.0))[:, np.newaxis]
        scores = [self._summed(weights, impacts, tf > 0, floors) for weights in variations]
        bounds = [self._summed(weights, most, idf[:, np.newaxis] > 0, floors)[0] for weights in variations]
        return np.array(scores).reshape(len(variations), len(lengths)), np.array(bounds)

    def _summed(self, weights: TermWeights, impacts: Floats, held: Bools, floors: Floats) -> Floats:
        """(n,) scores of a variation, summed in the order of `indices`, so that equal rows get equal bits."""
        scores, floor = np.zeros(impacts.shape[1]), 0.0
        matched = np.zeros(impacts.shape[1], dtype=np.bool_)
        for at, index in enumerate(self.indices.tolist()):
            count = weights.get(index, 0)
            if count:
                scores += count * impacts[at]
                matched |= held[at]
                floor += count * float(floors[at])
        scores[matched] += floor
        return scores
