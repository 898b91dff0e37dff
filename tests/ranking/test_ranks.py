from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from umi_common.pool import NOT_RANKED
from umi_common.ranking.arms import falling_ranks, ranks_at, ranks_of


def test_ranks_fall_with_the_score_and_ties_go_to_the_smaller_row():
    assert falling_ranks(np.array([0.5, 0.9, 0.5, 0.0])).tolist() == [2, 1, 3, 4]
    assert ranks_of(np.array([0.5, 0.9, 0.5, 0.0])).tolist() == [2, 1, 3, NOT_RANKED]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), min_size=1, max_size=12), st.data())
def test_the_ranks_of_some_rows_are_their_ranks_among_all(scores, data):
    every = np.array(scores)
    rows = np.array(data.draw(st.lists(st.integers(0, len(scores) - 1))), dtype=np.int64)
    assert ranks_at(every, rows) == falling_ranks(every)[rows].tolist()
