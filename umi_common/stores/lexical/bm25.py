"""The BM25 family: the score of one term in one document, given the statistics of the collection.

score(d) = sum over the query's terms t, repeats counted, of idf(t) * (floor + gain(tf, dl))

with K = k1 * S and S = 1 - b + b * dl / avgdl; floor is 0 but for plus:

    lucene   idf = ln(1 + (N - df + 0.5) / (df + 0.5))    gain = tf / (tf + K); no (k1 + 1), as in Lucene since 8
    okapi    idf = ln((N - df + 0.5) / (df + 0.5)), and   gain = tf * (k1 + 1) / (tf + K)
             epsilon * mean idf of all terms if that is negative
    l        idf = ln((N + 1) / (df + 0.5))               gain = tf * (k1 + 1) * (c + delta) / (k1 + c + delta),
                                                          c = tf / S
    plus     idf = ln((N + 1) / df)                       gain = tf * (k1 + 1) / (tf + K), floor = delta

okapi, l and plus are those of the `rank_bm25` package to 1e-9, its own additions included (the epsilon floor; tf as a
factor in L; delta for terms that a document does not hold in Plus). Every gain rises with tf and falls with dl.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from umi_common.config import LexicalConfig
from umi_common.pool import Floats

Numbers = npt.NDArray[np.integer] | Floats
_TINY = 1e-300
"""Prevents 0 / 0 where k1 or a length is 0: a document without the term then gains 0. Any other sum rounds it away."""


@dataclass(frozen=True)
class Weighting:
    """One variant over one collection."""

    config: LexicalConfig
    documents: int
    """N, live."""
    average_length: float
    """avgdl, in terms, > 0; any positive number if no document has a term."""
    mean_idf: Callable[[], float]
    """Mean Okapi idf of the live vocabulary; called only for a negative idf, since it costs a pass over all terms."""

    def idf(self, df: int) -> float:
        """idf of a term that df of the N documents hold, 1 <= df <= N."""
        total, variant = self.documents, self.config.variant
        if variant == "lucene":
            return math.log(1.0 + (total - df + 0.5) / (df + 0.5))
        if variant == "l":
            return math.log(total + 1) - math.log(df + 0.5)
        if variant == "plus":
            return math.log((total + 1) / df)
        raw = okapi_idf(total, df)
        return raw if raw >= 0.0 else self.config.epsilon * self._mean_idf

    @cached_property
    def _mean_idf(self) -> float:
        return self.mean_idf()

    @property
    def floor(self) -> float:
        """Score that a known query term adds to every matching document, in units of its idf."""
        return self.config.delta if self.config.variant == "plus" else 0.0

    @property
    def ceiling(self) -> float:
        """An upper bound of the gain."""
        return {"lucene": 1.0, "l": math.inf}.get(self.config.variant, self.config.k1 + 1.0)

    def norms(self, lengths: Numbers) -> Floats:
        """K (variant L: S) of documents by their length; > 0."""
        b = self.config.b
        share: Floats = 1.0 - b + b * (lengths / self.average_length)
        return (share if self.config.variant == "l" else self.config.k1 * share) + _TINY

    def gains(self, tf: Numbers, norms: Floats) -> Floats:
        """gain in documents with tf occurrences of the term, 0 for none; `norms` aligned, from `norms()`."""
        k1, count = self.config.k1, tf.astype(np.float64, copy=False)
        if self.config.variant == "lucene":
            return count / (count + norms)
        if self.config.variant == "l":
            relative = count / norms + self.config.delta
            return count * (k1 + 1.0) * relative / (k1 + relative + _TINY)
        return count * (k1 + 1.0) / (count + norms)


def okapi_idf(documents: int, df: int) -> float:
    """ln((N - df + 0.5) / (df + 0.5)); negative for a term in more than half of the documents."""
    return math.log(documents - df + 0.5) - math.log(df + 0.5)


def mean_okapi_idf(documents: int, dfs: npt.NDArray[np.integer]) -> float:
    """Mean over all terms with df > 0, or 0.0; summed by df, so that the bits do not depend on earlier writes."""
    sizes = np.bincount(dfs)
    present = [df for df in np.flatnonzero(sizes).tolist() if df > 0]
    terms = int(sum(sizes[df] for df in present))
    return math.fsum(int(sizes[df]) * okapi_idf(documents, df) for df in present) / terms if terms else 0.0
