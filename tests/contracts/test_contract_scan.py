"""The promises of `Store.scan`: every chunk once, by rising id, a page at a time."""

from __future__ import annotations

import threading

import pytest
from corpus import corpus
from oracle import Oracle

from umi_common.errors import InputError
from umi_common.filters import parse_filter
from umi_common.types import Chunk


def pages(store, limit, where=None):
    """All pages, with the last one even if it is empty."""
    after = None
    while True:
        page = store.scan(where=where, after=after, limit=limit)
        yield page
        if len(page) < limit:
            return
        after = page[-1].id


@pytest.mark.parametrize("limit", [1, 7, 40, 41])
def test_pages_hold_every_chunk_once_by_rising_id(store, limit):
    chunks = sorted(corpus(size=40), key=lambda chunk: chunk.id)
    store.add(chunks[::-1])
    found = list(pages(store, limit))
    assert [chunk for page in found for chunk in page] == chunks
    assert all(len(page) == limit for page in found[:-1])


@pytest.mark.parametrize("limit", [3, 1_000])
def test_only_what_passes_is_counted_into_a_page(store, limit):
    chunks = corpus(1, size=60)
    store.add(chunks)
    where = parse_filter({"user": "bob", "number": {"$gte": 10}})
    found = list(pages(store, limit, where))
    assert [chunk.id for page in found for chunk in page] == sorted(Oracle(chunks).passing(where))
    assert all(len(page) == limit for page in found[:-1])


def test_a_chunk_that_is_added_between_two_pages_is_in_the_second(store):
    store.add([Chunk(id, "boat") for id in "abde"])
    assert [chunk.id for chunk in store.scan(limit=2)] == ["a", "b"]
    store.add([Chunk("c", "boat")])
    assert [chunk.id for chunk in store.scan(after="b", limit=2)] == ["c", "d"]


def test_ids_are_ordered_by_code_point_and_after_need_not_exist(store):
    ids = ["", "a", "Z", "é", "e\u0301", "\uffff", "😀", "日本", "a\0b", "a\1", "ab"][1:]
    store.add([Chunk(id, "boat") for id in ids])
    assert [chunk.id for chunk in store.scan()] == sorted(ids)
    for after in ("", "A", "a\0", "é", "\uffff", "\U0010ffff"):
        assert [chunk.id for chunk in store.scan(after=after)] == [id for id in sorted(ids) if id > after]


def test_an_empty_store_has_one_empty_page(store):
    assert store.scan() == []
    assert store.scan(after="x", limit=1, where=parse_filter({"a": 1})) == []


def test_a_limit_beyond_every_store_gives_all_chunks(store):
    store.add([Chunk(id, "boat") for id in "abc"])
    assert [chunk.id for chunk in store.scan(limit=10**20)] == ["a", "b", "c"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_at_least_one_chunk(store, limit):
    with pytest.raises(InputError, match="limit"):
        store.scan(limit=limit)


def test_what_was_deleted_or_replaced_is_not_walked_into(store):
    store.add([Chunk(f"c{number}", "old") for number in range(6)])
    store.delete(ids=["c0", "c3"])
    store.add([Chunk("c4", "new")])
    assert [(chunk.id, chunk.text) for chunk in store.scan()] == [
        ("c1", "old"),
        ("c2", "old"),
        ("c4", "new"),
        ("c5", "old"),
    ]


def test_what_stays_comes_exactly_once_while_others_write(store):
    stays = [f"s{number:03}" for number in range(60)]
    store.add([Chunk(id, "stays") for id in stays])
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            store.add([Chunk(f"s{number:03}x", f"comes and goes {turn}") for number in range(0, 60, 7)])
            store.delete(ids=[f"s{number:03}x" for number in range(0, 60, 7)])
            store.add([Chunk(stays[turn % 60], f"stays, turn {turn}")])
            turn += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            seen = [chunk.id for page in pages(store, 9) for chunk in page]
            assert seen == sorted(set(seen))
            assert [id for id in seen if not id.endswith("x")] == stays
    finally:
        stop.set()
        writer.join()
