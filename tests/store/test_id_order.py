"""The order of ids as numbers: the same as sorting the strings, whatever was appended when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common import Chunk, HybridStore
from umi_common.config import LexicalConfig
from umi_common.store import id_order, topk
from umi_common.store.id_order import IdOrder

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


def test_another_list_of_ids_starts_afresh_and_an_older_moment_keeps_its_order():
    order = IdOrder()
    ids = ["b", "a"]
    assert order.ranks(ids, 2).tolist() == [1, 0]
    ids.append("aa")
    assert order.ranks(ids, 3).tolist() == [2, 0, 1]
    older = order.ranks(ids, 2)
    assert older[1] < older[0]
    assert order.ranks(["z"], 1).tolist() == [0]


def test_a_thousand_equal_scores_fall_to_the_smallest_ids_as_ten_do(monkeypatch: pytest.MonkeyPatch):
    ids = [f"{number * 7919 % 1_000:03d}" for number in range(1_000)]
    with HybridStore.open() as store:
        store.add([Chunk(id, "the same words") for id in ids])
        state = store._core.indexes.state

        def search() -> list[str]:
            found = state.lexical.search(
                ["words"],
                k=20,
                config=LexicalConfig(),
                id_of=state.rows.ids.__getitem__,
                ranks_of=lambda: store._core.indexes.id_order.ranks(state.rows.ids, len(state.rows)),
            )[0]
            return [state.rows.ids[row] for row in found.rows]

        by_rank = search()
        monkeypatch.setattr(topk, "TIED", 10_000)
        assert by_rank == search() == sorted(ids)[:20]
