"""The steps of one search, in `_search`, and of one context, in `context_body`.

In: a checked `SearchRequest`. Out: a `SearchResult`, or an `AssembledContext`. A search takes these steps:

    name the period, or the event    "last week", "after the meeting with Bob"
    recall                           one pool of candidates
    rank, fetch, reorder             by scores; the chunks of the best; by the texts of these chunks
    recall more, and rank again      if the LLM is asked only after weak results
    rerank, diversify                if there is a reranker, and if MMR is enabled
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import ConfigError
from umi_common.pool import Bools, Pool
from umi_common.protocols import OnStage
from umi_common.query.time.events import event_in
from umi_common.query.time.find import When, find_time
from umi_common.query.time.stated import day_is_first, spoken_without_year, states_date_in
from umi_common.ranking.period import PeriodBoost, in_period
from umi_common.runtime.calls import Body, Call, CallFailure, value_of
from umi_common.runtime.losses import log_once
from umi_common.search.fetch import chunks_beside, fetch, to_hits
from umi_common.search.passages import assemble_for
from umi_common.search.rank import RankedPool, diversify, interleaved, rank
from umi_common.search.recall import Recalled, ask_chunks, from_midnight_utc, recall, recall_more
from umi_common.search.reorder.late_interaction import one_word_excess
from umi_common.search.reorder.stages import ReorderStage, reorder_stages
from umi_common.search.request import Components, Search, SearchRequest
from umi_common.search.trace import TraceBuilder, observed_context, observed_search
from umi_common.types import Chunk, Degradation, Hit, SearchResult, Suppressed, TimeRange

HITS_FOR_EVENT = 10
"""Number of hits for an event whose times are compared with the period before or after the event."""
READ_OF_EACH_ARM = 50
"""The texts of the candidates up to this rank in an arm are read for dates; five times the default limit of a search.
Reading 100 short texts takes 1 ms, or up to 8 ms if each of them states a date."""
EXPLICIT_FACTOR = 5.0
"""Factor on the boost if the query limits when a chunk was recorded ("what did I say yesterday"). It is not larger,
because the user may mistake the day: a chunk outside the period that matches well must still come before chunks inside
the period that hardly match."""
MINIMUM_BY_WORDS = "min_relevance was compared with a relevance from BM25 alone, which is low for hits in other words"


def _search(components: Components, request: SearchRequest, on_stage: OnStage | None = None) -> Body[SearchResult]:
    """The result of one search, which is neither counted nor logged."""
    config, reranker, trace = components.config, components.reranker, TraceBuilder(on_stage)
    whole = limited = Search(components, request, trace)
    when = lifted = _period_in_query(whole)
    beside_event = {} if when is not None else (yield from _best_beside_event(whole))
    if when is not None and when.kind == "explicit" and config.when.mode == "filter":
        period = from_midnight_utc(when.range, request.now)
        limited, lifted = replace(whole, request=replace(request, time_range=period)), None
    recalled = yield from recall(limited, lifted, tuple(beside_event))
    if limited is not whole and not len(recalled.pool):
        trace.degrade("when", "no chunk lies in the period that the query names", "searched all times")
        limited = whole
        recalled = yield from recall(limited)
    chunks, ranked = yield from _rank_and_fetch(limited, recalled, when, lifted)
    wider = yield from recall_more(limited, recalled, ranked.scores)
    if wider is not None:
        recalled = wider
        chunks, ranked = yield from _rank_and_fetch(limited, recalled, when, lifted)
    if beside_event:
        chunks = {**beside_event, **chunks}
        row_of = {id: row for row, id in enumerate(recalled.pool.ids)}
        ranked = interleaved(ranked, [row_of[id] for id in beside_event if id in row_of])
    if reranker is not None and chunks and request.query:  # "": a search by a vector alone
        ranked = yield from reranker.rerank(request.query, recalled.pool, ranked, chunks, trace)
    if config.mmr.enabled:
        ranked = diversify(ranked, recalled.pool, config, request.limit, trace)
    return _result(whole, recalled, ranked, chunks)


search_body = observed_search(_search)
"""The result of one search. Raises SearchUnavailable if no arm of the store answers."""


def _best_beside_event(search: Search) -> Body[dict[str, Chunk]]:
    """By id and best first, the best chunks of the period before or after an event that the query names ("after the
    meeting with Bob"); {} if it names none, if nothing is found, or if a search fails.

    One search for the whole query would rank texts about the event first. So a first search looks for the event; the
    time of its best hit is the event's time. A second search looks for the rest of the query in the period. If all hits
    for the event lie in the period, there is no second search: their times, perhaps of an import, tell no events apart.
    """
    request = search.request
    reads = search.config.when.enabled and request.time_range is None and request.strategy == "hybrid"
    event = event_in(request.asked, request.now) if reads else None
    if event is None:
        return {}
    alone = replace(search.components, reranker=None, rewriting=None, arms=None)
    ask = partial(SearchRequest.checked, now=request.now, where=request.where)
    with search.trace.stage("event") as facts:
        try:
            about = yield from _search(alone, ask(query=event.phrase, limit=HITS_FOR_EVENT))
            moment = about.hits[0].chunk.event_time if about.hits and about.answerable is not False else None
            period = None if moment is None else event.period_beside(moment.astimezone(request.now.tzinfo))
            times = [hit.chunk.event_time for hit in about.hits]
            if period is None or all(time is None or time in period for time in times):
                return {}
            found = yield from _search(alone, ask(query=event.rest, limit=request.limit, time_range=period))
        except Exception as error:  # noqa: BLE001 - the query itself may still be answered
            search.trace.failed("event", error, "did not raise the chunks of the time that the query names")
            return {}
        facts.update(_bounds_of(period), found=len(found.hits))
    return {hit.chunk.id: hit.chunk for hit in found.hits if hit.chunk.id != about.ids[0]}


def _period_in_query(search: Search) -> When | None:
    """The period that the query names; None: it names none, `when` is off, or the caller gave a time range."""
    if not search.config.when.enabled or search.request.time_range is not None:
        return None
    with search.trace.stage("when") as facts:
        when = find_time(search.request.asked, search.request.now)
        if when is not None:
            facts.update(kind=when.kind, **_bounds_of(when.range))
    return when


def _period_boost(search: Search, recalled: Recalled, when: When) -> Body[PeriodBoost]:
    """The boost for the candidates whose time lies in the period, and for those of the best whose text states a date in
    it."""
    config, pool, now = search.config.when, recalled.pool, search.request.now
    factor = config.dated_boost if when.dated else config.boost
    boost = PeriodBoost(
        in_period(pool, when.range, now),
        factor * EXPLICIT_FACTOR if when.kind == "explicit" else factor,
        best_share=config.boost if when.raise_best else 0.0,
        first=when.nothing_else,
    )
    added = frozenset(recalled.added_ids)
    read = pool.ranked_within(READ_OF_EACH_ARM) | np.array([id in added for id in pool.ids], dtype=np.bool_)
    rows = np.flatnonzero(read & ~boost.lifted)
    if not len(rows):
        return boost
    with search.trace.stage("read dates") as facts:
        (outcome,) = yield (ask_chunks(search.store, pool.ids_at(rows)),)
        chunks = () if isinstance(outcome, CallFailure) else zip(rows.tolist(), outcome, strict=True)
        texts = {row: chunk.indexed_text for row, chunk in chunks if chunk is not None}
        lifted, stating = _with_dates_in_texts(boost.lifted, pool, texts, when, now)
        facts.update(read=len(texts), said=stating)
    return replace(boost, lifted=lifted)


def _with_dates_in_texts(
    by_time: Bools, pool: Pool, texts: Mapping[int, str], when: When, now: datetime
) -> tuple[Bools, int]:
    """((n,) `by_time`, and True for the rows whose text states a date in the period; number of such texts).

    If no row is of a period named without a year ("19 May"), the period may mean any year. Rows that state this date in
    any year are then taken; if there are none, the rows whose time lies in the latest earlier year that has any.

    Args:
        by_time: (n,) whether the time of the row lies in the period.
        texts: By row, the texts that are read.
    """
    lifted = by_time.copy()
    stated = partial(states_date_in, period=when.range, now=now, day_first=day_is_first(texts.values()))
    spoken = spoken_without_year(when.phrase) if when.yearless else None
    stating = [row for row, text in texts.items() if stated(text) or (spoken and spoken.search(text))]
    if when.yearless and not stating and not lifted.any():
        stating = [row for row, text in texts.items() if stated(text, any_year=True)]
        earlier = (in_period(pool, day, now) for day in (() if stating else when.earlier_days))
        lifted = next((inside for inside in earlier if inside.any()), lifted)
    lifted[stating] = True
    return lifted, len(stating)


def _bounds_of(period: TimeRange) -> dict[str, str | None]:
    """The start and end of a period, in ISO format, as facts for the trace; None: it is open there."""
    moments = {"start": period.start, "end": period.end}
    return {name: None if moment is None else moment.isoformat() for name, moment in moments.items()}


def _rank_and_fetch(
    search: Search, recalled: Recalled, when: When | None, lifted: When | None
) -> Body[tuple[dict[str, Chunk], RankedPool]]:
    """Rank the candidates, fetch the chunks of the best, and reorder these by their texts.

    Args:
        when: The period that the query names; None: it names none.
        lifted: `when`, if the candidates of this period are raised; None: no candidate is raised.

    Returns:
        The chunks of the best candidates by id, and the ranking of these candidates.
    """
    components, config, pool = search.components, search.config, recalled.pool
    search.trace.degraded.extend(pool.degraded)
    boost = None if lifted is None else (yield from _period_boost(search, recalled, lifted))
    arm_weights = None if components.arms is None else components.arms.weights
    excess = one_word_excess(search, pool)
    ranked = rank(pool, config, boost=boost, trace=search.trace, arm_weights=arm_weights, excess=excess)
    stages = list(reorder_stages(search, pool, ranked.order, when, boost))
    wanted = max(
        search.request.limit,
        config.rerank.pool if components.reranker is not None else 0,
        config.mmr.pool if config.mmr.enabled else 0,
        *(stage.reads for stage in stages),
    )
    chunks, ranked = yield from _fetch_for_stages(search, recalled, ranked, stages, wanted)
    for stage in stages if chunks else ():
        ranked = stage.apply(pool, ranked, chunks, search.trace)
    return chunks, ranked


def _fetch_for_stages(
    search: Search, recalled: Recalled, ranked: RankedPool, stages: Sequence[ReorderStage], wanted: int
) -> Body[tuple[dict[str, Chunk], RankedPool]]:
    """The result of `fetch` for the best `wanted` rows, and for the further rows that stages need."""
    chunks, best = yield from fetch(search, recalled, ranked, wanted=wanted)
    needed = {row for stage in stages if stage.more for row in stage.more(chunks)}
    others = sorted(needed.difference(best.order.tolist()))
    if not others:
        return chunks, best
    rest = replace(ranked, order=np.array(others, dtype=np.int64), suppressed=())
    beside, added = yield from fetch(search, recalled, rest, wanted=len(others), before=chunks)
    fetched = np.zeros(len(recalled.pool), dtype=bool)
    fetched[best.order] = fetched[added.order] = True
    order, suppressed = ranked.order[fetched[ranked.order]], (*best.suppressed, *added.suppressed)
    return chunks | beside, replace(best, order=order, suppressed=suppressed)


@observed_context
def context_body(
    components: Components,
    request: SearchRequest,
    budget: TokenBudget | None,
    policy: AssemblyPolicy | None,
    counter: Any,
    on_stage: OnStage | None = None,
) -> Body[AssembledContext]:
    """The hits of one search that fit a token budget, as a context.

    Raises:
        BudgetError: If no hit fits.
        UmiError: As `search_body`.
    """
    budget, policy = asked_assembly(components.config.assembly, budget, policy)
    if components.config.duplicates.enabled:  # a context itself shows equal texts once, with all their sources
        components = replace(components, config=components.config.replaced(duplicates={"enabled": False}))
    result = yield from search_body(components, request, on_stage)
    around: dict[str, list[Chunk]] = {}
    lost: tuple[Degradation, ...] = ()
    if policy.neighbours:
        beside = partial(chunks_beside, components.store, result.ids, policy, request.where, request.time_range)
        around, lost = value_of((yield (Call(beside),))[0])
    with TraceBuilder(on_stage).stage("assemble") as facts:
        packing = {"budget": budget, "policy": policy, "counter": counter, "around": around}
        context = assemble_for(request.query, result.hits, history=request.history, **packing)
        facts.update(parts=len(context.parts), tokens=context.stats.tokens)
    return replace(context, degraded=(*result.degraded, *lost))


def _result(search: Search, recalled: Recalled, ranked: RankedPool, chunks: dict[str, Chunk]) -> SearchResult:
    request, pool, config, trace = search.request, recalled.pool, search.config.relevance, search.trace
    minimum = config.minimum if request.min_relevance is None else request.min_relevance
    if minimum is not None and pool.mode == "text" and request.strategy != "text" and trace.degraded:
        trace.degrade("relevance", "there are no cosines", MINIMUM_BY_WORDS)
    degraded = tuple(dict.fromkeys(trace.degraded))
    if degraded:
        log_once(degraded)
    found = to_hits(pool, ranked, chunks, request.limit)
    hits, below = _relevant(found, minimum)
    best = found[0].relevance if found else 0.0
    terms_of = getattr(search.store, "terms_of", None)
    left_out = [
        Suppressed(pool.ids[row], reason, None if by is None else pool.ids[by], float(ranked.scores[row]))
        for row, reason, by in ranked.suppressed
    ]
    return SearchResult(
        hits=hits,
        query=request.query,
        query_variations=(*request.questions, *recalled.variations),
        deep_search_used=bool(recalled.variations),
        mode=pool.mode,
        degraded=degraded,
        suppressed=(*left_out, *(Suppressed(hit.chunk.id, "relevance", None, hit.score) for hit in below)),
        trace=trace.build(),
        answerable=None if best is None else best >= config.answerable,
        terms_of=None if terms_of is None else _NotCopied(terms_of),
    )


class _NotCopied:
    """A method of the store that all copies of a `SearchResult` share: `deepcopy` and `dataclasses.asdict` would copy
    the whole store with the method itself."""

    def __init__(self, function: Callable[[str], Sequence[str]]) -> None:
        self._function = function

    def __call__(self, text: str) -> Sequence[str]:
        return self._function(text)

    def __deepcopy__(self, memo: object) -> _NotCopied:
        return self


def _relevant(hits: tuple[Hit, ...], minimum: float | None) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """(hits whose relevance is at least `minimum`, all other hits); (all hits, ()) if `minimum` is None.

    Raises:
        ConfigError: If `minimum` is given and the relevance of a hit is not known.
    """
    if minimum is None or not hits:
        return hits, ()
    known = [hit.relevance for hit in hits if hit.relevance is not None]
    if len(known) < len(hits):
        raise ConfigError(
            f"min_relevance {minimum}: the relevance is not known, because only the lexical arm answered and the store "
            "gives no bound of its scores (Pool.lexical_bound); search without min_relevance"
        )
    passing = sum(each >= minimum for each in known)
    return hits[:passing], hits[passing:]
