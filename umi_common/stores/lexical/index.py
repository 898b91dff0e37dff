"""The lexical index: BM25 over rows that are added and removed.

Writes are serialised by a lock. Each call of a reading method uses the snapshot of the last write and never waits; for
several calls on one snapshot, see `LexicalIndex.view`. Scores equal those of an index newly built from the living
rows, to the bit, whatever was added, removed, merged or loaded before.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.errors import InputError
from umi_common.pool import Floats, Ints
from umi_common.runtime.forks import cached_property
from umi_common.stores.arrays import IdOf, distinct
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical import file
from umi_common.stores.lexical.analyzer import Analyzer, pieces
from umi_common.stores.lexical.bm25 import QueryTerms, RowScorer, Term
from umi_common.stores.lexical.corpus import Corpus, with_texts, without_dead_rows, without_rows
from umi_common.stores.lexical.languages import NOT_FOUND, differ
from umi_common.stores.lexical.segment import Int32s, ranges, running
from umi_common.stores.lexical.spellings import QueryExpander, Spellings
from umi_common.stores.lexical.top_k import LexicalHits, SearchLimits, top_k
from umi_common.stores.lexical.vocabulary import Vocabulary
from umi_common.stores.rows.rows import Mask

CONFIGS_KEPT = 4
"""Number of configurations whose scorers a snapshot caches."""
TEXTS_A_SEGMENT = 5_000
"""Largest number of texts that are indexed as one segment; limits the memory that a large addition takes."""


class LexicalScores(NamedTuple):
    """BM25 of n given rows for V queries. The fields are those of a `Pool` with the same names; 0 or False for a row
    that is not alive."""

    lexical: Floats
    lexical_bound: Floats
    """(V,) the sum over the query's terms of the largest impact that any living row has for the term."""
    coverage: Floats
    source_lexical: Floats
    length: Ints
    other_language: Mask
    rare: Mask


class Snapshot:
    """One corpus, and a cache of its scorers."""

    def __init__(self, corpus: Corpus, analyzer: Analyzer, spellings: Spellings) -> None:
        self.corpus = corpus
        self._analyzer = analyzer
        self._spellings = spellings
        self.row_scorer = lru_cache(CONFIGS_KEPT)(partial(RowScorer, corpus))
        """Returns the scorer of rows, and of their sources, under a configuration."""

    def weighted_terms(self, query: str, config: LexicalConfig) -> Mapping[str, float]:
        """The distinct terms of a query, each with its weight; see `QueryExpander.weighted_terms`."""
        idf = self.row_scorer(config).weighting.idf
        expander = QueryExpander(self._analyzer, self.analyzers, self.corpus, self._spellings, idf)
        return expander.weighted_terms(query, config.function_word_weight)

    def query(self, query: str, config: LexicalConfig) -> QueryTerms:
        """The terms of a query, looked up in the corpus."""
        return self.row_scorer(config).query(self.weighted_terms(query, config))

    @cached_property
    def analyzers(self) -> list[Analyzer]:
        """The distinct analyzers of the living rows' languages, by falling number of rows; in an empty index, the
        analyzer of the first language in `Analyzer.languages`."""
        counts = np.bincount(self.corpus.languages[self.corpus.alive], minlength=1)
        rows: Counter[Analyzer] = Counter()
        for at in np.flatnonzero(counts).tolist() or [0]:
            rows[self._analyzer.of_language(self._analyzer.languages[at])] += int(counts[at])
        return [analyzer for analyzer, _ in rows.most_common()]


class LexicalIndex:
    """BM25 over rows 0..n-1, n growing; the number of a removed row is never used again.

    Args:
        analyzer: Splits texts and queries into terms.
        corpus: The initial content; None: no rows.
    """

    def __init__(self, analyzer: Analyzer, corpus: Corpus | None = None) -> None:
        self.analyzer = analyzer
        corpus = Corpus.empty() if corpus is None else corpus
        self._vocabulary = Vocabulary(analyzer, corpus.codes)
        # Spellings without accents are stemmed as words of a text whose language is not found.
        self._spellings = Spellings(analyzer.of_language(NOT_FOUND).terms_of_piece)
        self._spellings.update(corpus.codes)
        self._snapshot = Snapshot(corpus, analyzer, self._spellings)
        self._write_lock = threading.Lock()

    def __len__(self) -> int:
        """Number of living rows."""
        return self._snapshot.corpus.documents

    def view(self) -> LexicalIndex:
        """The current content, for reading only: later writes change neither its rows nor its scores.

        Index and view share the terms' codes and spellings, which only grow: terms that only later rows hold count as
        terms that no row holds.
        """
        return copy.copy(self)

    def without_dead_rows(self, sources: Ints) -> LexicalIndex:
        """A new index of the living rows, numbered from 0 in their order; no text is analysed again.

        Args:
            sources: (number of living rows,) new source code of each of them.
        """
        return LexicalIndex(self.analyzer, without_dead_rows(self._snapshot.corpus, sources))

    def update(
        self,
        rows: Sequence[int] = (),
        texts: Sequence[str] = (),
        sources: Sequence[int] = (),
        *,
        removed: Sequence[int] = (),
    ) -> None:
        """Remove rows, then index texts[i] as rows[i] of the source with the number sources[i] (-1: of no source).

        An error changes no row and no score; new terms may have got codes, which nothing uses.

        Args:
            rows: Rising, and above every row added so far, which is asserted; row numbers may be skipped.
            texts: One per row; a text without terms counts as an empty document.
            sources: One per row, >= -1.
            removed: Rows to remove; unknown ones are ignored. Later scores are as if they had never been added.

        Raises:
            InputError: If the lengths differ.
        """
        if not len(rows) == len(texts) == len(sources):
            raise InputError(f"{len(rows)} rows, {len(texts)} texts and {len(sources)} sources; expected equally many")
        with self._write_lock:
            corpus = self._snapshot.corpus
            if len(removed):
                corpus = without_rows(corpus, removed)
            for start in range(0, len(rows), TEXTS_A_SEGMENT):
                some = slice(start, start + TEXTS_A_SEGMENT)
                corpus = with_texts(corpus, rows[some], *self._vocabulary.coded(texts[some]), sources[some])
            self._spellings.update(corpus.codes)
            self._snapshot = Snapshot(corpus, self.analyzer, self._spellings)

    def save(
        self,
        directory: Path,
        mark: Mark,
        seqs: Ints,
        sources: Sequence[str],
        arrays: file.Arrays = MappingProxyType({}),
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write the index to a file in `directory`, in place of an older one; see the module `file`.

        The arguments other than `directory` are the fields of `file.Saved`: the ledger's mark, the sequence number of
        each row, the names of the sources, and further arrays and values of the store.

        Raises:
            OSError: If the file cannot be written; an older file stays as it was.
        """
        saved = file.Saved(self._snapshot.corpus, mark, seqs, sources, arrays, dict(facts))
        file.write(directory, saved, self.analyzer.fingerprint)

    @classmethod
    def load(
        cls, directory: Path, analyzer: Analyzer, belongs: Callable[[Mark], bool]
    ) -> tuple[LexicalIndex, file.Saved] | None:
        """The newest usable index that was saved for this analyzer and ledger, and the content of its file; None: there
        is none, see `file.newest`.

        Args:
            belongs: Returns whether a mark is in the history of the store's ledger.
        """
        saved = file.newest(directory, analyzer.fingerprint, belongs)
        return None if saved is None else (cls(analyzer, saved.corpus), saved)

    def search(
        self,
        queries: Sequence[str],
        *,
        k: int,
        config: LexicalConfig,
        allowed: Mask | None = None,
        weights: Floats | None = None,
        id_of: IdOf = str,
    ) -> list[LexicalHits]:
        """The best rows of each query, the same as if every row were scored. Of a long query, only the
        `bm25.QUERY_TERMS_MAX` heaviest terms are scored.

        Args:
            k: Largest number of rows in a result, >= 1.
            allowed: (at least number of rows,) False excludes a row. None: all rows are allowed.
            weights: (at least number of rows,) factor on each row's score before ranking, >= 0 and finite. None: 1.
            id_of: Returns the id of a row; of rows with equal scores, the one with the smaller id comes first.

        Returns:
            For each query, rows best first, scores > 0, at most k rows; fewer when fewer match.

        Raises:
            InputError: If k < 1, or a mask or weights are too short.
        """
        snapshot = self._snapshot
        limits = _limits(snapshot.corpus, k, allowed, weights, id_of)
        terms = [snapshot.query(query, config) for query in queries]
        return [top_k(snapshot.row_scorer(config), each, limits) for each in terms]

    def score(
        self,
        queries: Sequence[str],
        rows: Sequence[int] | Ints,
        *,
        config: LexicalConfig,
        searched: Sequence[LexicalHits] | None = None,
    ) -> LexicalScores:
        """BM25 of these rows, in the given order, and of their sources.

        Args:
            queries: V texts.
            rows: n rows, in any order; a row that is not alive scores 0.
            searched: Results of `search` for the same queries and content, whose terms and scores are used again.
        """
        snapshot = self._snapshot
        scorer = snapshot.row_scorer(config)
        wanted = np.asarray(rows, np.int64)
        living, at = _living_among(snapshot.corpus, wanted)
        owners, languages = snapshot.corpus.sources.take(living), snapshot.corpus.languages.take(living)
        shape = (len(queries), len(wanted))
        lexical, source = np.zeros(shape), np.zeros(shape)
        other_language, rare = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        bound, coverage = np.zeros(len(queries)), np.zeros(len(queries))
        for v, text in enumerate(queries):
            known = None
            if searched is None:
                query = snapshot.query(text, config)
            else:
                query, known = searched[v].query, searched[v].all_scores
            lexical[v, at] = scorer.score(query, living) if known is None else known.take(living)
            source[v, at] = scorer.score_sources(query, owners)
            bound[v], coverage[v] = scorer.bound(query), query.coverage
            if query.rare:
                rare[v, at] = np.equal.outer(living, scorer.rows_of_rare(query)).any(axis=1)
            own = self.analyzer.language_of(text)
            others = np.array([differ(own, language) for language in self.analyzer.languages])
            other_language[v, at] = others[languages]
        length = np.zeros(len(wanted), np.int64)
        length[at] = snapshot.corpus.lengths[living]
        return LexicalScores(lexical, bound, coverage, source, length, other_language, rare)

    def query(self, query: str, config: LexicalConfig) -> QueryTerms:
        """The terms of a query, looked up in the index."""
        return self._snapshot.query(query, config)

    def terms_in_order(self, query: str) -> list[list[str]]:
        """For each analyzer in `Snapshot.analyzers`, the terms of a query in order."""
        split = pieces(query)
        return [list(chain.from_iterable(each.terms_of_pieces(split))) for each in self._snapshot.analyzers]

    @property
    def corpus(self) -> Corpus:
        """The rows and postings as of the last write."""
        return self._snapshot.corpus

    def scorer(self, config: LexicalConfig) -> RowScorer:
        """The scorer of the index under a configuration."""
        return self._snapshot.row_scorer(config)

    def held(self, terms: Sequence[Term], rows: Ints, config: LexicalConfig) -> Mask:
        """(T, n) whether each of n living rows (rising) holds each of T terms, which `query` found under `config`."""
        held: Mask = self.scorer(config).lookup(terms, rows) > 0
        return held

    def living(self, rows: Sequence[int]) -> list[int]:
        """The rows among `rows` that are alive; rows that were added after this snapshot are not."""
        alive = self._snapshot.corpus.alive
        return [row for row in rows if row < len(alive) and alive[row]]

    def sharing_rare(self, rows: Ints, most: int) -> tuple[Ints, Ints, Ints]:
        """The holders of the rare terms of n living rows. A holder of a term is a living row with the term; a term is
        rare if it has at most `most` holders.

        Returns:
            Three (P,) arrays: index in `rows`, holder, and number of holders of the term. They have one entry for each
            holder (the row itself included) of each rare term of each row. If the only rare term of row 7 is also in
            row 9, `rows` = [7] gives [0, 0], [7, 9] and [2, 2].
        """
        corpus = self._snapshot.corpus
        # The terms of the rows that may be rare: a segment counts its dead rows, too.
        found = [part.segment.rare_terms(rows, most + part.dead) for part in corpus.parts]
        of_row = np.concatenate([np.zeros(0, np.int64), *(index for index, _ in found)])
        codes = np.concatenate([np.zeros(0, np.int32), *(codes for _, codes in found)])
        terms = distinct(codes)
        term, holder = corpus.rows_of_rare(terms, most)  # sorted by term: the holders of a term are consecutive
        holders = np.bincount(term, minlength=len(terms))  # 0 for a term that is not rare
        own = terms.searchsorted(codes)
        sizes = holders[own]
        at = ranges(running(holders)[:-1][own], sizes)
        return of_row.repeat(sizes), holder[at], sizes.repeat(sizes)

    def lengths(self, count: int) -> Int32s:
        """(count,) number of terms in each of the first `count` rows; 0 where nothing was indexed."""
        known = self._snapshot.corpus.lengths[:count]
        return known if len(known) == count else np.pad(known, (0, count - len(known)))

    def differing(self, rows: Ints, texts: Sequence[str]) -> list[int]:
        """The indices i, rising, for which the indexed terms, frequencies or length of rows[i] differ from texts[i]."""
        corpus = self._snapshot.corpus
        indexed = corpus.term_counts(rows[rows < corpus.rows])
        wrong = []
        for at, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
            terms = Counter(self.analyzer.terms(text))
            expected = {corpus.codes.get(term): count for term, count in terms.items()}
            alive = row < corpus.rows and bool(corpus.alive[row])
            if not alive or indexed[row] != expected or corpus.lengths[row] != terms.total():
                wrong.append(at)
        return wrong


def _living_among(corpus: Corpus, rows: Ints) -> tuple[Ints, Ints]:
    """The living rows among `rows`, rising, and the index of each in `rows`."""
    at = rows.argsort()
    start, stop = rows.take(at).searchsorted((0, corpus.rows))
    at = at[start:stop]  # the other row numbers were never used
    at = at[corpus.alive.take(rows.take(at))]
    return rows[at], at


def _limits(corpus: Corpus, k: int, allowed: Mask | None, weights: Floats | None, id_of: IdOf) -> SearchLimits:
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1")
    for name, array in (("allowed", allowed), ("weights", weights)):
        if array is not None and len(array) < corpus.rows:
            raise InputError(f"{name} has {len(array)} entries; expected one for each of the {corpus.rows} rows")
    mask = None if allowed is None else allowed[: corpus.rows]
    if corpus.documents < corpus.rows:
        mask = corpus.alive if mask is None else mask & corpus.alive
    return SearchLimits(k, mask, None if weights is None else weights[: corpus.rows], id_of)
