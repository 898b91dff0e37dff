"""One moment of the index, answering: which engine scores, what it gives, and what a pool needs from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from umi_common.config import LexicalConfig
from umi_common.pool import Floats, Ints
from umi_common.stores.lexical.corpus import Corpus
from umi_common.stores.lexical.scorer import Scorer
from umi_common.stores.lexical.sources import SourceScorer
from umi_common.stores.lexical.top_k import Limits, Ranking, top_k

ENGINES_KEPT = 4
"""Configurations whose numbers one moment remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """One query against n given live rows."""

    lexical: Floats
    """(n,) BM25; 0 where no term matches."""
    bound: float
    """The sum over the query's terms of the largest impact that any live row has for the term."""
    coverage: float
    """idf-weighted share of the query's distinct terms that some live row holds, 0..1."""
    source: Floats
    """(n,) BM25 of the row's whole source as one document, statistics over sources; 0 without a source."""
    source_bound: float
    """Like `bound`, over sources."""


class Engine(Protocol):
    """Scores one corpus under one configuration. Thread-safe."""

    def search(self, terms: Sequence[str], limits: Limits) -> Ranking:
        """The best rows, best first, scores > 0, ties by the smaller id."""

    def score(self, terms: Sequence[str], rows: Ints, searched: Ranking | None = None) -> RowScores:
        """Exactly these rows: live, rising; `searched` is what this engine has found for the same terms, if any, and
        where that holds the query, the terms are not needed."""


class PostingsEngine:
    """umi's own: postings, pruned."""

    def __init__(self, corpus: Corpus, config: LexicalConfig) -> None:
        self._scorer = Scorer(corpus, config)
        self._sources = SourceScorer(self._scorer)

    def search(self, terms: Sequence[str], limits: Limits) -> Ranking:
        """See `topk`."""
        return top_k(self._scorer, self._scorer.query(terms), limits)

    def score(self, terms: Sequence[str], rows: Ints, searched: Ranking | None = None) -> RowScores:
        """See `scorer` and `sources`."""
        scorer, every = self._scorer, None
        if searched is None or searched.query is None:
            query = scorer.query(terms)
        else:
            query, every = searched.query, searched.every
        lexical = scorer.score(query, rows) if every is None else every.take(rows)
        source, source_bound = self._sources.score(query, scorer.corpus.sources.take(rows))
        return RowScores(lexical, scorer.bound(query), scorer.coverage(query), source, source_bound)


class Moment:
    """A corpus and its engines, by configuration."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._engines: dict[LexicalConfig, Engine] = {}

    def engine(self, config: LexicalConfig) -> Engine:
        """The engine that a configuration names, made once."""
        known = self._engines.get(config)
        if known is None:
            if len(self._engines) >= ENGINES_KEPT:
                self._engines.clear()
            known = self._engines.setdefault(config, self._new_engine(config))
        return known

    def live(self, rows: Ints) -> Ints:
        """Places in `rows` of those that are alive, by rising row."""
        order = rows.argsort()
        rising = rows.take(order)
        if len(rising) and (rising[0] < 0 or rising[-1] >= self.corpus.rows):
            start, stop = rising.searchsorted((0, self.corpus.rows))
            order, rising = order[start:stop], rising[start:stop]
        return order if self.corpus.documents == self.corpus.rows else order[self.corpus.alive.take(rising)]

    def _new_engine(self, config: LexicalConfig) -> Engine:
        if config.engine == "postings":
            return PostingsEngine(self.corpus, config)
        from umi_common.stores.lexical.rank_bm25_index import RankBm25Engine  # only for those who compare

        return RankBm25Engine(self.corpus, config)
