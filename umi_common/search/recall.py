"""The first half of a search: what the LLM, the store and the further arms bring for a query."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from umi_common.config import UmiConfig
from umi_common.filters import matches
from umi_common.pool import Ints, Pool
from umi_common.protocols import Probe, RecallRequest, Store, Strategy
from umi_common.query.rewriting.rewrite import Rewrites, Rewriting
from umi_common.query.routing import Decision, route, weigh_evidence
from umi_common.runtime.calls import Body, Call, Failure, Outcome
from umi_common.search.extra_arms import Arms, Brought
from umi_common.search.request import Request
from umi_common.search.rerank import Reranking
from umi_common.search.trace import Notes
from umi_common.taken import ids_at
from umi_common.types import Chunk, TimeRange

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What one retriever works with; replaced as a whole when it is reconfigured."""

    store: Store
    config: UmiConfig
    rewriting: Rewriting | None
    reranker: Reranking | None
    arms: Arms


@dataclass(frozen=True, slots=True)
class Found:
    """What understanding and recall have brought."""

    pool: Pool
    variations: tuple[str, ...] = ()
    deep: bool = False
    strangers: Mapping[str, Chunk] = field(default_factory=dict)
    """Chunks of the pool that the store lacks."""
    window: TimeRange | None = None
    """The time range that the pool was held to."""


def recall(parts: Parts, request: Request, window: TimeRange | None, notes: Notes) -> Body[Found]:
    """What the fast pass finds, then the LLM's variations of the query, and what the further arms found.

    Raises:
        SearchUnavailable: If no arm of the store answers.
    """
    pool, brought, rewrites = yield from _fast_pass(parts, request, window, notes)
    found = Found(pool, window=window)
    if rewrites is not None:
        notes.fact("rewrite", variations=len(rewrites.variations), **rewrites.facts)
        if rewrites.degraded is not None:
            notes.degraded.append(rewrites.degraded)
        if rewrites.variations:
            found = yield from _recall_variations(parts, request, window, pool, rewrites.variations, notes)
    return (yield from _joined(parts, request, window, found, brought, notes)) if brought else found


def _fast_pass(
    parts: Parts, request: Request, window: TimeRange | None, notes: Notes
) -> Body[tuple[Pool, dict[str, Brought], Rewrites | None]]:
    """The store always, at the same time as the further arms and, where its use is decided beforehand, the LLM; where
    the evidence decides, the LLM after it.
    """
    decision = _decide_beforehand(parts, request)
    fast = _ask_store(parts, request, [Probe(request.query, request.query_vector)], window, request.strategy)
    arms = parts.arms.calls(request, window, parts.config.extra_arms)
    rewrites: Rewrites | None = None
    with notes.stage("recall") as facts:
        first, *others = yield (fast, *arms, *([_ask_llm(parts, request)] if decision.deep else []))
        pool = _pool_of(first, request)
        facts.update(candidates=len(pool), mode=pool.mode, **pool.facts)
        brought = parts.arms.brought(others[: len(arms)], notes)
        if brought:
            facts["arms"] = {name: len(hits.scores) for name, hits in brought.items()}
        if decision.deep:
            rewrites = _rewrites_of(others[-1])
    if parts.config.routing.mode == "evidence" and _may_ask(parts, request):
        decision = weigh_evidence(pool, request.query, config=parts.config.routing)
        if decision.deep:
            with notes.stage("wait for the LLM"):
                (reply,) = yield (_ask_llm(parts, request),)
                rewrites = _rewrites_of(reply)
    notes.fact("route", deep=decision.deep, reasons=decision.reasons, **decision.signals)
    return pool, brought, rewrites


def _recall_variations(
    parts: Parts, request: Request, window: TimeRange | None, pool: Pool, variations: tuple[str, ...], notes: Notes
) -> Body[Found]:
    vector = pool.query_vectors[0] if pool.query_vectors.size else request.query_vector
    probes = [Probe(request.query, vector), *(Probe(text) for text in variations)]
    with notes.stage("recall variations") as facts:
        (outcome,) = yield (_ask_store(parts, request, probes, window, _strategy_after(pool, request)),)
        if isinstance(outcome, Failure):
            reason = f"searching its variations failed with {type(outcome.error).__name__}"
            notes.lost("rewriter", reason, "searched with the original query alone")
            return Found(pool, window=window)
        wider = _pool_of(outcome, request)
        wider = replace(wider, degraded=(*pool.degraded, *wider.degraded))
        facts.update(candidates=len(wider), **wider.facts)
    return Found(wider, variations, True, window=window)


def _joined(
    parts: Parts,
    request: Request,
    window: TimeRange | None,
    found: Found,
    brought: Mapping[str, Brought],
    notes: Notes,
) -> Body[Found]:
    """The pool with what the further arms found: scored by the store where it can, else as it is, if it passes."""
    pool, strangers = found.pool, dict[str, Chunk]()
    missing = sorted({id for hits in brought.values() for id in hits.scores}.difference(pool.ids))
    if missing:
        with notes.stage("join arms") as facts:
            probes = _probes_again(request, found, tuple(missing))
            again = _ask_store(parts, request, probes, window, _strategy_after(pool, request))
            outcome, stored = yield (again, ask_chunks(parts.store, missing))
            if not isinstance(outcome, Failure):
                fuller = _pool_of(outcome, request)
                pool = replace(fuller, degraded=(*pool.degraded, *fuller.degraded))
            carried = {id: chunk for hits in brought.values() for id, chunk in hits.chunks.items()}
            known = {} if isinstance(stored, Failure) else dict(zip(missing, stored, strict=True))
            passing = {id: chunk or carried.get(id) for id, chunk in known.items() if id not in set(pool.ids)}
            added = {id: chunk for id, chunk in passing.items() if chunk is not None and passes(chunk, request, window)}
            pool = pool.with_rows(tuple(added), [_age_hours(chunk, request) for chunk in added.values()])
            strangers = {id: chunk for id, chunk in added.items() if known[id] is None}
            facts.update(missing=len(missing), joined=sum(id in set(pool.ids) for id in missing))
    extra = {name: np.array([hits.scores.get(id, 0.0) for id in pool.ids]) for name, hits in brought.items()}
    pool = replace(pool, extra={name: scores for name, scores in extra.items() if scores.any()})
    return replace(found, pool=pool, strangers=strangers)


def _probes_again(request: Request, found: Found, ids: tuple[str, ...]) -> list[Probe]:
    """What the pool was recalled with, embedded already, and these ids."""
    vectors = list(found.pool.query_vectors) if found.pool.query_vectors.size else [None] * found.pool.variations
    first, *others = zip((request.query, *found.variations), vectors, strict=True)
    return [Probe(*first, ids), *(Probe(*other) for other in others)]


def passes(chunk: Chunk, request: Request, window: TimeRange | None) -> bool:
    """Whether a chunk passes the filter of the request and lies in the window."""
    inside = window is None or (chunk.event_time is not None and chunk.event_time in window)
    return inside and matches(request.where, chunk.metadata)


def _age_hours(chunk: Chunk, request: Request) -> float:
    if chunk.event_time is None:
        return float("nan")
    return (request.now - chunk.event_time).total_seconds() / SECONDS_PER_HOUR


def _may_ask(parts: Parts, request: Request) -> bool:
    return request.deep_search and parts.rewriting is not None


def _decide_beforehand(parts: Parts, request: Request) -> Decision:
    mode = parts.config.routing.mode
    if parts.rewriting is None:
        return Decision(False, ("no rewriter",))
    if not request.deep_search:
        return Decision(False, ("deep_search is off",))
    if mode == "heuristic":
        return route(request.query)
    return Decision(mode == "always", (f"mode {mode}",))


def _strategy_after(pool: Pool, request: Request) -> Strategy:
    """For what a search asks of the store again: an embedder that has failed it is not waited for a second time."""
    return "text" if pool.mode == "text" else request.strategy


def _ask_store(
    parts: Parts, request: Request, probes: Sequence[Probe], window: TimeRange | None, strategy: Strategy
) -> Call:
    config = parts.config
    asked = RecallRequest(
        probes,
        max(config.recall.depth, request.limit),
        request.now,
        request.where,
        window,
        config.lexical,
        config.decay,
        config.recall.around if config.neighbours.enabled else 0,
        strategy,
        config.recall.embedder_timeout_seconds,
    )
    return Call.batched(("recall", id(parts.store)), [asked], partial(_recalled, parts.store), _first)


def _recalled(store: Store, searches: Sequence[RecallRequest]) -> list[Pool]:
    """A pool for each search, together where the store can do that."""
    together: Callable[[Sequence[RecallRequest]], list[Pool]] | None = getattr(store, "recall_many", None)
    if together is not None and len(searches) > 1:
        return together(searches)
    return [asked.run(store) for asked in searches]


def _first(pools: Sequence[Pool], which: slice) -> Pool:
    (pool,) = pools[which]
    return pool


def ask_chunks(store: Store, ids: Sequence[str]) -> Call:
    """The store's chunks, aligned with ids."""
    return Call.batched(("get", id(store)), ids, store.get, operator.getitem)


def ask_recalled(store: Store, pool: Pool, rows: Ints, *, exact: bool = False) -> Call:
    """The chunks of some rows of a pool, as they were when they were scored where the store can tell.

    Args:
        exact: None in place of a chunk that has been replaced since.
    """
    ids = ids_at(pool.ids, rows)
    get_versions: Callable[..., list[Chunk | None]] | None = getattr(store, "get_versions", None)
    if get_versions is None or not len(pool.version):
        return ask_chunks(store, ids)
    pairs = list(zip(ids, pool.version[rows].tolist(), strict=True))
    return Call.batched(
        ("get versions", id(store), exact),
        pairs,
        lambda some: get_versions(*zip(*some, strict=True), exact=exact),
        operator.getitem,
    )


def _ask_llm(parts: Parts, request: Request) -> Call:
    rewriting = parts.rewriting
    assert rewriting is not None, "the LLM is asked only where there is one"
    return Call(
        lambda: rewriting.variations(request.query, history=request.history),
        lambda: rewriting.avariations(request.query, history=request.history),
    )


def _pool_of(outcome: Outcome, request: Request) -> Pool:
    if isinstance(outcome, Failure):
        raise outcome.error
    pool: Pool = outcome
    return pool if request.strategy == "hybrid" else pool.only(request.strategy)


def _rewrites_of(outcome: Outcome) -> Rewrites:
    if isinstance(outcome, Failure):
        raise outcome.error  # Rewriting turns every failure of the LLM into a degradation; this one is ours
    rewrites: Rewrites = outcome
    return rewrites
