from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.ranking import evidence as normalize

ROWS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), max_size=30)


def test_min_max_puts_the_worst_at_0_and_the_best_at_1():
    assert normalize.min_max([2.0, 6.0, 4.0]).tolist() == [0.0, 1.0, 0.5]


def test_min_max_of_equal_scores_is_1_where_they_are_above_0():
    assert normalize.min_max([[3.0, 3.0], [0.0, 0.0]]).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_z_score_counts_deviations_from_the_mean():
    # mean 4, variance ((-2)^2 + 0 + 2^2) / 3 = 8/3
    assert normalize.z_score([2.0, 4.0, 6.0]).tolist() == pytest.approx([-2 / (8 / 3) ** 0.5, 0.0, 2 / (8 / 3) ** 0.5])
    assert normalize.z_score([5.0, 5.0]).tolist() == [0.0, 0.0]


def test_logistic_of_the_mean_is_one_half():
    assert normalize.logistic([2.0, 4.0, 6.0])[1] == 0.5


def test_by_bound_is_the_share_of_what_the_query_could_reach():
    assert normalize.by_bound([[3.0, 12.0], [3.0, 0.0]], [12.0, 0.0]).tolist() == [[0.25, 1.0], [0.0, 0.0]]


def test_by_best_makes_the_best_1():
    assert normalize.by_best([1.0, 4.0, -1.0]).tolist() == [0.25, 1.0, 0.0]
    assert normalize.by_best([0.0, -1.0]).tolist() == [0.0, 0.0]


@given(ROWS)
def test_every_normaliser_keeps_the_order_and_the_input(scores):
    row = np.array(scores)
    before = row.copy()
    for scaled in (normalize.min_max(row), normalize.z_score(row), normalize.logistic(row)):
        assert scaled.shape == row.shape
        order = np.argsort(row, kind="stable")
        assert (np.diff(scaled[order]) >= -1e-12).all()
    assert (row == before).all()


@given(ROWS)
def test_min_max_and_logistic_stay_within_0_and_1(scores):
    for scaled in (normalize.min_max(scores), normalize.logistic(scores), normalize.by_best(scores)):
        assert ((scaled >= 0) & (scaled <= 1)).all()
