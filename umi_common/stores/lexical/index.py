"""The lexical index: BM25 over rows that come and go.

Writers are serialised; readers take the present corpus and never wait. Scores are those of an index freshly built from
the live rows, to the bit, whatever was added, removed, merged or loaded before.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from umi_common.config import LexicalConfig
from umi_common.errors import IndexUnavailable, InputError
from umi_common.pool import Floats, Ints
from umi_common.stores.lexical import file as postings_file
from umi_common.stores.lexical import update as writing
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.check import differing
from umi_common.stores.lexical.corpus import Corpus
from umi_common.stores.lexical.engines import Engine, Moment, RowScores
from umi_common.stores.lexical.lifecycle import IndexState, IndexStatus
from umi_common.stores.lexical.segment import Mask
from umi_common.stores.lexical.top_k import IdOf, Limits, Ranking, RanksOf
from umi_common.stores.lexical.vocabulary import Vocabulary

__all__ = ["IndexState", "IndexStatus", "LexicalScores", "PostingsIndex", "Ranking"]


@dataclass(frozen=True, slots=True, eq=False)
class LexicalScores:
    """BM25 of n given rows for V queries; the fields of a `Pool` by the same names."""

    lexical: Floats
    """(V, n) of exactly these rows; 0 where no term matches or the row is not alive."""
    bound: Floats
    """(V,) the sum over the query's terms of the largest impact that any live row has for the term."""
    coverage: Floats
    """(V,) idf-weighted share of the query's distinct terms that some live row holds, 0..1."""
    source: Floats
    """(V, n) BM25 of the row's whole source as one document, statistics over sources; 0 without a source."""
    source_bound: Floats
    """(V,) likewise over sources."""
    length: Ints
    """(n,) terms in the row."""


class PostingsIndex:
    """BM25 over rows 0..n-1, n growing; a row once removed is never used again.

    Args:
        analyzer: Makes terms of texts and of queries.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._start(Corpus.empty())
        self._writing = threading.Lock()
        self._building = False
        self._failure: str | None = None
        self._touched = False

    def _start(self, corpus: Corpus) -> None:
        self._moment = Moment(corpus)
        self._vocabulary = Vocabulary(self.analyzer, corpus.codes)

    def __len__(self) -> int:
        """Live rows."""
        return self._moment.corpus.documents

    def view(self) -> PostingsIndex:
        """This moment, for reading only: it shares postings that later writes to the index replace and never change."""
        return copy.copy(self)

    def status(self) -> IndexStatus:
        """Where the index stands."""
        docs = len(self)
        if self._failure is not None:
            return IndexStatus(IndexState.ERROR, reason=self._failure)
        if self._building:
            return IndexStatus(IndexState.BUILDING, docs)
        if not self._touched:
            return IndexStatus(IndexState.UNINITIALIZED)
        return IndexStatus(IndexState.READY if docs else IndexState.EMPTY, docs)

    def begin(self, texts: Sequence[str]) -> None:
        """Analyse now what `add` will bring next; harmless if it does not."""
        with self._writing:
            self._vocabulary.begin(texts)

    def add(self, rows: Sequence[int], texts: Sequence[str], sources: Sequence[int]) -> None:
        """Index texts[i] as rows[i] of source code sources[i] (-1: none); all of them or, on an error, none.

        Args:
            rows: Rising, above every row added so far; gaps are allowed.
            texts: One per row; a text without terms counts as an empty document.
            sources: One per row, >= -1.

        Raises:
            InputError: If the lengths differ or the rows do not rise.
        """
        with self._writing:
            documents = self._vocabulary.coded(texts)
            self._moment = Moment(writing.added(self._moment.corpus, rows, documents, sources))
            self._touched = True

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; scores are then as if they had never been there. Unknown rows do not matter."""
        with self._writing:
            self._moment = Moment(writing.removed(self._moment.corpus, rows))

    def rebuild(self, rows: Sequence[int], texts: Sequence[str], sources: Sequence[int]) -> None:
        """Replace everything, as by `add` to a new index; searches answer from the old content until it is done.

        Raises:
            IndexUnavailable: If it failed; the index stays in ERROR until a rebuild succeeds.
        """
        with self._writing:
            self._building = True
            try:
                empty = Corpus.empty()
                documents = Vocabulary(self.analyzer, empty.codes).coded(texts)
                corpus = writing.added(empty, rows, documents, sources)
            except Exception as error:
                self._failure = f"rebuild failed: {error}"
                raise IndexUnavailable(self._failure) from error
            else:
                self._start(corpus)
                self._failure, self._touched = None, True
            finally:
                self._building = False

    def fail(self, reason: str) -> None:
        """Declare the content unusable: searches raise until `rebuild` succeeds."""
        self._failure = reason

    def compact(self) -> None:
        """Merge the segments of each block, drop what was removed, and give back what only building needs. May run
        beside readers and writers.
        """
        before = self._moment.corpus
        if not before.parts:
            return
        merged = writing.merged_parts(before)
        with self._writing:
            self._start(writing.compacted(before, self._moment.corpus, merged))

    def save(self, path: str | Path) -> None:
        """Write the index to one file, in place of an older one; see `postings_file`.

        Raises:
            OSError: If the disk refuses; an older file stays as it was.
        """
        postings_file.write(Path(path), self._readable().corpus, self.analyzer.fingerprint)

    @classmethod
    def load(cls, path: str | Path, analyzer: Analyzer) -> PostingsIndex:
        """Open a saved index by memory map; rows go on where they stopped.

        Raises:
            IndexUnavailable: If there is no such file, or it is damaged, cut short, of another version or analyzer.
        """
        index = cls(analyzer)
        index._start(postings_file.read(Path(path), analyzer.fingerprint))
        index._touched = True
        return index

    def search(
        self,
        queries: Sequence[str],
        *,
        k: int,
        config: LexicalConfig,
        allowed: Mask | None = None,
        weights: Floats | None = None,
        id_of: IdOf = str,
        ranks_of: RanksOf | None = None,
    ) -> list[Ranking]:
        """The best rows of each query, exactly.

        Args:
            queries: V texts.
            k: Most rows in a ranking, >= 1.
            config: Engine, variant and parameters.
            allowed: By row, at least as long as the rows so far; False keeps a row out. None: all.
            weights: By row, >= 0 and finite; each score is multiplied by its row's weight before ranking. None: 1.
            id_of: The id of a row; ties fall to the smaller id.
            ranks_of: Told how many ids would be compared, gives (rows or more,) numbers in the order of the ids; or
                None, where comparing is cheaper.

        Returns:
            V rankings, best first, scores > 0, at most k rows; fewer when fewer match.

        Raises:
            IndexUnavailable: If the index is in ERROR.
            InputError: If k < 1, or a mask or weights are too short.
        """
        moment = self._readable()
        limits = _limits(moment.corpus, k, allowed, weights, id_of, ranks_of)
        engine = moment.engine(config)
        return [engine.search(self.analyzer.terms(query), limits) for query in queries]

    def score(
        self,
        queries: Sequence[str],
        rows: Sequence[int] | Ints,
        *,
        config: LexicalConfig,
        searched: Sequence[Ranking] | None = None,
    ) -> LexicalScores:
        """BM25 of exactly these rows, in their order, and of their sources.

        Args:
            queries: V texts.
            rows: n rows, in any order; those that are not alive score 0.
            config: As in `search`.
            searched: What `search` gave for the same queries of this view, so that nothing is done twice.

        Raises:
            IndexUnavailable: If the index is in ERROR.
        """
        moment = self._readable()
        engine = moment.engine(config)
        asked = np.asarray(rows, np.int64)
        order = moment.live(asked)
        live = asked[order]
        lexical, source = np.zeros((len(queries), len(asked))), np.zeros((len(queries), len(asked)))
        length = np.zeros(len(asked), np.int64)
        length[order] = moment.corpus.lengths[live]
        known = [None] * len(queries) if searched is None else searched
        scored = [self._score(engine, *pair, live) for pair in zip(queries, known, strict=True)]
        for v, found in enumerate(scored):
            lexical[v, order], source[v, order] = found.lexical, found.source
        return LexicalScores(
            lexical,
            np.array([found.bound for found in scored]),
            np.array([found.coverage for found in scored]),
            source,
            np.array([found.source_bound for found in scored]),
            length,
        )

    def _score(self, engine: Engine, query: str, searched: Ranking | None, live: Ints) -> RowScores:
        looked_up = searched is not None and searched.query is not None
        return engine.score([] if looked_up else self.analyzer.terms(query), live, searched)

    def lengths(self, count: int) -> Ints:
        """(count,) terms in each of the first rows; 0 where nothing was indexed."""
        known = self._moment.corpus.lengths[:count]
        return np.concatenate([known, np.zeros(count - len(known), known.dtype)]).astype(np.int64)

    def terms_in(self, query: str, row: int) -> tuple[str, ...]:
        """The query's distinct analysed terms that the row holds, in the order of the query."""
        corpus = self._readable().corpus
        codes = {term: corpus.codes.get(term) for term in self.analyzer.terms(query)}
        return tuple(term for term, code in codes.items() if code is not None and corpus.holds(code, row))

    def differing(self, rows: Ints, texts: Sequence[str]) -> list[int]:
        """Positions in `rows`, rising, whose terms, frequencies or length are not those of the texts."""
        return differing(self._readable().corpus, self.analyzer, rows, texts)

    def _readable(self) -> Moment:
        if self._failure is not None:
            raise IndexUnavailable(f"the lexical index cannot answer: {self._failure}; rebuild it")
        return self._moment


def _limits(
    corpus: Corpus,
    k: int,
    allowed: Mask | None,
    weights: Floats | None,
    id_of: IdOf,
    ranks_of: RanksOf | None,
) -> Limits:
    if k < 1:
        raise InputError(f"k is {k}; expected at least 1")
    for name, array in (("allowed", allowed), ("weights", weights)):
        if array is not None and len(array) < corpus.rows:
            raise InputError(f"{name} has {len(array)} entries; expected one for each of the {corpus.rows} rows")
    mask = None if allowed is None else allowed[: corpus.rows]
    if corpus.documents < corpus.rows:
        mask = corpus.alive if mask is None else mask & corpus.alive
    return Limits(k, mask, None if weights is None else weights[: corpus.rows], id_of, ranks_of)
