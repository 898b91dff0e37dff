"""BM25 of every row for every query variation, from Qdrant's idf and the rows' stored sparse vectors.

The batch of a search has one request for each query term, with limit 1 and without the filter. It returns the chunk in
which the term has its largest stored value, and the chunk's score. From these umi computes the term's idf, which is
score / value, and the term's largest impact in the collection. Stored values give term frequencies, from which umi
computes BM25 itself: in float64, in one order of the terms, with the true average length and any k1 and b. The score of
a source counts only its chunks that an arm has ranked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Bools, Floats, Ints, rare_frequency
from umi_common.runtime.forks import cached_property
from umi_common.stores.arrays import distinct
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
    """The chunk in which a term has its largest stored value."""

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


def sparse_query(weights: TermWeights) -> Any:
    indices = sorted(weights)
    return models().SparseVector(indices=indices, values=[float(weights[index]) for index in indices])


def peak_requests(variations: Sequence[TermWeights]) -> list[Any]:
    """One request for each distinct term, in the order of `distinct_indices`; see the module."""
    return [
        models().QueryRequest(
            query=sparse_query({index: 1}), using=LEXICAL, limit=1, with_payload=["length"], with_vector=[LEXICAL]
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
    """BM25 of one search with V query variations, and T distinct terms that some chunk has, by rising index.

    Args:
        variations: The terms of each variation, with their weights.
        peaks: Index of each of the T terms -> its peak.
        config: Variant and parameters of BM25.
    """

    variations: Sequence[TermWeights]
    peaks: Mapping[int, Peak]
    saturation: Saturation
    config: LexicalConfig
    statistics: Statistics

    def score(self, found: Sequence[Candidate]) -> tuple[Floats, Floats]:
        """(V, n) BM25 of n rows, and (V,) an upper bound of the score of any row."""
        weighting = Weighting(self.config, self.statistics.chunks, self.statistics.average_length)
        idf = self._lucene_idf
        if self.config.variant != "lucene":
            idf = np.array([weighting.idf(df) for df in self._document_frequencies.tolist()])
        tf, lengths = self._frequencies(found)
        peaks = [self.peaks[index] for index in self._known_terms]
        peak_lengths = np.array([peak.length for peak in peaks], dtype=np.int64)
        peak_tf = frequencies(np.array([peak.value for peak in peaks]), peak_lengths, self.saturation)
        # The largest stored value need not give the largest impact under the true average length.
        largest = idf * weighting.gains(peak_tf, weighting.norms(peak_lengths))
        return _scores(self._weights, weighting, idf, tf, lengths, largest)

    def matches(self, found: Sequence[Candidate]) -> Bools:
        """(V, n) whether a row holds a term of the variation."""
        return (self._weights > 0) @ (self._frequencies(found)[0] > 0)

    def rare(self, found: Sequence[Candidate]) -> Bools:
        """(V, n) whether a row holds a rare term of weight 1 or more; see `Pool.rare`."""
        is_rare = self._document_frequencies <= rare_frequency(self.statistics.chunks)
        return ((self._weights >= 1) & is_rare) @ (self._frequencies(found)[0] > 0)

    def sources(self, found: Sequence[Candidate], source: Ints, listed: Bools) -> Floats:
        """(V, n) BM25 of each row's source as one document.

        The document of a source holds its chunks that an arm ranks for the variation. The idf and average length are
        those of the documents of this variation, so its scores do not depend on other variations.

        Args:
            found: n rows.
            source: (n,) source code of each row; a row with NO_SOURCE scores 0.
            listed: (V, n) whether an arm ranks the row for the variation.
        """
        tf, lengths = self._frequencies(found)
        scores = np.zeros(listed.shape)
        for v, is_listed in enumerate(listed):
            rows = np.flatnonzero(is_listed & (source != NO_SOURCE))
            if not len(rows):
                continue
            codes = distinct(source[rows])
            column = codes.searchsorted(source[rows])
            belongs = (column[:, np.newaxis] == np.arange(len(codes))).astype(np.float64)  # (rows, sources)
            tf_of_sources, lengths_of_sources = tf[:, rows] @ belongs, lengths[rows] @ belongs
            weighting = Weighting(self.config, len(codes), float(lengths_of_sources.sum()) / len(codes) or 1.0)
            frequencies_of_terms = np.count_nonzero(tf_of_sources, axis=1).tolist()
            idf = np.array([weighting.idf(df) if df else 0.0 for df in frequencies_of_terms])
            own, _ = _scores(self._weights[[v]], weighting, idf, tf_of_sources, lengths_of_sources)
            score_of = dict(zip(codes.tolist(), own[0].tolist(), strict=True))
            scores[v] = [score_of.get(code, 0.0) for code in source.tolist()]
        return scores

    def coverage(self) -> Floats:
        """(V,) idf-weighted share of a variation's distinct terms that the corpus holds, 0..1."""
        known = np.minimum(self._weights, 1.0) @ self._lucene_idf
        unknown = [sum(min(own[index], 1.0) for index in own if index not in self.peaks) for own in self.variations]
        idf_of_unknown = math.log(1.0 + (self.statistics.chunks + 0.5) / 0.5)
        every = known + np.array(unknown) * idf_of_unknown
        return np.divide(known, every, out=np.zeros(len(known)), where=known > 0)

    @cached_property
    def _known_terms(self) -> list[int]:
        """The indices of the T terms, rising."""
        return sorted(self.peaks)

    @cached_property
    def _weights(self) -> Floats:
        """(V, T) weight of each term in each variation."""
        weights = [[own.get(index, 0.0) for index in self._known_terms] for own in self.variations]
        return np.array(weights, dtype=np.float64).reshape(len(self.variations), len(self._known_terms))

    @cached_property
    def _lucene_idf(self) -> Floats:
        """(T,) Lucene's idf of each term."""
        return np.array([self.peaks[index].idf for index in self._known_terms], dtype=np.float64)

    @cached_property
    def _document_frequencies(self) -> Ints:
        """(T,) the number of chunks that hold each term, computed from its idf."""
        chunks = self.statistics.chunks
        return np.rint((chunks + 1) / np.exp(self._lucene_idf) - 0.5).clip(1, chunks).astype(np.int64)

    def _frequencies(self, found: Sequence[Candidate]) -> tuple[Floats, Ints]:
        """(T, n) occurrences of each term in each row, and (n,) length of each row in terms."""
        lengths = np.array([each.length for each in found], dtype=np.int64)
        values = np.zeros((len(self._known_terms), len(found)))
        for row, each in enumerate(found):
            value_of = dict(zip(each.indices, each.values, strict=True))
            values[:, row] = [value_of.get(index, 0.0) for index in self._known_terms]
        return frequencies(values, lengths, self.saturation), lengths


def _scores(
    weights: Floats,
    weighting: Weighting,
    idf: Floats,
    tf: Floats,
    lengths: Floats | Ints,
    largest: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """(V, n) scores of n texts, and (V,) an upper bound of the score of any text.

    Args:
        weights: (V, T) weight of each term in each variation.
        idf: (T,).
        tf: (T, n) occurrences of each term in each text.
        lengths: (n,) length of each text, in terms.
        largest: (T,) a known impact of each term, for the bounds.
    """
    impacts = idf[:, np.newaxis] * weighting.gains(tf, weighting.norms(lengths))
    most = np.maximum(largest, impacts.max(axis=1, initial=0.0))
    # The bound is the score of one more text, in which each term has its largest impact.
    impacts, held = np.column_stack([impacts, most]), np.column_stack([tf > 0, idf > 0])
    scores = np.zeros((len(weights), impacts.shape[1]))
    for line, weight in zip(impacts, weights.T, strict=True):  # term by term, so that equal texts get equal bits
        scores += np.outer(weight, line)
    floors = weights @ (weighting.floor * idf)  # (V,) BM25 plus adds this to each text that holds some of the terms
    scores += ((weights > 0) @ held) * floors[:, np.newaxis]
    return scores[:, :-1], scores[:, -1]
