"""Rows by falling score, and their ranks: ties go to the smaller row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from umi_common.pool import best_first
from umi_common.ranking.fusion import falling_ranks


@given(st.lists(st.one_of(st.sampled_from([0.0, -0.0, 0.5, 1.0]), st.floats(allow_nan=False))))
def test_the_order_is_that_of_python_with_ties_to_the_smaller_row(scores: list[float]):
    expected = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    assert best_first(np.array(scores, dtype=np.float64)).tolist() == expected


def test_ranks_fall_with_the_score_and_ties_go_to_the_smaller_row():
    assert falling_ranks(np.array([0.5, 0.9, 0.5, 0.0])).tolist() == [2, 1, 3, 4]
