"""BM25: the formula with its variants, the terms of a query in one corpus, and the scores of given rows and sources.

score(d) = sum over the query's terms t of weight(t) * idf(t) * (floor + gain(tf, dl))

idf(t) * gain(tf, dl) is the impact of t in d.

    tf       occurrences of t in the document d        N        living documents: those that were not removed
    dl       terms of d; avgdl: their average          df       living documents with t
    S        1 - b + b * dl / avgdl                    K        k1 * S

k1, b, delta and epsilon are settings of `LexicalConfig`. The variants; floor is 0 except in plus:

    lucene   idf = ln(1 + (N - df + 0.5) / (df + 0.5))    gain = tf / (tf + K); no (k1 + 1), as in Lucene since 8
    okapi    idf = ln((N - df + 0.5) / (df + 0.5)), and   gain = tf * (k1 + 1) / (tf + K)
             epsilon * mean idf of all terms if that is negative
    l        idf = ln((N + 1) / (df + 0.5))               gain = tf * (k1 + 1) * (c + delta) / (k1 + c + delta),
                                                          c = tf / S
    plus     idf = ln((N + 1) / df)                       gain = tf * (k1 + 1) / (tf + K), floor = delta

Scores of okapi, l and plus equal those of the package `rank_bm25` to 1e-9, and deviate from the papers where it does:
okapi has the epsilon floor, l has tf as a factor, plus adds delta also for terms that a document does not hold. No
gain falls if tf grows, or rises if dl grows.

Every method, here and in `top_k`, sums a score over the terms by falling weight * idf, equal ones in the order of the
query. So all methods give a row the same score, to the last bit. A write makes a new scorer, whose cache is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints, rare_frequency
from umi_common.runtime.forks import cached_property
from umi_common.stores.arrays import beginnings
from umi_common.stores.lexical.corpus import Corpus, Levels, LiveSegment

Numbers = npt.NDArray[np.integer] | Floats
Impacts = tuple[Ints, Floats]
"""(rows rising, idf * gain of each); dead rows may be among them."""

QUERY_TERMS_MAX = 48
"""Largest number of distinct terms of a query that are scored: the terms with the largest weight * idf. A pasted text
of 2,000 bytes has some 150 terms; a search for 48 of them ranks as well or better, in a tenth of the time."""
DIRECT = 4_096
"""Largest df of a term whose impacts are cached when its largest impact (`Term.upper`) is computed from them. The
impacts of a more frequent term would fill the cache."""
ENTRIES_KEPT = 2_000_000
"""Largest number of array entries, 16 bytes each, that a scorer caches for its terms; or an eighth of the number of
postings, if that is more."""
TERM_ENTRIES = 50
"""Size of a cached term without its arrays, in entries of 16 bytes."""
DENSE_SHARE = 16
"""A term is common if it is in more than 1 / DENSE_SHARE of the rows. The frequencies of a common term are looked up in
an array by row, and its levels are added to upper bounds of scores. For a rarer term, the frequencies are found by
binary search, and its impacts are added."""
DENSE_BYTES_KEPT = 64_000_000
"""Largest total size of the arrays by row that are cached for one segment, in bytes."""
LEVELS_KEPT = 128
"""Largest number of terms whose levels are cached for one segment; the levels of a term have at most 65,536 bytes."""
LENGTH_DRIFT = 1.01
"""Levels are computed for the current average length of documents times this factor, so that they stay valid after most
writes."""
ROUNDING = np.float32(1.00001)
"""Sums of four-byte floats are multiplied by this factor, so that rounding does not make an upper bound too small."""
BINS = 4
"""Largest number of (term, source) pairs per posting for which an array with a sum for each pair is faster than sorting
the postings."""
_TINY = 1e-300
"""Added to each denominator, so that a document without the term gains 0, not 0 / 0, where k1 or a length is 0. Any
other denominator is so much larger that the addition leaves it unchanged."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """The formula of one variant, with the statistics of one collection."""

    config: LexicalConfig
    documents: int
    """N: living documents."""
    average_length: float
    """avgdl, in terms, > 0; any positive number if no document has a term."""
    mean_idf: Callable[[], float] = lambda: 0.0
    """Returns the mean Okapi idf of all terms of the living documents. Called only for a negative idf in the variant
    "okapi", because it takes a pass over all terms."""

    @classmethod
    def of(cls, config: LexicalConfig, documents: int, length: int, frequencies: Callable[[], Ints]) -> Weighting:
        """The formula for `documents` documents of together `length` terms; `frequencies` returns each term's df."""
        mean_idf = cache(lambda: mean_okapi_idf(documents, frequencies()))
        return cls(config, documents, length / documents if length else 1.0, mean_idf)

    def idf(self, df: int) -> float:
        """idf of a term that df of the N documents hold, 1 <= df <= N."""
        total, variant = self.documents, self.config.variant
        if variant == "lucene":
            return lucene_idf(total, df)
        if variant == "l":
            return math.log(total + 1) - math.log(df + 0.5)
        if variant == "plus":
            return math.log((total + 1) / df)
        raw = okapi_idf(total, df)
        return raw if raw >= 0.0 else self.config.epsilon * self.mean_idf()

    @property
    def floor(self) -> float:
        """Each query term in the collection adds weight * idf * floor to the score of every matching document."""
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
        """The gain in documents with `tf` occurrences of the term and these `norms`; 0 where tf is 0."""
        k1, count = self.config.k1, tf.astype(np.float64, copy=False)
        if self.config.variant == "lucene":
            return count / (count + norms)
        if self.config.variant == "l":
            relative = count / norms + self.config.delta
            return count * (k1 + 1.0) * relative / (k1 + relative + _TINY)
        return count * (k1 + 1.0) / (count + norms)


def lucene_idf(documents: int, df: int) -> float:
    """ln(1 + (N - df + 0.5) / (df + 0.5)); > 0, also for df = 0."""
    return math.log(1.0 + (documents - df + 0.5) / (df + 0.5))


def okapi_idf(documents: int, df: int) -> float:
    """ln((N - df + 0.5) / (df + 0.5)); negative for a term in more than half of the documents."""
    return math.log(documents - df + 0.5) - math.log(df + 0.5)


def mean_okapi_idf(documents: int, dfs: npt.NDArray[np.integer]) -> float:
    """Mean Okapi idf of all terms with df > 0; 0.0 without terms. They are summed by rising df, so that the last bits
    do not depend on the order of writes."""
    sizes = np.bincount(dfs)
    present = [df for df in np.flatnonzero(sizes).tolist() if df > 0]
    terms = int(sum(sizes[df] for df in present))
    return math.fsum(int(sizes[df]) * okapi_idf(documents, df) for df in present) / terms if terms else 0.0


@dataclass(eq=False, slots=True)
class Term:
    """A term that some living document holds. Arrays are filled on demand and never changed afterwards."""

    text: str
    ordinals: list[tuple[LiveSegment, int]] = field(default_factory=list)
    """The segments that hold the term, each with the term's ordinal: its index in the segment's terms."""
    df: int = 0
    """Number of living documents with the term."""
    idf: float = 0.0
    upper: float | None = None
    """idf * the largest gain of the term in any living document; 0 if the idf is negative. None: not computed yet."""
    impacts: Impacts | None = None
    """The impacts in all documents, dead ones included. None: not computed yet."""
    source_impacts: SourceImpacts | None = None
    """The impacts in all sources. None: not computed yet."""
    lookups: int = 0
    """Number of times that the term was looked up in given rows. From the second time on, its frequencies may be
    cached: most terms of a pasted text are looked up only once, and arrays for them would be wasted time."""


class SourceImpacts(NamedTuple):
    """The impacts of one term in the sources that hold it."""

    codes: Ints
    """Codes of these sources, rising."""
    impacts: Floats
    """idf * gain of the term in each source."""
    idf: float


@dataclass(slots=True)
class QueryTerms:
    """The terms of a query that some living document holds, by falling weight * idf: at most QUERY_TERMS_MAX."""

    terms: Sequence[Term]
    weights: Sequence[float]
    """Weight of each term, > 0."""
    coverage: float
    """Sum of idf over the query's distinct terms that the corpus holds, divided by the sum over all its distinct terms:
    0..1; 0 for a query without terms. The idf of a term of weight below 1 is multiplied by its weight."""
    floor: float
    """Added to the score of every matching document; 0 except for the variant "plus"."""
    rare: Sequence[Term]
    """The terms that are rare and have a weight of 1 or more; see `Pool.rare`."""


@dataclass(eq=False)
class RowScorer:
    """BM25 of one corpus under one configuration. Thread-safe; two threads may compute the same cache entry."""

    corpus: Corpus
    config: LexicalConfig
    _terms: dict[str, Term] = field(default_factory=dict)
    _entries: int = 0
    """Number of array entries counted for `_terms`; see ENTRIES_KEPT."""

    @cached_property
    def weighting(self) -> Weighting:
        """The BM25 formula with the statistics of the living documents."""
        corpus = self.corpus
        return Weighting.of(self.config, corpus.documents, corpus.total_length, corpus.document_frequencies)

    def norms(self, rows: Ints) -> Floats:
        """`Weighting.norms` of rows."""
        return self.weighting.norms(self.corpus.lengths.take(rows))

    def query(self, weights: Mapping[str, float]) -> QueryTerms:
        """The analysed terms of a query, each with its weight > 0, looked up in the corpus."""
        terms = self._known_terms(weights)
        coverage = self._coverage(terms, weights)
        terms.sort(key=lambda term: -weights[term.text] * term.idf)  # stable: equal ones keep the order of the query
        del terms[QUERY_TERMS_MAX:]
        floor = self.weighting.floor
        if floor:
            floor *= sum(term.idf * weights[term.text] for term in terms)
        most = rare_frequency(self.corpus.documents)
        rare = [term for term in terms if term.df <= most and weights[term.text] >= 1]
        return QueryTerms(terms, [weights[term.text] for term in terms], coverage, floor, rare)

    def _coverage(self, known: Sequence[Term], weights: Mapping[str, float]) -> float:
        """See `QueryTerms.coverage`; `known` are the terms of `weights` that some living document holds."""
        if len(known) == len(weights):
            return 1.0 if known else 0.0
        # Lucene's idf for every variant: it is defined for df = 0 and never negative.
        documents = self.corpus.documents
        covered = math.fsum(min(weights[term.text], 1.0) * lucene_idf(documents, term.df) for term in known)
        missing = math.fsum(min(weights[text], 1.0) for text in weights.keys() - {term.text for term in known})
        return covered / (covered + missing * lucene_idf(documents, 0))

    def _known_terms(self, texts: Collection[str]) -> list[Term]:
        """The terms among `texts` that some living document holds, in the order of `texts`."""
        found = {text: term for text in texts if (term := self._terms.get(text)) is not None}
        if len(found) < len(texts):
            fresh = {term.text: term for term in self._new_terms([text for text in texts if text not in found])}
            self._reserve(TERM_ENTRIES * len(fresh))
            self._terms.update(fresh)
            found |= fresh
        return [found[text] for text in texts if text in found]

    def _new_terms(self, texts: Sequence[str]) -> list[Term]:
        """The terms among distinct analysed texts that some living document holds, with their df and idf."""
        code_of = self.corpus.codes.get
        codes = {text: code for text in texts if (code := code_of(text)) is not None}
        terms = [Term(text) for text in codes]
        wanted = np.array(list(codes.values()), np.int32)
        for part in self.corpus.parts:
            ordinals = part.segment.ordinals(wanted)
            for term, ordinal, df in zip(terms, ordinals.tolist(), part.df(ordinals).tolist(), strict=True):
                if df:
                    term.df += df
                    term.ordinals.append((part, ordinal))
        found = [term for term in terms if term.df]
        for term in found:
            term.idf = self.weighting.idf(term.df)
        return found

    def _reserve(self, entries: int) -> None:
        """Count further array entries as cached; before that, empty the cache if it has no room for them."""
        if self._entries + entries > self._entries_max:
            self._terms, self._entries = {}, 0
        self._entries += entries

    @cached_property
    def _entries_max(self) -> int:
        return max(ENTRIES_KEPT, sum(len(part.segment.offsets) for part in self.corpus.parts) // 8)

    def impacts(self, terms: Sequence[Term]) -> list[Impacts]:
        """`Term.impacts` of each term; missing ones are computed in one pass over all their postings."""
        new = [term for term in terms if term.impacts is None]
        if new:
            made = self._computed_impacts(new)
            self._reserve(sum(len(rows) for rows, _ in made))
            for term, impacts in zip(new, made, strict=True):
                term.impacts = impacts
        return [term.impacts for term in terms if term.impacts is not None]

    def _computed_impacts(self, terms: Sequence[Term]) -> list[Impacts]:
        """`Term.impacts` of each term, not cached."""
        rows, tf, ends = _all_postings(terms)
        gains = self.weighting.gains(tf, self.norms(rows))
        parts = zip(terms, pairwise([0, *ends]), strict=True)
        return [(rows[start:stop], term.idf * gains[start:stop]) for term, (start, stop) in parts]

    def rows_of_rare(self, query: QueryTerms) -> Ints:
        """(P,) the rows that hold a term of `query.rare`; dead rows may be among them."""
        found = self.impacts(query.rare)
        return np.concatenate([rows for rows, _ in found]) if found else np.zeros(0, np.int64)

    def ceiling(self, term: Term) -> float:
        """An upper bound of `Term.upper`; computed without the postings if the formula has a finite ceiling."""
        if term.upper is None and self.weighting.ceiling < math.inf:
            return max(0.0, term.idf * self.weighting.ceiling)
        return self._uppers([term])[0]

    def bound(self, query: QueryTerms) -> float:
        """An upper bound of all scores: the sum of weight * largest impact over the terms, plus the floor."""
        pairs = zip(self._uppers(query.terms), query.weights, strict=True)
        return query.floor + sum([weight * upper for upper, weight in pairs])

    def _uppers(self, terms: Sequence[Term]) -> list[float]:
        """`Term.upper` of each term; missing ones are computed."""
        new = [term for term in terms if term.upper is None]
        self.impacts([term for term in new if term.df <= DIRECT])
        for term in new:
            rows, impacts = term.impacts or self._computed_impacts([term])[0]
            living = impacts if len(rows) == term.df else impacts[self.corpus.alive[rows]]
            term.upper = float(living.max(initial=0.0))
        return [term.upper for term in terms if term.upper is not None]

    def score(self, query: QueryTerms, rows: Ints) -> Floats:
        """BM25 of living rows, rising; 0 where no term matches."""
        scores = np.zeros(len(rows), np.float64)
        self.add_looked_up(query, 0, rows, scores)
        if query.floor:
            scores[scores > 0.0] += query.floor
        return scores

    def add_looked_up(self, query: QueryTerms, start: int, rows: Ints, scores: Floats) -> None:
        """Add the impacts of the terms from `start` on in living rows, rising, to the scores of these rows."""
        terms = query.terms[start:]
        for term, weight, gains in zip(terms, query.weights[start:], self.lookup(terms, rows), strict=True):
            gains *= term.idf
            scores += gains if weight == 1 else weight * gains

    def lookup(self, terms: Sequence[Term], rows: Ints) -> Floats:
        """(T, n) gains of the terms in living rows, rising; 0 in a row that does not hold the term."""
        counts = np.zeros((len(terms), len(rows)), np.float64)
        rows_in = {}  # segment -> which of the rows it holds, and their offsets in it
        for part in self.corpus.parts:
            start, stop = rows.searchsorted((part.segment.first, part.segment.last + 1)).tolist()
            if start < stop:
                rows_in[part] = slice(start, stop), part.segment.offsets_of(rows[start:stop])
        for term, counts_of_term in zip(terms, counts, strict=True):
            term.lookups += 1
            for part, ordinal in term.ordinals:
                if part in rows_in:
                    if term.lookups > 1 and ordinal not in part.dense:
                        _cache_dense(part, ordinal)
                    which, offsets = rows_in[part]
                    counts_of_term[which] = part.lookup(ordinal, offsets)
        return self.weighting.gains(counts, self.norms(rows))

    def row_bounds(self, query: QueryTerms) -> npt.NDArray[np.float32]:
        """(rows,) an upper bound of every living row's score, 0 only where no term matches. Needs a finite ceiling.

        A term in more than 1/DENSE_SHARE of the rows adds its levels, one byte for each row; a rarer term its impacts.
        """
        totals = np.zeros(self.corpus.rows, np.float32)
        for term, weight in zip(query.terms, query.weights, strict=True):
            if term.df * DENSE_SHARE > self.corpus.rows:
                step = np.float32(weight * term.idf * self.weighting.ceiling / 255)
                for part, ordinal in term.ordinals:
                    block, levels = part.segment.block, self._levels(part, ordinal)
                    totals[block : block + len(levels)] += np.multiply(levels, step, dtype=np.float32)
            else:
                ((rows, impacts),) = self.impacts([term])
                np.add.at(totals, rows, (weight * impacts).astype(np.float32))
        if query.floor:
            totals[totals > 0.0] += np.float32(query.floor)
        totals *= ROUNDING
        return totals

    def _levels(self, part: LiveSegment, ordinal: int) -> npt.NDArray[np.uint8]:
        """`Levels.by_offset` of a term; cached. A full cache is emptied."""
        known, average = part.levels.get(ordinal), self.weighting.average_length
        if known is None or known.config != self.config or known.average_length < average:
            if len(part.levels) >= LEVELS_KEPT:
                part.levels.clear()
            bound = replace(self.weighting, average_length=average * LENGTH_DRIFT)
            offsets, tf = part.segment.stored(ordinal)
            lengths = self.corpus.lengths[part.segment.block : part.segment.last + 1]
            levels = np.zeros(len(lengths), np.uint8)
            levels[offsets] = np.ceil(bound.gains(tf, bound.norms(lengths.take(offsets))) * (255 / bound.ceiling))
            known = part.levels[ordinal] = Levels(self.config, bound.average_length, levels)
        return known.by_offset

    @cached_property
    def _source_weighting(self) -> Weighting:
        """The BM25 formula with the statistics of the sources that have a living row."""
        corpus = self.corpus
        sources, length = np.count_nonzero(corpus.source_documents), int(corpus.source_lengths.sum())
        return Weighting.of(self.config, int(sources), length, corpus.source_frequencies)

    @cached_property
    def _source_norms(self) -> Floats:
        """`Weighting.norms` by source code."""
        return self._source_weighting.norms(self.corpus.source_lengths)

    def score_sources(self, query: QueryTerms, sources: Ints) -> Floats:
        """BM25 of whole sources by their codes: the living rows of each as one document, with statistics over sources.

        NO_SOURCE scores 0.
        """
        scores, floor = np.zeros(len(sources), np.float64), 0.0
        if not len(self.corpus.source_documents):  # no row has a source
            return scores
        for found, weight in zip(self._source_impacts(query.terms), query.weights, strict=True):
            floor += weight * found.idf
            if len(found.codes):
                at = found.codes.searchsorted(sources)
                impacts = weight * found.impacts.take(at, mode="clip")
                impacts *= found.codes.take(at, mode="clip") == sources  # 0 for a source that does not hold the term
                scores += impacts
        floor *= self._source_weighting.floor
        if floor:
            scores[scores > 0.0] += floor
        return scores

    def _source_impacts(self, terms: Sequence[Term]) -> list[SourceImpacts]:
        """`Term.source_impacts` of each term; missing ones are computed in one pass over all their postings."""
        new = [term for term in terms if term.source_impacts is None]
        if new:
            corpus, width, weighting = self.corpus, len(self._source_norms), self._source_weighting
            rows, tf, ends = _all_postings(new)
            sources = corpus.sources.take(rows)
            kept = corpus.alive.take(rows) & (sources != NO_SOURCE)
            # A pair of the i-th new term and a source code as one number, i * width + code.
            firsts = np.arange(len(new) + 1) * width
            pairs = firsts[:-1].repeat(np.diff(ends, prepend=0))[kept] + sources[kept]
            held, counts = _sums_by_number(pairs, tf[kept], width * len(new))
            starts, codes = held.searchsorted(firsts), held % width
            gains = weighting.gains(counts, self._source_norms.take(codes))
            self._reserve(len(codes))
            for term, (start, stop) in zip(new, pairwise(starts.tolist()), strict=True):
                idf = weighting.idf(stop - start) if stop > start else 0.0
                term.source_impacts = SourceImpacts(codes[start:stop], idf * gains[start:stop], idf)
        return [term.source_impacts for term in terms if term.source_impacts is not None]


def _cache_dense(part: LiveSegment, ordinal: int) -> None:
    """Cache a term's frequencies by offset if it is common in the segment, see DENSE_SHARE. A full cache is emptied."""
    offsets, tf = part.segment.stored(ordinal)
    width = part.segment.last + 1 - part.segment.block
    if len(offsets) * DENSE_SHARE > width:
        if (len(part.dense) + 1) * width * tf.itemsize > DENSE_BYTES_KEPT:
            part.dense.clear()
        dense = np.zeros(width, tf.dtype)
        dense[offsets] = tf
        part.dense[ordinal] = dense


def _all_postings(terms: Sequence[Term]) -> tuple[Ints, Floats, list[int]]:
    """(rows, tf, ends): the postings of terms, one term after the other, dead rows included; term i ends at ends[i]."""
    postings = [[part.segment.postings(ordinal) for part, ordinal in term.ordinals] for term in terms]
    rows = np.concatenate([rows for of_term in postings for rows, _ in of_term], dtype=np.int64)
    tf = np.concatenate([tf for of_term in postings for _, tf in of_term], dtype=np.float64)
    ends = np.cumsum([sum(len(rows) for rows, _ in of_term) for of_term in postings]).tolist()
    return rows, tf, ends


def _sums_by_number(numbers: Ints, values: Floats, stop: int) -> tuple[Ints, Numbers]:
    """(the distinct numbers, rising; the sum of the values of each). Numbers are in 0..stop - 1, values above 0."""
    if stop <= BINS * len(numbers):
        totals = np.bincount(numbers, values, stop)
        held = totals.nonzero()[0]
        return held, totals.take(held)
    if (numbers[1:] < numbers[:-1]).any():
        order = numbers.argsort()
        numbers, values = numbers.take(order), values.take(order)
    begins = beginnings(numbers)
    return numbers.take(begins), np.add.reduceat(values, begins) if len(begins) else values
