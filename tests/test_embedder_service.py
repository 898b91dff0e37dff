"""An embedding model that is a service: async functions, calls side by side, retries, rate limits, a cache."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone

import numpy as np
import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.embedders import as_embedder, identity_of
from umi_common.embedders.attempts import is_rate_limit, may_be_of_a_text
from umi_common.errors import EmbedderError, ReindexRequired
from umi_common.runtime.guards import DeadlineExceeded
from umi_common.sim import (
    FaultyEmbedder,
    HashEmbedder,
    RateLimited,
    RemoteModel,
    ScriptedLLM,
    ServiceDown,
    VirtualClock,
)
from umi_common.stores.query_embedder import QueryEmbedder

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
CHUNKS = [Chunk(f"c{n}", f"boat number{n} lies on river{n % 7}", source="harbour", position=n) for n in range(40)]
QUESTIONS = [f"number{n} river" for n in range(40)]
SECONDS = 0.2


def store_of(model, path=None, **settings):
    store = HybridStore.open(path, embedder=model, config=UmiConfig(embedder=settings))
    store.add(CHUNKS)
    return store


async def gathered(umi):
    return await asyncio.gather(*(umi.asearch(question, now=NOW) for question in QUESTIONS))


WAYS = {
    "search_many": lambda umi: umi.search_many(QUESTIONS, now=NOW),
    "asearch_many": lambda umi: asyncio.run(umi.asearch_many(QUESTIONS, now=NOW)),
    "gather": lambda umi: asyncio.run(gathered(umi)),
}


@pytest.mark.parametrize("way", WAYS)
def test_forty_questions_wait_for_a_slow_model_once_and_not_one_after_the_other(way):
    model = RemoteModel(seconds=SECONDS)
    with store_of(model) as store, DualRetriever(store) as umi:
        model.calls = 0
        begun = time.monotonic()
        results = WAYS[way](umi)
        assert time.monotonic() - begun < len(QUESTIONS) * SECONDS / 2, "one after the other takes twice as long"
        assert model.calls == len(QUESTIONS)
        assert {result.mode for result in results} == {"hybrid"}
        plain = HybridStore.open(embedder=HashEmbedder())
        plain.add(CHUNKS)
        assert [result.ids for result in results] == [DualRetriever(plain).search(q, now=NOW).ids for q in QUESTIONS]


def test_a_model_that_computes_here_is_waited_for_as_long_as_its_calls_one_after_the_other_take():
    class Computing(HashEmbedder):
        calls_max = 1
        core = threading.Lock()

        def embed_queries(self, texts):
            with self.core:
                time.sleep(SECONDS)
                return super().embed_queries(texts)

    config = UmiConfig(embedder={"batch_texts": 4}, recall={"embedder_timeout_seconds": 0.5})
    with HybridStore.open(embedder=Computing(), config=config) as store, DualRetriever(store, config=config) as umi:
        store.add(CHUNKS)
        assert {result.mode for result in umi.search_many(QUESTIONS, now=NOW)} == {"hybrid"}, "ten calls take 2 s"


def test_no_more_calls_run_at_once_than_the_setting_says():
    model = RemoteModel(seconds=0.01)
    with store_of(model, concurrency=5) as store, DualRetriever(store) as umi:
        asyncio.run(gathered(umi))
        umi.search_many([f"other {question}" for question in QUESTIONS], now=NOW)
    assert model.at_once_max == 5


def test_a_question_asked_again_costs_no_call():
    model = RemoteModel()
    with store_of(model) as store, DualRetriever(store) as umi:
        first = umi.search(QUESTIONS[0], now=NOW)
        before = model.calls
        assert umi.search(QUESTIONS[0], now=NOW).ids == first.ids
        assert asyncio.run(umi.asearch(QUESTIONS[0], now=NOW)).ids == first.ids
        assert model.calls == before


def test_a_deep_search_embeds_its_variations_side_by_side_and_only_once():
    model = RemoteModel()
    llm = ScriptedLLM(lambda _: ["river boats", "a boat there", QUESTIONS[0]])
    with store_of(model) as store, DualRetriever(store, rewriter=llm) as umi:
        deep = umi.with_config(routing={"mode": "always"})
        clock = VirtualClock()
        model.calls, model._seconds = 0, 3.0
        result = clock.run(deep.asearch(QUESTIONS[0], now=NOW))
        assert len(result.query_variations) == 2
        assert clock.monotonic() == pytest.approx(6.0, abs=0.1), "the query, then the variations together"
        assert model.calls == 3


def test_only_async_functions_are_enough():
    class AsyncOnly:
        model_name = "async only"

        def __init__(self):
            self.loops = set()

        async def aembed_documents(self, texts):
            self.loops.add(asyncio.get_running_loop())
            return HashEmbedder().embed_documents(texts).tolist()

        async def aembed_query(self, text):
            return (await self.aembed_documents([text]))[0]

    before = threading.active_count()
    model = AsyncOnly()
    with store_of(model) as store, DualRetriever(store) as umi:
        assert umi.search(QUESTIONS[3], now=NOW).mode == "hybrid"
        assert umi.search("something else", now=NOW).mode == "hybrid"
        assert len(model.loops) == 1, "sync code has one loop of its own"
        assert asyncio.run(umi.asearch("a third thing", now=NOW)).mode == "hybrid"
        assert len(model.loops) == 2
    assert not [thread.name for thread in threading.enumerate() if thread.name == "umi-async-model"]
    deadline = time.monotonic() + 10.0  # the thread of the last timed call ends
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_search_after_one_for_which_the_process_could_start_no_thread_has_vectors(monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    with store_of(RemoteModel()) as store, DualRetriever(store) as umi:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            assert [loss.part for loss in umi.search(QUESTIONS[0], now=NOW).degraded] == ["embedder"]
        results = []
        search = threading.Thread(target=lambda: results.append(umi.search(QUESTIONS[0], now=NOW)), daemon=True)
        search.start()
        search.join(20)
        assert results and results[0].mode == "hybrid"


@pytest.mark.parametrize("threads", [0, 1])
def test_texts_are_embedded_without_threads_where_the_process_can_start_no_more(monkeypatch, threads):
    start, left = threading.Thread.start, iter(range(threads))

    def limited(thread):
        if not isinstance(thread, threading.Timer) and next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    model = RemoteModel(seconds=0.01)
    with HybridStore.open(embedder=model, config=UmiConfig(embedder={"batch_texts": 5})) as store:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", limited)
            store.add(CHUNKS)
        assert sorted(model.texts) == sorted(chunk.text for chunk in CHUNKS)
        assert store.vectors([chunk.id for chunk in CHUNKS]).any(axis=1).all()


def test_a_quick_local_model_whose_first_call_failed_is_still_called_in_the_callers_thread_alone(monkeypatch):
    threads, slept = [], []
    monkeypatch.setattr(time, "sleep", slept.append)  # these clocks do not count the work of other processes
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept) + time.thread_time())

    class Local(HashEmbedder):
        def embed_documents(self, texts):
            threads.append(threading.current_thread())
            if len(threads) == 1:
                raise ConnectionError("the model is being loaded")
            return super().embed_documents(texts)

    with store_of(Local(8), batch_texts=2):
        assert slept and set(threads) == {threading.current_thread()}


def test_a_text_is_embedded_though_no_thread_can_watch_how_long_it_takes(monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    with HybridStore.open(embedder=RemoteModel()) as store:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            store.add(CHUNKS[:1])
        assert store.vectors(["c0"]).any()


async def _embed(texts):
    return HashEmbedder().embed_documents(texts)


@pytest.mark.parametrize("function", [_embed, lambda texts: _embed(texts)], ids=["async", "function of a coroutine"])
def test_an_async_function_is_an_embedder(function):
    model = as_embedder(function)
    assert model.embed_queries(["boat"]).shape == (1, 64)
    model.close()
    assert model.embed_documents(["boat", "river"]).shape == (2, 64), "it starts again"
    model.close()


def test_a_model_that_has_sync_functions_only_in_name_is_async_only():
    class Refuses(RemoteModel):
        def embed_documents(self, texts):
            raise NotImplementedError

    with store_of(Refuses()) as store, DualRetriever(store) as umi:
        assert umi.search(QUESTIONS[0], now=NOW).mode == "hybrid"


def test_queries_are_embedded_as_documents_only_if_the_model_says_they_are_alike():
    class Model(RemoteModel):
        def embed_query(self, text):
            return [-x for x in super().embed_query(text)]

        aembed_query = None

    model = Model()
    with store_of(model) as store, DualRetriever(store) as umi:
        model.calls = 0
        umi.search_many(QUESTIONS, now=NOW)
        assert model.calls == len(QUESTIONS)
    model = Model()
    model.symmetric = True
    with store_of(model) as store, DualRetriever(store) as umi:
        model.calls = 0
        umi.search_many(QUESTIONS, now=NOW)
        asyncio.run(gathered(umi.with_config()))
        assert model.calls == 1


def test_an_error_of_umi_that_a_model_raises_keeps_its_cause():
    class Offline(HashEmbedder):
        def embed_documents(self, texts):
            raise EmbedderError("no network") from OSError("cable")

    with HybridStore.open(embedder=Offline(8)) as store, pytest.raises(EmbedderError, match="no network") as raised:
        store.add(CHUNKS)
    assert repr(raised.value.__cause__) == "OSError('cable')"


def test_a_passing_failure_is_retried_and_a_lasting_one_is_not():
    class Fails(RemoteModel):
        errors = ()

        def embed_query(self, text):
            self.calls += 1
            if self.errors:
                raise self.errors.pop(0)
            return HashEmbedder().embed_queries([text])[0].tolist()

        aembed_query = None

    class Expired(Exception):
        status_code = 401

    model = Fails()
    with store_of(model) as store, DualRetriever(store) as umi:
        for number, error in enumerate([ServiceDown("x"), TimeoutError(), ConnectionError(), RateLimited(0.05)]):
            model.errors = [error]
            assert umi.search(f"passing {number}", now=NOW).mode == "hybrid", error
        model.errors, model.calls = [Expired("no"), Expired("no")], 0
        result = umi.search("lasting", now=NOW)
        assert result.mode == "text"
        assert [(loss.part, loss.reason) for loss in result.degraded] == [("embedder", "Expired")]
        assert model.calls == 1


@pytest.mark.parametrize("error", [KeyError("429"), TypeError("cannot embed 'the rate limit is 5'")])
def test_a_bug_whose_message_reads_like_a_rate_limit_is_not_retried(error):
    assert not is_rate_limit(error)
    assert is_rate_limit(RuntimeError("429 Too Many Requests"))


def test_a_retry_after_beyond_the_time_limit_is_not_waited_for():
    model = RemoteModel(calls_per_second=0, retry_after=60.0)
    asked = QueryEmbedder(as_embedder(model))
    begun = time.monotonic()
    (error,) = asked.embed_each(["boat"], 20.0, 0)
    assert isinstance(error, RateLimited)
    assert time.monotonic() - begun < 10.0


def test_a_service_that_is_down_and_says_retry_after_0_is_not_called_without_a_pause():
    class Model(RemoteModel):
        async def aembed_documents(self, texts):
            self.calls += 1
            await asyncio.sleep(0.01)
            error = ServiceDown("down")
            error.headers = {"Retry-After": "0"}
            raise error

    clock = VirtualClock()
    model = Model(clock=clock.monotonic)
    asked = QueryEmbedder(as_embedder(model), clock=clock.monotonic)
    clock.run(asked.aembed_each(["boat"], 5.0, 0))
    assert 3 < model.calls < 15


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_sixty_four_callers_share_a_rate_limit_and_every_query_gets_its_vector(retry_after):
    clock = VirtualClock()
    model = RemoteModel(
        seconds=0.2, calls_per_second=20, retry_after=retry_after, failures=0.01, seed=7, clock=clock.monotonic
    )
    asked = QueryEmbedder(as_embedder(model), clock=clock.monotonic)
    waited, lost = [], []

    async def caller(number):
        for question in range(5):
            begun = clock.monotonic()
            (vector,) = await asked.aembed_each([f"caller {number} asks {question}"], 5.0, 0)
            waited.append(clock.monotonic() - begun)
            if not isinstance(vector, np.ndarray):
                lost.append(vector)

    async def everybody():
        await asyncio.gather(*(caller(number) for number in range(64)))

    clock.run(everybody())
    assert lost == []
    assert len(waited) == 320
    assert model.failed > 0 and model.refused > 0
    assert np.quantile(waited, 0.95) < 5.0
    assert clock.monotonic() < 320 / 20 * 1.25, "the rate that the service bears is used"


def test_a_service_that_takes_two_seconds_to_refuse_a_call_is_still_used_at_the_rate_it_bears():
    class SlowToRefuse(RemoteModel):
        async def aembed_documents(self, texts):
            try:
                return await super().aembed_documents(texts)
            except RateLimited:
                await asyncio.sleep(2.0)
                raise

    clock = VirtualClock()
    model = SlowToRefuse(seconds=0.02, calls_per_second=50, clock=clock.monotonic)
    asked = QueryEmbedder(as_embedder(model), clock=clock.monotonic)

    async def everybody():
        return await asyncio.gather(*(asked.aembed_each([f"question {n}"], 8.0, 0) for n in range(200)))

    vectors = clock.run(everybody())
    assert model.refused > 0
    assert sum(isinstance(vector, np.ndarray) for (vector,) in vectors) == 200
    assert clock.monotonic() < 8.0


class Limited(RemoteModel):
    """A service that refuses calls by one of its limits: calls at a time, tokens of a bucket, or calls of a minute.

    Args:
        allowed: Returns whether a call is accepted, given the number of calls that run and the time in seconds.
    """

    def __init__(self, allowed, clock, seconds):
        super().__init__(seconds=seconds, clock=clock.monotonic)
        self.allowed, self.now, self.running = allowed, clock.monotonic, 0

    async def aembed_documents(self, texts):
        if not self.allowed(self.running, self.now()):
            raise RateLimited(None)
        self.running += 1
        try:
            return await super().aembed_documents(texts)
        finally:
            self.running -= 1


def bucket(rate, most):
    """Accepts `rate` calls a second, and `most` at once."""
    tokens, last = float(most), 0.0

    def allowed(_, now):
        nonlocal tokens, last
        tokens, last = min(most, tokens + (now - last) * rate), now
        if tokens < 1:
            return False
        tokens -= 1
        return True

    return allowed


def calls_of_a_minute(most):
    """Accepts `most` calls in each minute of the clock."""
    counted = Counter()

    def allowed(_, now):
        counted[now // 60] += 1
        return counted[now // 60] <= most

    return allowed


@pytest.mark.parametrize(
    ("allowed", "seconds", "asked_a_second"),
    [
        (lambda running, _: running < 4, 0.2, 10),
        (lambda running, _: running < 8, 1.0, 5),
        (bucket(rate=20, most=5), 0.2, 15),
        (calls_of_a_minute(600), 0.2, 9),
    ],
    ids=["four calls at a time", "eight long calls at a time", "a small bucket", "a quota of a minute"],
)
def test_after_a_burst_queries_soon_have_their_vectors_again_whatever_the_limit_of_the_service(
    allowed, seconds, asked_a_second
):
    clock = VirtualClock()
    asked = QueryEmbedder(as_embedder(Limited(allowed, clock, seconds)), clock=clock.monotonic)
    lost = []

    async def ask(number):
        begun = clock.monotonic()
        (vector,) = await asked.aembed_each([f"question {number}"], 5.0, 0)
        if not isinstance(vector, np.ndarray):
            lost.append(begun)

    async def two_minutes():
        asking = [asyncio.ensure_future(ask(number)) for number in range(64)]
        for number in range(64, 64 + 120 * asked_a_second):
            asking.append(asyncio.ensure_future(ask(number)))
            await asyncio.sleep(1 / asked_a_second)
        await asyncio.gather(*asking)

    clock.run(two_minutes())
    assert sum(10 < begun % 60 < 50 for begun in lost) == 0, "the burst is over, and less is asked than is accepted"
    assert len(lost) < 80


def test_sixty_four_threads_under_a_rate_limit_lose_no_vector():
    model = RemoteModel(seconds=0.02, calls_per_second=50, failures=0.01, seed=3)
    patient = UmiConfig(recall={"embedder_timeout_seconds": 20.0})  # the machine may stall; 192 calls take 4 seconds
    with store_of(model) as store, DualRetriever(store, config=patient) as umi:
        modes = []

        def caller(number):
            modes.extend(umi.search(f"caller {number} asks {n}", now=NOW).mode for n in range(3))

        threads = [threading.Thread(target=caller, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert modes == ["hybrid"] * 192
    assert model.refused > 0


def test_six_thousand_texts_with_failures_on_the_way_are_each_embedded_once(tmp_path):
    class Limited(RemoteModel):
        def embed_documents(self, texts):
            if len(self.texts) + len(texts) > self.allowed:
                raise EmbedderError("the quota is used up")
            return super().embed_documents(texts)

    chunks = [Chunk(f"c{n}", f"text number {n}") for n in range(6_000)]
    for path in (tmp_path / "store", None):
        model = Limited()
        model.allowed, calls = 500, 0
        store = HybridStore.open(path, embedder=model)
        while len(store) < len(chunks):
            calls += 1
            try:
                store.add(chunks)
            except EmbedderError:
                assert len(store) == 0, "all or nothing"
                model.allowed += 500
            if path is not None:  # the next process
                store.close()
                store = HybridStore.open(path, embedder=model)
        assert calls > 5
        assert sorted(model.texts) == sorted(chunk.text for chunk in chunks)
        store.close()


def test_a_text_that_comes_back_under_another_id_is_not_embedded_again(tmp_path):
    model = RemoteModel()
    with store_of(model, tmp_path) as store:
        model.texts.clear()
        store.add([Chunk(f"again {chunk.id}", chunk.text) for chunk in CHUNKS])
        assert model.texts == []
        assert (store.vectors(["again c1"]) == store.vectors(["c1"])).all()
        store.compact()
        store.add([Chunk(f"third {chunk.id}", chunk.text) for chunk in CHUNKS])
        assert len(model.texts) == len(CHUNKS), "compact() forgets vectors, also of removed chunks"


class Quota(RemoteModel):
    """Takes `allowed` texts, then fails until it is raised."""

    allowed = 300

    def embed_documents(self, texts):
        if len(self.texts) + len(texts) > self.allowed:
            raise EmbedderError("the quota is used up")
        return super().embed_documents(texts)


MANY = [Chunk(f"c{n}", f"text number {n}") for n in range(600)]


def store_in_qdrant(model):
    from qdrant_client import QdrantClient

    from umi_common.stores.qdrant import QdrantStore

    return QdrantStore(QdrantClient(":memory:"), "notes", model)


def store_in_chroma(model):
    from chromadb import EphemeralClient, Settings

    from umi_common.stores.chroma import ChromaStore

    client = EphemeralClient(Settings(anonymized_telemetry=False))
    return ChromaStore(client.get_or_create_collection("cached-vectors", embedding_function=None), model)


@pytest.mark.parametrize("made", [store_in_qdrant, store_in_chroma])
def test_an_add_to_a_server_that_failed_embeds_only_the_rest_when_it_is_repeated(made):
    model = Quota()
    model.dim = 64
    store = made(model)
    counted = len(model.texts)  # opening asks for the dimension
    model.allowed += counted
    with pytest.raises(EmbedderError):
        store.add(MANY)
    model.allowed = 10_000
    assert store.add(MANY).added == len(MANY)
    assert sorted(model.texts[counted:]) == sorted(chunk.text for chunk in MANY)
    store.close()


def test_a_folder_whose_indexing_failed_embeds_only_the_rest_when_it_is_repeated(tmp_path):
    from umi_common.files import index

    lines = [json.dumps({"id": chunk.id, "text": chunk.text}) for chunk in MANY]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    model = Quota()
    with HybridStore.open(tmp_path / "store", embedder=model) as store:
        with pytest.raises(EmbedderError):
            index(store, [tmp_path / "notes.jsonl"])
        model.allowed = 10_000
        index(store, [tmp_path / "notes.jsonl"])
        assert len(store) == len(MANY)
        assert sorted(model.texts) == sorted(set(model.texts)), "no text is embedded twice"


def test_a_reindex_that_failed_embeds_only_the_rest_when_it_is_repeated(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(32)) as store:
        store.add(MANY)
    model = Quota()
    with pytest.raises(EmbedderError):
        HybridStore.reindex(tmp_path, embedder=model)
    with HybridStore.open(tmp_path, embedder=HashEmbedder(32)) as store:
        assert len(store) == len(MANY), "the store is as it was"
    model.allowed = 10_000
    HybridStore.reindex(tmp_path, embedder=model)
    assert sorted(model.texts) == sorted(chunk.text for chunk in MANY)
    with HybridStore.open(tmp_path, embedder=model) as store:
        store.add([Chunk(f"again {chunk.id}", chunk.text) for chunk in MANY])
        assert len(model.texts) == len(MANY), "what was embedded for the reindex serves later adds, too"


def shortened(dim):
    """A model with a choice of dimensions, as OpenAI's `dimensions=`: its name does not state the choice."""
    model = HashEmbedder(dim)
    model.name = "service-embed"
    return model


def test_a_model_that_gives_another_dimension_under_its_name_is_not_mixed_with_its_cached_vectors(tmp_path):
    with HybridStore.open(tmp_path, embedder=shortened(32)) as store:
        store.add(MANY)
    with pytest.raises(ReindexRequired, match="32 dimensions"):
        HybridStore.open(tmp_path, embedder=shortened(8))
    for _ in range(2):
        HybridStore.reindex(tmp_path, embedder=shortened(8))
    with HybridStore.open(tmp_path, embedder=shortened(8)) as store:
        np.testing.assert_allclose(store.vectors(["c7"]), HashEmbedder(8).embed_documents(["text number 7"]), atol=1e-6)


def test_an_add_to_an_empty_store_uses_no_cached_vector_of_another_dimension(tmp_path):
    config = UmiConfig(embedder={"batch_texts": 100})
    failing = FaultyEmbedder(shortened(32), fail_on="number 599")
    with HybridStore.open(tmp_path, embedder=failing, config=config) as store, pytest.raises(EmbedderError):
        store.add(MANY)
    with HybridStore.open(tmp_path, embedder=shortened(8), config=config) as store:
        assert store.add(MANY).added == len(MANY)
        assert store.vectors(["c7", "c599"]).shape == (2, 8)


def test_batches_of_documents_keep_to_both_limits_and_go_out_side_by_side():
    model = RemoteModel(seconds=0.05)
    sizes = []
    embed = model.embed_documents
    model.embed_documents = lambda texts: sizes.append((len(texts), sum(map(len, texts)))) or embed(texts)
    with HybridStore.open(
        embedder=model, config=UmiConfig(embedder={"batch_texts": 10, "batch_bytes": 200, "document_calls": 3})
    ) as store:
        store.add([Chunk(f"c{n}", f"{n:03} " + "x" * (n % 40)) for n in range(200)] + [Chunk("long", "y" * 900)])
        assert len(store) == 201
    assert all(count <= 10 and (size <= 200 or count == 1) for count, size in sizes)
    assert max(size for _, size in sizes) == 900
    assert model.at_once_max == 3


def test_a_process_ends_at_ctrl_c_although_the_service_is_down_and_does_not_call_it_again():
    script = """
import os, signal, threading, time
from umi_common import Chunk, HybridStore, UmiConfig
from umi_common.sim import HashEmbedder, ServiceDown
class Down(HashEmbedder):
    calls = 0
    def embed_documents(self, texts):
        self.calls += 1
        time.sleep(0.02)
        if self.calls > 2:
            raise ServiceDown("x")
        return super().embed_documents(texts)
model = Down()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
store = HybridStore.open(embedder=model, config=UmiConfig(embedder={"batch_texts": 4, "retry_seconds": 60}))
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    store.add([Chunk(f"c{n}", f"text {n}") for n in range(60)])
except KeyboardInterrupt:
    time.sleep(2.0)
    calls = model.calls
    time.sleep(3.0)
    print(model.calls - calls)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=40)
    assert ended.stdout.strip() == "0"


def texts(name):
    return [Chunk(f"{name} {n}", f"{name} text {n}") for n in range(20)]


def test_a_damaged_or_refused_cache_costs_calls_and_nothing_else(tmp_path, caplog):
    model = RemoteModel()
    with store_of(model, tmp_path) as store:
        (tmp_path / "embeddings.db").write_bytes(b"no database" * 500)
        store.add(texts("new"))
        assert "embeddings.db" in caplog.text
        assert store.vectors(["new 7"]).any()
    caplog.clear()
    with HybridStore.open(tmp_path, embedder=model) as store:
        (tmp_path / "embeddings.db").unlink()
        (tmp_path / "embeddings.db").mkdir()
        store.add(texts("x"))
        store.add(texts("y"))
        assert store.vectors(["y 7"]).any()
        assert len([record for record in caplog.records if "embeddings.db" in record.getMessage()]) == 1


def test_a_function_is_not_cached_on_disk(tmp_path):
    def embed(texts):
        return HashEmbedder().embed_documents(texts)

    assert identity_of(as_embedder(embed)) is None
    with store_of(embed, tmp_path):
        assert not (tmp_path / "embeddings.db").exists()


def test_a_wrapped_model_has_the_name_of_the_model_inside():
    class Wrapping(RemoteModel):
        model_name = "unknown"

        def __init__(self, **inner):
            super().__init__()
            self.__dict__.update(inner)

    inner = RemoteModel()
    name = as_embedder(inner).name
    assert name == "RemoteModel/remote"
    assert as_embedder(Wrapping(underlying_embeddings=inner)).name == name
    assert as_embedder(Wrapping(base_embeddings=Wrapping(underlying_embeddings=inner))).name == name
    assert identity_of(as_embedder(Wrapping())) is None


class Batched(HashEmbedder):
    """Embeds several queries in one call of 50 ms."""

    async def aembed_queries(self, texts):
        await asyncio.sleep(0.05)
        return self.embed_queries(texts)


async def test_a_cancelled_search_does_not_cancel_the_call_of_the_others():
    with store_of(Batched()) as store, DualRetriever(store) as umi:
        tasks = [asyncio.create_task(umi.asearch(question, now=NOW)) for question in QUESTIONS[:5]]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert [result.mode for result in results[1:]] == ["hybrid"] * 4


@pytest.mark.parametrize("model", [RemoteModel(seconds=0.05), Batched()], ids=["one query a call", "several"])
async def test_a_search_box_that_cancels_a_search_at_each_key_keeps_its_vectors(model):
    with store_of(model) as store, DualRetriever(store) as umi:
        for typed in ("n", "nu", "num", "numb", "numbe"):
            search = asyncio.create_task(umi.asearch(typed, now=NOW))
            await asyncio.sleep(0.02)
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
        result = await umi.asearch("number3", now=NOW)
        assert (result.mode, result.degraded) == ("hybrid", ())


async def test_a_search_that_is_cancelled_at_any_moment_leaves_its_place_to_the_next():
    with store_of(RemoteModel(seconds=0.01), concurrency=1) as store, DualRetriever(store) as umi:
        for steps in range(30):
            search = asyncio.create_task(umi.asearch(f"number{steps}", now=NOW))
            for _ in range(steps):
                await asyncio.sleep(0)
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
            assert (await umi.asearch(f"after {steps}", now=NOW)).degraded == ()


async def test_a_model_that_hangs_is_left_alone_although_the_caller_gives_up_first():
    class Hanging(RemoteModel):
        async def aembed_documents(self, texts):
            await asyncio.sleep(60)

    with store_of(Hanging()) as store, DualRetriever(store) as umi:
        for query in ("number1", "number2"):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(umi.asearch(query, now=NOW), 1.3)
        result = await asyncio.wait_for(umi.asearch("number3", now=NOW), 1.3)
        assert result.hits and "left alone" in result.degraded[0].reason


async def test_after_code_that_cancels_every_task_of_the_loop_searches_have_vectors_again():
    with store_of(Batched()) as store, DualRetriever(store) as umi:
        for steps in range(20):
            searches = [asyncio.create_task(umi.asearch(f"number{steps} {n}", now=NOW)) for n in range(3)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
            result = await asyncio.wait_for(umi.asearch(f"after {steps}", now=NOW), 10)
            assert (result.mode, result.degraded) == ("hybrid", ())


def test_an_add_that_waits_for_a_service_that_is_down_says_so_within_seconds(caplog, capsys):
    model, texts = RemoteModel(failures=1.0), [Chunk("c", "a secret text")]
    with HybridStore.open(embedder=model, config=UmiConfig(embedder={"retry_seconds": 3.0})) as store:
        with pytest.raises(EmbedderError):
            store.add(texts, show_progress=True)
        ended = time.time()
    (record,) = caplog.records
    said = record.getMessage()
    assert (record.name, record.levelname) == ("umi", "WARNING")
    assert record.created < ended - 0.1, "before it gave up"
    assert "RemoteModel/remote" in said
    assert "ServiceDown, HTTP 503" in said
    assert "for up to 3 s (embedder.retry_seconds)" in said
    assert "secret" not in said
    assert "retrying after ServiceDown, HTTP 503" in capsys.readouterr().err


def test_an_add_whose_second_call_succeeds_says_nothing(caplog):
    class Once(HashEmbedder):
        calls = 0

        def embed_documents(self, texts):
            self.calls += 1
            if self.calls == 1:
                raise ConnectionError("refused")
            return super().embed_documents(texts)

    with HybridStore.open(embedder=Once()) as store:
        store.add(CHUNKS)
    assert not caplog.records


def test_a_model_whose_call_hangs_is_named_in_the_log_while_it_hangs(caplog):
    def model(texts):
        hung.wait(20)
        return HashEmbedder(64).embed_documents(texts)

    hung = threading.Event()
    model.__qualname__ = model.__name__ = "model that hangs"
    with HybridStore.open(embedder=as_embedder(model)) as store:
        call = threading.Thread(target=lambda: store.add([Chunk("c", "a secret text")]))
        call.start()
        deadline = time.monotonic() + 10
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.05)
        assert call.is_alive()
        hung.set()
        call.join(10)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("umi", "WARNING")
    assert "model that hangs" in record.getMessage()
    assert "a call for 1 texts has taken 5 s and still runs" in record.getMessage()
    assert "no time limit" in record.getMessage() and "secret" not in record.getMessage()


@pytest.mark.parametrize("way", WAYS)
def test_a_text_that_the_model_refuses_does_not_affect_the_vectors_of_other_queries(way):
    class Refusing(HashEmbedder):
        def embed_queries(self, texts):
            if QUESTIONS[3] in texts:
                raise ValueError("this text is not allowed")
            return super().embed_queries(texts)

    with store_of(Refusing()) as store, DualRetriever(store) as umi:
        results = WAYS[way](umi)
    assert [result.mode for result in results] == ["hybrid"] * 3 + ["text"] + ["hybrid"] * 36


def test_a_service_that_refuses_the_key_is_not_asked_for_each_text_alone():
    class Unauthorised(Exception):
        status_code = 401

    class Refusing(HashEmbedder):
        calls = 0

        def embed_queries(self, texts):
            self.calls += 1
            raise Unauthorised

    model = Refusing()
    with store_of(model) as store, DualRetriever(store) as umi:
        assert {result.mode for result in umi.search_many(QUESTIONS, now=NOW)} == {"text"}
    assert model.calls == 1


@pytest.mark.parametrize(
    ("error", "apart"),
    [
        (ValueError("too long"), True),
        (EmbedderError("no vector for one of 2 texts"), True),
        (TimeoutError("slow"), False),
        (ConnectionError("refused"), False),
        (DeadlineExceeded("late"), False),
        (ImportError("no module named model"), False),
        (RuntimeError("rate limit reached"), False),
    ],
)
def test_texts_are_embedded_apart_only_after_an_error_that_one_of_them_may_have_caused(error, apart):
    assert may_be_of_a_text(error) == apart


def test_a_question_that_the_model_refuses_is_compared_by_the_vector_of_the_whole_query():
    class Refusing(HashEmbedder):
        def embed_queries(self, texts):
            if "Where is number7 of river1?" in texts:
                raise ValueError("this text is not allowed")
            return super().embed_queries(texts)

    with store_of(Refusing()) as store, DualRetriever(store) as umi:
        result = umi.search("The boat left for the lake on Monday. Where is number7 of river1?", now=NOW)
    assert result.query_variations == ("Where is number7 of river1?",)
    assert [loss.consequence for loss in result.degraded] == ["searched for some variations with the query's vector"]
    dense = {s.variation: s.score for s in result.hits[0].signals if s.arm == "dense"}
    assert dense[0] == dense[1] != 0.0


def test_texts_that_are_embedded_apart_keep_the_time_limit_of_the_search():
    class Slow(HashEmbedder):
        calls_max = 1

        def embed_queries(self, texts):
            if len(texts) > 1:
                raise ValueError("one of these texts is not allowed")
            time.sleep(30 * SECONDS)
            return super().embed_queries(texts)

    embedder = QueryEmbedder(Slow())
    begun = time.monotonic()
    made = embedder.embed_each(QUESTIONS, SECONDS, 0)
    assert time.monotonic() - begun < 25 * SECONDS
    assert all(isinstance(vector, EmbedderError) for vector in made)


def test_texts_that_the_model_all_refuses_are_each_tried_once_more():
    class Refusing(HashEmbedder):
        calls = 0

        def embed_queries(self, texts):
            self.calls += 1
            raise ValueError("the model is not loaded")

    model = Refusing()
    QueryEmbedder(model).embed_each(QUESTIONS[:4], 60.0, 0)
    assert model.calls == 3 + 4


class Zeros:
    """A model that fails by giving zeros."""

    def __init__(self, name):
        self.name, self.dim = name, 8

    def embed_documents(self, texts):
        return np.zeros((len(texts), 8), dtype=np.float32)

    embed_queries = embed_documents


def test_a_model_that_gives_zeros_for_every_text_is_told_once(caplog):
    with HybridStore.open(embedder=Zeros("zeros of texts")) as store:
        store.add(CHUNKS[:20])
        store.add(CHUNKS[20:])
    assert [record.getMessage() for record in caplog.records if record.name == "umi"] == [
        "embedder 'zeros of texts' gave vectors of zeros for all 20 texts of a call: searches find these texts by "
        "their words alone. Check the model, then embed the texts again: HybridStore.reindex(path, embedder=...). "
        "Logged once for each model."
    ]


def test_texts_that_a_model_failed_on_with_zeros_are_embedded_by_a_reindex_with_the_mended_model(tmp_path):
    with HybridStore.open(tmp_path, embedder=Zeros("mended")) as store:
        store.add(CHUNKS)
    model = HashEmbedder(8)
    model.name = "mended"
    HybridStore.reindex(tmp_path, embedder=model)
    with HybridStore.open(tmp_path, embedder=model) as store:
        assert store.vectors(store.ids()).any(axis=1).all()


class ZerosForOne(HashEmbedder):
    """A model that gives zeros for one question."""

    def __init__(self, *, in_place):
        super().__init__()
        self.in_place = in_place

    def embed_queries(self, texts):
        return super().embed_queries(texts) * np.array([["roof" not in text] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_model_that_gives_zeros_for_one_question_is_told_in_the_result_of_that_one(in_place):
    with HybridStore.open(embedder=ZerosForOne(in_place=in_place)) as store, DualRetriever(store) as umi:
        store.add([Chunk("a", "the roof is dry"), Chunk("b", "the boiler leaks")])
        together = umi.search_many(["which roof", "which boiler"])
        for roof, boiler in (together, [umi.search("which roof"), await umi.asearch("which boiler")]):
            assert not boiler.degraded and boiler.hits[0].chunk.id == "b"
            (loss,) = roof.degraded
            assert (loss.part, loss.reason) == ("embedder", "it gave a vector of zeros")
            assert roof.hits[0].chunk.id == "a"


class PrefixesInPlace(HashEmbedder):
    """A model that puts its prefix before each text in the caller's list, as E5 models want it."""

    def embed_queries(self, texts):
        for at, text in enumerate(texts):
            texts[at] = f"query: {text}"
        return super().embed_queries(texts)


def test_a_model_that_changes_the_list_of_questions_loses_no_vector():
    with HybridStore.open(embedder=PrefixesInPlace()) as store, DualRetriever(store) as umi:
        store.add(CHUNKS)
        for result in (umi.search(QUESTIONS[3]), *umi.search_many(QUESTIONS[:4])):
            assert (result.mode, result.degraded) == ("hybrid", ())


def test_a_query_that_the_model_refuses_whole_is_searched_by_its_words_and_its_question_by_both():
    query = "The boat left for the lake on Monday. Where is number7 of river1?"

    class Refusing(HashEmbedder):
        def embed_queries(self, texts):
            if query in texts:
                raise ValueError("this text is too long")
            return super().embed_queries(texts)

    with store_of(Refusing()) as store, DualRetriever(store) as umi:
        result = umi.search(query, now=NOW)
    (loss,) = result.degraded
    assert loss.consequence == "searched for the query itself with the lexical arm alone"
    dense = {s.variation: s.score for s in result.hits[0].signals if s.arm == "dense"}
    assert dense[0] == 0.0 != dense[1]
