"""Terms of queries with their numbers: one corpus, one weighting, everything exact and worked out once.

A document's score is summed term by term in one canonical order (rarest first, then as in the query), whatever path
computes it, so every path gives the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from umi_common.config import LexicalConfig
from umi_common.pool import Floats, Ints
from umi_common.store.bm25 import Weighting, mean_okapi_idf
from umi_common.store.corpus import Corpus, Part
from umi_common.store.postings import Counts
from umi_common.store.terms import Term, new_terms

ENTRIES_KEPT = 2_000_000
"""Array entries that one scorer remembers for terms, 16 bytes each; in a large corpus an eighth of its postings."""
TERM_ENTRIES = 50
"""What remembering a term costs by itself, in such entries."""
DENSE_SHARE = 16
"""A term in more than 1/16 of a part's rows is looked up in an array by row, a rarer one by binary search."""
DENSE_BYTES_KEPT = 64_000_000
"""Bytes of such arrays that one part remembers."""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query's known terms in canonical order, and what it says about unknown ones."""

    terms: tuple[tuple[Term, int], ...]
    """(term, how often the query has it), rarest first."""
    floor: float
    """What every matching document gets on top of its gains; 0 but for Plus."""
    coverage: float
    """Share of the distinct terms' idf that the corpus knows, 0..1; 0 without terms."""

    @property
    def bound(self) -> float:
        """The sum of the terms' largest impacts: no document scores more."""
        return self.floor + sum(count * term.upper for term, count in self.terms)


@dataclass(eq=False)
class Scorer:
    """BM25 of one corpus under one configuration. Safe to share between threads: at worst two fill the same entry."""

    corpus: Corpus
    config: LexicalConfig
    _terms: dict[str, Term] = field(default_factory=dict)
    _kept: int = 0
    _asked: int = 0

    @cached_property
    def weighting(self) -> Weighting:
        """Over documents."""
        corpus = self.corpus
        average = corpus.total_length / corpus.documents if corpus.total_length else 1.0
        return Weighting(
            self.config,
            corpus.documents,
            average,
            lambda: mean_okapi_idf(corpus.documents, corpus.document_frequencies()),
        )

    @cached_property
    def _norms(self) -> Floats:
        return self.weighting.norms(self.corpus.lengths)

    def norms(self, rows: Ints) -> Floats:
        """Length normalisation of rows; of all rows at once when as many have been asked for."""
        if self._asked <= self.corpus.rows:
            self._asked += len(rows)
            return self.weighting.norms(self.corpus.lengths[rows])
        return self._norms[rows]

    def query(self, texts: Sequence[str]) -> QueryTerms:
        """A query's analysed terms, looked up."""
        counted = Counter(texts)
        found = self._found(counted)
        known = [(found[text], count) for text, count in counted.items() if text in found]
        known.sort(key=_by_df)  # stable: equal df keeps the order of the query
        floor = self.weighting.floor * sum(term.idf * count for term, count in known)
        return QueryTerms(tuple(known), floor, self._coverage(counted, known))

    def _found(self, texts: Iterable[str]) -> dict[str, Term]:
        """Those that some live document holds."""
        found = {text: term for text in texts if (term := self._terms.get(text)) is not None}
        new = [text for text in texts if text not in found]
        for term in new_terms(self.corpus, self.weighting, self.norms, new) if new else ():
            self.remembers(TERM_ENTRIES + (0 if term.impacts is None else term.df))
            self._terms[term.text] = found[term.text] = term
        return found

    def remembers(self, entries: int) -> bool:
        """Whether arrays of so many entries may stay with their term. When the cache is full it starts over."""
        if entries * 8 > self._kept_max:
            return False
        if self._kept + entries > self._kept_max:
            self._terms, self._kept = {}, 0
        self._kept += entries
        return True

    def impacts(self, term: Term) -> tuple[Ints, Floats]:
        """`Term.impacts`."""
        if term.impacts is not None:
            return term.impacts
        found = [part.segment.postings(place) for part, place in term.places]
        rows = _joined([rows for rows, _ in found]).astype(np.int64)
        impacts = rows, term.idf * self.weighting.gains(_joined([tf for _, tf in found]), self.norms(rows))
        if self.remembers(len(rows)):
            term.impacts = impacts
        return impacts

    @cached_property
    def _kept_max(self) -> int:
        return max(ENTRIES_KEPT, sum(len(part.segment.offsets) for part in self.corpus.parts) // 8)

    def champions(self, term: Term, count: int) -> Ints:
        """At least `count` rows of the term's largest impacts, or all it has; rising."""
        if term.champions is not None and term.champions[0] >= count:
            return term.champions[1]
        rows, worth = self.impacts(term)
        if len(rows) <= 4 * count:
            return rows
        rows = np.sort(rows[np.argpartition(worth, len(rows) - count)[-count:]])
        if self.remembers(count):
            term.champions = count, rows
        return rows

    def score(self, query: QueryTerms, rows: Ints) -> Floats:
        """BM25 of live rows, rising; 0 where no term matches."""
        scores = np.zeros(len(rows), np.float64)
        for term, repeats in query.terms:
            scores += repeats * self.lookup(term, rows)
        if query.floor:
            scores[scores > 0.0] += query.floor
        return scores

    def lookup(self, term: Term, rows: Ints) -> Floats:
        """idf * gain of the term in live rows, rising; 0 in those that do not hold it."""
        tf = self._tf(term, rows)
        held = np.flatnonzero(tf)
        scores = np.zeros(len(rows), np.float64)
        scores[held] = term.idf * self.weighting.gains(tf[held], self.norms(rows[held]))
        return scores

    def _tf(self, term: Term, rows: Ints) -> Counts:
        """Term frequencies, from each part for the rows in its range."""
        term.lookups += 1
        found = [self._tf_in(part, place, term, rows) for part, place in term.places]
        if len(found) == 1 and len(found[0][1]) == len(rows):
            return found[0][1]
        counts = np.zeros(len(rows), np.result_type(*[tf for _, tf in found]))
        for start, tf in found:
            counts[start : start + len(tf)] = tf
        return counts

    def _tf_in(self, part: Part, place: int, term: Term, rows: Ints) -> tuple[int, Counts]:
        start, stop = rows.searchsorted((part.segment.first, part.segment.last + 1))
        if term.lookups > 1 and place not in part.dense:
            self._remember_dense(part, place)
        return int(start), part.lookup(place, rows[start:stop].astype(np.int32))

    @staticmethod
    def _remember_dense(part: Part, place: int) -> None:
        rows, tf = part.segment.postings(place)
        span = part.segment.last + 1 - part.segment.first
        if len(rows) * DENSE_SHARE > span:
            if (len(part.dense) + 1) * span * tf.itemsize > DENSE_BYTES_KEPT:
                part.dense.clear()
            dense = np.zeros(span, tf.dtype)
            dense[rows - part.segment.first] = tf
            part.dense[place] = dense

    def _coverage(self, counted: Counter[str], known: Sequence[tuple[Term, int]]) -> float:
        if len(known) == len(counted):
            return 1.0 if known else 0.0
        # Lucene's idf for every variant: it is defined for df = 0 and never negative.
        lucene = Weighting(LexicalConfig(variant="lucene"), self.corpus.documents, 1.0, float)
        share = sum(lucene.idf(term.df) for term, _ in known)
        return share / (share + (len(counted) - len(known)) * lucene.idf(0))


def _by_df(known: tuple[Term, int]) -> int:
    return known[0].df


def _joined(arrays: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.integer]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
