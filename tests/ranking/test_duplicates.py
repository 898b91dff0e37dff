from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.errors import ConfigError
from umi_common.ranking.duplicates import NO_DIGEST, collapse

VECTORS = np.array([[1, 0], [0, 1], [1, 0], [0.995, 0.0998749], [0, 0], [0, 0]], dtype=np.float32)


def test_the_better_of_two_copies_stays():
    kept, left_out = collapse(np.array([2, 1, 0]), VECTORS)
    assert kept.tolist() == [2, 1]
    assert left_out == ((0, 2),)


def test_the_threshold_decides():
    assert collapse(np.array([0, 3]), VECTORS, similarity=0.99)[0].tolist() == [0]
    assert collapse(np.array([0, 3]), VECTORS, similarity=0.999)[0].tolist() == [0, 3]


def test_chunks_without_vectors_are_like_nothing():
    assert collapse(np.array([4, 5]), VECTORS)[0].tolist() == [4, 5]


def test_the_same_words_are_the_same_chunk_whatever_the_vectors():
    digests = np.array([7, 8, NO_DIGEST, NO_DIGEST, 7, NO_DIGEST])
    kept, left_out = collapse(np.array([0, 4, 5, 1]), VECTORS, digests=digests)
    assert kept.tolist() == [0, 5, 1]
    assert left_out == ((4, 0),)


def test_it_stops_when_enough_are_kept():
    kept, left_out = collapse(np.array([0, 2, 1, 4]), VECTORS, limit=2)
    assert kept.tolist() == [0, 1]
    assert left_out == ((2, 0),)


@given(st.lists(st.integers(0, 5), unique=True), st.sampled_from([0.9, 0.999, 1.0]), st.integers(0, 6))
def test_looking_at_all_pairs_first_changes_nothing(order, similarity, limit):
    rows, unlike = np.array(order, dtype=np.int64), np.full(len(VECTORS), NO_DIGEST)
    at_once = collapse(rows, VECTORS, similarity=similarity, limit=limit)
    one_by_one = collapse(rows, VECTORS, similarity=similarity, limit=limit, digests=unlike)
    assert at_once[0].tolist() == one_by_one[0].tolist() and at_once[1] == one_by_one[1]


@pytest.mark.parametrize("bad", [{"similarity": 0.0}, {"similarity": 1.1}, {"limit": -1}])
def test_wrong_settings_are_refused(bad):
    with pytest.raises(ConfigError):
        collapse(np.array([0]), VECTORS, **bad)


@given(st.lists(st.integers(0, 5), unique=True), st.sampled_from([0.9, 0.99, 1.0]))
def test_what_is_kept_is_unlike_and_what_is_left_out_has_a_better_twin(order, similarity):
    kept, left_out = collapse(np.array(order, dtype=np.int64), VECTORS, similarity=similarity)
    alike = VECTORS @ VECTORS.T
    assert all(alike[a, b] < similarity for a in kept for b in kept if a != b)
    assert all(alike[row, by] >= similarity - 2e-6 and order.index(by) < order.index(row) for row, by in left_out)
    assert sorted([*kept.tolist(), *(row for row, _ in left_out)]) == sorted(order)
