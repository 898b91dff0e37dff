"""The `rank_bm25` package as an engine: the reference that umi's own must equal. Slow, and static within a moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rank_bm25 import BM25, BM25L, BM25Okapi, BM25Plus

from umi_common.config import LexicalConfig
from umi_common.pool import NO_SOURCE, Floats, Ints
from umi_common.stores.lexical.corpus import Corpus
from umi_common.stores.lexical.engines import RowScores
from umi_common.stores.lexical.scorer import Scorer
from umi_common.stores.lexical.top_k import Limits, Ranking, best


class BM25Lucene(BM25):  # type: ignore[misc]  # the package has no types
    """Lucene's form, which rank_bm25 lacks, written as rank_bm25 writes its own."""

    def __init__(self, corpus: list[list[str]], k1: float, b: float) -> None:
        self.k1 = k1
        self.b = b
        super().__init__(corpus)

    def _calc_idf(self, nd: Mapping[str, int]) -> None:
        for word, freq in nd.items():
            self.idf[word] = math.log(1 + (self.corpus_size - freq + 0.5) / (freq + 0.5))

    def get_scores(self, query: Sequence[str]) -> Floats:
        """(documents,)"""
        score = np.zeros(self.corpus_size)
        norm = self.k1 * (1 - self.b + self.b * np.array(self.doc_len) / self.avgdl)
        for word in query:
            freq = np.array([document.get(word, 0) for document in self.doc_freqs], dtype=float)
            held = freq > 0
            score[held] += self.idf.get(word, 0) * freq[held] / (freq[held] + norm[held])
        return score


class RankBm25Engine:
    """Documents and whole sources, each as a rank_bm25 model over the index's own terms."""

    def __init__(self, corpus: Corpus, config: LexicalConfig) -> None:
        self._corpus = corpus
        self._scorer = Scorer(corpus, config)  # for coverage, which is not BM25
        bags = _bags(corpus)
        rows = np.flatnonzero(corpus.alive).tolist()
        self._rows = _Model(rows, [bags.get(row, []) for row in rows], config)
        of_source: dict[int, list[str]] = {}
        for row in rows:
            source = int(corpus.sources[row])
            if source != NO_SOURCE:
                of_source.setdefault(source, []).extend(bags.get(row, []))
        self._sources = _Model(list(of_source), list(of_source.values()), config)

    def search(self, terms: Sequence[str], limits: Limits) -> Ranking:
        """All rows scored, then ranked."""
        rows = np.arange(self._corpus.rows)
        scores = self._rows.scores(terms, self._corpus.rows)
        return Ranking(*best(rows, limits.weighted(rows, scores), limits))

    def score(self, terms: Sequence[str], rows: Ints, searched: Ranking | None = None) -> RowScores:
        """All rows scored, these taken."""
        width = len(self._corpus.source_documents) + 1  # the last place is for rows without a source
        sources = self._corpus.sources[rows]
        return RowScores(
            self._rows.scores(terms, self._corpus.rows)[rows],
            self._rows.bound(terms),
            self._scorer.coverage(self._scorer.query(terms)),
            self._sources.scores(terms, width)[np.where(sources == NO_SOURCE, width - 1, sources)],
            self._sources.bound(terms),
        )


class _Model:
    """A rank_bm25 model whose i-th document has the number keys[i]."""

    def __init__(self, keys: Sequence[int], documents: list[list[str]], config: LexicalConfig) -> None:
        self._keys = np.asarray(keys, np.int64)
        self._model: Any = _model(config, documents) if any(documents) else None

    def scores(self, terms: Sequence[str], width: int) -> Floats:
        """(width,) by key; 0 where no term matches, though rank_bm25's Plus gives such documents a constant."""
        scores = np.zeros(width)
        if self._model is not None:
            matched = [not document.keys().isdisjoint(terms) for document in self._model.doc_freqs]
            scores[self._keys[matched]] = self._of(terms)[matched]
        return scores

    def bound(self, terms: Sequence[str]) -> float:
        """The sum of each term's best score among the documents that hold it."""
        total = 0.0
        for term in terms:
            held = [] if self._model is None else [term in document for document in self._model.doc_freqs]
            if any(held):
                total += max(float(self._of([term])[held].max()), 0.0)
        return total

    def _of(self, terms: Sequence[str]) -> Floats:
        scores = np.zeros(len(self._keys))
        with np.errstate(invalid="ignore"):  # rank_bm25 divides 0 by 0 where k1 = 0 and a document lacks the term
            for term in terms:
                scores += np.nan_to_num(self._model.get_scores([term]))
        return scores


def _model(config: LexicalConfig, documents: list[list[str]]) -> Any:
    common = {"k1": config.k1, "b": config.b}
    if config.variant == "okapi":
        return BM25Okapi(documents, epsilon=config.epsilon, **common)
    if config.variant == "l":
        return BM25L(documents, delta=config.delta, **common)
    if config.variant == "plus":
        return BM25Plus(documents, delta=config.delta, **common)
    return BM25Lucene(documents, **common)


def _bags(corpus: Corpus) -> dict[int, list[str]]:
    """The terms of each row, repeats included, in no particular order; rows without a term are left out."""
    names = list(corpus.codes)
    bags: dict[int, list[str]] = {}
    for part in corpus.parts:
        for place, code in enumerate(part.segment.terms.tolist()):
            rows, tf = corpus.live_postings(part, place)
            for row, count in zip(rows.tolist(), tf.tolist(), strict=True):
                bags.setdefault(row, []).extend([names[code]] * count)
    return bags
