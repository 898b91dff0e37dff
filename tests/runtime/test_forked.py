"""A retriever that has searched before `os.fork` answers in the child, or raises at once."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from umi_common.errors import StoreForked
from umi_common.retriever import DualRetriever
from umi_common.runtime.calls import Call, adrive
from umi_common.runtime.workers import Workers
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.rows.rows import Rows
from umi_common.tenants import Tenants
from umi_common.types import Chunk

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
CHUNKS = [Chunk(f"c{n}", f"the roofers want {n} thousand", source="chat", position=n) for n in range(5)]
FAILED, TOLD = 1, 7
SOURCES = sorted(Path(__file__).parents[2].glob("umi_*/**/*.py"))
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


async def many_at_once(umi):
    return (await asyncio.gather(*[umi.asearch("roofers", now=NOW) for _ in range(20)]))[-1]


WAYS = {
    "search": lambda umi: umi.search("roofers", now=NOW).ids,
    "search_many": lambda umi: umi.search_many(["roofers", "thousand"], now=NOW)[0].ids,
    "get_context": lambda umi: umi.get_context("roofers", now=NOW).text,
    "asearch": lambda umi: asyncio.run(umi.asearch("roofers", now=NOW)).ids,
    "asearch, twenty at once": lambda umi: asyncio.run(many_at_once(umi)).ids,
    "asearch_many": lambda umi: asyncio.run(umi.asearch_many(["roofers", "thousand"], now=NOW))[0].ids,
    "aget_context": lambda umi: asyncio.run(umi.aget_context("roofers", now=NOW)).text,
}


class KeptByTheChild:
    """A store of the user's own that does not mind a fork; recalls through pools made before it."""

    def __init__(self, inner):
        self._inner = inner
        self._pools = {}

    def recall(self, probes, **options):
        key = tuple(probe.text for probe in probes)
        if key not in self._pools:
            self._pools[key] = self._inner.recall(probes, **options)
        return self._pools[key]

    def get(self, ids):
        by_id = {chunk.id: chunk for chunk in CHUNKS}
        return [by_id.get(id) for id in ids]

    def neighbours(self, ids, *, reach, where=None):
        return {id: [chunk for chunk in CHUNKS if chunk.id == id] for id in ids}


@pytest.fixture()
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add(CHUNKS)
        yield store


def in_a_child(work, seconds=60.0):
    """The exit code of a child process that does this work: 0; FAILED where it raises; killed if it hangs."""
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            code = work() or 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail(f"the child process hung for {seconds:g} s")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(done[1])


@pytest.mark.parametrize("way", WAYS)
def test_a_store_opened_before_the_fork_is_refused_at_once(store, way):
    with DualRetriever(store) as umi:
        for search in WAYS.values():
            search(umi)

        def work():
            with pytest.raises(StoreForked):
                WAYS[way](umi)
            return TOLD

        assert in_a_child(work) == TOLD
        assert WAYS[way](umi)  # and the parent goes on


@pytest.mark.parametrize("way", WAYS)
def test_a_store_that_survives_a_fork_answers_in_the_child(store, way):
    llm = ScriptedLLM(lambda prompt: '["thousand"]')
    with DualRetriever(KeptByTheChild(store), rewriter=llm).with_config(routing={"mode": "always"}) as umi:
        expected = {name: search(umi) for name, search in WAYS.items()}
        assert in_a_child(lambda: 0 if WAYS[way](umi) == expected[way] else FAILED) == 0


async def test_a_child_forked_during_searches_does_not_wait_for_them(store):
    """The parent's threads are in the middle of calls, and searches wait for one, when it forks."""
    threads, begun, released = Workers(), threading.Event(), threading.Event()

    def hold(items=()):
        begun.set()
        released.wait(10)
        return list(items)

    def one(call):
        (outcome,) = yield (call,)
        return outcome

    def batched(name):
        return one(Call.batched("hold", [name], hold))

    async def in_the_child():
        quick = Call.batched("quick", ["a"], list)
        return await adrive(one(quick), threads), await adrive(one(Call(lambda: "b")), threads)

    tasks = [asyncio.create_task(adrive(batched(str(n)), threads)) for n in range(40)]
    tasks += [asyncio.create_task(adrive(one(Call(hold)), threads)) for _ in range(20)]
    await asyncio.to_thread(begun.wait, 5)
    await asyncio.sleep(0.05)
    code = in_a_child(lambda: 0 if asyncio.new_event_loop().run_until_complete(in_the_child()) == (["a"], "b") else 1)
    released.set()
    await asyncio.gather(*tasks)
    threads.close()
    assert code == 0


def test_llm_calls_that_hang_in_the_parent_do_not_count_in_the_child(store):
    hanging = FaultyLLM("hangs", heals_after=20, good='["thousand"]')
    config = {"routing": {"mode": "always"}, "rewrite": {"timeout_seconds": 0.02, "breaker_failures": 1_000}}
    with DualRetriever(KeptByTheChild(store), rewriter=hanging).with_config(**config) as umi:
        for _ in range(40):
            umi.search("roofers", now=NOW)
        assert hanging.calls == 16, "every place is taken"

        def work():
            hanging.calls = 20
            umi.reconfigure(rewrite={"timeout_seconds": 5.0, "breaker_failures": 1_000})
            return 0 if umi.rewrite_query("roofers") == ["roofers", "thousand"] else FAILED

        code = in_a_child(work)
        hanging.release()
    assert code == 0


def test_a_child_forked_while_a_thread_fills_a_cached_property_searches_a_store_of_its_own(store, monkeypatch):
    """Before Python 3.12, `functools.cached_property` has one lock for all instances of a class."""
    begun, released = threading.Event(), threading.Event()
    slot = vars(Rows)["slot"]

    def slowly(rows, made=slot.func):
        begun.set()
        released.wait(10)
        return made(rows)

    with DualRetriever(store) as umi:
        monkeypatch.setattr(slot, "func", slowly)
        searching = threading.Thread(target=umi.search, args=("roofers",))
        searching.start()
        assert begun.wait(10)

        def work():
            released.set()
            with HybridStore.open(embedder=HashEmbedder(64)) as own, DualRetriever(own) as umi:
                own.add(CHUNKS)
                return 0 if umi.search("roofers") else FAILED

        code = in_a_child(work, seconds=20.0)
        released.set()
        searching.join()
    assert code == 0


def test_no_property_is_cached_under_a_lock_that_a_forked_child_may_find_held():
    named = [path for path in SOURCES if "functools" in path.read_text() and path.name != "forks.py"]
    assert [path for path in named if re.search("from functools import.*cached_property", path.read_text())] == []


def test_a_child_forked_while_a_thread_uses_the_stores_of_tenants_closes_them(tmp_path):
    tenants = Tenants(tmp_path, embedder=HashEmbedder(64))
    with tenants._lock:  # as held by a thread of the parent
        assert in_a_child(tenants.close, seconds=20.0) == 0
    tenants.close()
