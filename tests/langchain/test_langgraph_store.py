"""One suite over LangGraph's InMemoryStore, its SQLite store and UmiStore; then what UmiStore promises beyond it.

Where the three differ by documented behaviour, the test says so.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
import sqlite3
import uuid
from contextlib import AsyncExitStack, closing
from datetime import datetime, timedelta, timezone
from threading import Thread

import aiosqlite
import chromadb
import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from qdrant_client import QdrantClient

from umi_common.embedders import default_embedder
from umi_common.errors import ConfigError, FilterError, InputError, InvalidChunk, InvalidLimit
from umi_common.retriever import DualRetriever
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.qdrant import QdrantStore
from umi_common.types import Chunk
from umi_langchain import UmiStore

MAY = datetime(2024, 5, 1, tzinfo=timezone.utc)
ANN, BOB = ("users", "ann"), ("users", "bob")


class Model(Embeddings):
    """umi's built-in model as LangGraph takes it."""

    def embed_documents(self, texts):
        return default_embedder().embed_documents(texts).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def index():
    return {"dims": default_embedder().dim, "embed": Model(), "fields": ["$"]}


class Connection(sqlite3.Connection):
    """SQLite with the one function of the extension sqlite-vec that the store calls; many builds load no extension."""

    def enable_load_extension(self, enable, /):
        pass

    def load_extension(self, name, /, **kwargs):
        self.create_function("vec_distance_cosine", 2, _distance, deterministic=True)


def _distance(one, other):
    a, b = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
    return float(1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@pytest.fixture(params=["memory", "sqlite", "umi"])
def store(request):
    if request.param == "memory":
        yield InMemoryStore(index=index())
    elif request.param == "sqlite":
        with closing(sqlite3.connect(":memory:", isolation_level=None, factory=Connection)) as connection:
            yield SqliteStore(connection, index=index())
    else:
        with HybridStore.open() as chunks:
            made = UmiStore(chunks)
            yield made
            made.close()


@pytest.fixture
def umi():
    with HybridStore.open() as chunks:
        made = UmiStore(chunks)
        yield made
        made.close()


def keys(items):
    return [item.key for item in items]


class TestEveryStore:
    """The same calls, the same answers."""

    def test_what_is_put_is_got(self, store):
        value = {"food": "pizza", "likes": ["tea", "rain"], "home": {"city": "Oslo", "floor": 3}, "none": None}
        store.put(ANN, "m1", value)
        item = store.get(ANN, "m1")
        assert (item.namespace, item.key, item.value) == (ANN, "m1", value)
        assert item.created_at <= item.updated_at and store.get(ANN, "m2") is None and store.get(BOB, "m1") is None

    def test_a_second_put_replaces_the_value_whole(self, store):
        store.put(ANN, "m1", {"food": "pizza", "drink": "tea"})
        store.put(ANN, "m1", {"food": "soup"})
        assert store.get(ANN, "m1").value == {"food": "soup"}
        assert keys(store.search(ANN)) == ["m1"]

    def test_a_deleted_item_is_gone_and_deleting_it_again_is_no_error(self, store):
        store.put(ANN, "m1", {"food": "pizza"})
        store.delete(ANN, "m1")
        store.delete(ANN, "m1")
        assert store.get(ANN, "m1") is None and store.search(ANN) == [] == store.search(ANN, query="pizza")

    def test_a_search_covers_the_namespaces_below_and_no_other(self, store):
        below = [("a", "b"), ("a", "b", "c")]
        places = [*below, ("a", "bc"), ("a",), ("A", "b"), ("a", "b-c"), ("a", "b c"), ("a", "b/c")]
        for number, place in enumerate(places):
            store.put(place, "k", {"text": f"note {number}"})
        for query in (None, "note"):
            assert {item.namespace for item in store.search(("a", "b"), query=query)} == set(below)
            assert {item.namespace for item in store.search((), query=query, limit=20)} == set(places)

    def test_keys_and_labels_of_any_letters_stay_apart(self, store):
        ids = [
            (("a", "b"), "c.d"),
            (("a",), "b..c.d"),
            (("a",), "b.c.d"),
            (("ä", "日本"), "é/%_*[x]'"),
            (("a", "b"), "C.D"),
        ]
        for number, (place, key) in enumerate(ids):
            store.put(place, key, {"n": number})
        assert [store.get(*each).value["n"] for each in ids] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("place", [(), ("a.b",), ("",), ("langgraph", "x"), ("a", 1)])
    def test_a_namespace_that_is_none_is_refused(self, store, place):
        with pytest.raises(InvalidNamespaceError):
            store.put(place, "k", {"text": "x"})

    def test_a_query_finds_the_nearest_first_with_a_falling_score(self, store):
        store.put(ANN, "m1", {"text": "Ann loves pizza with olives"})
        store.put(ANN, "m2", {"text": "The boiler leaks and needs a new valve"})
        found = store.search(ANN, query="which food does Ann love, pizza?")
        assert found[0].key == "m1"
        assert all(0 <= item.score <= 1 for item in found)
        assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)

    def test_a_list_has_no_scores_and_pages_by_limit_and_offset(self, store):
        for number in range(7):
            store.put(ANN, f"m{number}", {"n": number})
        pages = [store.search(ANN, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert {item.key for page in pages for item in page} == {f"m{n}" for n in range(7)}
        assert {item.score for page in pages for item in page} == {None}

    @pytest.mark.parametrize(
        ("asked", "passing"),
        [
            ({"kind": "food"}, "013"),
            ({"kind": "food", "rank": 2}, "1"),
            ({"rank": {"$gt": 1}}, "123"),
            ({"rank": {"$gte": 2, "$lt": 4}}, "12"),
            ({"rank": {"$lte": 2.0}}, "012"),
            ({"kind": {"$ne": "food"}}, "2"),
            ({"rank": {"$eq": 4}}, "3"),
            ({"done": True}, "0"),
            ({"kind": "fish"}, ""),
        ],
    )
    def test_filters_compare_the_values_keys(self, store, asked, passing):
        rows = [("food", 1, True), ("food", 2, False), ("place", 2, False), ("food", 4, False)]
        for number, (kind, rank, done) in enumerate(rows):
            store.put(ANN, str(number), {"kind": kind, "rank": rank, "done": done, "text": f"note {number}"})
        for query in (None, "note"):
            assert "".join(sorted(keys(store.search(ANN, filter=asked, query=query)))) == passing

    def test_an_item_put_without_index_is_listed_and_got_but_no_match_of_a_query(self, store):
        store.put(ANN, "secret", {"text": "the code is 1234"}, index=False)
        store.put(ANN, "note", {"text": "the code of the door"})
        assert set(keys(store.search(ANN))) == {"secret", "note"} and store.get(ANN, "secret").value["text"]
        # InMemoryStore fills up with items that it did not index, without a score; the two others leave them out.
        assert keys(item for item in store.search(ANN, query="the code") if item.score is not None) == ["note"]

    def test_only_the_named_fields_are_searched(self, store):
        store.put(ANN, "m1", {"title": "pizza", "body": {"text": ["wood stove", "olives"]}}, index=["body.text[*]"])
        store.put(ANN, "m2", {"title": "wood stove", "body": {"text": ["holiday"]}}, index=["body.text[*]"])
        assert store.search(ANN, query="wood stove")[0].key == "m1"

    def test_namespaces_are_listed_sorted_by_prefix_suffix_and_depth(self, store):
        places = [
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
            ("a", "b", "f"),
            ("a", "c", "f"),
            ("b",),
        ]
        for place in places:
            store.put(place, "k", {"x": 1})
            store.put(place, "k2", {"x": 2})
        assert store.list_namespaces() == sorted(places)
        assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", x) for x in "cdf"]
        assert store.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
        assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
        assert store.list_namespaces(prefix=("a",), suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert store.list_namespaces(max_depth=1) == [("a",), ("b",)]
        assert store.list_namespaces(limit=2, offset=1) == sorted(places)[1:3]
        assert store.list_namespaces(prefix=("c",)) == []

    def test_a_batch_answers_in_order_and_reads_before_it_writes(self, store):
        store.put(ANN, "m1", {"n": 1})
        answers = store.batch(
            [
                PutOp(ANN, "m1", {"n": 2}),
                GetOp(ANN, "m1"),
                PutOp(ANN, "m1", {"n": 3}),
                PutOp(ANN, "m2", None),
                SearchOp(ANN, limit=5),
                ListNamespacesOp((MatchCondition("prefix", ("users",)),)),
            ]
        )
        # The value may be that of the moment or of the object, since InMemoryStore hands out its own item.
        assert answers[0] is answers[2] is answers[3] is None
        assert answers[1].key == "m1" and keys(answers[4]) == ["m1"] and answers[5] == [ANN]
        assert store.get(ANN, "m1").value == {"n": 3}
        assert store.batch([]) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite", "umi"])
async def test_the_asynchronous_calls_answer_as_the_others(kind):
    async with AsyncExitStack() as held:
        if kind == "memory":
            store = InMemoryStore(index=index())
        elif kind == "sqlite":
            opened = aiosqlite.connect(":memory:", isolation_level=None, factory=Connection)
            store = AsyncSqliteStore(await held.enter_async_context(opened), index=index())
            await store.setup()
        else:
            store = UmiStore(held.enter_context(HybridStore.open()))
        await asyncio.gather(*(store.aput(ANN, f"m{n}", {"text": f"note {n}", "n": n}) for n in range(5)))
        assert (await store.aget(ANN, "m3")).value == {"text": "note 3", "n": 3}
        assert len(await store.asearch(ANN, query="note", filter={"n": {"$gt": 1}})) == 3
        assert await store.alist_namespaces(prefix=("users",)) == [ANN]
        await store.adelete(ANN, "m3")
        assert await store.aget(ANN, "m3") is None and len(await store.asearch(ANN)) == 4
        answers = await store.abatch([GetOp(ANN, "m1"), SearchOp(ANN, limit=1), PutOp(BOB, "b", {"text": "x"})])
        assert answers[0].key == "m1" and len(answers[1]) == 1 and (await store.aget(BOB, "b")).key == "b"


class TestTimeToLive:
    """SqliteStore has it too, but by SQLite's clock; InMemoryStore has none."""

    @pytest.fixture
    def clock(self):
        class Hands:
            now = MAY

            def __call__(self):
                return self.now

            def wait(self, minutes):
                self.now += timedelta(minutes=minutes)

        return Hands()

    def made(self, chunks, clock, **ttl):
        return UmiStore(chunks, ttl=ttl, clock=clock)

    def test_an_item_lives_so_many_minutes_after_it_was_written(self, clock):
        with HybridStore.open() as chunks:
            store = self.made(chunks, clock, refresh_on_read=False)
            store.put(ANN, "short", {"text": "note"}, ttl=10)
            store.put(ANN, "long", {"text": "note"})
            clock.wait(9)
            assert len(store.search(ANN)) == len(store.search(ANN, query="note")) == 2
            clock.wait(1)
            assert store.get(ANN, "short") is None
            assert keys(store.search(ANN)) == keys(store.search(ANN, query="note")) == ["long"]
            store.put(BOB, "short", {"text": "note"}, ttl=0.5)
            clock.wait(1)
            assert store.list_namespaces() == [ANN]
            assert len(chunks) == 3 and store.sweep_ttl() == 2 and len(chunks) == 1 and store.sweep_ttl() == 0

    def test_a_read_lets_it_live_longer_unless_told_not_to(self, clock, embeddings):
        with HybridStore.open(embedder=embeddings) as chunks:
            store = self.made(chunks, clock, refresh_on_read=True, default_ttl=10)
            store.put(ANN, "m", {"text": "note"})
            for read in (
                lambda: store.get(ANN, "m"),
                lambda: store.search(ANN)[0],
                lambda: store.search(ANN, query="note")[0],
            ):
                clock.wait(9)
                assert read().updated_at == MAY
            assert embeddings.documents == 1  # a longer life costs no embedding
            clock.wait(9)
            assert store.get(ANN, "m", refresh_ttl=False) and store.search(ANN, query="note", refresh_ttl=False)
            clock.wait(1)
            assert store.get(ANN, "m") is None

    def test_ttl_none_of_a_put_lives_for_ever_and_a_new_put_sets_it_anew(self, clock):
        with HybridStore.open() as chunks:
            store = self.made(chunks, clock, default_ttl=10, refresh_on_read=False)
            store.put(ANN, "ever", {"n": 1}, ttl=None)
            store.put(ANN, "m", {"n": 1})
            clock.wait(9)
            store.put(ANN, "m", {"n": 2})
            clock.wait(9)
            assert store.get(ANN, "m").created_at == MAY and store.get(ANN, "ever")
            clock.wait(1)
            assert store.get(ANN, "m") is None and store.get(ANN, "ever")

    def test_expired_items_are_removed_by_a_write_after_each_interval(self, clock):
        with HybridStore.open() as chunks:
            store = self.made(chunks, clock, default_ttl=1, sweep_interval_minutes=30)
            store.put(ANN, "m", {"n": 1})
            clock.wait(29)
            store.put(ANN, "m2", {"n": 1})
            assert len(chunks) == 2
            clock.wait(1)
            store.put(ANN, "m3", {"n": 1})
            assert len(chunks) == 1

    def test_a_store_that_is_only_read_gives_items_without_writing(self, clock, tmp_path):
        with HybridStore.open(tmp_path) as chunks:
            self.made(chunks, clock).put(ANN, "m", {"n": 1}, ttl=10)
        with HybridStore.open(tmp_path, read_only=True) as chunks:
            assert self.made(chunks, clock).get(ANN, "m").value == {"n": 1}


def test_memory_survives_reopening(tmp_path):
    with HybridStore.open(tmp_path) as chunks:
        store = UmiStore(chunks)
        store.put(ANN, "m1", {"text": "Ann loves pizza"})
        before = store.get(ANN, "m1")
    with HybridStore.open(tmp_path) as chunks:
        store = UmiStore(chunks)
        assert store.get(ANN, "m1") == before
        assert keys(store.search(ANN, query="pizza")) == ["m1"] and store.list_namespaces() == [ANN]


@pytest.mark.parametrize("kind", ["chroma", "qdrant"])
def test_items_may_lie_in_any_store_of_umis(kind, tmp_path):
    if kind == "chroma":
        collection = chromadb.PersistentClient(str(tmp_path)).create_collection("items")
        chunks = ChromaStore(collection, embedder=default_embedder())
    else:
        chunks = QdrantStore(QdrantClient(":memory:"), "items", default_embedder())
    store = UmiStore(chunks, ttl={"default_ttl": 10})
    store.put(("a", "b"), "m1", {"text": "Ann loves pizza", "n": 1})
    store.put(("a", "bc"), "m2", {"text": "Ann loves pizza", "n": 2}, index=["text"])
    store.put(("a", "b"), "m3", {"text": "pizza"}, index=False)
    assert keys(store.search(("a", "b"))) == ["m3", "m1"] and keys(store.search(("a", "b"), query="pizza")) == ["m1"]
    assert keys(store.search(("a",), query="pizza", filter={"n": {"$gte": 2}})) == ["m2"]
    store.delete(("a", "bc"), "m2")
    assert store.list_namespaces() == [("a", "b")] and store.get(("a", "bc"), "m2") is None
    chunks.close()


def test_the_list_begins_with_what_was_written_last_and_a_new_value_keeps_its_birthday(umi):
    """As in LangGraph's SQLite and Postgres stores; created_at as in Postgres, the two others set it anew."""
    for key in ("m1", "m2", "m3"):
        umi.put(ANN, key, {"text": key})
    born = umi.get(ANN, "m1").created_at
    umi.put(ANN, "m1", {"text": "again"})
    assert keys(umi.search(ANN)) == ["m1", "m3", "m2"]
    assert umi.get(ANN, "m1").created_at == born < umi.get(ANN, "m1").updated_at


def test_words_find_what_vectors_alone_miss(umi):
    for number in range(40):
        umi.put(ANN, f"m{number}", {"text": f"invoice number {uuid.UUID(int=number)} was paid"})
    assert umi.search(ANN, query=f"invoice {uuid.UUID(int=17)}")[0].key == "m17"


def test_items_live_beside_documents_and_neither_shows_up_as_the_other():
    with HybridStore.open() as chunks:
        chunks.add([Chunk("umi.item/readme", "a note"), Chunk("zebra", "a note", metadata={"value.kind": "food"})])
        store = UmiStore(chunks)
        store.put(ANN, "m1", {"text": "a note", "umi_namespace": "users.bob."})
        assert keys(store.search(())) == keys(store.search((), query="note")) == ["m1"]
        assert store.search(BOB, query="note") == [] and store.list_namespaces() == [ANN]
        assert DualRetriever(chunks).search("note", limit=5).ids != []


@pytest.mark.parametrize("value", [{"city": "Oslo"}, {}, [{"city": "Oslo"}], [[1]], 2**70, float("nan")])
def test_a_nested_part_of_a_value_is_there_and_is_not_none(umi, value):
    umi.put(("users",), "nested", {"home": value})
    umi.put(("users",), "none", {"home": None})
    umi.put(("users",), "missing", {"work": "Oslo"})

    def keys(condition):
        return {item.key for item in umi.search(("users",), filter={"home": condition})}

    assert keys(None) == keys({"$exists": False}) == {"none", "missing"}
    assert keys({"$exists": True}) == keys({"$ne": None}) == {"nested"}
    assert keys({"$ne": "Oslo"}) == {"nested", "none", "missing"}


def test_filters_reach_into_the_value_and_take_umis_own_operators(umi):
    """InMemoryStore compares nested dicts in the same way; its order of a missing value raises."""
    umi.put(ANN, "m1", {"home": {"city": "Oslo"}, "tags": ["a", "b"], "v.1": "x", "text": "note", "rank": "b"})
    umi.put(ANN, "m2", {"home": {"city": "Rome"}, "tags": ["b"], "v": {"1": "x"}, "text": "note", "rank": 2.5})
    for query in (None, "note"):
        found = {
            "city": {"home": {"city": "Oslo"}},
            "list": {"tags": ["a", "b"]},
            "item": {"tags": {"$contains": "a"}},
            "dotted": {"v.1": "x"},
            "in": {"home": {"city": {"$in": ["Oslo", "Bern"]}}},
            "text order": {"rank": {"$gte": "b"}},
        }
        for name, asked in found.items():
            assert keys(umi.search(ANN, filter=asked, query=query)) == ["m1"], name
        assert keys(umi.search(ANN, filter={"rank": {"$gt": 1}}, query=query)) == ["m2"]
        assert len(umi.search(ANN, filter={"none": None}, query=query)) == 2


@pytest.mark.parametrize("asked", [{"a": {"$like": "x"}}, {"$or": [{"a": 1}]}, {"a": {}}, {"a": [{"b": 1}]}])
def test_a_filter_without_meaning_is_refused(umi, asked):
    for query in (None, "note"):
        with pytest.raises(FilterError):
            umi.search(ANN, filter=asked, query=query)


def test_what_cannot_be_stored_or_asked_is_named_and_nothing_is_written(umi):
    with pytest.raises(InvalidChunk, match="m2"):
        umi.batch([PutOp(ANN, "m1", {"n": 1}), PutOp(ANN, "m2", {"n": object()})])
    with pytest.raises(InvalidChunk, match=r"item 'm1' of .*: the value is str; expected a dict"):
        umi.put(ANN, "m1", "Ann loves pizza")
    assert umi.search(ANN) == []
    with pytest.raises(InvalidLimit, match=r"limit \+ offset .*from 1 to 100"):
        umi.search(ANN, query="x", limit=90, offset=20)
    with pytest.raises(InputError, match="operation is str; expected GetOp"):
        umi.batch([PutOp(ANN, "m1", {"n": 1}), "m2"])
    assert umi.search(ANN) == []
    with pytest.raises(ConfigError, match="list of paths"):
        UmiStore(umi.umi, fields="text")
    with pytest.raises(ConfigError, match="fields is None; expected a list of paths"):
        UmiStore(umi.umi, fields=None)
    with pytest.raises(ConfigError, match="default_ttl"):
        UmiStore(umi.umi, ttl={"ttl": 3})


@pytest.mark.parametrize("ttl", [-1, 0, "5", True, float("nan"), float("inf")])
def test_a_life_that_is_not_above_0_minutes_is_refused_in_place_of_an_item_that_is_lost(umi, ttl):
    with pytest.raises(InputError, match=r"ttl of item 'm1' is .*minutes above 0"):
        umi.put(ANN, "m1", {"text": "Ann loves pizza"}, ttl=ttl)
    assert umi.get(ANN, "m1") is None
    for setting in ("default_ttl", "sweep_interval_minutes"):
        with pytest.raises(ConfigError, match=setting):
            UmiStore(umi.umi, ttl={setting: ttl})


@pytest.mark.parametrize(("clock", "says"), [(datetime.now, "has no time zone"), (lambda: 1.0, "is float")])
def test_a_clock_without_a_time_zone_is_refused_before_anything_is_written(clock, says):
    with HybridStore.open() as store, pytest.raises(ConfigError, match=rf"clock\(\) returned.*{says}"):
        UmiStore(store, clock=clock)


def test_a_ttl_of_the_store_that_is_no_dict_is_refused_by_name(umi):
    with pytest.raises(ConfigError, match="ttl is 60; expected a dict"):
        UmiStore(umi.umi, ttl=60)


def test_a_namespace_of_one_string_is_refused_in_place_of_cut_into_letters(umi):
    for call in (
        lambda: umi.put("users", "m1", {"text": "Ann loves pizza"}),
        lambda: umi.get("users", "m1"),
        lambda: umi.search("users", query="pizza"),
    ):
        with pytest.raises(InputError, match=r"namespace 'users' is one string; .*\('users',\)"):
            call()
    assert umi.list_namespaces() == []


@pytest.mark.parametrize("index", ["text", True, [5]])
def test_fields_to_search_that_are_no_list_of_paths_are_refused_in_place_of_an_item_that_no_query_finds(umi, index):
    with pytest.raises(InputError, match=r"index of item 'm1' .*list of paths"):
        umi.put(ANN, "m1", {"text": "Ann loves pizza"}, index=index)


def test_a_search_with_arguments_of_a_wrong_type_names_them(umi):
    umi.put(ANN, "m1", {"text": "Ann loves pizza"})
    for wrong in ({"limit": "5"}, {"limit": -1}, {"offset": -1}, {"offset": 1.0}):
        with pytest.raises(InvalidLimit, match=r"(limit|offset) .*whole number from 0"):
            umi.search(ANN, **wrong)
    for depth in (-1, "1"):
        with pytest.raises(InvalidLimit, match=r"max_depth .*whole number from 0"):
            umi.list_namespaces(max_depth=depth)
    assert umi.search(ANN, limit=0) == umi.search(ANN, query="pizza", limit=0) == []
    assert keys(umi.search(ANN, query=" \n")) == ["m1"]  # a blank query lists, as none does
    with pytest.raises(InvalidNamespaceError):
        umi.batch([PutOp(("a.b",), "m1", {"text": "x"})])  # else it would be the namespace ("a", "b")
    with pytest.raises(InputError, match="query is int"):
        umi.search(ANN, query=5)
    with pytest.raises(FilterError, match="filter 'food' is str; expected a dict"):
        umi.search(ANN, filter="food")


def test_times_and_ids_become_strings_as_in_json(umi):
    umi.put(ANN, "m1", {"at": MAY, "id": uuid.UUID(int=1), "big": 2**70})
    assert umi.get(ANN, "m1").value == {"at": MAY.isoformat(), "id": str(uuid.UUID(int=1)), "big": 2**70}


def test_reads_that_lengthen_a_life_never_undo_a_write():
    with HybridStore.open() as chunks:
        store = UmiStore(chunks, ttl={"default_ttl": 60})
        store.put(ANN, "m", {"n": 0})

        def read():
            for _ in range(60):
                store.get(ANN, "m")

        readers = [Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(1, 31):
            store.put(ANN, "m", {"n": number})
        for reader in readers:
            reader.join()
        assert store.get(ANN, "m").value == {"n": 30}


def test_a_user_without_memories_is_no_misspelt_filter(caplog):
    store = UmiStore(HybridStore.open())
    store.put(ANN, "food", {"text": "Ann likes pizza."})
    assert store.search(BOB, query="what does Bob like?") == [] and caplog.records == []


def test_a_graph_remembers_a_user_across_threads(tmp_path):
    def remember(state: MessagesState, runtime: Runtime) -> dict:
        (said,) = (message.content for message in state["messages"])
        known = runtime.store.search(("memories", "ann"), query=said)
        runtime.store.put(("memories", "ann"), str(uuid.uuid4()), {"text": said})
        return {"messages": [("ai", f"I know: {[item.value['text'] for item in known]}")]}

    with HybridStore.open(tmp_path) as chunks:
        builder = StateGraph(MessagesState)
        builder.add_node(remember)
        builder.add_edge(START, "remember")
        graph = builder.compile(store=UmiStore(chunks))
        graph.invoke({"messages": [("user", "I am Ann and I live in Oslo.")]}, {"configurable": {"thread_id": "1"}})
        answer = graph.invoke({"messages": [("user", "Where do I live?")]}, {"configurable": {"thread_id": "2"}})
        assert "Oslo" in answer["messages"][-1].content


def test_without_langgraph_the_store_names_the_pip_line(monkeypatch):
    import sys

    import umi_langchain
    from umi_common.errors import MissingExtra

    monkeypatch.delitem(sys.modules, "umi_langchain.store")
    monkeypatch.setitem(sys.modules, "langgraph.store.base", None)
    with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[agents\]'"):
        _ = umi_langchain.UmiStore


def test_a_copy_of_a_store_has_the_same_items_and_a_pickled_one_reads_them(tmp_path, umi):
    copied = copy.deepcopy(umi)
    copied.put(ANN, "m1", {"text": "Ann loves pizza"})
    assert umi.get(ANN, "m1").value == {"text": "Ann loves pizza"}
    with HybridStore.open(tmp_path) as chunks:
        kept = UmiStore(chunks)
        kept.put(ANN, "m1", {"text": "Ann loves pizza"})
        again = pickle.loads(pickle.dumps(kept))  # noqa: S301 our own bytes
        assert keys(again.search(ANN, query="pizza")) == ["m1"] and again.get(ANN, "m1") == kept.get(ANN, "m1")
        again.umi.store.close()
