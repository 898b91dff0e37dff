"""Deep search from end to end: what an LLM may do wrong costs its variations, on time, through every door."""

from __future__ import annotations

import asyncio
import time

import pytest

from umi_common.config import RewriteConfig, RoutingConfig, UmiConfig
from umi_common.retriever import DualRetriever
from umi_common.sim import FAULTS, FaultyLLM, HashEmbedder, ScriptedLLM, VirtualClock
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_langchain import UmiRetriever as LangChainRetriever
from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

QUERY = "who works in accounting at Acme?"
TIMEOUT = 0.15
LATE = 15.0
"""Seconds that a search may take beyond its timeout on a busy machine; a hang would take for ever."""
SETTINGS = {"routing": RoutingConfig(mode="always"), "rewrite": RewriteConfig(timeout_seconds=TIMEOUT)}


@pytest.fixture(scope="module")
def store():
    texts = ["Priya started in accounting at Acme.", "The roofers want nine thousand.", "The cat slept.", "Bo runs."]
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add([Chunk(f"t{at}", text, metadata={"user": "ann"}) for at, text in enumerate(texts)])
        store.add([Chunk("secret", "Accounting at Acme is in trouble.", metadata={"user": "bob"})])
        yield store


def through_core(store, llm):
    umi = DualRetriever(store, rewriter=llm, config=UmiConfig(**SETTINGS))
    return (
        lambda: umi.search(QUERY, where={"user": "ann"}).ids,
        lambda: _ids(umi.asearch(QUERY, where={"user": "ann"})),
    )


async def _ids(search):
    return (await search).ids


def through_langchain(store, llm):
    retriever = LangChainRetriever.from_store(store, llm=llm, filter={"user": "ann"}, **SETTINGS)

    async def asearch():
        return [document.id for document in await retriever.ainvoke(QUERY)]

    return lambda: [document.id for document in retriever.invoke(QUERY)], asearch


def through_llamaindex(store, llm):
    retriever = LlamaIndexRetriever.from_store(store, llm=llm, filters={"user": "ann"}, **SETTINGS)

    async def asearch():
        return [hit.node.node_id for hit in await retriever.aretrieve(QUERY)]

    return lambda: [hit.node.node_id for hit in retriever.retrieve(QUERY)], asearch


@pytest.mark.parametrize("door", [through_core, through_langchain, through_llamaindex])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_costs_the_variations_only_and_never_widens_the_filter(store, door, fault):
    fast = DualRetriever(store).search(QUERY, where={"user": "ann"}).ids
    assert "secret" not in fast
    llm = FaultyLLM(fault)
    search, asearch = door(store, llm)
    begun = time.perf_counter()
    found = search()
    async_found = await asearch()
    assert time.perf_counter() - begun < 2 * (TIMEOUT + LATE)
    assert llm.calls >= 1
    assert set(found) == set(async_found) == set(fast)
    if fault != "injection":  # its text is searched like any other, within the same filter
        assert found == async_found == fast


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "injection"])
async def test_a_fault_is_named(store, fault):
    umi = DualRetriever(store, rewriter=FaultyLLM(fault), config=UmiConfig(**SETTINGS))
    for result in (umi.search(QUERY), await umi.asearch(QUERY)):
        assert [loss.part for loss in result.degraded] == ["rewriter"]
        assert result.degraded[0].reason
        assert not result.deep_search_used


def test_the_search_takes_as_long_as_the_llm_and_not_longer(store):
    clock = VirtualClock()
    umi = DualRetriever(
        store,
        rewriter=ScriptedLLM(lambda prompt: '["Acme staff"]', delay=3.0),
        config=UmiConfig(routing=RoutingConfig(mode="always")),
    )
    result = clock.run(umi.asearch(QUERY))
    assert result.query_variations == ("Acme staff",)
    assert clock.monotonic() == pytest.approx(3.0, abs=0.010)


def test_a_hanging_llm_costs_the_timeout_and_not_more(store):
    clock = VirtualClock()
    umi = DualRetriever(store, rewriter=FaultyLLM("hangs"), config=UmiConfig(routing=RoutingConfig(mode="always")))
    result = clock.run(umi.asearch(QUERY))
    assert result.ids
    assert clock.monotonic() == pytest.approx(RewriteConfig().timeout_seconds, abs=0.010)


def test_the_llm_and_the_fast_pass_start_together(store):
    order = []

    class Slow(ScriptedLLM):
        def complete(self, prompt):
            order.append("llm starts")
            time.sleep(0.05)
            order.append("llm ends")
            return '["Acme staff"]'

    class Watched:
        def __getattr__(self, name):
            return getattr(store, name)

        def recall(self, probes, **options):
            order.append(f"recall of {len(probes)}")
            return store.recall(probes, **options)

    umi = DualRetriever(Watched(), rewriter=Slow([]), config=UmiConfig(routing=RoutingConfig(mode="always")))
    umi.search(QUERY)
    assert order.index("recall of 1") < order.index("llm ends")
    assert order[-1] == "recall of 2"  # all variations, and the original, in one call
    assert sum(step.startswith("recall") for step in order) == 2


async def test_cancelling_a_search_ends_it_at_once_and_leaves_nothing_torn(store):
    umi = DualRetriever(store, rewriter=FaultyLLM("hangs"), config=UmiConfig(routing=RoutingConfig(mode="always")))
    task = asyncio.create_task(umi.asearch(QUERY))
    await asyncio.sleep(0.02)
    task.cancel()
    begun = time.perf_counter()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.perf_counter() - begun < 30.0
    assert (await umi.asearch(QUERY, deep_search=False)).ids


def test_replies_kept_in_the_stores_directory_spare_the_next_process_its_calls(tmp_path):
    asked = []

    def llm(prompt):
        asked.append(prompt)
        return '["Acme staff"]'

    config = UmiConfig(routing=RoutingConfig(mode="always"), rewrite=RewriteConfig(keep_replies=True))
    for _ in range(2):
        with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(64)) as kept:
            kept.add([Chunk("t1", "Priya started in accounting at Acme.")])
            assert DualRetriever(kept, rewriter=llm, config=config).search(QUERY).query_variations == ("Acme staff",)
    assert len(asked) == 1


@pytest.mark.parametrize("count", [15, 18, 37])
def test_equal_texts_stand_in_the_order_of_their_ids(count):
    llm = ScriptedLLM(lambda prompt: ["boiler service", "when was the heating serviced"])
    with HybridStore.open() as store:
        store.add([Chunk(f"c{at:02}", "The boiler was serviced in May.") for at in range(count)])
        umi = DualRetriever(store, rewriter=llm, config=UmiConfig(**SETTINGS))
        found = umi.search("when was the boiler serviced?", limit=count).ids
    assert found == sorted(found)
