"""`search_lexical` raises where `recall` answers with the other arm."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from small_store import chunks, search

from umi_common.errors import IndexUnavailable, InputError, InvalidLimit
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore


@pytest.fixture
def store():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(chunks())
        yield store


def damaged(store: HybridStore) -> None:
    store._core.indexes.snapshot.row_data.lexical_fault = "broken for the test"
    store.delete(["t4"])


def test_strict_gives_ids_and_scores_by_words_alone(store):
    found = store.search_lexical("red boat", k=2)
    assert [id for id, _ in found] == ["t0", "t1"]
    pool = search(store, "red boat")
    assert [score for _, score in found] == [pool.lexical[0, pool.ids.index(id)] for id, _ in found]
    assert store.search_lexical("red boat", where={"user": "bob"}) == [found[1]]
    assert store.search_lexical("zeppelin") == []


def test_strict_fails_where_lenient_is_answered_by_meaning(store):
    damaged(store)
    started = time.monotonic()
    with pytest.raises(IndexUnavailable, match=r"broken for the test.*repair"):
        store.search_lexical("red boat")
    assert time.monotonic() - started >= 0.15, "two retries, after 50 and 100 ms"
    pool = search(store, "red boat")
    assert (pool.mode, [loss.part for loss in pool.degraded]) == ("vector", ["lexical"])


def test_strict_waits_no_longer_than_it_may(store):
    damaged(store)
    times = []
    for _ in range(20):
        started = time.monotonic()
        with pytest.raises(IndexUnavailable):
            store.search_lexical("red boat", timeout=0.0)
        times.append(time.monotonic() - started)
    assert min(times) < 0.05


def test_strict_waits_for_a_repair_under_way(store):
    for _ in range(20):  # on a busy machine a repair may take longer than the search waits
        damaged(store)
        mender = threading.Timer(0.02, store.repair)
        mender.start()
        with suppress(IndexUnavailable):
            assert store.search_lexical("red boat", timeout=5.0)[0][0] == "t0"
            return
        mender.join()
    raise AssertionError("no search waited for the repair")


def test_strict_tells_an_empty_index_from_one_that_found_nothing():
    with HybridStore.open(embedder=HashEmbedder()) as store, pytest.raises(IndexUnavailable, match="empty"):
        store.search_lexical("red boat")


def test_a_query_that_is_no_text_is_refused(store):
    with pytest.raises(InputError, match="query is NoneType"):
        store.search_lexical(None)


def test_a_k_below_one_is_refused(store):
    with pytest.raises(InvalidLimit, match="k is 0"):
        store.search_lexical("red boat", k=0)


@pytest.mark.parametrize("timeout", [None, "1"])
def test_a_timeout_that_is_no_number_is_refused(store, timeout):
    with pytest.raises(InputError, match=f"timeout is {timeout!r}; expected a number of seconds"):
        store.search_lexical("red boat", timeout=timeout)
