"""Terms of queries with their numbers: one corpus, one weighting, everything exact and worked out once.

A document's score is summed term by term in one canonical order (rarest first, then as in the query), whatever path
computes it, so every path gives the same bits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.pool import Floats, Ints
from umi_common.stores.lexical.bm25 import Weighting, mean_okapi_idf
from umi_common.stores.lexical.corpus import Corpus, Part
from umi_common.stores.lexical.terms import Impacts, Term, largest, new_terms, worked_out
from umi_common.stores.lexical.totals import Totals
from umi_common.stores.lexical.unpacked import Unpacked

DIRECT = 4_096
"""Documents of a term up to which its largest impact is taken from the list of all; above, from its frontiers."""
ENTRIES_KEPT = 2_000_000
"""Array entries that one scorer remembers for terms, 16 bytes each; in a large corpus an eighth of its postings."""
TERM_ENTRIES = 50
"""What remembering a term costs by itself, in such entries."""
UNPACKED_MAX = 1_000_000
"""Postings of a corpus up to which all are unpacked as soon as a quarter has been asked for: 16 MB."""
DENSE_SHARE = 16
"""A term in more than 1/16 of a part's rows is looked up in an array by row, a rarer one by binary search."""
DENSE_BYTES_KEPT = 64_000_000
"""Bytes of such arrays that one part remembers."""

_DF = attrgetter("df")


@dataclass(slots=True)
class QueryTerms:
    """A query's known terms in canonical order, and what it says about unknown ones."""

    terms: Sequence[Term]
    """Rarest first."""
    repeats: Sequence[int]
    """How often the query has each."""
    unknown: int
    """Distinct terms that no live document holds."""
    floor: float
    """What every matching document gets on top of its gains; 0 but for Plus."""


@dataclass(eq=False)
class Scorer:
    """BM25 of one corpus under one configuration. Safe to share between threads: at worst two fill the same entry."""

    corpus: Corpus
    config: LexicalConfig
    _terms: dict[str, Term] = field(default_factory=dict)
    _unpacked: Unpacked | None = None
    _read: int = 0
    """Postings worked out so far."""
    _kept: int = 0
    _asked: int = 0

    @cached_property
    def weighting(self) -> Weighting:
        """Over documents."""
        corpus = self.corpus
        average = corpus.total_length / corpus.documents if corpus.total_length else 1.0
        count = corpus.documents
        return Weighting(self.config, count, average, lambda: mean_okapi_idf(count, corpus.document_frequencies()))

    @cached_property
    def _norms(self) -> Floats:
        return self.weighting.norms(self.corpus.lengths)

    def norms(self, rows: Ints) -> Floats:
        """Length normalisation of rows; of all rows at once when as many have been asked for."""
        if self._asked <= self.corpus.rows:
            self._asked += len(rows)
            return self.weighting.norms(self.corpus.lengths.take(rows))
        return self._norms.take(rows)

    def query(self, texts: Sequence[str]) -> QueryTerms:
        """A query's analysed terms, looked up."""
        counted: dict[str, int] = dict.fromkeys(texts, 1)
        if len(counted) < len(texts):
            counted = Counter(texts)
        terms = self._found(counted)
        terms.sort(key=_DF)  # stable: equal df keeps the order of the query
        floor = self.weighting.floor
        if floor:
            floor *= sum(term.idf * counted[term.text] for term in terms)
        return QueryTerms(terms, [counted[term.text] for term in terms], len(counted) - len(terms), floor)

    def _found(self, texts: Collection[str]) -> list[Term]:
        """Those that some live document holds, in their order."""
        found = list(map(self._terms.get, texts))
        if None in found:
            new, unpacked = [text for text, term in zip(texts, found, strict=True) if term is None], self._unpacked
            terms = new_terms(self.corpus, self.weighting, new) if unpacked is None else unpacked.terms(new)
            fresh = {term.text: term for term in terms}
            self.remembers(TERM_ENTRIES * len(fresh))
            self._terms.update(fresh)
            found = [term or fresh.get(text) for text, term in zip(texts, found, strict=True)]
        return [term for term in found if term is not None]

    def remembers(self, entries: int) -> bool:
        """Whether arrays of so many entries may stay with their term. When the cache is full it starts over."""
        if entries * 8 > self._kept_max:
            return False
        if self._kept + entries > self._kept_max:
            self._terms, self._kept = {}, 0
        self._kept += entries
        return True

    @cached_property
    def _kept_max(self) -> int:
        return max(ENTRIES_KEPT, self._postings // 8)

    def impacts(self, terms: Sequence[Term]) -> list[Impacts]:
        """`Term.impacts` of each."""
        known = [term.impacts for term in terms]
        if None in known:
            new = [term for term, impacts in zip(terms, known, strict=True) if impacts is None]
            fresh = iter(self._worked_out(new))
            known = [next(fresh) if impacts is None else impacts for impacts in known]
        return known  # type: ignore[return-value]  # mypy does not see that none is None

    def _worked_out(self, terms: Sequence[Term]) -> list[Impacts]:
        postings = sum([term.df for term in terms])
        found = worked_out(self.weighting, self.norms, terms)
        if self.remembers(postings):
            for term, impacts in zip(terms, found, strict=True):
                term.impacts = impacts
        self._read += postings
        if self._unpacked is None and self.unpacks(4 * self._read):
            self._unpacked = Unpacked(self.corpus, self.weighting, self._norms)
        return found

    def unpacks(self, spent: int) -> bool:
        """Whether all postings may be unpacked: as many have been paid for, and there are not too many."""
        return self._postings <= min(spent, UNPACKED_MAX)

    @cached_property
    def _postings(self) -> int:
        return sum(len(part.segment.offsets) for part in self.corpus.parts)

    @cached_property
    def totals(self) -> Totals:
        """For sums by row."""
        return Totals(self.corpus.rows)

    def ceiling(self, term: Term) -> float:
        """Not less than `upper`, and cheap."""
        if term.upper is None and (ceiling := self.weighting.ceiling) < math.inf:
            return max(0.0, term.idf * ceiling)
        return self.upper(term)

    def upper(self, term: Term) -> float:
        """`Term.upper`."""
        if term.upper is None:
            self._work_out_uppers([term])
        return term.upper or 0.0

    def bound(self, query: QueryTerms) -> float:
        """The sum of the terms' largest impacts: no document scores more."""
        self._work_out_uppers([term for term in query.terms if term.upper is None])
        pairs = zip(query.terms, query.repeats, strict=True)
        return query.floor + sum([repeats * (term.upper or 0.0) for term, repeats in pairs])

    def _work_out_uppers(self, terms: Sequence[Term]) -> None:
        few = [term for term in terms if term.df <= DIRECT]
        for term, (rows, worth) in zip(few, self.impacts(few), strict=True):
            living = worth if len(rows) == term.df else worth[self.corpus.alive[rows]]
            term.upper = max(0.0, largest(living))
        for term in terms:
            if term.df > DIRECT:
                term.upper = max(0.0, *[self._largest(term.idf, *place) for place in term.places])

    def _largest(self, idf: float, part: Part, place: int) -> float:
        tf, lengths = self.corpus.frontier(part, place)
        return float((idf * self.weighting.gains(tf, self.weighting.norms(lengths))).max())

    def score(self, query: QueryTerms, rows: Ints) -> Floats:
        """BM25 of live rows, rising; 0 where no term matches."""
        scores = np.zeros(len(rows), np.float64)
        self.add_looked_up(query, 0, rows, scores)
        if query.floor:
            scores[scores > 0.0] += query.floor
        return scores

    def add_looked_up(self, query: QueryTerms, start: int, rows: Ints, scores: Floats) -> None:
        """Add what the terms from `start` on are worth in live rows, rising, to their scores."""
        terms = query.terms[start:]
        for term, repeats, gains in zip(terms, query.repeats[start:], self.lookup(terms, rows), strict=True):
            gains *= term.idf
            scores += gains if repeats == 1 else repeats * gains

    def lookup(self, terms: Sequence[Term], rows: Ints) -> Floats:
        """(T, n) gains of the terms in live rows, rising; 0 in those that do not hold one."""
        counts = np.zeros((len(terms), len(rows)), np.float64)
        edges = rows.searchsorted(self._edges).tolist()
        spans = dict(zip(self.corpus.parts, zip(edges[::2], edges[1::2], strict=True), strict=True))
        offsets = {
            part: part.segment.offsets_of(rows[start:stop]) for part, (start, stop) in spans.items() if start < stop
        }
        for term, counted in zip(terms, counts, strict=True):
            term.lookups += 1
            for part, place in term.places:
                if part in offsets:
                    if term.lookups > 1 and place not in part.dense:
                        self._remember_dense(part, place)
                    start, stop = spans[part]
                    counted[start:stop] = part.lookup(place, offsets[part])
        return self.weighting.gains(counts, self.norms(rows))

    @cached_property
    def _edges(self) -> Ints:
        """Of the parts one after the other, the first row and the one after the last."""
        spans = [(part.segment.first, part.segment.last + 1) for part in self.corpus.parts]
        return np.array(spans, np.int64).reshape(-1)

    @staticmethod
    def _remember_dense(part: Part, place: int) -> None:
        offsets, tf = part.segment.stored(place)
        width = part.segment.last + 1 - part.segment.block
        if len(offsets) * DENSE_SHARE > width:
            if (len(part.dense) + 1) * width * tf.itemsize > DENSE_BYTES_KEPT:
                part.dense.clear()
            dense = np.zeros(width, tf.dtype)
            dense[offsets] = tf
            part.dense[place] = dense

    def coverage(self, query: QueryTerms) -> float:
        """Share of the distinct terms' idf that the corpus knows, 0..1; 0 without terms."""
        if not query.unknown:
            return 1.0 if query.terms else 0.0
        # Lucene's idf for every variant: it is defined for df = 0 and never negative.
        lucene = Weighting(LexicalConfig(variant="lucene"), self.corpus.documents, 1.0, float)
        share = sum(lucene.idf(term.df) for term in query.terms)
        return share / (share + query.unknown * lucene.idf(0))
