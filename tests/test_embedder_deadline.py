"""An embedder that hangs costs a search its time limit and the dense arm, nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timezone

import pytest

from umi_common.config import RecallConfig, UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import EmbedderError, SearchUnavailable
from umi_common.protocols import Probe
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.query_embedder import FAILURES, PAUSE_SECONDS, QueryEmbedder
from umi_common.types import Chunk

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
CHUNKS = [Chunk(f"c{n}", f"the roofers want {n} thousand", source="chat", position=n) for n in range(5)]
SECONDS = 0.3
SOON = 15.0
"""Seconds by which a search is back also on a busy machine; far below the 60 s for which the embedder hangs."""
SHORT = UmiConfig(recall=RecallConfig(embedder_timeout_seconds=SECONDS))


class Hanging(HashEmbedder):
    """Embeds documents; queries hang until `released` is set, or 60 s."""

    def __init__(self):
        super().__init__(64)
        self.released, self.calls, self.inside = threading.Event(), 0, 0

    def embed_queries(self, texts):
        self.calls += 1
        self.inside += 1
        self.released.wait(60)
        self.inside -= 1
        return super().embed_queries(texts)


@pytest.fixture()
def embedder():
    made = Hanging()
    yield made
    made.released.set()


@pytest.fixture()
def store(embedder):
    with HybridStore.open(embedder=embedder) as store:
        store.add(CHUNKS)
        yield store


def timed(search):
    begun = time.monotonic()
    result = search()
    assert time.monotonic() - begun < SOON
    return result


WAYS = {
    "search": lambda umi: [umi.search("3 roofers", now=NOW)],
    "search_many": lambda umi: umi.search_many(["3 roofers"] * 40, now=NOW),
    "asearch": lambda umi: [asyncio.run(umi.asearch("3 roofers", now=NOW))],
    "asearch_many": lambda umi: asyncio.run(umi.asearch_many(["3 roofers"] * 40, now=NOW)),
    "asearch, forty at once": lambda umi: asyncio.run(_forty(umi)),
}


async def _forty(umi):
    return await asyncio.gather(*[umi.asearch("3 roofers", now=NOW) for _ in range(40)])


@pytest.mark.parametrize("way", WAYS)
def test_when_the_embedder_hangs_the_lexical_arm_answers_in_time_and_the_result_names_the_loss(store, way):
    with DualRetriever(store, config=SHORT) as umi:
        for result in timed(lambda: WAYS[way](umi)):
            assert result.ids[0] == "c3"
            assert result.mode == "text"
            (loss,) = result.degraded
            assert loss.reason == f"no reply within {SECONDS} s (recall.embedder_timeout_seconds)"
            assert loss.part == "embedder"
            assert loss.consequence == "searched with the lexical arm alone"


def test_the_reason_names_the_setting(store):
    with DualRetriever(store, config=SHORT) as umi:
        (loss,) = umi.search("roofers", now=NOW).degraded
    assert "0.3 s" in loss.reason
    assert "recall.embedder_timeout_seconds" in loss.reason


def test_a_deep_search_waits_for_the_embedder_once(store, embedder):
    with DualRetriever(store, rewriter=ScriptedLLM(lambda prompt: '["4 thousand"]'), config=SHORT) as umi:
        result = timed(lambda: umi.with_config(routing={"mode": "always"}).search("3 roofers", now=NOW))
    assert result.query_variations == ("4 thousand",)
    assert [loss.part for loss in result.degraded] == ["embedder"]
    assert embedder.calls == 1


def test_a_store_has_a_deadline_of_its_own(embedder):
    with HybridStore.open(embedder=embedder, config=SHORT) as store:
        store.add(CHUNKS)
        pool = timed(lambda: store.recall([Probe("3 roofers")], depth=10, now=NOW))
    assert pool.mode == "text"


def test_an_embedder_that_hangs_is_not_called_for_a_while_and_holds_few_threads(store, embedder):
    with DualRetriever(store, config=SHORT) as umi:
        before = threading.active_count()
        begun = time.monotonic()
        for _ in range(200):
            assert umi.search("roofers", now=NOW).mode == "text"
        assert time.monotonic() - begun < 2 * SOON
        assert embedder.inside == embedder.calls <= 3
        assert threading.active_count() - before <= 3


def test_searches_one_after_the_other_are_embedded_in_few_threads_which_then_end():
    threads = []

    class Telling(HashEmbedder):
        def embed_queries(self, texts):
            threads.append(threading.current_thread())
            return super().embed_queries(texts)

    with HybridStore.open(embedder=Telling()) as store, DualRetriever(store) as umi:
        store.add(CHUNKS)
        for number in range(50):
            assert umi.search(f"roofers {number}", now=NOW).mode == "hybrid"
    assert len(threads) == 50
    assert threading.current_thread() not in threads
    assert len(set(threads)) < 10
    for thread in set(threads):
        thread.join(SOON)
        assert not thread.is_alive()


def test_many_threads_that_search_at_once_leave_few_calls_behind(store, embedder):
    def search():
        found.append(umi.search("roofers", now=NOW).mode)

    found: list[str] = []
    with DualRetriever(store, config=SHORT) as umi:
        threads = [threading.Thread(target=search) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert found == ["text"] * 100
    assert embedder.inside <= 32


def test_an_embedder_that_comes_back_is_used_again_after_a_pause(embedder):
    now = [0.0]
    asked = QueryEmbedder(embedder, clock=lambda: now[0])
    for _ in range(FAILURES):
        (error,) = asked.embed_each(["roofers"], 0.01, 0)
        assert "no reply" in str(error)
    embedder.released.set()
    (error,) = asked.embed_each(["roofers"], 5.0, 0)
    assert "left alone" in str(error)
    now[0] = PAUSE_SECONDS
    for _ in range(2):
        (vector,) = asked.embed_each(["roofers"], 5.0, 0)
        assert vector.shape == (64,)


def test_a_search_by_vectors_alone_names_the_embedder_that_failed(store):
    with DualRetriever(store, config=SHORT) as umi, pytest.raises(SearchUnavailable, match=r"embedder: .*0\.3 s"):
        timed(lambda: umi.search("roofers", strategy="vector", now=NOW))


def test_more_searches_at_once_than_calls_run_wait_for_their_turn():
    class Slow(HashEmbedder):
        def embed_queries(self, texts):
            time.sleep(0.02)
            return super().embed_queries(texts)

    modes: list[str] = []
    with HybridStore.open(embedder=Slow(64)) as store, DualRetriever(store) as umi:
        store.add(CHUNKS)
        threads = [
            threading.Thread(target=lambda: modes.append(umi.search("roofers", now=NOW).mode)) for _ in range(100)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert modes == ["hybrid"] * 100


def test_a_model_that_embeds_one_query_at_a_time_has_the_deadline_for_each_search():
    """As LangChain's and LlamaIndex's do: forty queries take longer than one may."""

    class OneByOne:
        model_name = "one by one"

        def embed_documents(self, texts):
            return HashEmbedder(64).embed_documents(texts)

        def embed_query(self, text):
            time.sleep(0.02)
            return HashEmbedder(64).embed_queries([text])[0]

    with HybridStore.open(embedder=as_embedder(OneByOne())) as store, DualRetriever(store, config=SHORT) as umi:
        store.add(CHUNKS)
        results = umi.search_many([f"{n} roofers" for n in range(32)], now=NOW)
    assert {result.mode for result in results} == {"hybrid"}


def test_closing_during_the_calls_for_several_texts_says_that_the_store_was_closed(embedder):
    embedder.one_by_one = True
    queries = QueryEmbedder(embedder)
    closing = threading.Timer(0.3, queries.close)
    closing.start()
    with pytest.raises(EmbedderError, match="the store was closed during the call"):
        queries.embed_each(["roofers", "chat"], 60.0, 64)
    closing.join()
