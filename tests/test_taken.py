"""What is taken when it is looked at equals what would have been there at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.taken import TakenIds, TakenRows, ids_at

IDS = ["b", "c", "a", "e"]
MATRIX = np.arange(8, dtype=np.float32).reshape(4, 2)


@given(st.lists(st.integers(0, 3), max_size=6))
def test_ids_behave_as_the_tuple_of_them(which: list[int]):
    taken, plain = TakenIds(IDS, np.array(which, dtype=np.int64)), tuple(IDS[row] for row in which)
    assert taken == plain and plain == taken and hash(taken) == hash(plain) and repr(taken) == repr(plain)
    assert (len(taken), list(taken), taken[1:], taken[::-1]) == (len(plain), list(plain), plain[1:], plain[::-1])
    assert [taken[place] for place in range(-len(plain), len(plain))] == [*plain, *plain]
    assert all(id in taken and taken.index(id) == plain.index(id) for id in plain)
    places = np.arange(len(plain))[::-1]
    assert ids_at(taken, places) == ids_at(plain, places) == list(plain[::-1])


def test_ids_equal_no_list_and_no_other_ids():
    taken = TakenIds(IDS, np.array([0, 2]))
    assert taken != ["b", "a"] and taken != ("b",) and taken == TakenIds(["a", "b"], np.array([1, 0]))
    with pytest.raises(IndexError):
        taken[2]


@given(st.lists(st.integers(0, 3), max_size=6))
def test_rows_behave_as_the_array_of_them(which: list[int]):
    rows = np.array(which, dtype=np.int64)
    taken = TakenRows(MATRIX, rows)
    assert (len(taken), taken.shape, taken.dtype) == (len(which), (len(which), 2), np.float32)
    np.testing.assert_array_equal(taken, MATRIX[rows])
    np.testing.assert_array_equal(np.concatenate([taken, MATRIX]), np.concatenate([MATRIX[rows], MATRIX]))
    np.testing.assert_array_equal(taken[rows[:1] * 0], MATRIX[rows][rows[:1] * 0])
    assert np.asarray(taken, dtype=np.float64).dtype == np.float64


def test_rows_cannot_be_had_without_a_copy():
    with pytest.raises(ValueError, match="without a copy"):
        np.array(TakenRows(MATRIX, np.array([1])), copy=False)
