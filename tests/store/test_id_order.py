"""The order of ids as numbers: the same as sorting the strings, whatever was appended when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common import Chunk, HybridStore
from umi_common.config import LexicalConfig
from umi_common.stores.rows import id_order
from umi_common.stores.rows.id_order import IdOrder, Ranks

IDS = st.lists(st.text(max_size=3), min_size=1, max_size=60, unique=True)


@given(IDS, st.lists(st.integers(1, 60), max_size=5))
@settings(max_examples=200, deadline=None)
def test_ranks_are_those_of_the_sorted_ids_however_they_came(ids: list[str], steps: list[int]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_order, "RESORTED_FROM", 5)
        order, grown = IdOrder(), list[str]()
        for end in [*sorted(min(step, len(ids)) for step in steps), len(ids)]:
            grown.extend(ids[len(grown) : end])
            ranks = order.ranks(grown, end)
            assert [grown[row] for row in np.argsort(ranks[:end])] == sorted(grown[:end])


@given(IDS, st.data())
@settings(max_examples=200, deadline=None)
def test_some_rows_are_put_in_order_the_same_before_and_after_all_are_ranked(ids: list[str], data: st.DataObject):
    order = IdOrder()
    for _ in range(6):
        rows = data.draw(st.lists(st.integers(0, len(ids) - 1), unique=True))
        found = order.in_order(ids, len(ids), np.array(rows, dtype=np.int64))
        assert found.tolist() == sorted(rows, key=ids.__getitem__)


def test_all_are_ranked_once_as_many_have_been_compared_and_after_a_write_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(id_order, "RANKED_UP_TO", 5)
    order, ids, some = IdOrder(), ["c", "a", "b", "d"], np.array([0, 1, 2])
    assert order.in_order(ids, 4, some).tolist() == [1, 2, 0] and not len(order._ranks)
    assert order.in_order(ids, 4, some).tolist() == [1, 2, 0] and order._ranks.tolist() == [2, 0, 1, 3]
    ids.append("aa")
    assert order.in_order(ids, 5, np.array([1, 4])).tolist() == [1, 4] and len(order._ranks) == 4
    ids += ["x", "y"]
    for _ in range(9):
        order.in_order(ids, 7, some)
    assert len(order._ranks) == 4


def test_another_list_of_ids_starts_afresh_and_an_older_moment_keeps_its_order():
    order = IdOrder()
    ids = ["b", "a"]
    assert order.ranks(ids, 2).tolist() == [1, 0]
    ids.append("aa")
    assert order.ranks(ids, 3).tolist() == [2, 0, 1]
    older = order.ranks(ids, 2)
    assert older[1] < older[0]
    assert order.ranks(["z"], 1).tolist() == [0]


@pytest.mark.parametrize("ranked", [True, False])
def test_a_thousand_equal_scores_fall_to_the_smallest_ids_as_ten_do(ranked: bool):
    ids = [f"{number * 7919 % 1_000:03d}" for number in range(1_000)]
    with HybridStore.open() as store:
        store.add([Chunk(id, "the same words") for id in ids])
        snapshot, asked = store._core.indexes.snapshot, list[int]()

        def ranks_of(compared: int) -> Ranks | None:
            asked.append(compared)
            return snapshot.row_data.id_order.ranks_for(compared, snapshot.rows.ids, 1_000 if ranked else 2_000)

        found = snapshot.lexical.search(
            ["words"], k=20, config=LexicalConfig(), id_of=snapshot.rows.ids.__getitem__, ranks_of=ranks_of
        )[0]
        assert [snapshot.rows.ids[row] for row in found.rows] == sorted(ids)[:20]
        assert asked == [1_000, 20] and bool(len(snapshot.row_data.id_order._ranks)) == ranked


def test_ids_are_compared_until_as_many_have_been_as_there_are_rows_or_many_would_be_at_once(
    monkeypatch: pytest.MonkeyPatch,
):
    ids = ["c", "a", "b", "d"]
    order = IdOrder()
    assert order.ranks_for(3, ids, 4) is None
    assert order.ranks_for(1, ids, 4).tolist() == [2, 0, 1, 3]
    assert order.ranks_for(1, ids, 4) is order.ranks_for(0, ids, 4)
    monkeypatch.setattr(id_order, "RANKED_UP_TO", 3)
    monkeypatch.setattr(id_order, "MANY", 4)
    order = IdOrder()
    assert [order.ranks_for(3, ids, 4) for _ in range(9)] == [None] * 9
    assert order.ranks_for(4, ids, 4).tolist() == [2, 0, 1, 3]
