"""The line of one search: understand, recall, rank, fetch; a generator that asks `drivers` for outside work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.drivers import Body, Call, Failure, Outcome
from umi_common.notes import Notes
from umi_common.pool import Ints, Pool
from umi_common.protocols import Probe, Reranker, Store
from umi_common.query.rewrite import Rewrites, Rewriting
from umi_common.query.routing import Decision, route, weigh_evidence
from umi_common.query.when import When, find_time
from umi_common.request import Request
from umi_common.shape import Ranked, diversified, rank, reranked
from umi_common.types import Chunk, Hit, SearchResult, Signal, Suppressed, TimeRange


@dataclass(frozen=True, slots=True)
class Parts:
    """What one retriever works with; replaced as a whole when it is reconfigured."""

    store: Store
    config: UmiConfig
    rewriting: Rewriting | None
    reranker: Reranker | Callable[[str, Sequence[str]], Sequence[float]] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What understanding and recall have brought."""

    pool: Pool
    variations: tuple[str, ...] = ()
    deep: bool = False


def search_body(parts: Parts, request: Request) -> Body[SearchResult]:
    """One search. Raises SearchUnavailable if no arm answers."""
    notes = Notes()
    when = _understand_time(parts.config, request, notes)
    explicit = when.range if when is not None and when.kind == "explicit" else None
    found = yield from _recall(parts, request, explicit or request.time_range, notes)
    if explicit is not None and not len(found.pool):
        notes.lost("when", "no chunk lies in the period that the query names", "searched all times")
        when = None
        found = yield from _recall(parts, request, None, notes)
    notes.degraded.extend(found.pool.degraded)
    wanted = max(
        request.limit,
        parts.config.rerank.pool if parts.reranker is not None else 0,
        parts.config.mmr.pool if parts.config.mmr.enabled else 0,
    )
    fuzzy = when.range if when is not None and when.kind == "fuzzy" else None
    ranked = rank(found.pool, parts.config, wanted=wanted, period=fuzzy, now=request.now, notes=notes)
    chunks, ranked = yield from _fetch(parts, request, found.pool, ranked, notes)
    return _result(request, found, ranked, chunks, notes)


def _understand_time(config: UmiConfig, request: Request, notes: Notes) -> When | None:
    if not config.when.enabled or request.time_range is not None:
        return None
    with notes.stage("when") as facts:
        when = find_time(request.query, request.now)
        if when is not None:
            facts.update(kind=when.kind, start=_iso(when.range.start), end=_iso(when.range.end))
    return when


def _recall(parts: Parts, request: Request, window: TimeRange | None, notes: Notes) -> Body[Found]:
    """The fast pass always, at the same time as the LLM where its use is decided beforehand; then its variations."""
    decision = _decide_beforehand(parts, request)
    fast = Call(lambda: _ask_store(parts, request, [Probe(request.query, request.query_vector)], window))
    rewrites: Rewrites | None = None
    with notes.stage("recall") as facts:
        outcomes = yield (fast, _ask_llm(parts, request)) if decision.deep else (fast,)
        pool = _pool_of(outcomes[0], request)
        facts.update(candidates=len(pool), mode=pool.mode, **pool.facts)
        if decision.deep:
            rewrites = _rewrites_of(outcomes[1])
    if parts.config.routing.mode == "evidence" and _may_ask(parts, request):
        decision = weigh_evidence(pool, request.query, config=parts.config.routing)
        if decision.deep:
            with notes.stage("wait for the LLM"):
                (reply,) = yield (_ask_llm(parts, request),)
                rewrites = _rewrites_of(reply)
    notes.fact("route", deep=decision.deep, reasons=decision.reasons, **decision.signals)
    if rewrites is None:
        return Found(pool)
    notes.fact("rewrite", variations=len(rewrites.variations), **rewrites.facts)
    if rewrites.degraded is not None:
        notes.degraded.append(rewrites.degraded)
    if not rewrites.variations:
        return Found(pool)
    return (yield from _recall_variations(parts, request, window, pool, rewrites.variations, notes))


def _recall_variations(
    parts: Parts, request: Request, window: TimeRange | None, pool: Pool, variations: tuple[str, ...], notes: Notes
) -> Body[Found]:
    vector = pool.query_vectors[0] if pool.query_vectors.size else request.query_vector
    probes = [Probe(request.query, vector), *(Probe(text) for text in variations)]
    with notes.stage("recall variations") as facts:
        (outcome,) = yield (Call(lambda: _ask_store(parts, request, probes, window)),)
        if isinstance(outcome, Failure):
            reason = f"searching its variations failed with {type(outcome.error).__name__}"
            notes.lost("rewriter", reason, "searched with the original query alone")
            return Found(pool)
        wider = _pool_of(outcome, request)
        facts.update(candidates=len(wider), **wider.facts)
    return Found(wider, variations, True)


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


def _ask_store(parts: Parts, request: Request, probes: Sequence[Probe], window: TimeRange | None) -> Pool:
    config = parts.config
    return parts.store.recall(
        probes,
        depth=max(config.recall.depth, request.limit),
        now=request.now,
        where=request.where,
        window=window,
        lexical=config.lexical,
        decay=config.decay,
        around=config.recall.around if config.neighbours.enabled else 0,
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


def _fetch(
    parts: Parts, request: Request, pool: Pool, ranked: Ranked, notes: Notes
) -> Body[tuple[dict[str, Chunk], Ranked]]:
    """The chunks of the best rows; before the cut, a reranker and MMR where they are asked for."""
    if parts.reranker is None and parts.config.mmr.enabled:
        ranked = diversified(ranked, pool, parts.config, request.limit)
    ids = [pool.ids[row] for row in ranked.order]
    with notes.stage("fetch"):
        (outcome,) = yield (Call(lambda: parts.store.get(ids)),)
        if isinstance(outcome, Failure):
            raise outcome.error
        chunks = {chunk.id: chunk for chunk in outcome if chunk is not None}
    if parts.reranker is None or not chunks:
        return chunks, ranked
    with notes.stage("rerank") as facts:
        score: Any = getattr(parts.reranker, "rerank", parts.reranker)
        rows = [row for row in ranked.order.tolist() if pool.ids[row] in chunks][: parts.config.rerank.pool]
        texts = [chunks[pool.ids[row]].text for row in rows]
        (scores,) = yield (Call(lambda: score(request.query, texts)),)
        ranked, trouble = reranked(ranked, rows, scores.error if isinstance(scores, Failure) else scores)
        facts.update(candidates=len(rows))
    if trouble:
        notes.lost("reranker", trouble, "kept the order without it")
    if parts.config.mmr.enabled:
        ranked = diversified(ranked, pool, parts.config, request.limit)
    return chunks, ranked


def _result(request: Request, found: Found, ranked: Ranked, chunks: dict[str, Chunk], notes: Notes) -> SearchResult:
    pool = found.pool
    shown = [row for row in ranked.order.tolist() if pool.ids[row] in chunks][: request.limit]
    ranks = {name: _ranks(scores) for name, scores in ranked.stages.items()}
    hits = tuple(
        Hit(
            chunk=chunks[pool.ids[row]],
            score=float(ranked.scores[row]),
            rank=place,
            signals=_signals(pool, row),
            stages={name: float(scores[row]) for name, scores in ranked.stages.items()},
            ranks={name: int(at[row]) for name, at in ranks.items()},
        )
        for place, row in enumerate(shown, 1)
    )
    return SearchResult(
        hits=hits,
        query=request.query,
        query_variations=found.variations,
        deep_search_used=found.deep,
        mode=pool.mode,
        degraded=tuple(dict.fromkeys(notes.degraded)),
        suppressed=tuple(
            Suppressed(pool.ids[row], reason, pool.ids[by], float(ranked.scores[row]))
            for row, reason, by in ranked.suppressed
        ),
        trace=notes.trace(),
    )


def _ranks(scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Ints:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _signals(pool: Pool, row: int) -> tuple[Signal, ...]:
    arms = []
    if pool.mode != "vector":
        arms.append(("lexical", pool.lexical, pool.lexical_rank))
    if pool.mode != "text":
        arms.append(("dense", pool.dense, pool.dense_rank))
    return tuple(
        Signal(arm, variation, int(ranks[variation, row]) or None, float(scores[variation, row]))
        for variation in range(pool.variations)
        for arm, scores, ranks in arms
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
