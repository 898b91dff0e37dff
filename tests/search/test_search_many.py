"""Many queries at once: the same answers as one by one, for one embedding call and one recall."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from loop_watch import held

from umi_common.config import UmiConfig
from umi_common.embedders import default_embedder
from umi_common.errors import EmptyQuery, InputError, InvalidVector, SearchUnavailable
from umi_common.evaluation.folders import Keys, load_beir
from umi_common.retriever import QUERIES_AT_ONCE, DualRetriever
from umi_common.runtime.calls import Call, CallFailure, adrive, drive, run_together
from umi_common.runtime.workers import Workers
from umi_common.sim import CountingEmbedder, FaultyLLM, HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

CONVERSATION = Path(__file__).parents[2] / ".." / "shared" / "data" / "locomo" / "conv-26"
NOW = datetime(2023, 12, 1, tzinfo=timezone.utc)


class CountingStore:
    """A store that counts how often it is asked to recall, and with how many probes."""

    def __init__(self, store: HybridStore) -> None:
        self._store = store
        self.recalls: list[int] = []

    def recall(self, probes, **options):
        self.recalls.append(len(probes))
        return self._store.recall(probes, **options)

    def recall_many(self, searches):
        self.recalls.append(sum(len(asked.probes) for asked in searches))
        return self._store.recall_many(searches)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture(scope="module")
def locomo():
    if not CONVERSATION.exists():
        pytest.skip(f"{CONVERSATION} is not there")
    return load_beir(CONVERSATION, keys=Keys())


@pytest.fixture(scope="module")
def embedder():
    return CountingEmbedder(default_embedder())


@pytest.fixture(scope="module")
def store(locomo, embedder):
    with HybridStore.open(embedder=embedder) as opened:
        opened.add(locomo.chunks)
        yield opened


@pytest.fixture
def counting(store):
    return CountingStore(store)


@pytest.fixture(scope="module")
def queries(locomo):
    return [query.text for query in locomo.queries][:60]


def plain(result):
    """Everything of a result but the time it took."""
    hits = [(hit.chunk, hit.score, hit.rank, hit.signals, dict(hit.stages), dict(hit.ranks)) for hit in result]
    facts = (result.query, result.query_variations, result.deep_search_used, result.mode, result.degraded)
    return hits, facts, result.suppressed


SETTINGS = {
    "defaults": {},
    "rrf": {"fusion": {"method": "rrf"}},
    "convex": {"fusion": {"adaptive": False}, "recall": {"around": 2}},
    "decay and diversity": {"decay": {"half_life_hours": 500.0}, "mmr": {"enabled": True}},
    "no neighbours": {"neighbours": {"enabled": False}},
    "shallow": {"recall": {"depth": 10, "around": 3}},
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_results_equal_those_of_single_searches_to_the_last_bit(name, store, queries):
    umi = DualRetriever(store, config=UmiConfig(**SETTINGS[name]))
    alone = [plain(umi.search(query, now=NOW)) for query in queries]
    assert [plain(result) for result in umi.search_many(queries, now=NOW)] == alone
    assert [plain(result) for result in await umi.asearch_many(queries, now=NOW)] == alone


@pytest.mark.parametrize("strategy", ["text", "vector"])
def test_one_arm_alone_gives_the_same_too(strategy, store, queries):
    umi = DualRetriever(store)
    alone = [plain(umi.search(query, now=NOW, strategy=strategy, limit=30)) for query in queries]
    assert [plain(r) for r in umi.search_many(queries, now=NOW, strategy=strategy, limit=30)] == alone


@pytest.mark.parametrize("mode", ["always", "evidence", "heuristic"])
async def test_deep_search_gives_the_same_too(mode, store, queries):
    umi = DualRetriever(store, rewriter=lambda prompt: f'["{sorted(prompt.split())[-1]}", "a trip with family"]')
    umi.reconfigure(routing={"mode": mode}, when={"enabled": False})
    alone = [plain(umi.search(query, now=NOW)) for query in queries]
    assert any(deep for _, (_, _, deep, _, _), _ in alone)
    assert [plain(result) for result in umi.search_many(queries, now=NOW)] == alone
    assert [plain(result) for result in await umi.asearch_many(queries, now=NOW)] == alone


def test_a_filter_and_a_period_hold_for_all(store, queries, locomo):
    umi = DualRetriever(store)
    session = locomo.chunks[0].metadata["session"]
    options = {"where": {"session": session}, "time_range": (None, NOW), "now": NOW}
    alone = [plain(umi.search(query, **options)) for query in queries[:20]]
    many = umi.search_many(queries[:20], **options)
    assert [plain(result) for result in many] == alone
    assert {hit.chunk.metadata["session"] for result in many for hit in result} == {session}


async def test_one_embedding_call_and_one_recall_serve_all(counting, embedder):
    umi = DualRetriever(counting, config=UmiConfig(when={"enabled": False}))
    for search in (umi.search_many, umi.asearch_many):
        asked = [f"question {number} for {search.__name__}" for number in range(QUERIES_AT_ONCE)]
        counting.recalls.clear()
        before = embedder.query_calls
        found = search(asked)
        assert len(found if isinstance(found, list) else await found) == QUERIES_AT_ONCE
        assert counting.recalls == [QUERIES_AT_ONCE]
        assert embedder.query_calls == before + 1


def test_deep_search_costs_one_recall_more_for_all_and_the_llm_is_asked_side_by_side(counting, queries):
    active, most, lock = 0, 0, threading.Lock()

    def llm(prompt):
        nonlocal active, most
        with lock:
            active, most = active + 1, max(most, active + 1)
        time.sleep(0.05)
        with lock:
            active -= 1
        return '["a trip", "a party"]'

    umi = DualRetriever(counting, rewriter=llm, config=UmiConfig(routing={"mode": "always"}, when={"enabled": False}))
    results = umi.search_many(queries[:10])
    assert all(result.deep_search_used for result in results)
    assert counting.recalls == [10, 30]
    assert most > 1


async def test_awaited_llm_calls_are_bounded(store, queries):
    class Model:
        active = most = 0

        def complete(self, prompt):
            raise AssertionError("the event loop awaits")

        async def acomplete(self, prompt):
            self.active += 1
            self.most = max(self.most, self.active)
            await asyncio.sleep(0.01)
            self.active -= 1
            return '["a trip"]'

    model = Model()
    umi = DualRetriever(store, rewriter=model, config=UmiConfig(routing={"mode": "always"}))
    results = await umi.asearch_many(queries[:30])
    assert all(result.deep_search_used for result in results)
    assert 1 < model.most <= 8


def test_a_failing_llm_costs_each_its_variations_and_nothing_else(store, queries):
    umi = DualRetriever(store, rewriter=FaultyLLM("raises"), config=UmiConfig(routing={"mode": "always"}))
    fast = DualRetriever(store).search_many(queries[:5], now=NOW)
    results = umi.search_many(queries[:5], now=NOW)
    assert [result.ids for result in results] == [result.ids for result in fast]
    assert all([loss.part for loss in result.degraded] == ["rewriter"] for result in results)


def test_one_bad_query_raises_before_any_work(counting):
    umi = DualRetriever(counting)
    with pytest.raises(EmptyQuery):
        umi.search_many(["fine", " "])
    for given in ("one string", None, 7):
        with pytest.raises(InputError, match=r"expected a list of queries; for one query: \[query\]"):
            umi.search_many(given)
    with pytest.raises(InputError, match="on_stages has 1 entries; expected one for each of 2 queries"):
        umi.search_many(["fine", "good"], on_stages=[None])
    with pytest.raises(TypeError):
        umi.search_many(["fine"], k=3)
    with pytest.raises(TypeError):
        umi.search_many(["fine"], query_vector=[1.0])
    assert counting.recalls == []


def test_no_query_is_no_work_and_a_query_asked_twice_is_answered_twice(counting):
    umi = DualRetriever(counting)
    assert umi.search_many([]) == []
    first, second = umi.search_many(["a trip", "a trip"], now=NOW)
    assert plain(first) == plain(second)
    assert counting.recalls == [2]


def test_a_query_that_names_its_own_period_finds_what_it_finds_alone(store):
    umi = DualRetriever(store)
    queries = ["messages from March 1999 about a trip", "a trip", "messages from May 2023 about a trip"]
    alone = [plain(umi.search(query, now=NOW)) for query in queries]
    assert [plain(result) for result in umi.search_many(queries, now=NOW)] == alone


def test_a_store_that_cannot_recall_for_many_is_asked_for_each(store, queries):
    class OneByOne:
        def __init__(self):
            self.recall, self.get = store.recall, store.get

    alone = [plain(DualRetriever(store).search(query, now=NOW)) for query in queries[:5]]
    assert [plain(result) for result in DualRetriever(OneByOne()).search_many(queries[:5], now=NOW)] == alone


def test_without_an_embedder_the_words_answer_for_all():
    class FaultyQueries(HashEmbedder):
        def embed_queries(self, texts):
            raise RuntimeError("no model today")

    with HybridStore.open(embedder=FaultyQueries(64)) as store:
        store.add([Chunk("a", "red apple"), Chunk("b", "green pear")])
        umi = DualRetriever(store)
        results = umi.search_many(["apple", "pear"])
        assert [result.ids for result in results] == [["a"], ["b"]]
        assert all([loss.part for loss in result.degraded] == ["embedder"] for result in results)
        with pytest.raises(SearchUnavailable):
            umi.search_many(["apple", "pear"], strategy="vector")


@pytest.mark.parametrize("deep", [False, True], ids=["fast", "deep"])
@pytest.mark.parametrize("told", [False, True], ids=["silent", "told"])
async def test_searches_that_wait_at_the_same_time_share_an_embedding_call(told, deep):
    begun, released, asked = threading.Event(), threading.Event(), []

    class Waiting(HashEmbedder):
        def embed_queries(self, texts):
            asked.append(len(texts))
            begun.set()
            released.wait(60)
            return super().embed_queries(texts)

    words = [f"word{n}" for n in range(16)]
    with HybridStore.open(embedder=Waiting(64)) as store:
        store.add([Chunk(word, f"{word} and more") for word in words])
        config = UmiConfig(routing={"mode": "always"})
        umi = DualRetriever(store, rewriter=ScriptedLLM(lambda _: ["and"]), config=config)
        options = {"deep_search": deep, "on_stage": (lambda name: lambda stage: None) if told else None, "now": NOW}
        tasks = [asyncio.create_task(umi.asearch(word, **options)) for word in words]
        await asyncio.to_thread(begun.wait, 60)
        released.set()
        found = await asyncio.gather(*tasks)
        calls = len(asked)
        assert [result.ids[0] for result in found] == words
        assert asked[0] == len(words) or deep
        assert calls < 16 * (1 + deep) // 2
        assert [plain(result) for result in found] == [plain(umi.search(word, **options)) for word in words]


async def test_what_is_wrong_with_one_search_costs_those_beside_it_nothing(store, queries):
    umi = DualRetriever(store)
    asked = [{}, {"query_vector": [1.0, 2.0]}, {"where": {"session": "none"}}, {"time_range": (None, NOW)}, {}]
    searches = [umi.asearch(query, now=NOW, **options) for query, options in zip(queries, asked * 4, strict=False)]
    found = await asyncio.gather(*searches, return_exceptions=True)
    for query, options, result in zip(queries, asked * 4, found, strict=False):
        if "query_vector" in options:
            assert isinstance(result, InvalidVector)
        else:
            assert plain(result) == plain(umi.search(query, now=NOW, **options))


async def test_the_event_loop_stays_free(store, queries):
    umi = DualRetriever(store)
    await umi.asearch_many(queries)
    assert await held(lambda: umi.asearch_many(queries)) < 0.05


def test_calls_of_one_kind_go_out_as_one_and_each_body_gets_its_part():
    asked = []

    def add_one(items):
        asked.append(list(items))
        return [item + 1 for item in items]

    def body(*items):
        (first,) = yield (Call.batched("add", items, add_one),)
        (second, own) = yield (
            Call.batched("add", first, add_one),
            Call(lambda: sum(items)),
        )
        return second, own

    assert drive(run_together([body(1), body(10, 20), body()]), Workers()) == [([3], 1), ([12, 22], 30), ([], 0)]
    assert asked == [[1, 10, 20], [2, 11, 21]]


def test_bodies_that_only_let_the_event_loop_run_other_tasks_reach_their_end_together():
    def body(name):
        yield ()
        return name

    assert drive(run_together([body("a"), body("b")]), Workers()) == ["a", "b"]


def test_a_failed_shared_call_is_every_bodys_failure_and_what_one_raises_closes_the_others():
    closed = []

    def fail(items):
        raise OSError("no")

    def body(name):
        try:
            (outcome,) = yield (Call.batched("x", [name], fail),)
            assert isinstance(outcome, CallFailure)
            if name == "b":
                raise LookupError(name)
            yield (Call(lambda: None),)
        finally:
            closed.append(name)

    with pytest.raises(LookupError):
        drive(run_together([body("a"), body("b"), body("c")]), Workers())
    assert sorted(closed) == ["a", "b", "c"]


def bad_fails(items):
    if "bad" in items:
        raise OSError("bad")
    return [item.upper() for item in items]


async def prepared_unless_bad(items):
    return [bad_fails([item])[0] for item in items]


@pytest.mark.parametrize("prepare", [None, prepared_unless_bad])
async def test_of_calls_made_as_one_only_those_at_fault_fail(prepare):
    def body(name):
        (outcome,) = yield (Call.batched("upper", [name], bad_fails, prepare),)
        return type(outcome.error) if isinstance(outcome, CallFailure) else outcome

    expected = [["GOOD"], OSError, ["FINE"]]
    bodies = [body("good"), body("bad"), body("fine")]
    assert await adrive(run_together(bodies), Workers()) == expected
    assert drive(run_together([body("good"), body("bad"), body("fine")]), Workers()) == expected


def test_calls_of_one_kind_that_cannot_be_made_as_one_are_made_alone():
    def body(name):
        (outcome,) = yield (Call(lambda: name, kind="same"),)
        return outcome

    assert drive(run_together([body("ab"), body("cd")]), Workers()) == ["ab", "cd"]


def test_random_stores_filters_and_settings_make_no_difference():
    draw = random.Random(1)
    words = "a b c d e f g h i j k l m n o p".split()  # noqa: SIM905
    for _ in range(25):
        stages = {"recall": {"depth": draw.choice([10, 12, 20]), "around": draw.randint(0, 3)}}
        with HybridStore.open(embedder=HashEmbedder(16)) as store:
            size = draw.randint(1, 60)
            for n in range(size):
                place = {"source": draw.choice([None, "s", "t"]), "position": draw.choice([None, n, 3 * n])}
                metadata = {"x": draw.randint(0, 2)}
                store.add([Chunk(f"c{n:03}", " ".join(draw.choices(words, k=5)), metadata=metadata, **place)])
            store.delete([f"c{n:03}" for n in range(0, size, 7)])
            umi = DualRetriever(store, config=UmiConfig(**stages))
            queries = [" ".join(draw.choices(words, k=draw.randint(1, 4))) for _ in range(draw.randint(1, 40))]
            options = {"where": draw.choice([None, {"x": 1}, {"x": {"$ne": 0}}]), "limit": 7, "now": NOW}
            alone = [plain(umi.search(query, **options)) for query in queries]
            assert [plain(result) for result in umi.search_many(queries, **options)] == alone
