"""What an operator sees of searches: spans, metrics, counts and DEBUG lines, and never a word of a user."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from datetime import datetime, timezone

import opentelemetry.metrics as metrics_api
import opentelemetry.trace as trace_api
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from umi_common import Chunk, DualRetriever, HybridStore, TokenBudget, UmiConfig
from umi_common.errors import EmptyQuery, SearchUnavailable
from umi_common.search.extra_arms import Arm
from umi_common.sim import HashEmbedder, ScriptedLLM
from umi_common.stores.search_counts import Histogram

QUERY = "when did Zelda mention the giraffe in March 2023?"
TEXTS = ["Zelda saw a giraffe, quibbling.", "The roofers want nine thousand.", "A giraffe sleeps.", "Zelda sings."]
PLAN = {
    *("query_len", "top_k", "strategy", "rrf_k", "mmr_lambda", "candidates", "dedup_ratio", "bm25_status"),
    *("attempts", "degraded", "fallback_used", "bm25_results", "dense_results", "timeout_ms"),
    "time_to_first_result_ms",
}
"""Names of the BM25 plan; the context has the others."""


@pytest.fixture(scope="module")
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        when = datetime(2023, 3, 4, tzinfo=timezone.utc)
        store.add(
            [Chunk(f"t{at}", text, source="diary", position=at, event_time=when) for at, text in enumerate(TEXTS)]
        )
        yield store


@pytest.fixture
def spans(monkeypatch):
    """An SDK with an exporter in memory, as an application sets it up."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace_api, "_TRACER_PROVIDER_SET_ONCE", Once())  # else a process may do so once only
    monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", None)
    trace_api.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def reader(monkeypatch):
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics_api._internal, "_METER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(metrics_api._internal, "_METER_PROVIDER", None)
    metrics_api.set_meter_provider(MeterProvider([reader]))
    return reader


def by_name(exporter):
    return {span.name: span for span in exporter.get_finished_spans()}


def failing_llm(prompt):
    raise RuntimeError(f"cannot answer {prompt}")


def test_a_search_has_a_span_with_a_child_for_each_stage(store, spans):
    result = DualRetriever(store).search(QUERY, limit=2)
    found = by_name(spans)
    search = found.pop("umi.search")
    assert set(found) == {f"umi.{stage.name}" for stage in result.trace}
    assert all(span.parent.span_id == search.context.span_id for span in found.values())
    assert all(search.start_time <= span.start_time <= span.end_time <= search.end_time for span in found.values())
    recall, fetch = found["umi.recall"], found["umi.fetch"]
    assert recall.end_time <= fetch.start_time
    assert (recall.end_time - recall.start_time) / 1e6 == pytest.approx(result.trace["recall"].milliseconds, abs=0.01)


def test_the_names_of_the_plan_are_on_the_span(store, spans):
    umi = DualRetriever(store, config=UmiConfig(mmr={"enabled": True, "trade_off": 0.4}, fusion={"rrf_k": 30}))
    umi.search(QUERY, limit=2)
    facts = by_name(spans)["umi.search"].attributes
    assert set(facts) >= PLAN
    asked = {name: facts[name] for name in ("query_len", "top_k", "strategy", "rrf_k", "mmr_lambda", "bm25_status")}
    assert asked == {
        "query_len": len(QUERY),
        "top_k": 2,
        "strategy": "hybrid",
        "rrf_k": 30.0,
        "mmr_lambda": 0.4,
        "bm25_status": "ready",
    }
    assert (facts["candidates"], facts["results"], facts["degraded"], facts["fallback_used"]) == (4, 2, (), False)
    assert dict(by_name(spans)["umi.mmr"].attributes)["trade_off"] == 0.4


def test_mmr_writes_its_stage(store):
    result = DualRetriever(store, config=UmiConfig(mmr={"enabled": True, "trade_off": 0.1})).search("giraffe", limit=2)
    facts = result.trace["mmr"].facts
    assert facts["candidates"] == 4
    assert facts["replaced"] == sum(gone.reason == "mmr" for gone in result.suppressed)


def test_folded_repeats_are_a_share(spans):
    with HybridStore.open(embedder=HashEmbedder(64)) as twice:
        twice.add([Chunk("a", "the fee is due"), Chunk("b", "The fee is due."), Chunk("c", "a cat")])
        DualRetriever(twice, config=UmiConfig(duplicates={"enabled": True})).search("fee")
    assert by_name(spans)["umi.search"].attributes["dedup_ratio"] == pytest.approx(1 / 3)


def test_a_context_says_what_it_used_and_its_search_is_its_child(store, spans):
    context = DualRetriever(store).get_context(QUERY, budget=TokenBudget(max_total=100))
    found = by_name(spans)
    facts = found["umi.context"].attributes
    assert (facts["tokens"], facts["budget"], facts["files_touched"]) == (context.stats.tokens, 100, 1)
    assert facts["budget_used"] == pytest.approx(context.stats.tokens / 100)
    assert found["umi.search"].parent.span_id == found["umi.context"].context.span_id


async def test_spans_belong_to_the_span_of_their_caller(store, spans):
    umi = DualRetriever(store)

    async def ask(name):
        with trace_api.get_tracer("app").start_as_current_span(name):
            await umi.asearch(QUERY)

    await asyncio.gather(*(ask(f"request {n}") for n in range(5)))
    with trace_api.get_tracer("app").start_as_current_span("many"):
        umi.search_many([QUERY, "roofers"])
    names = {span.context.span_id: span.name for span in spans.get_finished_spans()}
    parents = [names[span.parent.span_id] for span in spans.get_finished_spans() if span.name == "umi.search"]
    assert sorted(parents) == ["many", "many", *(f"request {n}" for n in range(5))]


def test_a_failed_search_ends_its_span_with_the_type_of_the_error(spans):
    class Broken:
        def recall(self, probes, **options):
            raise SearchUnavailable(f"no arm for {probes[0].text}")

    umi = DualRetriever(Broken())
    with pytest.raises(SearchUnavailable):
        umi.search(QUERY)
    (span,) = spans.get_finished_spans()
    assert span.attributes["error.type"] == "SearchUnavailable" and not span.status.is_ok
    assert (umi.metrics().searches, umi.metrics().failures) == (0, 1)


def test_no_word_of_query_history_or_chunks_is_exported(store, spans, reader, caplog):
    words = {"zelda", "mention", "giraffe", "march", "quibbling", "sleeps", "roofers", "earlier", "colleague"}
    words |= {"cannot answer", "when did"}
    caplog.set_level(logging.DEBUG, logger="umi")
    broken = Arm("web", lambda query, *_: failing_llm(query))
    for mode in ("heuristic", "always"):
        for llm in (failing_llm, ScriptedLLM(lambda prompt: ["colleague of Zelda"])):
            umi = DualRetriever(store, rewriter=llm, arms=[broken], config=UmiConfig(routing={"mode": mode}))
            umi.get_context(QUERY, history=["earlier"], where={"user": "ann"} if mode == "always" else None)
            umi.reconfigure(rewrite={"template": "giraffe {query}"})
    with pytest.raises(EmptyQuery):
        umi.search(" ")
    told = [span.to_json() for span in spans.get_finished_spans()]
    told += [reader.get_metrics_data().to_json(), *(record.getMessage() for record in caplog.records)]
    assert len(told) > 40
    assert [(word, line) for line in told for word in words if word in line.lower()] == []


def test_metrics_without_any_sdk(store):
    llm = ScriptedLLM(lambda prompt: ["giraffe"])
    umi = DualRetriever(store, rewriter=llm, config=UmiConfig(routing={"mode": "always"}))
    for _ in range(3):
        umi.search(QUERY, limit=2)
    failing = umi.with_config(rewrite={"template": "{query}?", "retries": 1})
    llm._replies = failing_llm
    failing.search(QUERY, limit=2)
    counted = umi.metrics()
    assert (counted.searches, counted.fallbacks, counted.llm_calls, counted.cache_hits) == (4, 1, 3, 2)
    assert counted.fallback_rate == 0.25
    assert (sum(counted.hits.counts), counted.hits.total, counted.hits.mean, counted.hits.quantile(0.5)) == (4, 8, 2, 2)
    assert counted.milliseconds.total > 0 and counted.milliseconds.quantile(0.95) >= counted.milliseconds.quantile(0.5)


def test_a_quantile_is_the_bound_of_the_bucket_that_holds_it():
    hits = Histogram((1.0, 2.0, 5.0), (0, 55, 45, 0), 300.0)
    assert [hits.quantile(share) for share in (0.0, 0.01, 0.55, 0.56, 1.0)] == [2, 2, 2, 5, 5]
    assert Histogram((1.0, 2.0), (0, 0, 3), 30.0).quantile(0.0) == float("inf")
    assert Histogram((1.0, 2.0), (0, 0, 0), 0.0).quantile(0.5) == 1


def test_metrics_with_an_sdk(store, reader):
    umi = DualRetriever(store)
    umi.search(QUERY, limit=3)
    umi.search("giraffe", strategy="text")
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found = {metric.name: metric.data.data_points for metric in scope.metrics}
    assert {point.attributes["strategy"]: point.value for point in found["umi.searches"]} == {"hybrid": 1, "text": 1}
    assert sum(point.count for point in found["umi.milliseconds"]) == 2
    assert {point.attributes["mode"]: point.sum for point in found["umi.hits"]} == {"hybrid": 3, "text": 2}


def test_a_debug_line_says_how_long_each_stage_took(store, caplog):
    with caplog.at_level(logging.DEBUG, logger="umi"):
        DualRetriever(store).search(QUERY)
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("search")]
    assert "4 hits" in line and "recall" in line and "'candidates': 4" in line and f"{len(QUERY)} characters" in line


COST = """
import sys, timeit
from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.trace import observed_search
store = HybridStore.open()
store.add([Chunk("a", "a cat")])
umi = DualRetriever(store)
umi.get_context("cat")
print(umi.metrics().searches, [name for name in sys.modules if "opentelemetry" in name])
result, (request,) = umi.search("cat"), umi._checked(["cat"], {})
def searched(*_):
    return result
    yield
observed = observed_search(searched)
cost = lambda: min(timeit.repeat(lambda: list(observed(umi._components, request)), number=50, repeat=20)) / 50
print(cost() < 50e-6)
import opentelemetry.metrics, opentelemetry.trace
print(cost() < 50e-6)
"""


def test_without_an_sdk_nothing_is_imported_and_a_search_costs_less_than_50_microseconds_more():
    run = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["1 []", "True", "True"]
