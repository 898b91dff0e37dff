"""The trace of one search: collected stage by stage; then counted, logged (at DEBUG) and exported.

    stage    one step of a search, such as "recall" or "fuse", with its duration
    fact     a named value that a stage records, such as its number of candidates
    arm      one way to find chunks: "lexical" (BM25), "dense" (vectors), or an extra arm that the user adds
    context  the hits of one search as one text for a prompt; it is logged and exported, and only its search is counted
    Body     a generator that runs a search or makes a context; see `runtime.calls`

Spans and metrics go to OpenTelemetry if the process has imported its API and set up an SDK; umi imports neither. They
hold numbers, names (of stages, arms, settings and classes of errors), and the facts named in `EXPORTED_STRINGS`, and so
do log lines. They never hold ids, or the text of a query, chunk or prompt.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from umi_common.context.budget import AssembledContext
from umi_common.protocols import OnStage
from umi_common.ranking.duplicates import FOLDED
from umi_common.runtime.calls import Body
from umi_common.runtime.losses import log_bug
from umi_common.stores.search_counts import SearchCounter
from umi_common.types import Degradation, SearchResult, Stage, Trace

if TYPE_CHECKING:
    from umi_common.config import UmiConfig
    from umi_common.search.request import Components, SearchRequest

log = logging.getLogger("umi")

EXPORTED_STRINGS = frozenset({"mode", "kind", "breaker", "model", "dense_engine", "filter"})
"""Names of the facts that are exported and logged although they are strings. Strings of other facts may hold words of
the query. "model" is the name of the LLM; the others have fixed values, such as "exact" and "widened" for "filter"."""
COUNTERS = {"searches": "search", "fallbacks": "search", "llm_calls": "call", "cache_hits": "search"}
"""Fields of `stores.search_counts.SearchMetrics` that OpenTelemetry gets as counters named `umi.<field>`, with their
units. `failures` is not among them: a failed search is a span with status ERROR."""
HISTOGRAMS = {"milliseconds": "ms", "hits": "hit"}
"""Fields of `SearchMetrics` that OpenTelemetry gets as histograms named `umi.<field>`, with their units."""


@dataclass(slots=True)
class TraceBuilder:
    """Collects the trace of one search. Not thread-safe."""

    on_stage: OnStage | None = None
    """See `protocols.OnStage`; None: nothing is called."""
    started: float = field(default_factory=time.perf_counter)
    """`time.perf_counter()` at the start of the search, in seconds."""
    stages: list[Stage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Times the `with` block as a stage; the block adds facts to the dict."""
        facts: dict[str, Any] = {}
        on_end = None if self.on_stage is None else self.on_stage(name)
        begun = time.perf_counter()
        try:
            yield facts
        finally:
            ended = Stage(name, (time.perf_counter() - begun) * 1e3, facts, (begun - self.started) * 1e3)
            self.stages.append(ended)
            if on_end is not None:
                on_end(ended)

    def add(self, name: str, **facts: Any) -> None:
        """Adds a stage that only records facts; its duration is nearly 0."""
        with self.stage(name) as recorded:
            recorded.update(facts)

    def degrade(self, part: str, reason: str, consequence: str) -> None:
        """Adds a `Degradation`."""
        self.degraded.append(Degradation(part, reason, consequence))

    def failed(self, part: str, error: Exception, consequence: str) -> None:
        """Adds a degradation whose reason is the type of the error, and logs the error if it may be a bug."""
        log_bug(part, error)
        self.degrade(part, type(error).__name__, consequence)

    def build(self) -> Trace:
        """The stages that have ended, and the time since the search started."""
        return Trace(tuple(self.stages), (time.perf_counter() - self.started) * 1e3)


def observed_search(search: Callable[..., Body[SearchResult]]) -> Callable[..., Body[SearchResult]]:
    """Wrap a search so that it is counted, logged and traced.

    Its span, and those of its stages, are made when it has ended. A search that failed has no spans of stages; a search
    that was cancelled has no span at all.
    """

    @wraps(search)
    def body(components: Components, request: SearchRequest, *others: Any) -> Body[SearchResult]:
        begun, parent = time.time_ns(), components.span_context or _caller()
        try:
            result = yield from search(components, request, *others)
        except Exception as error:
            components.counter.add({"failures": 1})
            log.debug("search failed with %s", type(error).__name__)
            _end_failed(_span("umi.search", begun, parent), error)
            raise
        _count(components.counter, request, result)
        _log(request, result)
        span = _span("umi.search", begun, parent)
        if span is not None:
            span.set_attributes(_search_attributes(components.config, request, result))
            _stage_spans(span, begun, result.trace)
            span.end(begun + int(result.trace.milliseconds * 1e6))
        return result

    return body


def observed_context(assembled: Callable[..., Body[AssembledContext]]) -> Callable[..., Body[AssembledContext]]:
    """Wrap the making of a context so that it is logged and traced.

    Its span starts before the search, whose span is its child, and ends even if the search is cancelled.
    """

    @wraps(assembled)
    def body(components: Components, *others: Any) -> Body[AssembledContext]:
        span = _span("umi.context", time.time_ns(), _caller())
        if span is not None:
            components = replace(components, span_context=_api("set_span_in_context")(span))
        try:
            context = yield from assembled(components, *others)
        except BaseException as error:  # a cancellation is no Exception
            _end_failed(span, error)
            raise
        log.debug("context: %d parts, %d of %d tokens", len(context), context.stats.tokens, context.stats.budget)
        if span is not None:
            span.set_attributes(_context_attributes(context))
            span.end()
        return context

    return body


def _context_attributes(context: AssembledContext) -> dict[str, Any]:
    stats = context.stats
    return {
        "tokens": stats.tokens,
        "budget": stats.budget,
        "budget_used": stats.tokens / max(1, stats.budget),
        "parts": len(context),
        "files_touched": stats.sources,
        "dedup_ratio": stats.duplication_ratio,
        "degraded": tuple(loss.part for loss in context.degraded),
    }


def _count(counter: SearchCounter, request: SearchRequest, result: SearchResult) -> None:
    rewrite = _facts(result.trace, "rewrite")
    added = {
        "searches": 1,
        "fallbacks": int(bool(result.degraded)),
        "llm_calls": rewrite.get("attempts", 0),
        "cache_hits": int(rewrite.get("cached", False)),
        "milliseconds": result.trace.milliseconds,
        "hits": len(result),
    }
    counter.add(added)
    provider = getattr(sys.modules.get("opentelemetry.metrics"), "get_meter_provider", None)
    if provider is not None:
        kind = {"strategy": request.strategy, "mode": result.mode}
        for name, record in _instruments(provider()).items():
            record(added[name], kind)


@lru_cache(maxsize=1)
def _instruments(provider: Any) -> dict[str, Callable[..., None]]:
    """Name of a field in COUNTERS or HISTOGRAMS -> the function that records its value with OpenTelemetry."""
    meter = provider.get_meter("umi")
    record = {name: meter.create_counter(f"umi.{name}", unit).add for name, unit in COUNTERS.items()}
    return record | {name: meter.create_histogram(f"umi.{name}", unit).record for name, unit in HISTOGRAMS.items()}


def _log(request: SearchRequest, result: SearchResult) -> None:
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "search: %d hits in %.1f ms, mode %s, a query of %d characters%s; %s",
            len(result),
            result.trace.milliseconds,
            result.mode,
            len(request.query),
            f", without {', '.join(loss.part for loss in result.degraded)}" if result.degraded else "",
            ", ".join(f"{stage.name} {stage.milliseconds:.1f} ms {_plain(stage.facts)}" for stage in result.trace),
        )


def _search_attributes(config: UmiConfig, request: SearchRequest, result: SearchResult) -> dict[str, Any]:
    """The attributes of a search's span; docs/observability.md explains them."""
    recall, rewrite = _facts(result.trace, "recall"), _facts(result.trace, "rewrite")
    lost = tuple(loss.part for loss in result.degraded)
    folded = sum(gone.reason in FOLDED for gone in result.suppressed)
    answered = "empty" if recall.get("chunks") == 0 else "ready"  # empty: a store without chunks
    bm25_status = "off" if request.strategy == "vector" else "error" if "lexical" in lost else answered
    return {
        "query_len": len(request.query),
        "top_k": request.limit,
        "strategy": request.strategy,
        "mode": result.mode,
        "rrf_k": config.fusion.rrf_k,
        "mmr_lambda": config.mmr.trade_off,
        "timeout_ms": config.recall.embedder_timeout_seconds * 1e3,
        "candidates": _facts(result.trace, "recall variations").get("candidates", recall.get("candidates", 0)),
        "results": len(result),
        "bm25_results": _ranked_by(result, "lexical"),
        "dense_results": _ranked_by(result, "dense"),
        "bm25_status": bm25_status,
        "dedup_ratio": folded / max(1, folded + len(result)),
        "deep_search": result.deep_search_used,
        "attempts": rewrite.get("attempts", 0),
        "degraded": lost,
        "fallback_used": bool(lost),
        "time_to_first_result_ms": result.trace.milliseconds,
    }


def _ranked_by(result: SearchResult, arm: str) -> int:
    """Number of hits that the arm ranked, for the query or for one of `result.query_variations`."""
    return sum(any(signal.arm == arm and signal.rank is not None for signal in hit.signals) for hit in result)


def _facts(trace: Trace, name: str) -> Mapping[str, Any]:
    """The facts of the first stage of this name; {} if it did not run."""
    return next((stage.facts for stage in trace if stage.name == name), {})


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are numbers, or strings named in `EXPORTED_STRINGS`."""
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (bool, int, float)) or (name in EXPORTED_STRINGS and isinstance(value, str))
    }


def _stage_spans(span: Any, begun: int, trace: Trace) -> None:
    """Make a child span for each stage; `begun` is the start of the search in nanoseconds since 1970."""
    context, tracer = _api("set_span_in_context")(span), _api("get_tracer")("umi")
    for stage in trace:
        start = begun + int(stage.offset * 1e6)
        child = tracer.start_span(f"umi.{stage.name}", context, attributes=_plain(stage.facts), start_time=start)
        child.end(start + int(stage.milliseconds * 1e6))


def _span(name: str, begun: int, parent: Any) -> Any:
    """A new span; None if no SDK is set up, or if it does not record this span."""
    get_tracer = _api("get_tracer")
    if get_tracer is None:
        return None
    span = get_tracer("umi").start_span(name, parent, start_time=begun)
    return span if span.is_recording() else None


def _end_failed(span: Any, error: BaseException) -> None:
    """End the span, if there is one, with the type of the error; its message may hold the query and is left out."""
    if span is not None:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(_api("StatusCode").ERROR)
        span.end()


def _caller() -> Any:
    """A context of OpenTelemetry with the present span of this thread or task; None if the process has not imported
    OpenTelemetry's API. It is read at the start of a search, which may end in another thread."""
    in_context = _api("set_span_in_context")
    return None if in_context is None else in_context(_api("get_current_span")())


def _api(name: str) -> Any:
    """The attribute `name` of `opentelemetry.trace`; None if the process has not imported this module."""
    return getattr(sys.modules.get("opentelemetry.trace"), name, None)
