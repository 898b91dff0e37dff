"""The promises of `Store` about writing chunks and reading them back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from enum import Enum

import numpy as np
import pytest
from corpus import NOW, by_id, corpus, queries, search
from oracle import Oracle

from umi_common.errors import DuplicateId, EmbedderError, InputError, InvalidChunk, InvalidVector
from umi_common.filters import parse_filter
from umi_common.pool import Pool
from umi_common.protocols import Store
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.types import Chunk

ODD_IDS = [
    "a b",
    "ключ",
    "日本",
    "e\u0301",
    "é",
    "😀",
    "\uffff",
    "x\0y",
    "x",
    "../../etc",
    "'; --",
    '{"$gt": 1}',
    "é" * 512,
]
ODD_TEXTS = [
    "text\0with nul",
    "  spaces \n and lines ",
    "日本語のテキスト",
    "😀 😀",
    "e\u0301 é",
    "\u202etxt",
    "?!",
    "a" * 5_000,
]
ODD_METADATA = {
    "list": ("a", 1, None, True, 1.5),
    "empty": (),
    "none": None,
    "float": 0.1,
    "whole": 1.0,
    "one": 1,
    "true": True,
    "big": 2**62 + 1,
    "least": -(2**63),
    "small": 5e-324,
    "": "empty key",
    "a.b": 1,
    "$eq": 2,
    "ключ": "значение\0x",
    "text": "not the text",
    "id": "not the id",
}


def ids_of(store: Store) -> list[str]:
    return [chunk.id for chunk in store.scan(limit=10_000)]


def test_chunks_come_back_as_they_went_in_and_in_the_order_asked_for(store):
    given = {chunk.id: chunk for chunk in corpus()}
    store.add(list(given.values()))
    asked = ["nobody", *reversed(given), next(iter(given))]
    assert store.get(asked) == [given.get(id) for id in asked]
    assert store.get([]) == []
    assert len(store) == len(given)


def test_metadata_comes_back_with_the_types_it_had(store):
    store.add([Chunk("x", "text", metadata=ODD_METADATA)])
    (chunk,) = store.get(["x"])
    assert {key: (type(value), value) for key, value in chunk.metadata.items()} == {
        key: (type(value), value) for key, value in ODD_METADATA.items()
    }
    assert [type(item) for item in chunk.metadata["list"]] == [str, int, type(None), bool, float]


def test_floats_come_back_to_the_last_bit(store):
    chunks = [Chunk(f"c{n}", "boat", metadata={"third": n / 3, "many": (n / 7, -n / 11)}) for n in range(300)]
    store.add(chunks)
    assert store.get([chunk.id for chunk in chunks]) == chunks


def test_any_id_and_any_text_come_back_to_the_character(store):
    chunks = [Chunk(id, f"boat {place}") for place, id in enumerate(ODD_IDS)]
    chunks += [Chunk(f"text {place}", text) for place, text in enumerate(ODD_TEXTS)]
    store.add(chunks)
    assert store.get([chunk.id for chunk in chunks]) == chunks
    assert set(ODD_IDS) <= set(search(store, "boat", depth=50).ids)
    assert store.delete(ids=ODD_IDS) == len(ODD_IDS)
    assert len(store) == len(ODD_TEXTS)


class Kind(str, Enum):
    FAQ = "faq"


class Page(int, Enum):
    FIRST = 1


def test_fields_that_are_enums_are_stored_as_their_values(store):
    store.add([Chunk(Kind.FAQ, Kind.FAQ, source=Kind.FAQ, position=Page.FIRST, metadata={Kind.FAQ: Kind.FAQ})])
    store.add([Chunk("b", "boat", search_text=Kind.FAQ)])
    assert store.get(["faq", "b"]) == [
        Chunk("faq", "faq", source="faq", position=1, metadata={"faq": "faq"}),
        Chunk("b", "boat", search_text="faq"),
    ]
    assert [chunk.id for chunk in store.scan()] == ["b", "faq"]
    assert store.get([Kind.FAQ])[0].source == "faq"


def test_places_and_times_come_back_to_the_microsecond(store):
    when = datetime(1969, 7, 20, 20, 17, 40, 123457, tzinfo=timezone(timedelta(hours=-4)))
    chunks = [Chunk("x", "moon", source="ü", position=-(2**61), event_time=when), Chunk("y", "moon", position=2**61)]
    store.add(chunks)
    assert store.get(["x", "y"]) == chunks


def test_a_replaced_chunk_is_gone_in_every_respect(store):
    old = Chunk("x", "red boat", metadata={"user": "ann", "old": 1}, source="s", position=1, event_time=NOW)
    store.add([old, Chunk("y", "green tractor", source="s", position=2)])
    new = Chunk("x", "green tractor engine", metadata={"user": "bob"})
    store.add([new])
    assert len(store) == 2
    assert store.get(["x"]) == [new]
    assert not search(store, "red").lexical.any()
    assert search(store, "engine").lexical.any()
    assert store.scan(where=parse_filter({"old": 1})) == []
    assert store.scan(where=parse_filter({"user": "ann"})) == []
    assert [chunk.id for chunk in store.neighbours(["y"], reach=2)["y"]] == ["y"]


def test_a_chunk_that_is_stored_already_costs_no_embedding(new_store):
    embedder = CountingEmbedder(HashEmbedder())
    store = new_store(embedder)
    store.add(corpus(size=10))
    embedder.texts.clear()
    store.add([*corpus(size=10), Chunk("new", "a new one")])
    assert embedder.texts == ["a new one"]


def test_delete_takes_ids_a_filter_or_what_both_allow(store):
    store.add([Chunk(f"t{turn}", "boat", metadata={"user": "ann" if turn % 2 == 0 else "bob"}) for turn in range(5)])
    assert store.delete(ids=["t0", "nobody", "t0"]) == 1
    assert store.delete(["t1", "t2"], where={"user": "ann"}) == 1
    assert ids_of(store) == ["t1", "t3", "t4"]
    assert store.delete(ids=[]) == 0
    assert store.delete(where=parse_filter({"user": "bob"})) == 2
    assert ids_of(store) == ["t4"]
    assert set(search(store, "boat").ids) == {"t4"}


def test_scores_after_deleting_are_those_of_a_store_that_never_had_the_chunk(store, new_store, kind):
    chunks = corpus(1, size=40)
    store.add(chunks)
    store.delete([chunk.id for chunk in chunks[:15]])
    never = new_store()
    never.add(chunks[15:])
    for query in queries(1):
        assert_same(search(store, query, around=1), search(never, query, around=1), kind.history)


def test_the_history_of_writes_does_not_matter(store, new_store, kind):
    chunks = corpus(2, size=40)
    store.add(chunks)
    winding = new_store()
    for chunk in reversed(chunks):
        winding.add([Chunk(chunk.id, "something else", source="another"), Chunk("gone", "red boat", source="s1")])
        winding.add([chunk])
    winding.delete(ids=["gone"])
    for query in queries(2):
        assert_same(search(store, query, around=1), search(winding, query, around=1), kind.history)


ARRAYS = [
    field.name for field in fields(Pool) if field.type in ("Floats", "Ints", "Vectors") and field.name != "version"
]
"""All but the version, which numbers the writes."""
SCORES = ["lexical", "dense", "lexical_bound", "coverage", "source_lexical", "length", "age_hours"]
SHARED = 0.8
"""Least share of rows that are the same where scores may differ: at the edge of a pool many are nearly equal."""


def assert_same(one: Pool, other: Pool, slack: float) -> None:
    """To the last bit; or, in a store whose scores may differ by `slack`, by the scores of the rows that both have."""
    if slack == 0.0:
        assert one.ids == other.ids
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        return
    both = set(one.ids) & set(other.ids)
    assert len(both) >= SHARED * max(len(one), len(other))
    one, other = (
        pool.rows(np.array([row for row, id in enumerate(pool.ids) if id in both], dtype=np.int64))
        for pool in (one, other)
    )
    for name in SCORES:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=slack, atol=slack, err_msg=name)


def test_vectors_come_back_as_unit_rows_aligned_with_ids(store):
    store.add([Chunk("x", "one"), Chunk("y", "two"), Chunk("z", "three")], vectors=_directions([3, 4], [0, 2], [0, 0]))
    found = store.vectors(["y", "nobody", "x", "z", "y"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, :2], [[0, 1], [0, 0], [0.6, 0.8], [0, 0], [0, 1]], atol=1e-7)
    assert store.vectors([]).shape == (0, 64)


def test_vectors_that_come_from_a_store_go_into_another_unchanged_and_unembedded(store, new_store):
    chunks = corpus(3)
    store.add(chunks)
    embedder = CountingEmbedder(HashEmbedder())
    copy = new_store(embedder)
    ids = [chunk.id for chunk in chunks]
    copy.add(chunks, vectors=store.vectors(ids))
    assert not embedder.texts
    np.testing.assert_array_equal(copy.vectors(ids), store.vectors(ids))


def test_a_new_vector_for_an_unchanged_chunk_replaces_the_old(store):
    store.add([Chunk("x", "one")], vectors=_directions([1, 0]))
    store.add([Chunk("x", "one")], vectors=_directions([0, 1]))
    assert store.vectors(["x"])[0, :2].tolist() == [0.0, 1.0]


def _directions(*rows: list[float]) -> np.ndarray:
    vectors = np.zeros((len(rows), 64), dtype=np.float32)
    vectors[:, : len(rows[0])] = rows
    return vectors


@pytest.mark.parametrize(
    "batch, vectors, error",
    [
        ([Chunk("new", "one"), Chunk("new", "two")], None, DuplicateId),
        ([Chunk("new", "one"), "no chunk"], None, InvalidChunk),
        ([Chunk("new", "one")], np.zeros((2, 64)), InvalidVector),
        ([Chunk("new", "one")], np.zeros((1, 63)), InvalidVector),
        ([Chunk("new", "one")], np.full((1, 64), np.nan), InvalidVector),
        ([Chunk("new", "one"), Chunk("newer", "boom")], None, EmbedderError),
    ],
)
def test_a_batch_with_a_mistake_is_refused_whole(new_store, batch, vectors, error):
    store = new_store(FaultyEmbedder(HashEmbedder(), fail_on="boom"))
    store.add([Chunk("there", "boat")])
    with pytest.raises(error):
        store.add(batch, vectors=vectors)
    assert ids_of(store) == ["there"]


def test_delete_wants_to_know_what_and_ids_are_a_list(store):
    with pytest.raises(InputError):
        store.delete()
    with pytest.raises(InputError):
        store.delete("x")
    with pytest.raises(InputError):
        store.delete(where={})


def test_an_id_with_half_an_emoji_is_the_id_of_no_chunk(store):
    """UTF-8 cannot encode it."""
    store.add([Chunk("x", "boat"), Chunk("?", "night")])
    assert [chunk and chunk.id for chunk in store.get(["\ud83d", "x"])] == [None, "x"]
    assert not store.vectors(["\ud83d"]).any()
    assert store.neighbours(["\ud83d"], reach=1) == {}
    assert store.delete(["\ud83d"]) == 0
    assert ids_of(store) == ["?", "x"]


def test_the_first_vectors_have_the_dimension_of_the_embedder(store):
    """Otherwise no query could be compared with them, and the store could not be opened again."""
    with pytest.raises(InvalidVector, match="64"):
        store.add([Chunk("x", "boat")], vectors=np.ones((1, 63)))
    assert len(store) == 0


def test_neighbours_stand_in_the_order_of_position_then_id(store):
    chunks = corpus(4)
    store.add(chunks)
    oracle = Oracle(chunks)
    ids = list(oracle.chunks)[::5]
    for reach in (0, 1, 3):
        found = store.neighbours([*ids, "nobody"], reach=reach)
        assert {id: [chunk.id for chunk in row] for id, row in found.items()} == {
            id: oracle.beside(id, reach) for id in ids
        }


def test_a_reach_beyond_every_source_gives_the_whole_source(store):
    store.add([Chunk(f"c{at}", "boat", source="s", position=at) for at in range(5)] + [Chunk("alone", "boat")])
    found = store.neighbours(["c3", "alone"], reach=10**20)
    assert {id: [chunk.id for chunk in near] for id, near in found.items()} == {
        "c3": ["c0", "c1", "c2", "c3", "c4"],
        "alone": ["alone"],
    }


def test_neighbours_are_found_beside_any_number_of_chunks_at_one_position(store):
    """As where a text was cut again and its new pieces kept the old position."""
    positions = [-1, -1, *[2] * 9, 5, 5, 5, 6, 8]
    chunks = [Chunk(f"c{n * 7 % 16:02}", "boat", source="s", position=at) for n, at in enumerate(positions)]
    store.add(chunks)
    oracle = Oracle(chunks)
    for reach in (1, 2, 5):
        for id in oracle.chunks:
            (near,) = store.neighbours([id], reach=reach).values()
            assert [chunk.id for chunk in near] == oracle.beside(id, reach), (id, reach)
        together = store.neighbours(list(oracle.chunks), reach=reach)
        assert all([chunk.id for chunk in near] == oracle.beside(id, reach) for id, near in together.items())


def test_neighbours_stay_within_the_filter(store):
    chunks = corpus(5)
    store.add(chunks)
    oracle, where = Oracle(chunks), parse_filter({"user": "bob"})
    ids = list(oracle.chunks)[::4]
    found = store.neighbours(ids, reach=3, where=where)
    for id in ids:
        assert [chunk.id for chunk in found.get(id, [])] == oracle.beside(id, 3, oracle.passing(where))


def test_an_empty_store_has_nothing(store):
    assert len(store) == 0
    assert store.get(["x"]) == [None]
    assert store.neighbours(["x"], reach=1) == {}
    assert store.delete(ids=["x"]) == store.delete(where={"a": 1}) == 0
    assert store.vectors(["x"]).shape[0] == 1 and not store.vectors(["x"]).any()
    store.add([])
    assert len(store) == 0


def test_many_threads_at_once_lose_nothing_and_show_nothing_half_written(store):
    """Writers keep chunks in pairs of one text; a reader must never see one of a pair without the other."""
    rounds = 6

    def write(writer: int) -> None:
        for turn in range(rounds):
            store.add([Chunk(f"w{writer}-{turn}-{side}", f"boat {writer}", metadata={"by": writer}) for side in (0, 1)])
            if turn % 3 == 2:
                assert store.delete(ids=[f"w{writer}-{turn}-0"]) == 1

    def read(_: int) -> None:
        for _ in range(rounds):
            pool = search(store, "boat", depth=20, where=parse_filter({"by": 0}))
            assert all(id.startswith("w0-") for id in pool.ids)
            for chunk in filter(None, store.get(pool.ids)):
                assert chunk.text == "boat 0"
            ids = ids_of(store)
            assert ids == sorted(set(ids))

    with ThreadPoolExecutor(5) as threads:
        for done in [*(threads.submit(write, n) for n in range(3)), *(threads.submit(read, n) for n in range(2))]:
            done.result()
    assert ids_of(store) == sorted(
        f"w{writer}-{turn}-{side}"
        for writer in range(3)
        for turn in range(rounds)
        for side in (0, 1)
        if turn % 3 < 2 or side
    )
    pool = search(store, "boat", depth=100)
    assert sorted(by_id(pool, pool.lexical)) == ids_of(store)
