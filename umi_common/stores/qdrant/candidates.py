"""The candidates of a search: scored and ranked by both arms, and made into a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from umi_common.pool import NOT_RANKED, Pool, Vectors, source_codes
from umi_common.protocols import NEIGHBOURS_OF, RecallRequest
from umi_common.stores.corpus_stats import cosine_background
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.qdrant.bm25 import CandidateScorer
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
        queries: (V, dim) unit vectors, zeros for a query that finds nothing; None: the dense arm is not searched.
        scorer: BM25 of the query variations.
        following: id -> the next id in the same source, as far as it is known.
    """

    candidates: Sequence[Candidate]
    request: RecallRequest
    queries: Vectors | None
    scorer: CandidateScorer
    statistics: Statistics
    following: Mapping[str, str]

    @cached_property
    def in_arms(self) -> Pool:
        """A pool of the rows with the scores and ranks of both arms, without the fields about their sources."""
        (lexical, bound), now = self.scorer.score(self.candidates), microseconds(self.request.now)
        times = [each.time for each in self.candidates]
        age_hours = np.array([np.nan if time is None else (now - time) / MICROSECONDS_PER_HOUR for time in times])
        vectors = np.zeros((len(self.candidates), self.statistics.sample.shape[1]), dtype=np.float32)
        for row, each in enumerate(self.candidates):
            if each.vector is not None:
                vectors[row] = each.vector
        return Pool.of(
            [each.id for each in self.candidates],
            lexical=lexical,
            lexical_bound=bound,
            rare=self.scorer.rare(self.candidates),
            dense=None if self.queries is None else cosines(vectors, self.queries).astype(np.float64),
            vectors=vectors,
            query_vectors=self.queries,
            weights=self.request.decay_weights(age_hours),
            depth=self.request.depth,
            age_hours=age_hours,
            mode="text" if self.queries is None else self.request.strategy,
        )

    def without_unranked(self) -> CandidateRows:
        """The rows that an arm ranks or a probe names."""
        named = set(self.request.probe_ids())
        pairs = zip(self.candidates, self.in_arms.ranked_within(self.request.depth), strict=True)
        kept = [each for each, is_ranked in pairs if is_ranked or each.id in named]
        return replace(self, candidates=kept)

    def best(self) -> list[str]:
        """Ids of the first `depth // NEIGHBOURS_OF` rows of each ranking; their neighbours join the pool."""
        pool = self.in_arms
        return pool.ids_at(np.flatnonzero(pool.ranked_within(self.request.depth // NEIGHBOURS_OF)))

    def enough(self) -> bool:
        """Whether each arm of the search ranks `depth` rows for every variation."""
        arms = [self.in_arms.lexical_rank] if self.request.strategy != "vector" else []
        arms += [self.in_arms.dense_rank] if self.queries is not None else []
        return all(int(ranks.max(initial=0)) >= self.request.depth for arm in arms for ranks in arm)

    def pool(self, trace: RecallTrace) -> Pool:
        """The rows as a pool."""
        pool, source = self.in_arms, source_codes(each.source for each in self.candidates)
        listed = (pool.lexical_rank != NOT_RANKED) | (pool.dense_rank != NOT_RANKED)
        source_lexical, source_bound = self.scorer.sources(self.candidates, source, listed)
        background = None
        if self.queries is not None:
            background = cosine_background(cosines(self.statistics.sample, self.queries))
        return replace(
            pool,
            coverage=self.scorer.coverage(),
            source_lexical=source_lexical,
            source_bound=source_bound,
            source=source,
            position=indices_in_source(self.candidates, self.following),
            length=np.array([each.length for each in self.candidates], dtype=np.int64),
            calibration=self.statistics.calibration,
            degraded=tuple(trace.degraded),
            facts=trace.facts,
            background=background,
        )
