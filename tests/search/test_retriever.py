"""The whole line over a real store: hits with reasons, losses told, sync and async alike."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from loop_watch import Gate, held

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.errors import ConfigError, EmbedderError, EmptyQuery, InputError, ReindexRequired, SearchUnavailable
from umi_common.retriever import DualRetriever
from umi_common.search.extra_arms import Arm
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk, TimeRange

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
TEXTS = {
    "acme-1": ("Priya started in accounting at Acme.", "ann", 0, 40),
    "acme-2": ("She likes the canteen there.", "ann", 1, 40),
    "roof-1": ("The roofers want nine thousand for the roof.", "bob", 0, 3),
    "roof-2": ("They can start in August.", "bob", 1, 3),
    "cat-1": ("The cat slept on the warm boiler.", "ann", 0, 1),
}


def chunks():
    return [
        Chunk(id, text, metadata={"user": user}, source=id[:-2], position=at, event_time=NOW - timedelta(days=days))
        for id, (text, user, at, days) in TEXTS.items()
    ]


@pytest.fixture()
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(chunks())
        yield store


class FaultyQueries(HashEmbedder):
    """Embeds documents, fails at queries."""

    def embed_queries(self, texts):
        raise RuntimeError("no model today")


async def both(umi, *args, **kwargs):
    """The result by both doors; they must agree in everything but time."""
    result, other = umi.search(*args, **kwargs), await umi.asearch(*args, **kwargs)
    assert result.ids == other.ids
    assert [hit.score for hit in result] == [hit.score for hit in other]
    assert (result.degraded, result.query_variations) == (other.degraded, other.query_variations)
    return result


@pytest.mark.parametrize("variant", ["lucene", "okapi", "l", "plus"])
def test_a_word_that_every_document_holds_is_searched_in_every_variant_of_bm25(variant):
    with HybridStore.open(embedder=HashEmbedder(64)) as notes:
        notes.add(Chunk(name, f"the red {name}", source=f"{name}.txt") for name in ("door", "gate", "wall"))
        umi = DualRetriever(notes).with_config(lexical={"variant": variant})
        found = umi.search("the red")
        assert sorted(found.ids) == ["door", "gate", "wall"]


async def test_the_right_chunk_is_first_and_says_why(store):
    result = await both(DualRetriever(store), "who works in accounting at Acme?", limit=2)
    assert result.ids[0] == "acme-1"
    best = result[0]
    assert best.rank == 1
    assert {signal.arm: signal.rank for signal in best.signals} == {"lexical": 1, "dense": 1}
    assert "fused" in best.stages
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)
    assert result.mode == "hybrid"
    assert not result.degraded


async def test_a_filter_and_a_time_range_hold_before_ranking(store):
    umi = DualRetriever(store)
    assert set((await both(umi, "Acme roof cat", where={"user": "bob"})).ids) == {"roof-1", "roof-2"}
    lately = TimeRange(NOW - timedelta(days=5), NOW)
    assert set((await both(umi, "Acme roof cat", time_range=lately)).ids) == {"roof-1", "roof-2", "cat-1"}
    assert (await both(umi, "Acme", where={"user": "nobody"})).hits == ()


async def test_limit_is_obeyed(store):
    umi = DualRetriever(store)
    for limit in (1, 3, 5):
        assert len(await both(umi, "the", limit=limit)) <= limit


async def test_bad_arguments_raise_from_both_doors(store):
    umi = DualRetriever(store)
    with pytest.raises(EmptyQuery):
        umi.search(" ")
    with pytest.raises(EmptyQuery):
        await umi.asearch(" ")
    with pytest.raises(TypeError):
        umi.search("x", k=3)


async def test_without_an_embedder_the_words_still_answer(store):
    with HybridStore.open(embedder=FaultyQueries(64)) as broken:
        broken.add(chunks())
        result = await both(DualRetriever(broken), "accounting at Acme", limit=1)
    assert result.ids == ["acme-1"]
    assert result.mode == "text"
    assert [loss.part for loss in result.degraded] == ["embedder"]


def test_without_an_embedder_a_search_by_vector_alone_says_so(store):
    with HybridStore.open(embedder=FaultyQueries(64)) as broken:
        broken.add(chunks())
        with pytest.raises(SearchUnavailable):
            DualRetriever(broken).search("Acme", strategy="vector")


def test_an_embedder_that_fails_at_indexing_writes_nothing():
    class Broken(HashEmbedder):
        def embed_documents(self, texts):
            raise RuntimeError("no model today")

    with HybridStore.open(embedder=Broken(64)) as empty:
        with pytest.raises(EmbedderError):
            empty.add(chunks())
        assert len(empty) == 0


@pytest.mark.parametrize("strategy, arm", [("text", "lexical"), ("vector", "dense")])
async def test_a_strategy_is_one_arm_alone(store, strategy, arm):
    result = await both(DualRetriever(store), "roofers", strategy=strategy)
    assert result.mode == strategy
    assert {signal.arm for hit in result for signal in hit.signals} == {arm}


async def test_deep_search_finds_what_the_words_do_not_say(store):
    umi = DualRetriever(store, rewriter=ScriptedLLM(lambda prompt: '["roofers price nine thousand"]'))
    umi.reconfigure(routing={"mode": "always"})
    result = await both(umi, "what will it cost us", limit=2)
    assert result.deep_search_used
    assert result.query_variations == ("roofers price nine thousand",)
    assert "roof-1" in result.ids
    found = next(hit for hit in result if hit.chunk.id == "roof-1")
    assert {signal.variation for signal in found.signals} == {0, 1}


async def test_deep_search_off_never_asks_the_llm(store):
    asked = []
    umi = DualRetriever(store, rewriter=lambda prompt: asked.append(prompt) or "[]")
    umi.reconfigure(routing={"mode": "always"})
    await both(umi, "who?", deep_search=False)
    umi.reconfigure(routing={"mode": "never"})
    await both(umi, "who?")
    assert asked == []


async def test_a_failing_llm_costs_the_variations_and_is_named(store):
    umi = DualRetriever(store, rewriter=FaultyLLM("raises"))
    umi.reconfigure(routing={"mode": "always"})
    fast = DualRetriever(store).search("accounting at Acme")
    result = await both(umi, "accounting at Acme")
    assert result.ids == fast.ids
    assert not result.deep_search_used
    assert [loss.part for loss in result.degraded] == ["rewriter"]


async def test_a_reranker_has_the_last_word_and_a_failing_one_keeps_the_order(store):
    umi = DualRetriever(store, reranker=lambda query, texts: [float("canteen" in text) for text in texts])
    assert (await both(umi, "Acme accounting", limit=1)).ids == ["acme-2"]

    def broken(query, texts):
        raise OSError("model gone")

    plain = DualRetriever(store).search("Acme accounting")
    result = await both(DualRetriever(store, reranker=broken), "Acme accounting")
    assert result.ids == plain.ids
    assert [loss.part for loss in result.degraded] == ["reranker"]


async def test_a_period_without_chunks_falls_back_to_all_times_and_says_so(store):
    umi = DualRetriever(store, clock=lambda: NOW)
    result = await both(umi, "messages from March 1999 about Acme", limit=1)
    assert result.ids == ["acme-1"]


async def test_the_context_holds_the_evidence_within_its_budget(store):
    umi = DualRetriever(store)
    budget = TokenBudget(max_total=60)
    context = umi.get_context("accounting at Acme", budget=budget, where={"user": "ann"})
    assert context.text == (await umi.aget_context("accounting at Acme", budget=budget, where={"user": "ann"})).text
    assert "Priya" in context.text
    assert "roofers" not in context.text
    assert context.stats.tokens <= 60


def test_the_context_can_fetch_what_stands_beside_a_hit(store):
    umi = DualRetriever(store)
    alone = umi.get_context("accounting Acme", limit=1, budget=TokenBudget(max_total=200))
    beside = umi.get_context(
        "accounting Acme", limit=1, budget=TokenBudget(max_total=200), policy=AssemblyPolicy(neighbours=1)
    )
    assert "canteen" not in alone.text
    assert "canteen" in beside.text


async def test_a_neighbour_that_the_filter_keeps_away_stays_away_from_the_context(store):
    store.add([Chunk("acme-3", "My password is hunter2.", metadata={"user": "bob"}, source="acme", position=2)])
    umi = DualRetriever(store)
    policy = AssemblyPolicy(neighbours=2)
    options = {"where": {"user": "ann"}, "limit": 1, "budget": TokenBudget(max_total=300), "policy": policy}
    for context in (
        umi.get_context("accounting Acme", **options),
        await umi.aget_context("accounting Acme", **options),
    ):
        assert "canteen" in context.text
        assert "hunter2" not in context.text


def test_a_neighbour_outside_the_time_range_stays_away_from_the_context(store):
    old = Chunk("acme-0", "Long ago.", source="acme", position=-1, event_time=NOW - timedelta(days=900))
    store.add([old])
    lately = TimeRange(NOW - timedelta(days=100), NOW)
    options = {"limit": 1, "budget": TokenBudget(max_total=300), "policy": AssemblyPolicy(neighbours=1)}
    umi = DualRetriever(store)
    assert "Long ago" in umi.get_context("accounting Acme", **options).text
    assert "Long ago" not in umi.get_context("accounting Acme", time_range=lately, **options).text


def test_settings_change_live_and_what_needs_a_reindex_is_refused(store):
    umi = DualRetriever(store)
    umi.reconfigure(fusion={"method": "rrf"})
    assert umi.config.fusion.method == "rrf"
    with pytest.raises(ReindexRequired, match="reindex"):
        umi.reconfigure(analyzer={"language": "german"})
    with pytest.raises(ConfigError):
        umi.reconfigure(fusion={"method": "magic"})
    assert umi.config.fusion.method == "rrf"


def test_the_same_content_gives_the_same_result_whatever_the_history_of_writes(store):
    with HybridStore.open(embedder=HashEmbedder(64)) as other:
        for chunk in reversed(chunks()):
            other.add([Chunk(chunk.id, "something else entirely")])
            other.add([chunk])
        for query in ("Acme", "the roof in August", "who slept?"):
            a, b = DualRetriever(store).search(query), DualRetriever(other).search(query)
            assert a.ids == b.ids
            assert [hit.score for hit in a] == [hit.score for hit in b]


def test_a_query_vector_is_used_as_given(store):
    vector = HashEmbedder(64).embed_queries(["The cat slept on the warm boiler."])[0]
    assert DualRetriever(store).search("zzz", query_vector=vector, limit=1).ids == ["cat-1"]


def test_a_query_that_nothing_knows_is_no_error(store):
    result = DualRetriever(store).search("qqqq wwww \x00 \ud800 🦄")
    assert all(np.isfinite(hit.score) for hit in result)


def test_an_empty_store_gives_no_hits():
    with HybridStore.open(embedder=HashEmbedder(64)) as empty:
        assert DualRetriever(empty).search("anything").hits == ()


def test_a_python_prompt_shows_a_retriever_by_its_store_and_a_result_by_its_ids(store):
    umi = DualRetriever(store)
    assert repr(umi) == "DualRetriever(HybridStore('in memory'))"
    assert repr(umi.search("roofers", limit=1, strategy="text")) == "SearchResult(text, ['roof-1'])"


def test_a_result_shows_itself_as_text_html_page_and_frame(store, tmp_path):
    store.add([Chunk("evil", "Acme <script>alert(1)</script>", source="<b>", metadata={"page": 3})])
    result = DualRetriever(store).search("Acme accounting")
    assert "acme-1" in str(result)
    assert "BM25" in str(result)
    page = result.explain(str(tmp_path / "why.html"))
    assert (tmp_path / "why.html").read_text() == page
    assert "<script>" not in page
    assert "<script>" not in result._repr_html_()
    frame = result.to_frame()
    assert list(frame["id"]) == result.ids
    assert list(frame["relevance"]) == [hit.relevance for hit in result]
    assert frame.set_index("id")["metadata"]["evil"] == {"page": 3}
    assert json.loads(frame[["rank", "score"]].to_json())


async def test_fifty_searches_at_once_never_block_the_loop_for_50_ms(store):
    umi = DualRetriever(store)
    umi.search("warm up")
    assert await held(lambda: asyncio.gather(*(umi.asearch(f"Acme roof {i}") for i in range(50)))) < 0.05


@pytest.mark.parametrize("name", ["asearch", "asearch_many"])
async def test_tasks_of_the_loop_run_while_the_store_is_asked(store, name):
    gate = Gate(store)
    umi = DualRetriever(gate)
    asked = umi.asearch("Acme roof") if name == "asearch" else umi.asearch_many(["Acme roof", "canteen"])
    found, _ = await asyncio.gather(asked, gate.open())
    assert found


class OwnStore:
    """A user's store around another; its lock cannot be copied."""

    def __init__(self, store):
        self.store, self.lock = store, threading.Lock()
        self.recall, self.get, self.neighbours = store.recall, store.get, store.neighbours

    def terms_of(self, text):
        with self.lock:
            return text.lower().split()


def test_a_result_as_a_dict_or_a_copy_leaves_the_users_own_store_where_it_is(store):
    with DualRetriever(OwnStore(store)) as umi:
        result = umi.search("red boat", limit=2)
    assert [hit["chunk"]["id"] for hit in asdict(result)["hits"]] == result.ids
    copied = copy.deepcopy(result)
    assert copied == result and copied.terms_of("Red boat") == ["red", "boat"]


def test_a_pickled_result_marks_the_same_words(store):
    with DualRetriever(store) as umi:
        result = umi.search("red boats", limit=2)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 our own bytes
    assert again == result and again._repr_html_() == result._repr_html_()


def test_closing_ends_the_threads_and_a_later_search_works_again(store):
    umi = DualRetriever(store, rewriter=ScriptedLLM(["[]"] * 9))
    umi.reconfigure(routing={"mode": "always"})
    umi.search("Acme")
    umi.close()
    assert umi.search("Acme").ids
    umi.close()


def test_closing_ends_the_thread_of_an_llm_that_has_async_functions_only(store):
    async def llm(prompt):
        loops.append(threading.current_thread())
        return '["Acme staff"]'

    loops = []
    umi = DualRetriever(store, rewriter=llm)
    assert umi.rewrite_query("Acme") == ["Acme", "Acme staff"]
    umi.close()
    assert not loops[0].is_alive()
    assert umi.rewrite_query("Globex") == ["Globex", "Acme staff"]
    umi.close()


@pytest.mark.parametrize(
    ("query", "history"), [("", ()), (" ", ()), (None, ()), ("x" * 20_000, ()), ("Acme", "one message"), ("Acme", [1])]
)
def test_a_wrong_query_or_history_does_not_reach_the_llm(store, query, history):
    llm = ScriptedLLM(lambda prompt: "[]")
    with DualRetriever(store, rewriter=llm) as umi, pytest.raises(InputError):
        umi.rewrite_query(query, history)
    assert llm.prompts == []


def test_needs_deep_search_rewrite_query_and_merge_rrf_bear_the_adrs_names(store):
    umi = DualRetriever(store, rewriter=ScriptedLLM(lambda prompt: '["Acme", "works at Acme"]'))
    assert umi.needs_deep_search("Who do I know at Acme?")
    assert not umi.needs_deep_search("Acme")
    assert umi.rewrite_query("Who do I know at Acme?") == ["Who do I know at Acme?", "Acme", "works at Acme"]
    assert DualRetriever(store).rewrite_query("Acme") == ["Acme"]
    assert umi.merge_rrf(["a", "b"], ["b"]) == ["b", "a"]


async def test_a_vector_alone_is_a_query_for_the_dense_arm(store):
    umi = DualRetriever(store, rewriter=FaultyLLM("raises"))
    umi.reconfigure(routing={"mode": "always"})
    vector = HashEmbedder(64).embed_queries(["The cat slept on the warm boiler."])[0]
    result = await both(umi, "", query_vector=vector, strategy="vector", limit=1)
    assert (result.ids, result.mode, result.degraded) == (["cat-1"], "vector", ())
    with pytest.raises(EmptyQuery):
        umi.search("", query_vector=vector)
    with pytest.raises(EmptyQuery):
        umi.search("", strategy="vector")


def test_a_retriever_made_from_another_shares_its_cache_breaker_and_threads(store):
    asked = []
    umi = DualRetriever(store, rewriter=lambda prompt: asked.append(prompt) or '["the roof"]')
    umi.reconfigure(routing={"mode": "always"})
    umi.search("what will it cost")
    other = umi.with_config(mmr={"enabled": True})
    assert other.config.mmr.enabled and not umi.config.mmr.enabled
    assert other.search("what will it cost").query_variations == ("the roof",)
    assert len(asked) == 1
    assert other._workers is umi._workers
    with pytest.raises(ConfigError):
        umi.with_config(mmr={"enable": True})


async def test_stages_are_told_as_they_begin_and_end(store):
    told = []

    def on_stage(name):
        told.append(("begin", name))
        return lambda stage: told.append(("end", stage.name))

    umi = DualRetriever(store)
    result = umi.search("accounting at Acme", on_stage=on_stage)
    first = list(told)
    told.clear()
    await umi.asearch("accounting at Acme", on_stage=on_stage)
    assert told == first
    assert [name for kind, name in first if kind == "end"] == [stage.name for stage in result.trace]
    assert first.index(("begin", "recall")) < first.index(("end", "recall")) < first.index(("begin", "fuse"))


def test_a_stage_that_fails_is_told_to_have_ended(store):
    open_stages = []

    def on_stage(name):
        open_stages.append(name)
        return lambda stage: open_stages.remove(stage.name)

    with HybridStore.open(embedder=FaultyQueries(64)) as broken:
        broken.add(chunks())
        with pytest.raises(SearchUnavailable):
            DualRetriever(broken).search("Acme", strategy="vector", on_stage=on_stage)
    assert open_stages == []


def test_packing_a_context_is_a_stage_too(store):
    told = []
    DualRetriever(store).get_context("accounting at Acme", on_stage=lambda name: told.append)
    assert told[-1].name == "assemble"
    assert told[-1].facts["parts"] > 0 and told[-1].facts["tokens"] > 0


class TheEnd(BaseException):
    """No Exception, as some frameworks' own signals are."""


class Raising:
    """An LLM with an async way alone; raises at the prompts that hold a word."""

    def __init__(self, error, word=""):
        self._error, self._word = error, word

    async def acomplete(self, prompt):
        await asyncio.sleep(0)
        if self._word in prompt:
            raise self._error
        return '["roofers price nine thousand"]'


@pytest.mark.parametrize("error", [TheEnd("x"), GeneratorExit(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("mode", ["always", "evidence"])
async def test_whatever_an_async_llm_raises_costs_its_variations_only(store, error, mode):
    umi = DualRetriever(store, rewriter=Raising(error)).with_config(routing={"mode": mode, "weakness": 0.0})
    for _ in range(2):
        for result in (await umi.asearch("roofers"), umi.search("roofers"), *await umi.asearch_many(["roofers"] * 3)):
            assert result.ids[0] == "roof-1"
            assert [loss.part for loss in result.degraded] == ["rewriter"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_llm_that_raises_for_one_search_costs_those_beside_it_nothing(store):
    umi = DualRetriever(store, rewriter=Raising(TheEnd("x"), "canteen")).with_config(routing={"mode": "always"})
    one, other = await umi.asearch_many(["canteen", "roofers"])
    assert [loss.part for loss in one.degraded] == ["rewriter"]
    assert other.query_variations == ("roofers price nine thousand",)
    assert not other.degraded


async def test_after_its_pause_a_breaker_lets_a_call_through_again_whatever_was_raised(store):
    llm = Raising(TheEnd("x"))
    umi = DualRetriever(store, rewriter=llm).with_config(
        routing={"mode": "always"}, rewrite={"breaker_failures": 1, "breaker_seconds": 0.01}
    )
    for _ in range(3):
        assert [loss.part for loss in (await umi.asearch("roofers")).degraded] == ["rewriter"]
        await asyncio.sleep(0.02)
    llm._word = "never"
    assert (await umi.asearch("roofers")).deep_search_used


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_amid_an_async_llm_ends_the_search_and_leaves_the_retriever_usable(store, error):
    llm, ended = Raising(error(), "canteen"), []

    async def web(query, k, where, window):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(query)

    arm = Arm("web", lambda query, k, where, window: [], asearch=web)
    with DualRetriever(store, rewriter=llm, arms=[arm]).with_config(routing={"mode": "always"}) as umi:
        with pytest.raises(error):
            asyncio.run(umi.asearch("canteen"))
        assert ended == ["canteen"]
        result = asyncio.run(umi.with_config(extra_arms={"timeout_seconds": 0.05}).asearch("roofers"))
    assert result.query_variations == ("roofers price nine thousand",)


def chunk(id, text):
    return Chunk(id, text, metadata={"user": "ann"}, event_time=NOW)


class Told(list):
    """A list of (stage, thread) that is an `on_stage`; empty, and so false, until the first stage."""

    def __call__(self, name):
        self.append((name, threading.get_ident()))


async def test_a_list_that_collects_stages_is_called_on_the_event_loop(store):
    umi, here = DualRetriever(store), threading.get_ident()
    for search in (
        lambda told: umi.asearch("Acme", on_stage=told),
        lambda told: umi.aget_context("Acme", on_stage=told),
        lambda told: umi.asearch_many(["Acme"], on_stages=[told]),
    ):
        await search(told := Told())
        assert {thread for _, thread in told} == {here}


async def every_way(umi, query, on_stage):
    """(way, result) of each way to search."""
    yield "search", umi.search(query, on_stage=on_stage, now=NOW)
    yield "asearch", await umi.asearch(query, on_stage=on_stage, now=NOW)
    for result in umi.search_many([query] * 3, on_stages=[on_stage, None, on_stage], now=NOW):
        yield "search_many", result
    for result in await umi.asearch_many([query] * 3, on_stages=[on_stage] * 3, now=NOW):
        yield "asearch_many", result


@pytest.mark.parametrize("mode", ["never", "always"])
async def test_a_search_may_be_made_inside_a_search(store, mode):
    inner = []

    def on_stage(name):
        inner.append(umi.search("roofers nine thousand", now=NOW).ids[0])
        inner.extend(result.ids[0] for result in umi.search_many(["roofers nine thousand"] * 2, now=NOW))
        return lambda stage: inner.append(umi.get_context("roofers nine thousand", now=NOW).parts[0].ids[0])

    llm = ScriptedLLM(lambda prompt: '["canteen"]')
    umi = DualRetriever(store, rewriter=llm).with_config(routing={"mode": mode})
    expected = umi.search("accounting at Acme", now=NOW)
    async for way, result in every_way(umi, "accounting at Acme", on_stage):
        assert result.ids == expected.ids, way
        assert [hit.score for hit in result] == [hit.score for hit in expected], way
    assert set(inner) == {"roof-1"}


@pytest.mark.parametrize("stage", ["recall", "fuse", "fetch"])
async def test_a_write_may_be_made_inside_a_search(store, stage):
    """What is added is found by the next search; what is deleted is not among the hits of this one."""
    written = []

    def on_stage(name):
        if name == stage:
            written.append(f"new-{len(written)}")
            store.add([chunk(written[-1], f"Zebras {written[-1]} there {len(written)}")])
            store.delete(["cat-1"])
            store.add([chunks()[-1]])
            store.delete(["cat-1"])
        return lambda stage: None

    umi = DualRetriever(store)
    async for way, result in every_way(umi, "cat on the warm boiler zebras", on_stage):
        assert "cat-1" not in result.ids, way
        assert not result.degraded, way
        assert set(written) <= set(umi.search("zebras", limit=100, now=NOW).ids), way
        store.add([chunks()[-1]])
    assert store.verify()


def test_a_function_word_is_weak_evidence_where_no_text_holds_the_other_words_of_the_query():
    price = "Der Strompreis sinkt um 2 Cent je kWh."
    others = [
        "Für die Wohnungsübergabe brauchen wir drei Schlüssel.",
        "Mit Nüssen und Rosinen, nicht für Allergiker.",
        "Der Versicherungsvertrag für das Auto läuft im Mai aus.",
        "Wir suchen eine Putzhilfe für zwei Stunden in der Woche.",
        "Das Paket wurde beim Nachbarn abgegeben.",
        "Der Zahnarzttermin wurde auf Dienstag verlegt.",
        "Die Straßenbahn fährt wegen Bauarbeiten nicht.",
        "Die Krankenversicherungskarte liegt in der Schublade.",
        "Unsere Haftpflichtversicherung zahlt nicht bei Vorsatz.",
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in (price, *others)])
        assert umi.search("Preis für Strom").ids[0] == price


@pytest.mark.parametrize(
    ("given", "meant"), [("k", "limit"), ("top_k", "limit"), ("n_results", "limit"), ("filter", "where")]
)
def test_an_option_named_as_in_another_library_is_told_its_name_here_by_search_as_by_asearch(given, meant):
    with HybridStore.open(embedder=HashEmbedder(64)) as store, DualRetriever(store) as umi:
        for search in (umi.search, lambda *args, **options: asyncio.run(umi.asearch(*args, **options))):
            with pytest.raises(TypeError, match=rf"no option '{given}'; did you mean {meant}\?"):
                search("boats", **{given: 3})
