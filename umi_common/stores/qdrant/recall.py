"""One search of the collection: mostly one batch of requests, and at most one more for neighbours.

    union        one request: a prefetch for each variation, arm and (with decay) range of ages, and one for the ids
                 that the probes name. The answer has each row once, with vectors, without text. More rows are requested
                 if too few of them pass a filter that has no equal condition of Qdrant (see `filters`).
    peaks        one request for each query term; see `bm25.peak_requests`
    statistics   two samples, if the cached statistics are too old; see `statistics.sample_requests`

The server's scores only decide which rows are in the union. umi itself computes the scores of these rows in both arms,
and from the scores the ranks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from umi_common.config import DecayConfig
from umi_common.errors import SearchUnavailable, StoreUnavailable
from umi_common.filters import matches
from umi_common.pool import NOT_RANKED, Pool, Vectors, source_codes
from umi_common.protocols import NEIGHBOURS_OF, Probe, RecallRequest
from umi_common.stores.corpus_stats import cosine_background
from umi_common.stores.dense.cosines import cosines
from umi_common.stores.qdrant.bm25 import (
    CandidateScorer,
    TermWeights,
    peak_requests,
    peaks_of,
    sparse_query,
    weighted_indices,
)
from umi_common.stores.qdrant.collection import OpenCollection, settings_request
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.filters import EARLIEST, Compiled, all_conditions, compiled, in_range
from umi_common.stores.qdrant.neighbours import at_positions, beside, indices_in_source, missing_positions
from umi_common.stores.qdrant.points import DENSE, HEAD, LEXICAL, Candidate, own_points, point_id, to_candidate
from umi_common.stores.qdrant.statistics import sample_requests, statistics_of
from umi_common.stores.values import RecallTrace
from umi_common.types import MICROSECONDS_PER_HOUR, from_microseconds, microseconds

PROBES_AT_ONCE = 12
"""Largest number of probes of several searches that share a round trip. A search with more, at most 15, is alone."""
MARGIN = 1.25
"""Depth of a prefetch divided by the depth of the search. It is above 1 because the server orders rows differently from
umi: by a fixed average length, and without decay within a range of ages. Measured in docs/scale.md."""
MARGIN_MIN = 32
"""Smallest difference between the depth of a prefetch and of the search, so that umi can order ties at the depth by
id."""
WIDER = 4
"""Factor on the depth when a batch is sent again because too few rows of an arm passed an inexact filter."""
ROUNDS_MAX = 4
"""Largest number of times that a batch is sent, the first time included."""
AGE_RANGES = 4
"""With decay, the number of ranges of ages, each with a prefetch of its own: within a range, decay changes the order of
rows little."""
FACTOR_MIN = 0.05
"""The ranges of ages divide the decay factors from 1 down to this factor, in equal ratios. The last range also holds
all smaller factors."""


def recall_many(
    collection: OpenCollection,
    queries: Sequence[Vectors | None],
    requests: Sequence[RecallRequest],
    traces: Sequence[RecallTrace],
) -> list[Pool]:
    """The candidates of each search; see `protocols.Store`. Searches that differ only in their probes share a batch.

    Args:
        queries: For each search, the (V, dim) unit vectors of its probes; None: there are none.

    Raises:
        SearchUnavailable: If the server fails; or if the embedder fails and only the dense arm is searched.
    """
    pools: dict[int, Pool] = {}
    for batch in _batches(queries, requests, traces):
        first, start = batch[0], 0
        vectors = [own for own in map(queries.__getitem__, batch) if own is not None]
        together = replace(requests[first], probes=[probe for index in batch for probe in requests[index].probes])
        pool = _Search(collection, np.concatenate(vectors) if vectors else None, together, traces[first]).pool()
        if len(batch) == 1:
            pools[first] = pool
            continue
        best, around = together.depth // NEIGHBOURS_OF, together.around
        for index in batch:
            own_probes = slice(start, start + len(requests[index].probes))
            start = own_probes.stop
            ids = frozenset(requests[index].probe_ids())
            pools[index] = pool.of_variations(own_probes, best=best, around=around, ids=ids)
    return [pools[index] for index in range(len(requests))]


def _batches(
    queries: Sequence[Vectors | None], requests: Sequence[RecallRequest], traces: Sequence[RecallTrace]
) -> list[list[int]]:
    """The indices of the searches, grouped into batches. The searches of a batch differ only in their probes, and have
    at most PROBES_AT_ONCE probes."""
    batches: list[list[int]] = []
    last: dict[Hashable, list[int]] = {}  # kind of search -> its last batch
    for index, (vectors, request, trace) in enumerate(zip(queries, requests, traces, strict=True)):
        kind = (replace(request, probes=()), vectors is None, tuple(trace.degraded))
        batch = last.get(kind)
        if batch is None or sum(len(requests[other].probes) for other in (*batch, index)) > PROBES_AT_ONCE:
            batch = last[kind] = []
            batches.append(batch)
        batch.append(index)
    return batches


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """One search, or several in one batch; the fields are arguments of `recall_many`.

    Its candidates are sorted by id, and pass the filter and the time range.
    """

    collection: OpenCollection
    queries: Vectors | None
    request: RecallRequest
    trace: RecallTrace

    def pool(self) -> Pool:
        """The rows that an arm ranks or a probe names, and the neighbours of the best rows of each ranking."""
        begun = time.perf_counter()
        if self.queries is None and self.request.strategy == "vector":
            raise SearchUnavailable(self.trace.reasons())
        try:
            candidates, scorer, best = self._found()
            answered = time.perf_counter()
            near, following = self._neighbours(candidates, best, scorer.statistics.gapless)
        except StoreUnavailable as error:
            raise SearchUnavailable(str(error)) from error
        self.trace.facts |= {
            "chunks": scorer.statistics.chunks,
            "dense_engine": "qdrant",
            "arms_ms": (answered - begun) * 1e3,
            "neighbours_ms": (time.perf_counter() - answered) * 1e3,
        }
        candidates = _by_id({each.id: each for each in (*near, *candidates)}.values())
        pool, source = self._in_arms(candidates, scorer), source_codes(each.source for each in candidates)
        background = None
        if self.queries is not None:
            background = cosine_background(cosines(scorer.statistics.sample, self.queries))
        is_ranked = (pool.lexical_rank != NOT_RANKED) | (pool.dense_rank != NOT_RANKED)
        return replace(
            pool,
            coverage=scorer.coverage(),
            source_lexical=scorer.sources(candidates, source, is_ranked),
            source=source,
            position=indices_in_source(candidates, following),
            length=np.array([each.length for each in candidates], dtype=np.int64),
            calibration=scorer.statistics.calibration,
            degraded=tuple(self.trace.degraded),
            facts=self.trace.facts,
            background=background,
        )

    def _found(self) -> tuple[list[Candidate], CandidateScorer, list[str]]:
        """The rows that an arm ranks or a probe names; their scorer; and the ids of the first `depth // NEIGHBOURS_OF`
        rows of each ranking, whose neighbours join the pool."""
        request = self.request
        where = compiled(request.where, request.window, self.collection.tenants)
        self.trace.facts["filter"] = "exact" if where.exact else "widened"
        depth = request.depth
        for _ in range(ROUNDS_MAX):
            limit = max(math.ceil(depth * MARGIN), depth + MARGIN_MIN)
            answer, scorer = self._union(where, limit)
            candidates = _by_id(each for each in answer if _passes(each, request))
            pool = self._in_arms(candidates, scorer)
            if where.exact or len(candidates) == len(answer) or _enough(pool, request.depth, answer, scorer, limit):
                break
            depth *= WIDER
        named = set(request.probe_ids())
        pairs = zip(candidates, pool.ranked_within(request.depth), strict=True)
        found = [each for each, is_ranked in pairs if is_ranked or each.id in named]
        return found, scorer, pool.ids_at(np.flatnonzero(pool.ranked_within(request.depth // NEIGHBOURS_OF)))

    def _in_arms(self, candidates: Sequence[Candidate], scorer: CandidateScorer) -> Pool:
        """A pool of the candidates with the scores and ranks of both arms, without the fields about their sources."""
        lexical, bound = scorer.score(candidates)
        now = microseconds(self.request.now)
        times = [each.time for each in candidates]
        age_hours = np.array([np.nan if time is None else now - time for time in times]) / MICROSECONDS_PER_HOUR
        vectors = np.zeros((len(candidates), self.collection.dim), dtype=np.float32)
        for row, each in enumerate(candidates):
            if each.vector is not None:
                vectors[row] = each.vector
        return Pool.of(
            [each.id for each in candidates],
            lexical=lexical,
            lexical_bound=bound,
            rare=scorer.rare(candidates),
            dense=None if self.queries is None else cosines(vectors, self.queries).astype(np.float64),
            vectors=vectors,
            query_vectors=self.queries,
            weights=self.request.decay_weights(age_hours),
            depth=self.request.depth,
            age_hours=age_hours,
            mode="text" if self.queries is None else self.request.strategy,
        )

    def _union(self, where: Compiled, limit: int) -> tuple[list[Candidate], CandidateScorer]:
        """Request the best `limit` rows of each arm and variation; returns them and their scorer."""
        request, collection = self.request, self.collection
        lexical = request.strategy != "vector"
        analyzer, weight = collection.analyzer, request.lexical.function_word_weight
        terms = [weighted_indices(probe.text, analyzer, weight) if lexical else {} for probe in request.probes]
        prefetches = _of_probe_ids(request.probes, where.condition)
        for age in age_ranges(microseconds(request.now), request.decay):
            prefetches += self._arms(terms, all_conditions(where.condition, age), limit)
        union = [_merged(prefetches)] if prefetches else []
        mark = collection.statistics.mark()
        samples = [] if mark is None else sample_requests()
        requests = [settings_request(), *samples, *union, *peak_requests(terms)]
        answers = iter(collection.connection.query(requests))  # in the order of the requests
        collection.check(next((point.payload for point in next(answers)), None))
        if mark is None:
            statistics = collection.statistics.cached()
        else:
            drawn = statistics_of(next(answers), next(answers), collection.dim)
            statistics = collection.statistics.keep(drawn, mark)
        found = list(map(to_candidate, own_points(next(answers)))) if union else []
        peaks = peaks_of(terms, list(answers))
        return found, CandidateScorer(terms, peaks, collection.saturation, request.lexical, statistics)

    def _arms(self, terms: Sequence[TermWeights], where: Any, limit: int) -> Iterator[Any]:
        """A prefetch for each variation and arm."""
        prefetch, params = models().Prefetch, self.collection.search_params
        for v, weights in enumerate(terms):
            if weights:
                yield prefetch(query=sparse_query(weights), using=LEXICAL, filter=where, limit=limit)
            if self.queries is not None and self.queries[v].any():
                query = self.queries[v].tolist()
                yield prefetch(query=query, using=DENSE, filter=where, limit=limit, params=params)

    def _neighbours(
        self, candidates: Sequence[Candidate], best: Sequence[str], gapless: bool
    ) -> tuple[list[Candidate], Mapping[str, str]]:
        """The chunks near the candidates with the ids `best`; and id -> the next id in the same source, if known."""
        around, connection = self.request.around, self.collection.connection
        known = {each.id: each for each in candidates}
        missing = missing_positions(known, best, around)
        self.trace.facts["positions_looked_up"] = sum(map(len, missing.values()))
        following: Mapping[str, str] = {}
        if not missing:
            return [], following
        if gapless:
            found = at_positions(connection, missing)
        else:
            seen = beside(connection, [known[id] for id in best], around, payload=HEAD, vectors=True)
            found, following = [seen.points[id] for id in seen.around(best, around)], seen.following
        near = map(to_candidate, own_points(found))
        return [each for each in near if _passes(each, self.request)], following


def _by_id(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda each: each.id)


def _enough(pool: Pool, depth: int, answer: Sequence[Candidate], scorer: CandidateScorer, limit: int) -> bool:
    """Whether each arm, for every variation, ranks `depth` of the rows that pass (`pool`), or all that the server has:
    its `answer` then holds fewer than `limit` rows of the arm."""
    in_lexical = np.count_nonzero(scorer.matches(answer), axis=1)
    in_dense = np.where(pool.query_vectors.any(axis=1), len(answer), 0)
    for ranks, returned in ((pool.lexical_rank, in_lexical), (pool.dense_rank, in_dense)):
        if ((ranks.max(axis=1, initial=0) < depth) & (returned >= limit)).any():
            return False
    return True


def _merged(prefetches: Sequence[Any]) -> Any:
    m = models()
    limit = sum(prefetch.limit for prefetch in prefetches)
    merged = m.FusionQuery(fusion=m.Fusion.RRF)
    return m.QueryRequest(prefetch=list(prefetches), query=merged, limit=limit, with_payload=HEAD, with_vector=True)


def _of_probe_ids(probes: Sequence[Probe], condition: Any) -> list[Any]:
    """A prefetch for the ids that the probes name."""
    named = sorted({point_id(id) for probe in probes for id in probe.ids})
    if not named:
        return []
    where = all_conditions(condition, models().HasIdCondition(has_id=named))
    return [models().Prefetch(filter=where, limit=len(named))]


def age_ranges(now: int, decay: DecayConfig) -> list[Any]:
    """Conditions that divide all chunks into AGE_RANGES ranges of ages; chunks without a time are in the first range.

    Without decay the only condition is None.

    Args:
        now: Microseconds since 1970.
    """
    if decay.half_life_hours is None or decay.floor == 1.0:
        return [None]
    m = models()
    # At the end of the i-th range the factor, floor + (1 - floor) * 2^(-age / half-life), is least^(i / AGE_RANGES).
    floor, least = decay.floor, max(decay.floor, FACTOR_MIN)
    shares = [(least ** (at / AGE_RANGES) - floor) / (1.0 - floor) for at in range(1, AGE_RANGES)]
    ages = [-math.log2(share) * decay.half_life_hours * MICROSECONDS_PER_HOUR for share in shares]
    edges = [max(now - age, EARLIEST) for age in ages]
    timeless = m.IsEmptyCondition(is_empty=m.PayloadField(key="time"))
    older = [in_range("time", lt=edge, gte=further) for edge, further in zip(edges, [*edges[1:], None], strict=True)]
    return [m.Filter(should=[in_range("time", gte=edges[0]), timeless]), *older]


def _passes(each: Candidate, request: RecallRequest) -> bool:
    """Whether the row passes the filter and the time range; their condition in Qdrant may be inexact."""
    if request.window is not None and (each.time is None or from_microseconds(each.time) not in request.window):
        return False
    return matches(request.where, each.metadata)
