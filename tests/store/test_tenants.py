"""What a tenant can learn about another, with a filter over one store and with a store for each."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from umi_common import AssemblyPolicy, Chunk, DualRetriever, HybridStore, TokenBudget, UmiConfig
from umi_common.errors import (
    ConfigError,
    EmbedderError,
    InputError,
    ReindexRequired,
    StoreClosed,
    StoreForked,
    StoreLocked,
    StoreReadOnly,
)
from umi_common.filters import parse_filter
from umi_common.protocols import Probe, RecallRequest
from umi_common.sim import HashEmbedder, ScriptedLLM
from umi_common.tenants import Tenants
from umi_common.types import Stage, Trace

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
WORDS = ("boiler", "valve", "june", "acme", "canteen", "safe", "code", "roof", "night", "train", "coast", "boat")
QUESTIONS = ("what is the code of the safe", "boiler valve in june", "the night train to the coast", "zeppelin")
MANY = int(os.environ.get("UMI_TEST_TENANT_CHUNKS", "2000"))
"""Chunks of the other tenant."""
STORES = 100
DESCRIPTORS_EACH = 7
"""Of an open store that one thread at a time uses."""


def chunks(user: str, count: int, seed: int = 7) -> list[Chunk]:
    """Turns of conversations; the sources of all users have the same names."""
    draw = np.random.default_rng(seed)
    return [
        Chunk(
            f"{user}-{at}",
            " ".join(draw.choice(WORDS, size=12)) + "." * (at % 3),
            metadata={"user": user},
            source=f"talk-{at // 10}",
            position=at % 10,
            event_time=NOW - timedelta(hours=at),
        )
        for at in range(count)
    ]


def retriever_over(store: HybridStore) -> DualRetriever:
    """A retriever with an LLM, all ranking stages and a clock that stands still."""
    config = UmiConfig(
        routing={"mode": "always"},
        decay={"half_life_hours": 100.0, "floor": 0.5},
        duplicates={"enabled": True, "similarity": 0.8},
    )
    llm = ScriptedLLM(lambda prompt: ["combination of the strongbox", "valve of the heating"])
    return DualRetriever(store, rewriter=llm, config=config, clock=lambda: NOW)


def without_times(result):
    """The result with all times set to 0."""
    stages = []
    for stage in result.trace:
        facts = {key: fact for key, fact in stage.facts.items() if key != "milliseconds" and not key.endswith("_ms")}
        stages.append(Stage(stage.name, 0.0, facts))
    return replace(result, trace=Trace(tuple(stages), 0.0), terms_of=None)


def told(store: HybridStore, **options) -> list[object]:
    """All that a tenant is shown: results in every detail, pages, tables, contexts, status."""
    seen: list[object] = []
    with retriever_over(store) as umi:
        for question in QUESTIONS:
            result = umi.search(question, limit=8, **options)
            shown = without_times(result)
            seen += [repr(asdict(shown)), replace(shown, terms_of=result.terms_of).explain(), shown._repr_html_()]
            policy = AssemblyPolicy(neighbours=2)
            context = umi.get_context(question, budget=TokenBudget(max_total=300), policy=policy, **options)
            seen += [context.text, repr(context.stats)]
        pool = store.recall(_probes(), depth=20, now=NOW)
        seen += [
            repr(sorted(pool.calibration.items())),
            pool.background.mean.tolist(),
            pool.background.deviation.tolist(),
        ]
        seen += [pool.lexical.tolist(), pool.lexical_bound.tolist(), pool.coverage.tolist(), pool.background.count]
    status = asdict(store.status())
    del status["bytes_on_disk"]  # the ledger's random lineage is written with more digits or fewer
    del status["searches"]["milliseconds"]
    return [*seen, repr(status), store.search_lexical("code of the safe"), store.ids()]


def _told_after(other: HybridStore, own: HybridStore) -> list[object]:
    """All that the second tenant is shown after the first has searched in the same process."""
    if len(other):
        told(other)
    return told(own)


def _probes() -> list[Probe]:
    return [Probe(question) for question in QUESTIONS]


def tenants_in(path: Path, **options) -> Tenants:
    return Tenants(path / "tenants", embedder=HashEmbedder(), **options)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# What a tenant can learn of another


def test_nothing_that_a_tenant_is_shown_depends_on_another_tenants_store(tmp_path):
    seen = {}
    for others in (0, MANY):
        with tenants_in(tmp_path / str(others)) as tenants, tenants.store("ann") as ann, tenants.store("bob") as bob:
            ann.add(chunks("ann", 60))
            bob.add(chunks("bob", others, seed=8))
            bob.add([Chunk(f"b{at}", "the safe code is 1234", source="talk-1", position=at) for at in range(others)])
            written = _told_after(bob, ann)
        with tenants_in(tmp_path / str(others)) as tenants, tenants.store("bob") as bob, tenants.store("ann") as ann:
            seen[others] = (written, _told_after(bob, ann))
    assert any("'chunk': " in str(text) for text in seen[0][0])
    assert seen[0] == seen[MANY]


def test_the_same_while_the_other_tenant_searches_and_writes_at_the_same_time(tmp_path):
    with tenants_in(tmp_path) as tenants, tenants.store("ann") as ann, tenants.store("bob") as bob:
        ann.add(chunks("ann", 60))
        bob.add(chunks("bob", MANY, seed=8))

        async def both():
            with retriever_over(ann) as of_ann, retriever_over(bob) as of_bob:
                own = [of_ann.asearch(question) for question in QUESTIONS]
                others = [of_bob.asearch(question) for question in QUESTIONS * 4]
                writes = asyncio.to_thread(bob.add, chunks("bob", 200, seed=9))
                found = await asyncio.gather(*own, *others, writes)
            return [repr(asdict(without_times(result))) for result in found[: len(own)]]

        with retriever_over(ann) as umi:
            alone = [repr(asdict(without_times(umi.search(question)))) for question in QUESTIONS]
        assert asyncio.run(both()) == alone


def test_with_a_filter_over_one_store_the_statistics_are_those_of_all_tenants():
    """The table of docs/tenants.md, row by row."""
    with HybridStore.open(embedder=HashEmbedder()) as store, retriever_over(store) as umi:
        store.add(chunks("ann", 60))
        where = {"user": "ann"}
        before = umi.search("code of the safe", where=where)
        unknown = umi.search("zeppelin", where=where)
        calibrated = store.recall(_probes(), depth=20, now=NOW).calibration
        store.add(chunks("bob", 500, seed=8))
        store.add([Chunk("b-zeppelin", "a zeppelin", metadata={"user": "bob"}, source="talk-1", position=50)])
        after = umi.search("code of the safe", where=where)
        # how many chunks there are
        assert (before.trace["recall"].facts["chunks"], after.trace["recall"].facts["chunks"]) == (60, 561)
        # how common a word is: in BM25's scores
        assert _signals(before, "lexical") != _signals(after, "lexical")
        # whether anybody's chunk holds a word
        own = store.recall(_probes()[3:], depth=20, now=NOW, where=parse_filter(where))
        assert unknown.hits and own.coverage.tolist() == [1.0]
        # calibration, and what the chunks of a source add to one another
        assert store.recall(_probes(), depth=20, now=NOW).calibration != calibrated
        # that the LLM was asked the same before, through the same retriever
        assert after.trace["rewrite"].facts["cached"] is True


def _signals(result, arm: str) -> list[float]:
    return sorted(signal.score for hit in result for signal in hit.signals if signal.arm == arm)


def test_with_a_filter_over_one_store_nothing_else_of_another_tenant_is_shown():
    with HybridStore.open(embedder=HashEmbedder()) as store, retriever_over(store) as umi:
        store.add(chunks("ann", 60))
        secret = [
            Chunk(f"secret-{at}", f"the code of my safe is topsecret{at}", metadata={"user": "bob", "pin": "topsecret"},
                  source="talk-1" if at % 2 else "topsecret-talk", position=at)
            for at in range(200)
        ]  # fmt: skip
        store.add(secret)
        for question in QUESTIONS:
            options = {"where": {"user": "ann"}, "limit": 20}
            result = umi.search(question, **options)
            policy = AssemblyPolicy(neighbours=3)
            context = umi.get_context(question, policy=policy, where={"user": "ann"})
            beside = store.neighbours(result.ids, reach=5, where={"user": "ann"})
            shown = [
                repr(asdict(replace(result, terms_of=None))),
                result.explain(),
                result._repr_html_(),
                result.explain(),
            ]
            shown += [context.text, repr(context.parts), repr(context.stats), repr(beside)]
            assert result.hits
            assert not [text for text in shown if "secret" in text]


def test_an_embedder_that_fails_for_two_searches_at_once_shows_neither_the_others_query():
    class Naming(HashEmbedder):
        def embed_queries(self, texts):
            raise EmbedderError(f"cannot embed {texts}")

    with HybridStore.open(embedder=Naming()) as store:
        store.add(chunks("ann", 20))
        asked = [RecallRequest([Probe(text)], 5, NOW) for text in ("boiler", "topsecret")]
        of_ann, _ = store.recall_many(asked)
        assert [loss.reason for loss in of_ann.degraded] == ["cannot embed ['boiler']"]
        (alone,) = store.recall_many(asked[:1])
        assert [loss.reason for loss in alone.degraded] == ["cannot embed ['boiler']"]


# A store for each, opened when it is asked for


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_hundred_tenants_in_one_process_stay_within_bounds(tmp_path):
    with tenants_in(tmp_path, max_open=16) as tenants:
        with tenants.store("warm") as store:
            store.add(chunks("warm", 3))
        files, threads = descriptors(), threading.active_count()
        for number in range(STORES):
            with tenants.store(f"tenant {number}") as store:
                store.add(chunks(f"u{number}", 3))
            assert descriptors() <= files + 16 * DESCRIPTORS_EACH
        for number in range(0, STORES, 7):
            with tenants.store(f"tenant {number}") as store, retriever_over(store) as umi:
                assert asyncio.run(umi.asearch("boiler")).hits[0].chunk.metadata["user"] == f"u{number}"
        assert descriptors() <= files + 17 * DESCRIPTORS_EACH
        deadline = time.monotonic() + 10.0  # threads of a closed retriever end by themselves
        while threading.active_count() > threads + 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= threads + 10
        assert len(tenants.names()) == STORES + 1
    assert descriptors() <= files


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_closed_store_gives_its_files_back_at_once_not_when_garbage_is_collected(tmp_path):
    with tenants_in(tmp_path) as tenants, tenants.store("a") as store:
        store.add(chunks("ann", 30))
    gc.disable()
    try:
        files = descriptors()
        for _ in range(20):
            with HybridStore.open(store.path, embedder=HashEmbedder()) as again, retriever_over(again) as umi:
                assert umi.search("boiler").hits
            del again, umi
        assert descriptors() <= files
    finally:
        gc.enable()


def test_a_store_stays_open_for_the_next_use_and_the_least_recently_used_is_closed(tmp_path):
    with tenants_in(tmp_path, max_open=2) as tenants:
        opened = {}
        for name in ("a", "b", "a", "c"):
            with tenants.store(name) as store:
                assert opened.get(name) in (None, store)
                opened[name] = store
        assert len(opened["a"]) == len(opened["c"]) == 0
        with pytest.raises(StoreClosed):
            len(opened["b"])
    with pytest.raises(StoreClosed):
        len(opened["a"])


def test_a_store_in_use_is_never_closed_under_a_search(tmp_path):
    """Eight threads use twenty tenants, of whom two may stay open."""
    with tenants_in(tmp_path, max_open=2) as tenants:
        for number in range(20):
            with tenants.store(str(number)) as store:
                store.add(chunks(f"u{number}", 5))

        def work(seed: int) -> None:
            draw = np.random.default_rng(seed)
            for number in draw.integers(0, 20, size=25).tolist():
                with tenants.store(str(number)) as store, retriever_over(store) as umi:
                    found = umi.search("boiler valve")
                    assert {hit.chunk.metadata["user"] for hit in found} == {f"u{number}"}
                    store.add([Chunk(f"new-{seed}", "a boiler", metadata={"user": f"u{number}"})])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        for number in range(20):
            with tenants.store(str(number)) as store:
                assert store.verify()


def test_a_tenants_store_that_was_kept_in_a_variable_is_used_again(tmp_path):
    with Tenants(tmp_path, embedder=HashEmbedder()) as tenants:
        ann = tenants.store("ann")
        with ann as store, ann as same:
            store.add([Chunk("a", "boiler")])
            assert len(same) == 1
        with ann as store:
            assert len(store) == 1
        assert tenants.remove("ann")  # no block counts as open


def test_more_tenants_at_once_than_stay_open_all_find_their_store(tmp_path):
    with tenants_in(tmp_path, max_open=1) as tenants, tenants.store("a") as a, tenants.store("b") as b:
        with tenants.store("c") as c:
            assert len({id(store) for store in (a, b, c)}) == 3
        assert len(a) == len(b) == 0
        with tenants.store("a") as again:
            assert again is a


def test_with_none_to_stay_open_a_store_is_closed_after_each_use(tmp_path):
    with tenants_in(tmp_path, max_open=0) as tenants:
        with tenants.store("a") as store:
            store.add(chunks("ann", 3))
            with pytest.raises(StoreLocked):
                HybridStore.open(store.path, embedder=HashEmbedder(8))
        HybridStore.open(store.path, embedder=HashEmbedder()).close()


def test_an_event_loop_opens_stores_without_blocking(tmp_path):
    async def one(tenants: Tenants, number: int) -> None:
        async with tenants.store(str(number % 5)) as store:
            with retriever_over(store) as umi:
                await umi.asearch("boiler")

    async def all_of_them() -> None:
        with tenants_in(tmp_path, max_open=1) as tenants:
            await asyncio.gather(*(one(tenants, number) for number in range(20)))

    asyncio.run(all_of_them())


def test_a_cancelled_request_leaves_no_store_in_use(tmp_path):
    async def cancelled(tenants: Tenants, seconds: float) -> None:
        async def request() -> None:
            async with tenants.store("a"):
                await asyncio.sleep(5)

        task = asyncio.create_task(request())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)

    with tenants_in(tmp_path) as tenants:
        for seconds in (0.0, 0.001, 0.005, 0.1):
            asyncio.run(cancelled(tenants, seconds))
        assert tenants.remove("a") in (True, False)  # refused while it is in use


@pytest.mark.parametrize("wait", [True, False], ids=["the loop goes on", "the loop ends"])
def test_a_store_that_a_cancelled_request_no_longer_needs_is_not_closed_on_the_event_loop(tmp_path, monkeypatch, wait):
    closed_in, closed, opening = [], threading.Event(), threading.Event()
    close, open_store = HybridStore.close, HybridStore.open

    def noted_close(store: HybridStore) -> None:
        closed_in.append(threading.current_thread())
        close(store)
        closed.set()

    def slow_open(*args, **options) -> HybridStore:
        opening.set()
        time.sleep(0.1)
        return open_store(*args, **options)

    monkeypatch.setattr(HybridStore, "close", noted_close)
    monkeypatch.setattr(HybridStore, "open", slow_open)

    async def cancelled(tenants: Tenants) -> None:
        request = asyncio.create_task(tenants.store("a").__aenter__())
        await asyncio.to_thread(opening.wait)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        if wait:
            await asyncio.to_thread(closed.wait, 10)

    with tenants_in(tmp_path, max_open=0) as tenants:
        asyncio.run(cancelled(tenants))
        assert closed.is_set()
        if wait:
            assert threading.current_thread() not in closed_in
        assert tenants.remove("a")  # refused while it is in use


def test_closing_waits_for_nobody_and_closes_a_store_after_its_last_use(tmp_path):
    tenants = tenants_in(tmp_path)
    with tenants.store("a") as store:
        tenants.close()
        store.add(chunks("ann", 3))
        assert len(store) == 3
    with pytest.raises(StoreClosed):
        len(store)
    with pytest.raises(StoreClosed, match="Tenants is closed"), tenants.store("a"):
        pass


def test_all_stores_share_one_embedder_and_one_config(tmp_path):
    config = UmiConfig(lexical={"k1": 1.5})
    with tenants_in(tmp_path, config=config) as tenants, tenants.store("a") as a, tenants.store("b") as b:
        assert a.embedder is b.embedder
        assert a.config.lexical.k1 == b.config.lexical.k1 == 1.5


def test_an_opening_that_fails_does_not_stop_the_next_one(tmp_path):
    with tenants_in(tmp_path) as tenants, tenants.store("a") as store:
        store.add(chunks("ann", 3))
    with Tenants(tmp_path / "tenants", embedder=HashEmbedder(8)) as other:
        for _ in range(2):
            with pytest.raises(ReindexRequired), other.store("a"):
                pass
    with tenants_in(tmp_path) as tenants, tenants.store("a") as store:
        assert len(store) == 3


def test_readers_in_another_process_open_the_same_tenants_read_only(tmp_path):
    with tenants_in(tmp_path) as tenants, tenants.store("a") as store:
        store.add(chunks("ann", 3))
        with tenants_in(tmp_path, read_only=True) as readers, readers.store("a") as reader:
            assert len(reader) == 3
            with pytest.raises(StoreReadOnly):
                reader.add(chunks("ann", 4))
            with pytest.raises(StoreReadOnly):
                readers.remove("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_told_to_open_its_own(tmp_path):
    with tenants_in(tmp_path) as tenants, tenants.store("a"):
        tenants._lock.acquire()  # as another thread of the parent may have it at the fork
        child = os.fork()
        if child == 0:
            try:
                with tenants.store("b"):
                    os._exit(1)
            except StoreForked:
                os._exit(7)
            finally:
                os._exit(2)
        tenants._lock.release()
        deadline = time.monotonic() + 60
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if done == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        assert os.waitstatus_to_exitcode(done[1]) == 7


# Names


HOSTILE = [
    "A", "a", "../b", "a/b", "a\\b", "..", ".", "CON", "con", "nul.txt", "aux", " ", "a ", "a.", "~", "-rf", "*",
    "a:b", "\0", "a\0b", "\n", "%2e", "=41", "t-a", "umi.db", "\u00e9", "e\u0301", "\ufb01", "fi", "\u0130", "i",
    "\u00df", "ss", "\u65e5\u672c\u8a9e", "ann@example.org", "auth0|5f7c", "removed-1", "x" * 198,
    "C:\\Windows", "//host/share", "\u202eevil", "\U0001f642",
]  # fmt: skip


def test_every_name_gets_a_directory_of_its_own_inside_the_root(tmp_path):
    root = (tmp_path / "tenants").resolve()
    with tenants_in(tmp_path, max_open=1) as tenants:
        for name in HOSTILE:
            assert name not in tenants
            with tenants.store(name) as store:
                assert len(store) == 0, name
                store.add([Chunk("one", f"of {name!r}")])
                assert store.path is not None
                assert store.path.resolve().parent == root
                assert store.path.name.isascii() and store.path.name == store.path.name.lower()
        for name in HOSTILE:
            with tenants.store(name) as store:
                assert store.get(["one"])[0].text == f"of {name!r}"
        assert tenants.names() == sorted(HOSTILE)
        assert all(name in tenants for name in HOSTILE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tenants"]
    folded = {path.name.casefold().rstrip(". ") for path in root.iterdir()}
    assert len(folded) == len(HOSTILE)
    assert not folded & {"con", "nul", "aux", "prn", "com1", "lpt1"}


@pytest.mark.parametrize("name", ["", None, 7, b"a", "\ud800", "x" * 199, "\u65e5" * 30], ids=repr)
def test_a_name_that_was_lost_or_has_no_directory_is_refused(tmp_path, name):
    with tenants_in(tmp_path) as tenants:
        for call in (tenants.store, tenants.remove, tenants.__contains__):
            with pytest.raises(InputError, match="tenant"):
                call(name)
    assert not (tmp_path / "tenants").exists()


def test_what_else_lies_in_the_root_is_no_tenant(tmp_path):
    with tenants_in(tmp_path) as tenants:
        assert tenants.names() == [] and "a" not in tenants
        with tenants.store("a"):
            pass
        for name in ("lost+found", "t-A", "t-=41x", "t-=zz", "t-=ff", "T-a2", "t-b"):
            (tmp_path / "tenants" / name).mkdir()
        (tmp_path / "tenants" / "t-c").write_text("a file")
        assert tenants.names() == ["a"]


# Removal


def test_removing_a_tenant_deletes_every_file_of_it_and_nobody_elses(tmp_path):
    with tenants_in(tmp_path) as tenants:
        for name in ("ann", "bob"):
            with tenants.store(name) as store:
                store.add(chunks(name, 5))
        assert tenants.remove("ann") is True
        assert tenants.remove("ann") is False
        assert tenants.names() == ["bob"]
        assert [path.name for path in (tmp_path / "tenants").iterdir()] == ["t-bob"]
        with tenants.store("ann") as store:
            assert len(store) == 0
        with tenants.store("bob") as store:
            assert len(store) == 5


def tenants_with(tmp_path, *names):
    """The directory of tenants that have a chunk each."""
    with Tenants(tmp_path / "tenants") as tenants:
        for name in names:
            with tenants.store(name) as store:
                store.add([Chunk("1", "the code of the safe")])
    return tmp_path / "tenants"


def moved_behind_a_link(directory, target):
    target.parent.mkdir(exist_ok=True)
    directory.rename(target)
    directory.symlink_to(target)
    return target


def test_a_tenant_whose_directory_is_a_link_is_removed_with_its_data(tmp_path):
    root = tenants_with(tmp_path, "ann", "bob")
    moved = moved_behind_a_link(root / "t-ann", tmp_path / "disk" / "ann")
    with Tenants(root) as tenants:
        assert tenants.remove("ann") is True
        assert "ann" not in tenants and not moved.exists()
        assert tenants.remove("bob") is True


def test_a_removed_link_is_gone_so_that_a_later_directory_of_that_name_stays(tmp_path):
    root = tenants_with(tmp_path, "ann")
    moved_behind_a_link(root / "t-ann", tmp_path / "disk" / "ann")
    with Tenants(root) as tenants:
        tenants.remove("ann")
    assert list(root.iterdir()) == []
    tenants_with(tmp_path, "ann", "bob")
    moved_behind_a_link(root / "t-ann", tmp_path / "disk" / "ann")
    with Tenants(root) as tenants:
        tenants.remove("bob")
        assert tenants.names() == ["ann"]


@pytest.mark.parametrize("target", ["t-bob", "."])
def test_a_removed_link_to_another_tenants_directory_leaves_the_other_tenant_its_data(tmp_path, target):
    root = tenants_with(tmp_path, "bob")
    (root / "t-ann").symlink_to(target)
    with Tenants(root) as tenants:
        tenants.remove("ann")
        assert [path.name for path in root.iterdir() if path.is_dir()] == ["t-bob"]
        with tenants.store("bob") as store:
            assert len(store) == 1


def test_files_of_others_beside_a_removed_store_that_a_link_leads_to_stay(tmp_path):
    root = tenants_with(tmp_path, "ann")
    moved = moved_behind_a_link(root / "t-ann", tmp_path / "home")
    (moved / "thesis").mkdir()
    (moved / "thesis" / "chapter 1.md").write_text("a year of work")
    with Tenants(root) as tenants:
        assert tenants.remove("ann") is True
        assert "ann" not in tenants and list(root.iterdir()) == []
    assert [path.name for path in moved.rglob("*")] == ["thesis", "chapter 1.md"]


def test_a_directory_without_a_store_that_a_removed_link_leads_to_stays_as_it_is(tmp_path):
    root, home = tenants_with(tmp_path, "bob"), tmp_path / "home"
    (home / "lexical").mkdir(parents=True)
    (home / "embeddings.db").write_text("of another program")
    (root / "t-ann").symlink_to(home)
    with Tenants(root) as tenants:
        tenants.remove("ann")
        assert [path.name for path in root.iterdir()] == ["t-bob"]
    assert sorted(path.name for path in home.iterdir()) == ["embeddings.db", "lexical"]


def test_a_tenant_in_use_is_not_removed(tmp_path):
    with tenants_in(tmp_path) as tenants:
        with tenants.store("ann") as store:
            store.add(chunks("ann", 5))
            with pytest.raises(StoreLocked, match="in use"):
                tenants.remove("ann")
            assert len(store) == 5
        tenants.close()
    with HybridStore.open(store.path, embedder=HashEmbedder()), tenants_in(tmp_path) as elsewhere:
        with pytest.raises(StoreLocked):
            elsewhere.remove("ann")
        assert elsewhere.names() == ["ann"]


def test_a_removal_that_was_cut_short_is_finished_by_the_next(tmp_path):
    left = tmp_path / "tenants" / "removed-0123"
    left.mkdir(parents=True)
    (left / "umi.db").write_bytes(b"half")
    with tenants_in(tmp_path) as tenants:
        assert tenants.names() == []
        assert tenants.remove("nobody") is False
    assert not left.exists()


def test_a_file_named_like_a_removed_store_stays_and_stops_no_removal(tmp_path):
    with tenants_in(tmp_path) as tenants:
        with tenants.store("ann") as store:
            store.add(chunks("ann", 1))
        notes = tmp_path / "tenants" / "removed-notes.txt"
        notes.write_text("who left, and why")
        assert tenants.remove("ann") is True
        (tmp_path / "letter.txt").write_text("Dear Ann")
        (tmp_path / "tenants" / "removed-link.txt").symlink_to(tmp_path / "letter.txt")
        assert tenants.remove("ann") is False
    assert (tmp_path / "letter.txt").read_text() == "Dear Ann"
    assert notes.read_text() == "who left, and why"


def test_tenants_that_are_removed_at_the_same_time_are_all_removed(tmp_path):
    """Each call also deletes what others have left, and may meet the directory that another is deleting."""
    names = [f"tenant {number}" for number in range(24)]
    with tenants_in(tmp_path) as tenants, ThreadPoolExecutor(8) as threads:
        for name in names:
            with tenants.store(name) as store:
                store.add(chunks("ann", 2))
        assert list(threads.map(tenants.remove, names)) == [True] * len(names)
        assert list((tmp_path / "tenants").iterdir()) == []


@pytest.mark.parametrize("root", ["~/tenants", "tenants"])
def test_a_root_in_the_home_or_the_working_directory_stays_the_same_folder(root, tmp_path, monkeypatch):
    """Tenants are listed and removed in the folder in which their stores are opened."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Tenants(root, embedder=HashEmbedder()) as tenants:
        monkeypatch.chdir(tmp_path / "elsewhere")
        with tenants.store("ann") as store:
            store.add(chunks("ann", 5))
        assert "ann" in tenants
        assert tenants.names() == ["ann"]
        assert tenants.remove("ann") is True
        assert list((tmp_path / "tenants").iterdir()) == []


@pytest.mark.parametrize("root", ["", None, 3, "a\0b"])
def test_a_root_that_is_no_path_is_refused(root):
    with pytest.raises(ConfigError, match="expected a directory's name"):
        Tenants(root)


@pytest.mark.parametrize("most", [-1, None, "3", 1.5, True])
def test_a_number_of_open_stores_that_is_none_is_refused(tmp_path, most):
    with pytest.raises(InputError, match=f"max_open is {most!r}"):
        tenants_in(tmp_path, max_open=most)
