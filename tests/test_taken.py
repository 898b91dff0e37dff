"""A lazy view of rows equals the array of these rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.taken import TakenRows

MATRIX = np.arange(8, dtype=np.float32).reshape(4, 2)


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
