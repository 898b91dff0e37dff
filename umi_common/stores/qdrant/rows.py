"""The rows that a search met, scored by both arms, ranked, and made into a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from umi_common.decay import decay_factors, rate_of
from umi_common.pool import NOT_RANKED, Bools, Floats, Ints, Pool, Vectors, ranked
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest, Strategy
from umi_common.stores.background import cosine_background
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.dense.index import decayed
from umi_common.stores.ledger.codec import microseconds
from umi_common.stores.qdrant.bm25 import LexicalScores, Scorer
from umi_common.stores.qdrant.neighbours import places_of, sources_of
from umi_common.stores.qdrant.points import Found, Head
from umi_common.stores.qdrant.statistics import Statistics
from umi_common.stores.rows.rows import MICROSECONDS_PER_HOUR
from umi_common.stores.values import RecallTrace


@dataclass(frozen=True)
class Rows:
    """n chunks that may be seen, sorted by id.

    Args:
        found: With their vectors.
        request: What was asked.
        queries: (V, dim) unit rows, a row of zeros finds nothing; None: no dense arm.
        scorer: Of the query's words.
        statistics: Of the collection.
        following: The id directly after an id in its source, where a look at the neighbours showed it.
    """

    found: Sequence[Found]
    request: RecallRequest
    queries: Vectors | None
    scorer: Scorer
    statistics: Statistics
    following: Mapping[str, str]

    @cached_property
    def heads(self) -> list[Head]:
        """Of the rows."""
        return [each.head for each in self.found]

    @cached_property
    def words(self) -> LexicalScores:
        """BM25 of the rows."""
        return self.scorer.score(self.found)

    @cached_property
    def vectors(self) -> Vectors:
        """(n, dim); zeros where there is none."""
        vectors = np.zeros((len(self.found), self.statistics.sample.shape[1]), dtype=np.float32)
        for row, each in enumerate(self.found):
            if each.vector is not None:
                vectors[row] = each.vector
        return vectors

    @cached_property
    def dense(self) -> Floats:
        """(V, n) cosines; zeros without a dense arm."""
        if self.queries is None:
            return np.zeros(self.words.scores.shape)
        return cosines(self.vectors, self.queries).astype(np.float64)

    @cached_property
    def age_hours(self) -> Floats:
        """(n,) at `now`; NaN without a time."""
        times, now = [head.time for head in self.heads], microseconds(self.request.now)
        return np.array([np.nan if time is None else (now - time) / MICROSECONDS_PER_HOUR for time in times])

    @cached_property
    def lexical_rank(self) -> Ints:
        """(V, n) in the arm's own list, down to the depth."""
        weights = self._weights
        scores = self.words.scores if weights is None else self.words.scores * weights
        return ranked(scores, self.words.scores > 0, self.request.depth)

    @cached_property
    def dense_rank(self) -> Ints:
        """(V, n) likewise."""
        scores = self.dense if self._weights is None else decayed(self.dense, self._weights)
        if self.queries is None:
            return np.full(scores.shape, NOT_RANKED, dtype=np.int64)
        hits: Bools = np.outer(self.queries.any(axis=1), self.vectors.any(axis=1))
        return ranked(scores, hits, self.request.depth)

    @cached_property
    def _weights(self) -> Floats | None:
        decay = self.request.decay
        if decay.half_life_hours is None:
            return None
        return decay_factors(self.age_hours, rate=rate_of(decay.half_life_hours), floor=decay.floor)

    def ranked(self) -> Rows:
        """These rows without what neither arm has in its list, unless a probe names it."""
        named = set(self.request.named())
        listed = (np.concatenate([self.lexical_rank, self.dense_rank]) != NOT_RANKED).any(axis=0)
        kept = [each for each, is_listed in zip(self.found, listed, strict=True) if is_listed or each.head.id in named]
        return replace(self, found=kept)

    def best(self) -> list[str]:
        """Ids of the best of each ranking, whose neighbours belong to the pool."""
        ranks = np.concatenate([self.lexical_rank, self.dense_rank])
        among = ((ranks != NOT_RANKED) & (ranks <= self.request.depth // NEIGHBOURS_OF)).any(axis=0)
        return [self.heads[row].id for row in np.flatnonzero(among).tolist()]

    def enough(self) -> bool:
        """Whether each arm that is asked has its depth for every variation."""
        asked = {"text": (self.lexical_rank,), "vector": (self.dense_rank,)}
        arms = asked.get(self._mode, (self.lexical_rank, self.dense_rank))
        return all(int(ranks.max(initial=0)) >= self.request.depth for arm in arms for ranks in arm)

    @property
    def _mode(self) -> Strategy:
        return "text" if self.queries is None else self.request.strategy

    def pool(self, trace: RecallTrace) -> Pool:
        """All of it as arrays."""
        source, listed = sources_of(self.heads), (self.lexical_rank != NOT_RANKED) | (self.dense_rank != NOT_RANKED)
        wholes = self.scorer.sources(self.found, source, listed)
        return Pool.of(
            [head.id for head in self.heads],
            lexical=self.words.scores,
            dense=self.dense,
            vectors=self.vectors,
            query_vectors=self.queries,
            lexical_rank=self.lexical_rank,
            dense_rank=self.dense_rank,
            lexical_bound=self.words.bound,
            coverage=self.scorer.coverage(),
            source_lexical=wholes.scores,
            source_bound=wholes.bound,
            source=source,
            position=places_of(self.heads, self.following),
            length=np.array([head.length for head in self.heads], dtype=np.int64),
            age_hours=self.age_hours,
            mode=self._mode,
            calibration=self.statistics.calibration,
            degraded=tuple(trace.degraded),
            facts=trace.facts,
            **self._background(),
        )

    def _background(self) -> dict[str, Any]:
        """The fields of a pool on the usual cosines of its queries."""
        if self.queries is None:
            return {}
        usual = cosine_background(cosines(self.statistics.sample, self.queries))
        return {"dense_mean": usual.mean, "dense_deviation": usual.deviation, "dense_count": usual.chunks}
