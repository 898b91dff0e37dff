"""The results that a store must give, by brute force: every chunk is scored by the formula in float64."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import numpy as np

from umi_common.config import AnalyzerConfig, DecayConfig, LexicalConfig
from umi_common.filters import Filter, matches
from umi_common.protocols import Embedder
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk, TimeRange

analyzer = Analyzer(AnalyzerConfig())


class Oracle:
    """The chunks of a store."""

    def __init__(self, chunks: Iterable[Chunk], embedder: Embedder | None = None) -> None:
        self.chunks = {chunk.id: chunk for chunk in chunks}
        self.embedder = HashEmbedder() if embedder is None else embedder
        self._words = {id: Counter(analyzer.terms(chunk.text)) for id, chunk in self.chunks.items()}
        made = self.embedder.embed_documents([chunk.text for chunk in self.chunks.values()]).astype(np.float64)
        self._vectors = dict(zip(self.chunks, made, strict=True))

    def passing(self, where: Filter | None = None, window: TimeRange | None = None) -> set[str]:
        """Ids of the chunks that pass."""
        return {
            id
            for id, chunk in self.chunks.items()
            if matches(where, chunk.metadata)
            and (window is None or (chunk.event_time is not None and chunk.event_time in window))
        }

    def cosines(self, query: str) -> dict[str, float]:
        """Cosine by id, of the chunks that have a vector; none for a query without one."""
        asked = self.embedder.embed_queries([query])[0].astype(np.float64)
        if not asked.any():
            return {}
        return {id: _cosine(vector, asked) for id, vector in self._vectors.items() if vector.any()}

    def bm25(self, query: str) -> dict[str, float]:
        """BM25 by id, in Lucene's form, of the chunks that share a term with the query.

        sum over the query's terms of
        weight * ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 (1 - b + b length / average))
        """
        config, words = LexicalConfig(), self._words
        average = sum(sum(bag.values()) for bag in words.values()) / max(len(words), 1)
        scores: dict[str, float] = {}
        for term, weight in analyzer.weighted_terms(query, config.function_word_weight).items():
            having = [id for id, bag in words.items() if term in bag]
            idf = math.log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
            for id in having:
                tf, length = words[id][term], sum(words[id].values())
                norm = config.k1 * (1 - config.b + config.b * length / average)
                scores[id] = scores.get(id, 0.0) + weight * idf * tf / (tf + norm)
        return scores

    def beside(self, id: str, reach: int, among: set[str] | None = None) -> list[str]:
        """Ids at most `reach` positions from an id in its source, in order; only those in `among`."""
        chunk = self.chunks[id]
        if chunk.source is None or chunk.position is None:
            return [id] if among is None or id in among else []
        row = sorted(
            (other.position, other.id)
            for other in self.chunks.values()
            if other.source == chunk.source and other.position is not None
        )
        at = row.index((chunk.position, id))
        near = [other for _, other in row[max(0, at - reach) : at + reach + 1]]
        return [other for other in near if among is None or other in among]

    def decayed(self, scores: Mapping[str, float], decay: DecayConfig, now: datetime) -> dict[str, float]:
        """Scores above 0 times floor + (1 - floor) * 2^(-age / half-life); 1 without a time or in the future."""
        return {id: score * self._factor(id, decay, now) if score > 0 else score for id, score in scores.items()}

    def _factor(self, id: str, decay: DecayConfig, now: datetime) -> float:
        when = self.chunks[id].event_time
        if when is None or decay.half_life_hours is None:
            return 1.0
        age = max((now - when).total_seconds() / 3600, 0.0)
        return float(decay.floor + (1 - decay.floor) * 0.5 ** (age / decay.half_life_hours))


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def best(scores: Mapping[str, float], depth: int, slack: float) -> set[str]:
    """The best `depth` ids, without those that lie within `slack` of the first left out: either of them is right."""
    if len(scores) <= depth:
        return set(scores)
    left_out = sorted(scores.values(), reverse=True)[depth]
    return {id for id, score in scores.items() if score > left_out + slack}
