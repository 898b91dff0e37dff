"""The line of one search: understand, recall, rank, fetch; a generator that asks `drivers` for outside work."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget
from umi_common.protocols import OnStage
from umi_common.query.time.find import When, find_time
from umi_common.runtime.calls import Body, Call, Failure
from umi_common.search.hits import hits_of
from umi_common.search.rank import Period, Ranked, diversified, next_best, rank, reranked
from umi_common.search.recall import Found, Parts, ask_recalled, passes, recall
from umi_common.search.request import Request
from umi_common.search.trace import Notes
from umi_common.taken import ids_at
from umi_common.types import Chunk, SearchResult, Suppressed


def search_body(parts: Parts, request: Request, on_stage: OnStage | None = None) -> Body[SearchResult]:
    """One search. Raises SearchUnavailable if no arm of the store answers."""
    notes = Notes(on_stage)
    when = _understand_time(parts.config, request, notes)
    explicit = when.range if when is not None and when.kind == "explicit" else None
    found = yield from recall(parts, request, explicit or request.time_range, notes)
    if explicit is not None and not len(found.pool):
        notes.lost("when", "no chunk lies in the period that the query names", "searched all times")
        when = None
        found = yield from recall(parts, request, None, notes)
    notes.degraded.extend(found.pool.degraded)
    wanted = max(
        request.limit,
        parts.config.rerank.pool if parts.reranker is not None else 0,
        parts.config.mmr.pool if parts.config.mmr.enabled else 0,
    )
    ranked = rank(
        found.pool,
        parts.config,
        wanted=wanted,
        period=None if when is None or when.kind == "explicit" else Period(when.range, when.dated),
        now=request.now,
        notes=notes,
        arm_weights=parts.arms.weights,
    )
    chunks, ranked = yield from _fetch(parts, request, found, ranked, notes)
    return _result(parts, request, found, ranked, chunks, notes)


def context_body(
    parts: Parts,
    request: Request,
    budget: TokenBudget | None,
    policy: AssemblyPolicy | None,
    counter: Any,
    on_stage: OnStage | None = None,
) -> Body[AssembledContext]:
    """What of a search fits the budget. Raises BudgetError if nothing can; otherwise what the search raises."""
    policy = AssemblyPolicy() if policy is None else policy
    result = yield from search_body(parts, request, on_stage)
    around: dict[str, list[Chunk]] = {}
    if policy.neighbours and result.hits:
        reach = policy.neighbours
        (found,) = yield (Call(lambda: parts.store.neighbours(result.ids, reach=reach, where=request.where)),)
        if not isinstance(found, Failure):
            around = {
                id: [chunk for chunk in beside if passes(chunk, request, request.time_range)]
                for id, beside in found.items()
            }
    with Notes(on_stage).stage("assemble") as facts:
        context = assemble(
            result.hits,
            budget=TokenBudget() if budget is None else budget,
            policy=policy,
            counter=counter,
            around=around,
        )
        facts.update(parts=len(context.parts), tokens=context.stats.tokens)
    return context


def _understand_time(config: UmiConfig, request: Request, notes: Notes) -> When | None:
    if not config.when.enabled or request.time_range is not None:
        return None
    with notes.stage("when") as facts:
        when = find_time(request.query, request.now)
        if when is not None:
            facts.update(kind=when.kind, start=_iso(when.range.start), end=_iso(when.range.end))
    return when


def _fetch(
    parts: Parts, request: Request, found: Found, ranked: Ranked, notes: Notes
) -> Body[tuple[dict[str, Chunk], Ranked]]:
    """The chunks of the best rows; before the cut, a reranker and MMR where they are asked for.

    A chunk that was removed since it was scored, or replaced by one that does not pass the filter, is left out, and
    the next best stands in for it.
    """
    pool = found.pool
    if parts.reranker is None and parts.config.mmr.enabled:
        ranked = diversified(ranked, pool, parts.config, request.limit)
    with notes.stage("fetch"):
        chunks: dict[str, Chunk] = {}
        rows = ranked.order
        while len(rows):
            # Those that stand in are shown only as scored: a newer version would be of another moment than the first.
            (outcome,) = yield (ask_recalled(parts.store, pool, rows, exact=bool(chunks)),)
            if isinstance(outcome, Failure):
                raise outcome.error
            ids = ids_at(pool.ids, rows)
            fetched = (chunk or found.strangers.get(id) for id, chunk in zip(ids, outcome, strict=True))
            shown = [chunk for chunk in fetched if chunk is not None and passes(chunk, request, found.window)]
            chunks |= {chunk.id: chunk for chunk in shown}
            rows = next_best(ranked, len(rows) - len(shown))
            ranked = replace(ranked, order=np.concatenate([ranked.order, rows]))
    if parts.reranker is None or not chunks:
        return chunks, ranked
    with notes.stage("rerank") as facts:
        best = [row for row in ranked.order.tolist() if pool.ids[row] in chunks][: parts.config.rerank.pool]
        texts = [chunks[pool.ids[row]].text for row in best]
        (scores,) = yield (parts.reranker.call(request.query, texts),)
        ranked, trouble = reranked(ranked, best, scores.error if isinstance(scores, Failure) else scores)
        facts.update(candidates=len(best))
    if trouble:
        notes.lost("reranker", trouble, "kept the order without it")
    if parts.config.mmr.enabled:
        ranked = diversified(ranked, pool, parts.config, request.limit)
    return chunks, ranked


def _result(
    parts: Parts, request: Request, found: Found, ranked: Ranked, chunks: dict[str, Chunk], notes: Notes
) -> SearchResult:
    pool = found.pool
    return SearchResult(
        hits=hits_of(pool, ranked, chunks, request.limit),
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
        terms_of=getattr(parts.store, "terms_of", None),
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
