from __future__ import annotations

import numpy as np

from umi_common.pool import NOT_RANKED
from umi_common.ranking.fusion import arm_ranks, falling_ranks


def test_ranks_fall_with_the_score_and_ties_go_to_the_smaller_row():
    assert falling_ranks(np.array([0.5, 0.9, 0.5, 0.0])).tolist() == [2, 1, 3, 4]
    assert arm_ranks(np.array([0.5, 0.9, 0.5, 0.0])).tolist() == [2, 1, 3, NOT_RANKED]
