"""The candidates of a search: scored by both arms, ranked by each arm, and made into a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from umi_common.pool import NOT_RANKED, Background, Bools, Floats, Ints, Pool, Vectors, ranked, source_codes, weighted
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest
from umi_common.stores.corpus_stats import cosine_background
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.qdrant.bm25 import CandidateScorer, RowScores
from umi_common.stores.qdrant.neighbours import indices_in_source
from umi_common.stores.qdrant.points import Candidate
from umi_common.stores.qdrant.statistics import Statistics
from umi_common.stores.rows.rows import MICROSECONDS_PER_HOUR
from umi_common.stores.values import RecallTrace
from umi_common.types import microseconds


@dataclass(frozen=True)
class CandidateRows:
    """n candidates that pass filter and time range, sorted by id.

    Args:
        queries: (V, dim) unit rows, a row of zeros finds nothing; None: the dense arm was not asked.
        scorer: BM25 of the query variations.
        following: id -> the id directly after it in its source, for the ids where that is known.
    """

    candidates: Sequence[Candidate]
    request: RecallRequest
    queries: Vectors | None
    scorer: CandidateScorer
    statistics: Statistics
    following: Mapping[str, str]

    @cached_property
    def lexical(self) -> RowScores:
        """BM25 of the rows."""
        return self.scorer.score(self.candidates)

    @cached_property
    def vectors(self) -> Vectors:
        """(n, dim) unit rows; zeros for a chunk without a vector."""
        vectors = np.zeros((len(self.candidates), self.statistics.sample.shape[1]), dtype=np.float32)
        for row, each in enumerate(self.candidates):
            if each.vector is not None:
                vectors[row] = each.vector
        return vectors

    @cached_property
    def dense(self) -> Floats | None:
        """(V, n) cosines; None without a dense arm."""
        return None if self.queries is None else cosines(self.vectors, self.queries).astype(np.float64)

    @cached_property
    def age_hours(self) -> Floats:
        """(n,) hours from event to `now`; NaN without a time."""
        now = microseconds(self.request.now)
        times = [each.time for each in self.candidates]
        return np.array([np.nan if time is None else (now - time) / MICROSECONDS_PER_HOUR for time in times])

    @cached_property
    def lexical_rank(self) -> Ints:
        """(V, n) rank of each row among the best `depth` by decayed BM25, from 1; NOT_RANKED for the others."""
        scores = self.lexical.scores
        return ranked(weighted(scores, self._weights), scores > 0, self.request.depth)

    @cached_property
    def dense_rank(self) -> Ints:
        """(V, n) rank of each row among the best `depth` by decayed cosine, from 1; NOT_RANKED for the others."""
        if self.queries is None or self.dense is None:
            return np.full(self.lexical.scores.shape, NOT_RANKED, dtype=np.int64)
        hits: Bools = np.outer(self.queries.any(axis=1), self.vectors.any(axis=1))
        return ranked(weighted(self.dense, self._weights), hits, self.request.depth)

    @cached_property
    def _weights(self) -> Floats | None:
        return self.request.decay_weights(self.age_hours)

    def without_unranked(self) -> CandidateRows:
        """The rows that an arm ranks or a probe names."""
        named = set(self.request.probe_ids())
        ranked_rows = (np.concatenate([self.lexical_rank, self.dense_rank]) != NOT_RANKED).any(axis=0)
        pairs = zip(self.candidates, ranked_rows, strict=True)
        kept = [each for each, is_ranked in pairs if is_ranked or each.id in named]
        return replace(self, candidates=kept)

    def best(self) -> list[str]:
        """Ids of the first `depth // NEIGHBOURS_OF` rows of each ranking; their neighbours join the pool."""
        ranks = np.concatenate([self.lexical_rank, self.dense_rank])
        is_best = ((ranks != NOT_RANKED) & (ranks <= self.request.depth // NEIGHBOURS_OF)).any(axis=0)
        return [self.candidates[row].id for row in np.flatnonzero(is_best).tolist()]

    def enough(self) -> bool:
        """Whether each arm that was asked ranks `depth` rows for every variation."""
        arms = [self.lexical_rank] if self.request.strategy != "vector" else []
        arms += [self.dense_rank] if self.queries is not None else []
        return all(int(ranks.max(initial=0)) >= self.request.depth for arm in arms for ranks in arm)

    def pool(self, trace: RecallTrace) -> Pool:
        """The rows as a pool."""
        source = source_codes(each.source for each in self.candidates)
        listed = (self.lexical_rank != NOT_RANKED) | (self.dense_rank != NOT_RANKED)
        of_sources = self.scorer.sources(self.candidates, source, listed)
        return Pool.of(
            [each.id for each in self.candidates],
            lexical=self.lexical.scores,
            dense=self.dense,
            vectors=self.vectors,
            query_vectors=self.queries,
            lexical_rank=self.lexical_rank,
            dense_rank=self.dense_rank,
            lexical_bound=self.lexical.bound,
            coverage=self.scorer.coverage(),
            source_lexical=of_sources.scores,
            source_bound=of_sources.bound,
            source=source,
            position=indices_in_source(self.candidates, self.following),
            length=np.array([each.length for each in self.candidates], dtype=np.int64),
            age_hours=self.age_hours,
            mode="text" if self.queries is None else self.request.strategy,
            calibration=self.statistics.calibration,
            degraded=tuple(trace.degraded),
            facts=trace.facts,
            background=self._background(),
        )

    def _background(self) -> Background | None:
        """The cosines of the queries with a sample of the collection."""
        return None if self.queries is None else cosine_background(cosines(self.statistics.sample, self.queries))
