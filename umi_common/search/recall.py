"""Recall: one pool of candidates, for the query, for the LLM's variations of it, and from extra arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta, timezone
from functools import partial

import numpy as np

from umi_common.pool import CHUNKS_WITH_TIME, NOT_RANKED, Floats, Pool
from umi_common.protocols import Probe, RecallRequest, Store
from umi_common.query.rewriting.rewrite import Rewrites
from umi_common.query.routing import Decision, route, weigh_evidence
from umi_common.query.time.find import TimeOrder, When, time_order, without_count
from umi_common.query.time.stated import written
from umi_common.runtime.calls import Body, Call, CallFailure, CallOutcome, value_of
from umi_common.runtime.losses import log_bug, warn_once
from umi_common.search.extra_arms import ArmHits
from umi_common.search.reorder.in_time_order import (
    AGE_HOURS_MIN,
    CHUNKS_BEFORE_CORRECTION,
    comparable,
    of_several,
)
from umi_common.search.request import Search, SearchRequest
from umi_common.types import Chunk, TimeRange, age_in_hours

SPECIFIC_BOUND = 6.0
"""A question is specific if a text could reach a larger BM25 than this for it; the rest of the query then counts less
than the question. Two rare words reach more, the common words of "what are the next steps?" less."""
CONTEXT_RATIO = 2.0
"""The whole query keeps its full weight if it has at most this many other words for each word of its questions. Few
other words are the context of the questions: "I just bought a flat. Can I deduct the interest?"."""
HALVINGS = 10.0
"""Number of times that a decay halves scores between now and the `limit`-th latest candidate: a text from now with .3
of the best BM25 comes behind the latest sixth of the texts in between that have the best BM25."""
NO_TIMES = (
    "a time range passes no chunk, because no chunk of the store has a time; set Chunk(event_time=...), or in a "
    'framework the metadata key "timestamp", or name the key that holds it: time_key="date". Logged once.'
)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The candidates of one search."""

    pool: Pool
    variations: tuple[str, ...] = ()
    """The LLM's variations of the query that were searched."""
    arm_hits: Mapping[str, ArmHits] = field(default_factory=dict)
    """The hits of the extra arms, by name of the arm."""
    chunks_not_in_store: Mapping[str, Chunk] = field(default_factory=dict)
    """Chunks of the pool that only an extra arm has, by id."""
    added_ids: tuple[str, ...] = ()
    """Ids of chunks that are candidates even if no arm finds them for the query: those of `_recall_period` if the query
    names a period, else the `ids` given to `recall` and those that `_with_more_in_time_order` adds."""


def recall(search: Search, when: When | None = None, ids: tuple[str, ...] = ()) -> Body[Recalled]:
    """The candidates of the store and of the extra arms for the query.

    If the query names a period, the store is first searched in this period, and the best chunks of that search are
    candidates, too. If the query alone decides that the LLM is asked, the LLM is called at the same time as the store,
    and the candidates for its variations are added. In routing mode "evidence", `recall_more` is called afterwards.

    Args:
        when: The period that the query names and whose chunks get higher scores; None: there is none.
        ids: Chunks that become candidates, too; not used if `when` is given.

    Raises:
        SearchUnavailable: If no arm of the store answers.
    """
    request = search.request
    decision = _decide_beforehand(search)
    of_period = None
    if when is not None:
        ids, of_period = yield from _recall_period(search, when)
    calls = [_ask_store(search, _probes(search, ids), earlier=of_period, first=_first_with_period(request))]
    arms = search.components.arms if request.strategy == "hybrid" else None
    if arms is not None:
        calls += arms.calls(request, search.config.extra_arms)
    deep = decision is not None and decision.deep
    if deep:
        calls.append(_ask_llm(search))
    with search.trace.stage("recall") as facts:
        of_store, *others = yield tuple(calls)
        of_llm = others.pop() if deep else None
        pool = _pool_of(of_store, request)
        facts.update(candidates=len(pool), mode=pool.mode, **pool.facts)
        if request.searched != request.query:
            facts["words_left_out"] = len(request.query.split()) - len(request.searched.split())
        if request.time_range is not None and pool.facts.get(CHUNKS_WITH_TIME) == 0:
            warn_once("time range", "", NO_TIMES)
        arm_hits = {} if arms is None else arms.hits(others, search.trace)
        if arm_hits:
            facts["arms"] = {name: len(hits.scores) for name, hits in arm_hits.items()}
    recalled = Recalled(_with_losses(of_period, pool), arm_hits=arm_hits, added_ids=ids)
    order = time_order(request.asked) if search.config.when.enabled and search.config.when.order_boost else None
    if order is not None and when is None and request.time_range is None and request.strategy == "hybrid":
        recalled = yield from _with_more_in_time_order(search, recalled, order)
    if of_llm is not None:
        recalled = yield from _with_variations(search, recalled, value_of(of_llm))
    if decision is not None:
        search.trace.add("route", deep=decision.deep, reasons=decision.reasons, **decision.signals)
    return (yield from _join_arms(search, recalled))


def _decide_beforehand(search: Search) -> Decision | None:
    """Whether to ask the LLM, decided by the query and the settings alone; None: `recall_more` decides, by the evidence
    that the first recall finds."""
    mode = search.config.routing.mode
    if search.components.rewriting is None:
        return Decision(False, ("no rewriter",))
    if not search.request.deep_search:
        return Decision(False, ("deep_search is off",))
    if mode == "heuristic":
        return route(search.request.query)
    return None if mode == "evidence" else Decision(mode == "always", (f"mode {mode}",))


def _recall_period(search: Search, when: When) -> Body[tuple[tuple[str, ...], Pool | None]]:
    """(ids, pool) of two searches for the period that the query names.

    The first searches for the query, in chunks whose time lies in the period; `pool` is its result, None if the store
    fails. The second is a lexical search for the period's day or month, as texts write it (`written`). `ids` are the
    best `request.limit` chunks of each arm in both searches.

    In a long memory, the candidates for the query may hold no chunk of the period: "what did I say yesterday" has few
    words, and "12 March 2023" and "2023-03-12" have one word in common.
    """
    request = search.request
    limited = replace(request, time_range=from_midnight_utc(when.range, request.now))
    probes = [replace(probe, references=False) for probe in _probes(search)][_first_with_period(request) :]
    calls = [_ask_store(replace(search, request=limited), probes, depth=request.limit)]
    words = written(when.range, request.now.tzinfo)
    if words and request.strategy != "vector":
        start, end = when.span
        probe = Probe(f"{request.asked[:start]} {request.asked[end:]} {words}")
        by_words = replace(search, request=replace(request, strategy="text"))
        calls.append(_ask_store(by_words, [probe], depth=request.limit))
    best, pools = set[str](), list[Pool | None]()
    with search.trace.stage("recall period") as facts:
        for outcome in (yield tuple(calls)):
            if isinstance(outcome, CallFailure):
                lost = "raised only the chunks of the period that the query itself finds"
                search.trace.failed("period", outcome.error, lost)
                pools.append(None)
            else:
                pools.append(pool := _pool_of(outcome, request))
                best.update(pool.ids_at(np.flatnonzero(pool.ranked_within(request.limit))))
        facts.update(candidates=len(best))
    return tuple(sorted(best)), pools[0]


def from_midnight_utc(period: TimeRange, now: datetime) -> TimeRange:
    """The period, begun at midnight UTC of its first day if it begins at a later midnight in the time zone of `now`: a
    chunk whose time is only a date has midnight UTC as its time. Any other period is unchanged."""
    start = None if period.start is None else period.start.astimezone(now.tzinfo)
    if start is None or start.time() != time():
        return period
    return replace(period, start=min(start, start.replace(tzinfo=timezone.utc)))


def _with_more_in_time_order(search: Search, recalled: Recalled, order: TimeOrder) -> Body[Recalled]:
    """The candidates, and further chunks that are later ("latest") or earlier ("first") than most of them; `recalled`
    itself if there are none, if less than half of what the lexical arm ranks may be compared by time, or if the store
    fails at one of these two calls.

    "The last error of auth" matches thousands of lines equally, and the lexical arm ranks only `recall.depth` of them.
    So it is asked again, for the time beyond the `request.limit` latest or earliest of these. A decay then prefers the
    latest of equal BM25; nothing prefers the first.
    """
    pool, request, depth = recalled.pool, search.request, search.config.recall.depth
    several = of_several(request.asked, order)
    near = (pool.lexical_rank[0] != NOT_RANKED) & comparable(pool, several)
    ages = pool.age_hours[near & (np.isfinite(pool.age_hours) if order == "first" else pool.age_hours >= AGE_HOURS_MIN)]
    if near.sum() < depth / 2 or not len(ages):
        return recalled
    ages, known, config = np.sort(ages), min(request.limit, len(ages)) - 1, search.config
    if order == "first":
        beyond = TimeRange(None, request.now - timedelta(hours=float(ages[-1 - known])))
    else:
        age = max(float(ages[known]), 1.0)
        beyond = TimeRange(request.now - timedelta(hours=age), request.now - timedelta(hours=AGE_HOURS_MIN))
        config = config.replaced(decay={"half_life_hours": age / HALVINGS, "floor": 0.0})
    limited = replace(request, time_range=beyond, strategy="text")
    by_time = replace(search, request=limited, components=replace(search.components, config=config))

    def failed(outcome: CallFailure) -> Recalled:
        search.trace.failed("time order", outcome.error, "put only the candidates for the query in the order of time")
        return recalled

    with search.trace.stage("recall ties") as facts:
        (outcome,) = yield (_ask_store(by_time, [Probe(without_count(request.searched))], depth=depth),)
        if isinstance(outcome, CallFailure):
            return failed(outcome)
        found = _pool_of(outcome, limited)
        missing = sorted(set(found.ids_at(np.flatnonzero(comparable(found, several)))).difference(pool.ids))
        facts.update(found=len(missing))
        if not missing:
            return recalled
        (outcome,) = yield (_ask_again(search, recalled, (), missing),)
        if isinstance(outcome, CallFailure):
            return failed(outcome)
    pool = _with_losses(pool, _pool_of(outcome, request))
    return replace(recalled, pool=pool, added_ids=(*recalled.added_ids, *missing))


def _with_variations(search: Search, recalled: Recalled, rewrites: Rewrites) -> Body[Recalled]:
    """The store's candidates for the query and the LLM's variations of it; `recalled` itself if there are no
    variations, or if the search for them fails."""
    trace = search.trace
    trace.add("rewrite", variations=len(rewrites.variations), **rewrites.facts)
    if rewrites.degraded is not None:
        trace.degraded.append(rewrites.degraded)
    if not rewrites.variations:
        return recalled
    with trace.stage("recall variations") as facts:
        (outcome,) = yield (_ask_again(search, recalled, rewrites.variations),)
        if isinstance(outcome, CallFailure):
            log_bug("rewriter", outcome.error)
            reason = f"searching its variations failed with {type(outcome.error).__name__}"
            trace.degrade("rewriter", reason, "searched with the original query alone")
            return recalled
        wider = _pool_of(outcome, search.request)
        facts.update(candidates=len(wider), **wider.facts)
    return replace(recalled, pool=_with_losses(recalled.pool, wider), variations=rewrites.variations)


def _join_arms(search: Search, recalled: Recalled) -> Body[Recalled]:
    """The candidates of store and extra arms, with the arms' scores; `recalled` itself if no arm found a chunk."""
    arm_hits = recalled.arm_hits
    if not arm_hits:
        return recalled
    missing = sorted({id for hits in arm_hits.values() for id in hits.scores}.difference(recalled.pool.ids))
    if missing:
        recalled = yield from _with_arm_hits(search, recalled, missing)
    pool = recalled.pool
    extra = {name: np.array([hits.scores.get(id, 0.0) for id in pool.ids]) for name, hits in arm_hits.items()}
    return replace(recalled, pool=replace(pool, extra={name: scores for name, scores in extra.items() if scores.any()}))


def _with_arm_hits(search: Search, recalled: Recalled, missing: Sequence[str]) -> Body[Recalled]:
    """The candidates and the hits of extra arms that the pool lacks, whose ids are `missing`. The store scores the hits
    that it holds. The others are added without scores of the store, if they pass the filter and the time range."""
    request, trace = search.request, search.trace
    pool = recalled.pool
    with trace.stage("join arms") as facts:
        recall_again = _ask_again(search, recalled, recalled.variations, missing)
        outcome, stored = yield (recall_again, ask_chunks(search.store, missing))
        if isinstance(stored, CallFailure):
            trace.failed("arms", stored.error, "left out the chunks that the store lacks")
        if isinstance(outcome, CallFailure):
            lost = "ranked the chunks that only extra arms found, without scores of the store"
            trace.failed("arms", outcome.error, lost)
        else:
            pool = _with_losses(pool, _pool_of(outcome, request))
        of_store = {} if isinstance(stored, CallFailure) else dict(zip(missing, stored, strict=True))
        of_arms = {id: chunk for hits in recalled.arm_hits.values() for id, chunk in hits.chunks.items()}
        scored, unscored = set(pool.ids), dict[str, Chunk]()
        for id, own in of_store.items():
            chunk = of_arms.get(id) if own is None else own
            if id not in scored and chunk is not None and request.passes(chunk):
                unscored[id] = chunk
        ages = [age_in_hours(chunk.event_time, request.now) for chunk in unscored.values()]
        pool = pool.with_rows(tuple(unscored), ages)
        facts.update(missing=len(missing), joined=len(set(missing).intersection(pool.ids)))
    not_in_store = {id: chunk for id, chunk in unscored.items() if of_store[id] is None}
    return replace(recalled, pool=pool, chunks_not_in_store=not_in_store)


def recall_more(search: Search, recalled: Recalled, scores: Floats) -> Body[Recalled | None]:
    """The candidates for the query and the LLM's variations of it, if the evidence of `recalled` is so weak that the
    LLM is asked; None: no variation was searched.

    Args:
        recalled: The candidates for the query alone.
        scores: (n,) final score of each row of `recalled.pool`, before a reranker.
    """
    if _decide_beforehand(search) is not None:
        return None
    decision = weigh_evidence(recalled.pool, scores, search.request.query, config=search.config.routing)
    search.trace.add("route", deep=decision.deep, reasons=decision.reasons, **decision.signals)
    if not decision.deep:
        return None
    with search.trace.stage("wait for the LLM"):
        (reply,) = yield (_ask_llm(search),)
    wider = yield from _with_variations(search, recalled, value_of(reply))
    return None if wider is recalled else (yield from _join_arms(search, wider))


def _probes(search: Search, ids: tuple[str, ...] = (), variations: Sequence[str] = ()) -> list[Probe]:
    """A probe for the query, for each text of `SearchRequest.questions` and for each of the LLM's variations.

    References are looked up for the questions alone if `words_around` is larger than CONTEXT_RATIO; else for the query
    alone, unless it is pasted text.

    Args:
        ids: `Probe.ids` of the first probe.
    """
    request, enabled = search.request, search.config.references.enabled
    by_questions = request.words_around > CONTEXT_RATIO
    by_query = not by_questions and request.asked == request.searched
    return [
        Probe(request.searched, request.query_vector, ids, request.query, references=enabled and by_query),
        *(Probe(question, references=enabled and by_questions) for question in request.questions),
        *map(Probe, variations),
    ]


def _first_with_period(request: SearchRequest) -> int:
    """Index of the first probe that may name a period: 0, the query, or 1 if the query is pasted text, in which only
    the questions may name one."""
    return 1 if request.questions and request.asked != request.searched else 0


def _with_losses(earlier: Pool | None, pool: Pool) -> Pool:
    """The pool, with the losses of an earlier recall of the search added to its own."""
    return pool if earlier is None else replace(pool, degraded=(*earlier.degraded, *pool.degraded))


def _ask_again(search: Search, recalled: Recalled, variations: Sequence[str], missing: Sequence[str] = ()) -> Call:
    """The call that recalls for the query and these variations, with the chunks `missing` in `recalled` added."""
    probes = _probes(search, (*recalled.added_ids, *missing), variations)
    return _ask_store(search, probes, earlier=recalled.pool)


def _ask_store(
    search: Search, probes: Sequence[Probe], earlier: Pool | None = None, first: int = 0, depth: int | None = None
) -> Call:
    """The call that recalls the store's pool for these probes. Calls of searches that wait at the same time run as one
    batch.

    Args:
        earlier: An earlier pool of the search. Its query vectors are not made again. If the embedder failed for it, it
            is not called again.
        first: Index in `probes` of the first probe of `earlier`.
        depth: Number of candidates of each arm; chunks beside them are left out. None: both are as in the settings.
    """
    request, config, probes = search.request, search.config, [*probes]
    if earlier is not None and earlier.query_vectors.shape[1]:
        for at, vector in enumerate(earlier.query_vectors, first):
            probes[at] = replace(probes[at], vector=vector)
    embedder_failed = earlier is not None and earlier.mode == "text"
    around = config.recall.around if config.neighbours.enabled and depth is None else 0
    if around and time_order(request.asked) == "latest":
        around = max(around, CHUNKS_BEFORE_CORRECTION)
    recall_request = RecallRequest(
        probes,
        depth=depth or max(config.recall.depth, request.limit),
        now=request.now,
        where=request.where,
        window=request.time_range,
        lexical=config.lexical,
        decay=config.decay,
        around=around,
        strategy="text" if embedder_failed else request.strategy,
        embedder_timeout_seconds=config.recall.embedder_timeout_seconds,
    )
    prepare = getattr(search.store, "aembed", None)
    return Call.batched(("recall", id(search.store)), [recall_request], partial(_recall_each, search.store), prepare)


def _recall_each(store: Store, searches: Sequence[RecallRequest]) -> list[Pool]:
    """A pool for each request: from one call for all if the store has `recall_many`, else from one call for each."""
    recall_many: Callable[[Sequence[RecallRequest]], list[Pool]] | None = getattr(store, "recall_many", None)
    if recall_many is not None and len(searches) > 1:
        return recall_many(searches)
    return [each.run(store) for each in searches]


def ask_chunks(store: Store, ids: Sequence[str]) -> Call:
    """The call that gets the store's chunks, aligned with ids; None for an id that the store lacks."""
    return Call.batched(("get", id(store)), ids, store.get)


def _ask_llm(search: Search) -> Call:
    rewriting = search.components.rewriting
    assert rewriting is not None, "the LLM is asked only if there is one"
    asked = search.request.query, search.request.history
    return Call(partial(rewriting.variations, *asked), partial(rewriting.avariations, *asked))


def _pool_of(outcome: CallOutcome, request: SearchRequest) -> Pool:
    """The pool of a finished call, with the scores of the strategy's arms alone. Raises the call's error.

    The query's weight in fusion is below 1 if it holds a specific question and much other text.
    """
    pool: Pool = value_of(outcome)[0]
    pool = pool if request.strategy == "hybrid" else pool.only(request.strategy)
    bounds = pool.lexical_bound[1 : 1 + len(request.questions)]
    if not request.words_around or not bounds.any():
        return pool
    weight = max(SPECIFIC_BOUND / float(bounds.max()), CONTEXT_RATIO / request.words_around)
    return pool if weight >= 1.0 else replace(pool, query_weight=weight)
