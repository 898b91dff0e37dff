"""A search shows the versions that it scored: a chunk that gets another tenant is not shown with its text."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from umi_common import DualRetriever, UmiConfig
from umi_common.sim import HashEmbedder, ScriptedLLM
from umi_common.stores.embedded import core
from umi_common.stores.embedded.core import Indexes
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.embedded.row_data import StoreSnapshot
from umi_common.stores.ledger.history import Change
from umi_common.types import Chunk

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
SECONDS = float(os.environ.get("UMI_TEST_MOMENT_SECONDS", "4"))
ANN = {"tenant": "ann"}


def chunk(number: int, tenant: str, *, day: int = 1) -> Chunk:
    """A chunk whose text names its tenant."""
    return Chunk(
        f"c{number:02}",
        f"The red boat of {tenant}, number {number}.",
        metadata={"tenant": tenant},
        source=f"s{number // 5}",
        position=number,
        event_time=datetime(2024, 4, day, tzinfo=timezone.utc),
    )


class PlainStore:
    """A user's own store: it has the methods of the protocol only."""

    def __init__(self, store: HybridStore) -> None:
        self._store = store
        for name in ("recall", "get", "neighbours", "scan", "vectors", "add", "delete", "close"):
            setattr(self, name, getattr(store, name))

    def __len__(self) -> int:
        return len(self._store)


@pytest.fixture(params=["umi's", "somebody's own"])
def store(request):
    with HybridStore.open(embedder=HashEmbedder(32)) as made:
        made.add([chunk(number, "ann") for number in range(20)])
        yield made if request.param == "umi's" else PlainStore(made)


def after(stage: str, change: Callable[[], object]) -> Callable[[str], Callable[[object], None]]:
    """An observer that makes a change once, after a stage."""
    changes = [change]

    def on_stage(name: str) -> Callable[[object], None]:
        def ended(_: object) -> None:
            if name == stage and changes:
                changes.pop()()

        return ended

    return on_stage


def best(umi: DualRetriever, **options: object) -> list[int]:
    return [int(id[1:]) for id in umi.search("red boat", where=ANN, now=NOW, limit=5, **options).ids]


@pytest.mark.parametrize("how", ["search", "deep search", "context", "many"])
def test_a_chunk_that_becomes_another_tenants_while_a_search_runs_is_not_shown(how, store):
    llm = ScriptedLLM(lambda _: '["red boats", "a boat that is red"]')
    stage = "recall variations" if how == "deep search" else "recall"
    with DualRetriever(store, rewriter=llm, config=UmiConfig(routing={"mode": "always"})) as umi:
        first = best(umi, deep_search=False)
        watch = after(stage, lambda: store.add([chunk(number, "bob") for number in first]))
        if how == "context":
            context = umi.get_context("red boat", where=ANN, now=NOW, limit=5, deep_search=False, on_stage=watch)
            assert "bob" not in context.text and "ann" in context.text
            return
        if how == "many":
            (result,) = umi.search_many(["red boat"], where=ANN, now=NOW, limit=5, on_stages=[watch])
        else:
            result = umi.search("red boat", where=ANN, now=NOW, limit=5, on_stage=watch, deep_search=how != "search")
    assert len(result.hits) == 5, "the next best stand in"
    assert all(hit.chunk.metadata["tenant"] == "ann" and "ann" in hit.chunk.text for hit in result.hits)


def test_a_chunk_that_leaves_the_time_range_while_a_search_runs_is_not_shown(store):
    april = (datetime(2024, 4, 1, tzinfo=timezone.utc), datetime(2024, 4, 10, tzinfo=timezone.utc))
    with DualRetriever(store) as umi:
        first = best(umi, time_range=april)
        watch = after("recall", lambda: store.add([chunk(number, "ann", day=20) for number in first]))
        result = umi.search("red boat", time_range=april, now=NOW, limit=5, on_stage=watch)
    assert len(result.hits) == 5
    assert all(hit.chunk.event_time < april[1] for hit in result.hits)


def test_a_neighbour_that_becomes_another_tenants_is_not_packed(store):
    with DualRetriever(store) as umi:
        hit = best(umi, strategy="text")[0]
        beside = [n for n in range(20) if n // 5 == hit // 5 and n != hit]
        watch = after("fetch", lambda: store.add([chunk(number, "bob") for number in beside]))
        context = umi.get_context("red boat", where=ANN, now=NOW, limit=1, on_stage=watch)
    assert "bob" not in context.text


def test_a_hit_replaced_by_a_newer_version_that_passes_stays_a_hit(store):
    """The newer version of an edited chunk is shown, too."""
    with DualRetriever(store) as umi:
        first = best(umi)
        watch = after("recall", lambda: store.add([chunk(number, "ann", day=2) for number in first]))
        result = umi.search("red boat", where=ANN, now=NOW, limit=5, on_stage=watch)
    assert [hit.chunk.id for hit in result.hits] == [f"c{number:02}" for number in first]


@pytest.mark.parametrize("read_only", [False, True])
def test_the_first_filter_after_opening_finds_what_is_replaced_while_the_query_is_embedded(tmp_path, read_only):
    class Replacing(HashEmbedder):
        def embed_queries(self, texts):
            writer.add([chunk(number, "ann", day=2) for number in range(20)])
            return super().embed_queries(texts)

    embedder = Replacing(32)
    with HybridStore.open(tmp_path, embedder=embedder) as first:
        first.add([chunk(number, "ann") for number in range(20)])
    with (
        HybridStore.open(tmp_path, embedder=embedder) as writer,
        HybridStore.open(tmp_path, embedder=embedder, read_only=read_only) as reader,
        DualRetriever(reader) as umi,
    ):
        result = umi.search("red boat", where=ANN, now=NOW, limit=20)
    assert len(result.hits) == 20
    assert {hit.chunk.event_time.day for hit in result.hits} == {2}


@pytest.mark.parametrize(("write", "left"), [("replaced", [0, 1]), ("removed", [1])])
def test_the_first_filter_between_a_commit_and_its_indexing_is_of_one_commit(monkeypatch, write, left):
    apply, found = Indexes.apply, []

    def filter_first(indexes: Indexes, change: Change) -> None:
        if not found:
            found.append(None)  # the filters may call this function again
            others = store.listing(where={"tenant": {"$ne": "ann"}})
            found[0] = int(others.passing.sum()), sorted(best(DualRetriever(store)))
        apply(indexes, change)

    with HybridStore.open(embedder=HashEmbedder(32)) as store:
        store.add([chunk(0, "ann"), chunk(1, "ann")])
        monkeypatch.setattr(Indexes, "apply", filter_first)
        if write == "replaced":
            store.add([chunk(0, "ann", day=2)])
        else:
            store.delete(["c00"])
    assert found == [(0, left)]


def test_a_removed_hit_makes_room_for_the_next_best(store):
    with DualRetriever(store) as umi:
        first = best(umi)
        watch = after("recall", lambda: store.delete([f"c{number:02}" for number in first[:3]]))
        result = umi.search("red boat", where=ANN, now=NOW, limit=5, on_stage=watch)
    shown = [int(id[1:]) for id in result.ids]
    assert len(shown) == 5 and not set(shown) & set(first[:3])


def test_chunks_that_are_written_together_are_read_together():
    with HybridStore.open(embedder=HashEmbedder(32)) as store:
        store.add([chunk(1, "ann"), chunk(2, "ann")])
        listing = store.listing()
        versions = dict(zip(listing.ids, listing.versions.tolist(), strict=False))
        store.delete(["c01"])

        class WrittenMeanwhile(list[str]):
            def __getitem__(self, index):  # read between the two looks for a chunk that was removed
                store.add([chunk(1, "bob"), chunk(2, "bob")])
                return super().__getitem__(index)

        read = store.get_versions(WrittenMeanwhile(["c01", "c02"]), [versions["c01"], versions["c02"]])
    assert [one and one.metadata["tenant"] for one in read] == ["bob", "bob"]


def test_a_chunk_that_is_always_there_is_always_read():
    """`get` while another thread replaces the chunk again and again."""
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        store.add([chunk(0, "ann")])
        stop = threading.Event()

        def write() -> None:
            day = 1
            while not stop.is_set():
                day = day % 28 + 1
                store.add([chunk(0, "ann", day=day)])

        writer = threading.Thread(target=write)
        writer.start()
        until = time.monotonic() + 1.0
        missed = 0
        while time.monotonic() < until:
            missed += store.get(["c00"]) == [None]
        stop.set()
        writer.join()
    assert not missed


@pytest.mark.parametrize("read_only", [False, True], ids=["in the writer", "in a reader"])
def test_neighbours_that_are_always_there_are_always_read(tmp_path, read_only):
    """`neighbours` while another thread replaces the hit and the chunks beside it again and again."""
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(8)) as store:
        store.add([chunk(number, "ann") for number in range(300)])
        stop = threading.Event()

        def write() -> None:
            day = 1
            while not stop.is_set():
                day = day % 28 + 1
                store.add([chunk(number, "ann", day=day) for number in range(300)])

        with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(8), read_only=read_only) as reader:
            writer = threading.Thread(target=write)
            writer.start()
            until = time.monotonic() + 1.0
            seen: list[tuple[list[str], set[int]]] = []
            while time.monotonic() < until:
                around = reader.neighbours(["c01"], reach=1).get("c01", [])
                seen.append(([each.id for each in around], {each.event_time.day for each in around}))
            stop.set()
            writer.join()
    assert [ids for ids, _ in seen if ids != ["c00", "c01", "c02"]] == []
    assert [days for _, days in seen if len(days) > 1] == [], "all are of one write"


def test_searches_go_on_with_the_moment_before_while_all_indexes_are_rebuilt(tmp_path):
    from umi_common.stores import failpoints

    entered, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert go_on.wait(30)

    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store, DualRetriever(store) as umi:
        store.add([chunk(number, "ann") for number in range(20)])
        before = best(umi)
        with failpoints.armed("rebuild.dropped", wait):
            rebuilding = threading.Thread(target=store.rebuild)
            rebuilding.start()
            assert entered.wait(30)
            started = time.monotonic()
            assert best(umi) == before
            assert store.search_lexical("boat", where=ANN, timeout=0.25)
            assert "ann" in umi.get_context("red boat", where=ANN).text
            assert store.status().lexical == "building, 20 chunks"
            assert time.monotonic() - started < 25.0
            go_on.set()
            rebuilding.join()
        assert store.status().lexical == "ready, 20 chunks"
        assert best(umi) == before


@pytest.mark.slow
def test_eight_threads_search_while_ids_change_tenants(tmp_path):
    """Hits, contexts and neighbours: nothing of bob's is shown to ann (UMI_TEST_MOMENT_SECONDS=60)."""
    wrong: list[str] = []
    searches = [0]
    stop = threading.Event()
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(16)) as store, DualRetriever(store) as umi:
        store.add([chunk(number, "ann") for number in range(60)])

        def write() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                store.add([chunk(n, "ann" if (n + turn) % 3 else "bob") for n in range(turn % 7, 60, 7)])
                time.sleep(0.01)

        def search() -> None:
            while not stop.is_set():
                result = umi.search("red boat", where=ANN, limit=20, deep_search=False)
                wrong.extend(hit.chunk.text for hit in result.hits if hit.chunk.metadata["tenant"] != "ann")
                wrong.extend(hit.chunk.text for hit in result.hits if "bob" in hit.chunk.text)
                context = umi.get_context("red boat", where=ANN, limit=10, deep_search=False)
                wrong.extend(part.text for part in context.parts if "bob" in part.text)
                beside = store.neighbours(result.ids, reach=2, where=ANN)
                wrong.extend(c.text for some in beside.values() for c in some if "bob" in c.text)
                searches[0] += 1

        threads = [threading.Thread(target=search) for _ in range(8)] + [threading.Thread(target=write)]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        stop.set()
        for thread in threads:
            thread.join()
        assert store.verify()
    assert searches[0] > 10
    assert not wrong, (len(wrong), searches[0], wrong[:3])


def shown_by(face: str, store: HybridStore) -> Callable[[], list[str]]:
    """A function that searches ann's chunks and returns every text of the result."""
    if face == "LangChain":
        from umi_langchain import UmiRetriever

        of_langchain = UmiRetriever.from_store(store, k=20)
        return lambda: [document.page_content for document in of_langchain.invoke("red boat", filter=ANN)]
    if face == "LlamaIndex":
        from umi_llamaindex import UmiQuery
        from umi_llamaindex import UmiRetriever as OfLlamaIndex

        of_llamaindex = OfLlamaIndex.from_store(store, similarity_top_k=20)
        return lambda: [node.text for node in of_llamaindex.retrieve(UmiQuery("red boat", filters=ANN))]
    umi = DualRetriever(store)
    return lambda: [umi.search("red boat", where=ANN, limit=20).explain()]


@pytest.mark.parametrize("face", ["LangChain", "LlamaIndex", "page"])
def test_no_face_shows_another_tenants_text_while_ids_change_tenants(face):
    stop = threading.Event()
    shown: list[str] = []
    with HybridStore.open(embedder=HashEmbedder(16)) as store:
        store.add([chunk(number, "ann") for number in range(40)])
        search = shown_by(face, store)

        def write() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                store.add([chunk(n, "ann" if (n + turn) % 3 else "bob") for n in range(turn % 7, 40, 7)])

        def read() -> None:
            while not stop.is_set():
                shown.extend(search())

        threads = [threading.Thread(target=write), *(threading.Thread(target=read) for _ in range(8))]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS / 4)
        stop.set()
        for thread in threads:
            thread.join()
    assert shown
    assert not [text for text in shown if "bob" in text]


def test_a_search_whose_chunk_is_replaced_does_not_wait_until_the_indexes_are_built_again(monkeypatch):
    monkeypatch.setattr(core, "DEAD_ROWS_MAX", 0)
    stored, seen, building, end = (threading.Event() for _ in range(4))
    apply, loaded = Indexes.apply, Indexes._loaded

    def slow_apply(self: Indexes, change: Change) -> None:
        stored.set()
        seen.wait(10)
        apply(self, change)

    def slow_loaded(self: Indexes, **options: Any) -> StoreSnapshot:
        building.set()
        end.wait(10)
        return loaded(self, **options)

    with HybridStore.open(embedder=HashEmbedder(32)) as store, DualRetriever(store) as umi:
        store.add([chunk(0, "ann")])
        store.add([chunk(0, "eve")])
        monkeypatch.setattr(Indexes, "apply", slow_apply)
        monkeypatch.setattr(Indexes, "_loaded", slow_loaded)
        writer = threading.Thread(target=lambda: store.add([chunk(0, "bob")]))
        writer.start()
        assert stored.wait(10)
        threading.Timer(0.2, seen.set).start()
        begun = time.monotonic()
        hits = umi.search("red boat", now=NOW).hits
        took = time.monotonic() - begun
        assert building.wait(10)
        end.set()
        writer.join()
    assert [hit.chunk.text for hit in hits] == ["The red boat of bob, number 0."]
    assert took < 5


def test_a_search_whose_chunk_is_replaced_does_not_wait_until_all_texts_of_the_write_are_indexed(
    while_texts_are_indexed,
):
    with HybridStore.open(embedder=HashEmbedder(32)) as store, DualRetriever(store) as umi:
        store.add([chunk(0, "ann")])
        hits = while_texts_are_indexed(
            lambda: store.add([chunk(0, "bob")]), lambda: umi.search("red boat", now=NOW).hits
        )
    assert [hit.chunk.text for hit in hits] == ["The red boat of bob, number 0."]


@pytest.mark.parametrize("replaced", [[0], [1], [0, 1, 2]])
def test_neighbours_while_a_write_indexes_its_texts_are_the_new_chunks(while_texts_are_indexed, replaced):
    with HybridStore.open(embedder=HashEmbedder(32)) as store:
        store.add([chunk(number, "ann") for number in range(4)])
        near = while_texts_are_indexed(
            lambda: store.add([chunk(number, "bob") for number in replaced]),
            lambda: store.neighbours(["c00"], reach=2)["c00"],
        )
    assert [each.id for each in near] == ["c00", "c01", "c02"]
    assert [number for number, each in enumerate(near) if "bob" in each.text] == replaced
