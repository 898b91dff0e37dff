"""BM25 of every row for every variation, from the engine's idf and the rows' own stored vectors.

Those give term frequencies (`terms`), so the sum is made here: in float64, in one order, with the true average length
and any k1 and b. A whole source is scored by what of it a variation has found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.errors import ConfigError
from umi_common.pool import NO_SOURCE, Bools, Floats, Ints
from umi_common.stores.lexical.bm25 import Weighting
from umi_common.stores.qdrant.points import Found
from umi_common.stores.qdrant.statistics import Statistics
from umi_common.stores.qdrant.terms import Saturation, frequencies
from umi_common.stores.qdrant.words import Counts, Peak, indices_of


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 of n rows, or of their sources, for V variations."""

    scores: Floats
    """(V, n)"""
    bound: Floats
    """(V,) the most that any row, or any source, could reach."""


@dataclass(frozen=True)
class Scorer:
    """BM25 of one search.

    Args:
        words: Of the V variations.
        peaks: Of the terms that the corpus has.
        saturation: How the stored values were made.
        config: Variant and parameters to score with.
        statistics: Of the collection.
    """

    words: Sequence[Counts]
    peaks: Mapping[int, Peak]
    saturation: Saturation
    config: LexicalConfig
    statistics: Statistics

    @cached_property
    def indices(self) -> Ints:
        """(T,) the terms, rising."""
        return np.array(indices_of(self.words), dtype=np.int64)

    def score(self, found: Sequence[Found]) -> LexicalScores:
        """Of these rows."""
        weighting = self._weighting
        idf = np.array([self._idf(index) for index in self.indices.tolist()])
        largest = np.array([self._largest(index) for index in self.indices.tolist()])
        tf, lengths = self._frequencies(found)
        worth, floors = idf[:, np.newaxis] * _gains(weighting, tf, lengths), weighting.floor * idf
        # The heaviest by the stated average length need not be so by the true one.
        largest = np.maximum(largest, worth.max(axis=1, initial=0.0))
        every = range(len(self.words))
        scores = np.array([self._summed(v, worth, tf > 0, floors) for v in every]).reshape(len(every), len(found))
        bounds = [self._summed(v, largest[:, np.newaxis], idf[:, np.newaxis] > 0, floors)[0] for v in every]
        return LexicalScores(scores, np.array(bounds))

    def sources(self, found: Sequence[Found], source: Ints, listed: Bools) -> LexicalScores:
        """Of each row's source as one document, made of the chunks of it that the variation has in its lists.

        Statistics are over the sources in those lists; so a variation's scores do not depend on what else is asked.

        Args:
            found: n rows.
            source: (n,) codes; NO_SOURCE gets 0.
            listed: (V, n) whether an arm has the row in its list.
        """
        tf, lengths = self._frequencies(found)
        scores, bounds = np.zeros(listed.shape), np.zeros(len(listed))
        for v, mine in enumerate(listed):
            rows = np.flatnonzero(mine & (source != NO_SOURCE))
            if len(rows):
                codes, place = np.unique(source[rows], return_inverse=True)
                belongs = np.zeros((len(rows), len(codes)))
                belongs[np.arange(len(rows)), place] = 1.0
                wholes, bounds[v] = self._wholes(v, tf[:, rows] @ belongs, lengths[rows] @ belongs)
                at = np.minimum(codes.searchsorted(source), len(codes) - 1)
                scores[v] = np.where(codes[at] == source, wholes[at], 0.0)
        return LexicalScores(scores, bounds)

    def coverage(self) -> Floats:
        """(V,) idf-weighted share of the distinct terms that the corpus holds, 0..1."""
        unknown = math.log(1.0 + (self.statistics.chunks + 0.5) / 0.5)
        shares = np.zeros(len(self.words))
        for v, counts in enumerate(self.words):
            known = sum(self.peaks[index].idf for index in sorted(counts) if index in self.peaks)
            missing = len(counts) - len(counts.keys() & self.peaks.keys())
            shares[v] = known / (known + missing * unknown) if known else 0.0
        return shares

    @cached_property
    def _weighting(self) -> Weighting:
        return Weighting(self.config, self.statistics.chunks, self.statistics.average_length, _no_mean)

    def _idf(self, index: int) -> float:
        """The variant's, from the engine's, which is Lucene's; 0 where no chunk has the term."""
        peak = self.peaks.get(index)
        if peak is None:
            return 0.0
        if self.config.variant == "lucene":
            return peak.idf
        chunks = self.statistics.chunks
        df = round((chunks + 1) / math.exp(peak.idf) - 0.5)
        return self._weighting.idf(min(max(df, 1), chunks))

    def _largest(self, index: int) -> float:
        """The most that the term adds to any row."""
        peak = self.peaks.get(index)
        if peak is None:
            return 0.0
        length = np.array([peak.length])
        tf = frequencies(np.array([peak.value]), length, self.saturation)
        return self._idf(index) * float(self._weighting.gains(tf, self._weighting.norms(length))[0])

    def _wholes(self, v: int, tf: Floats, lengths: Floats) -> tuple[Floats, float]:
        """Scores of the sources for one variation, and their bound."""
        count, total = len(lengths), float(lengths.sum())
        weighting = Weighting(self.config, count, total / count if total else 1.0, _no_mean)
        idf = np.array([weighting.idf(df) if df else 0.0 for df in np.count_nonzero(tf, axis=1).tolist()])
        worth, floors = idf[:, np.newaxis] * _gains(weighting, tf, lengths), weighting.floor * idf
        largest = worth.max(axis=1, initial=0.0)[:, np.newaxis]
        bound = self._summed(v, largest, idf[:, np.newaxis] > 0, floors)
        return self._summed(v, worth, tf > 0, floors), float(bound[0])

    def _frequencies(self, found: Sequence[Found]) -> tuple[Floats, Ints]:
        """(T, n) how often each row has each term, and (n,) the rows' lengths."""
        lengths = np.array([each.head.length for each in found], dtype=np.int64)
        values = np.zeros((len(self.indices), len(found)))
        sizes = [len(each.indices) for each in found]
        if len(self.indices) and sum(sizes):
            held = np.concatenate([np.asarray(each.indices, dtype=np.int64) for each in found])
            stored = np.concatenate([np.asarray(each.values, dtype=np.float64) for each in found])
            places = np.minimum(self.indices.searchsorted(held), len(self.indices) - 1)
            mine = self.indices[places] == held
            values[places[mine], np.repeat(np.arange(len(found)), sizes)[mine]] = stored[mine]
        return frequencies(values, lengths, self.saturation), lengths

    def _summed(self, v: int, worth: Floats, held: Bools, floors: Floats) -> Floats:
        """(n,) scores of one variation, term by term in one order, so that equal rows get equal bits."""
        scores, floor = np.zeros(worth.shape[1]), 0.0
        matched = np.zeros(worth.shape[1], dtype=np.bool_)
        for at, index in enumerate(self.indices.tolist()):
            count = self.words[v].get(index, 0)
            if count:
                scores += count * worth[at]
                matched |= held[at]
                floor += count * float(floors[at])
        scores[matched] += floor
        return scores


def refuse_unknown(config: LexicalConfig) -> None:
    """Refuse what only the embedded store can score with.

    Raises:
        ConfigError: If the variant is Okapi's.
    """
    if config.variant == "okapi":
        _no_mean()


def _gains(weighting: Weighting, tf: Floats, lengths: Ints | Floats) -> Floats:
    """(T, n) gain of each term in each document; 0 where it is not held."""
    held = tf > 0
    return np.where(held, weighting.gains(np.where(held, tf, 1.0), weighting.norms(lengths)), 0.0)


def _no_mean() -> float:
    raise ConfigError(
        'BM25 variant "okapi" needs the idf of every term, which Qdrant does not tell; '
        'set lexical.variant to "lucene", "l" or "plus"'
    )
