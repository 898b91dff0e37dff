from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.errors import ConfigError
from umi_common.ranking.mmr import mmr

CORNERS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [-1.0, 0.0], [0.0, 0.0]], dtype=np.float32)
"""Unit vectors with round cosines, and one chunk without a vector."""


def by_definition(scores, vectors, limit, trade_off):
    """Carbonell and Goldstein's greedy choice, candidate by candidate."""
    left, chosen = list(range(len(scores))), []
    while left and len(chosen) < limit:
        values = []
        for row in left:
            nearest = max((float(vectors[row] @ vectors[other]) for other in chosen), default=0.0)
            values.append(round(trade_off * scores[row] - (1 - trade_off) * nearest, 9))
        chosen.append(left.pop(values.index(max(values))))
    return chosen


def test_a_copy_of_the_first_is_chosen_after_an_unlike_row():
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    # second place: row 1 has 0.7 * 0.9 - 0.3 * 1 = 0.33, row 2 has 0.7 * 0.5 - 0 = 0.35
    assert mmr(np.array([1.0, 0.9, 0.5]), vectors, limit=3).tolist() == [0, 2, 1]


def test_a_choice_is_compared_with_all_rows_chosen_before_and_not_with_the_last_only():
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8]], dtype=np.float32)
    # third place after rows 0, 1: row 2 has 0.35 - 0.5 * 1; row 3 has 0.3 - 0.5 * 0.8.
    # Against row 1 alone row 2 would win.
    assert mmr(np.array([1.0, 0.9, 0.7, 0.6]), vectors, limit=3, trade_off=0.5).tolist() == [0, 1, 3]


def test_a_chunk_without_a_vector_has_similarity_0_to_every_row():
    vectors = np.array([[1, 0], [1, 0], [0, 0]], dtype=np.float32)
    assert mmr(np.array([1.0, 0.9, 0.6]), vectors, limit=2).tolist() == [0, 2]


def test_ties_fall_to_the_smaller_row():
    assert mmr(np.array([0.5, 0.5, 0.5]), np.zeros((3, 2), np.float32), limit=3).tolist() == [0, 1, 2]


def test_lambda_1_is_the_order_of_the_scores():
    assert mmr(np.array([0.1, 0.9, 0.5]), CORNERS[:3], limit=9, trade_off=1.0).tolist() == [1, 2, 0]


def test_only_the_pool_is_considered():
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    assert mmr(np.array([1.0, 0.9, 0.5]), vectors, limit=2, pool=2).tolist() == [0, 1]


@pytest.mark.parametrize("bad", [{"trade_off": 1.1}, {"trade_off": -0.1}, {"limit": -1}, {"pool": 0}])
def test_wrong_settings_are_refused(bad):
    with pytest.raises(ConfigError):
        mmr(np.array([1.0]), CORNERS[:1], **{"limit": 1, **bad})


@given(
    rows=st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.55, 0.8, 1.0]), st.integers(0, 5)), max_size=10),
    limit=st.integers(0, 12),
    trade_off=st.sampled_from([0.0, 0.37, 0.7, 1.0]),
)
def test_it_equals_the_definition(rows, limit, trade_off):
    scores = np.array([score for score, _ in rows])
    vectors = CORNERS[[corner for _, corner in rows]].astype(np.float64)
    chosen = mmr(scores, np.round(vectors, 1), limit=limit, trade_off=trade_off).tolist()
    expected = by_definition(scores, np.round(vectors, 1), limit, trade_off)
    value = [_value(scores, vectors, order, trade_off) for order in (chosen, expected)]
    assert len(chosen) == len(expected) == min(limit, len(rows))
    assert np.allclose(value[0], value[1])


def _value(scores, vectors, order, trade_off):
    """What each choice was worth when it was made; equal for two orders that differ in rounded ties only."""
    worth = []
    for place, row in enumerate(order):
        nearest = max(
            (float(np.round(vectors[row], 1) @ np.round(vectors[other], 1)) for other in order[:place]), default=0.0
        )
        worth.append(trade_off * scores[row] - (1 - trade_off) * nearest)
    return worth


@given(st.integers(0, 2**32 - 1))
def test_it_equals_the_definition_on_real_vectors(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(30, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = rng.random(30)
    assert mmr(scores, vectors, limit=10).tolist() == by_definition(scores, vectors, 10, 0.7)


def test_copies_that_are_equally_good_are_chosen_in_their_order():
    generator = np.random.default_rng(0)
    best, copy = generator.standard_normal((2, 384)).astype(np.float32)
    vectors = np.stack([best / np.linalg.norm(best), *[copy / np.linalg.norm(copy)] * 56])
    assert mmr(np.array([1.0, *[0.9] * 56]), vectors, limit=57, pool=100).tolist() == list(range(57))
