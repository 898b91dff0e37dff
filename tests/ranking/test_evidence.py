from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common.errors import ConfigError
from umi_common.pool import Background, Pool
from umi_common.ranking.evidence import (
    MISSING_MAX,
    arm_evidence,
    background_of,
    dense_evidence,
    fuse_evidence,
    lexical_evidence,
    weighted_sum,
)

MANY = 10**9
"""Chunks behind a background, so many that the prior says nothing."""
SCORES = st.lists(st.tuples(st.floats(0, 40), st.floats(-1, 1)), min_size=2, max_size=20)


def standing_out(deviations: float, count: int = MANY) -> float:
    """The evidence of a cosine that many deviations above a background of mean 0.2 and deviation 0.1."""
    background = Background(np.array([0.2]), np.array([0.1]), count)
    return float(dense_evidence(np.array([[0.2 + 0.1 * deviations]]), background)[0, 0])


def fused(lexical, dense, weights=(1.0,)):
    return fuse_evidence(lexical, dense, lexical_share=0.45, variation_weights=np.array(weights))


def test_bm25_counts_against_the_root_of_its_bound():
    assert lexical_evidence(np.array([[12.0, 0.0]]), np.array([9.0])).tolist() == [[1.0, 0.0]]  # 12 / (4 * 3)


def test_a_query_of_unknown_words_has_no_lexical_evidence():
    assert lexical_evidence(np.array([[0.0, 0.0]]), np.array([0.0])).tolist() == [[0.0, 0.0]]


def test_words_that_the_corpus_does_not_hold_count_in_the_bound_up_to_a_limit():
    for coverage, whole in ((1.0, 9.0), (0.9, 10.0), (0.1, 9.0 + MISSING_MAX), (0.0, 9.0)):
        pool = Pool.of(
            ["a"],
            lexical=np.array([[6.0]]),
            dense=np.array([[0.0]]),
            lexical_bound=np.array([9.0]),
            coverage=np.array([coverage]),
        )
        lexical, _ = arm_evidence(pool, 1.0)
        assert lexical[0, 0] == approx(6.0 / math.sqrt(whole) / 4)


def test_in_another_language_than_the_query_the_larger_evidence_of_both_arms_counts_as_lexical():
    pool = Pool.of(
        ["a", "b", "c"],
        lexical=np.array([[1.2, 0.0, 9.0]]),
        dense=np.array([[0.8, 0.8, 0.3]]),
        other_language=np.array([[False, True, True]]),
    )
    lexical, dense = arm_evidence(pool, 1.0)
    assert lexical[0].tolist() == [approx(0.1), dense[0, 1], approx(0.75)]


@pytest.mark.parametrize(
    ("own", "counts"), [([True, True, False], False), ([False, False, False], True)], ids=["some in it", "none in it"]
)
def test_another_language_explains_no_low_bm25_if_the_texts_in_the_querys_language_hold_none_of_its_words(own, counts):
    dense = np.array([[0.5, 0.2, 0.5]])
    pool = Pool.of(["a", "b", "c"], lexical=np.zeros((1, 3)), dense=dense, other_language=~np.array([own]))
    lexical, vector = arm_evidence(pool, 1.0)
    assert lexical[0].tolist() == (vector[0].tolist() if counts else [0.0, 0.0, 0.0])


def test_dense_evidence_is_the_square_of_how_far_a_cosine_stands_out():
    assert standing_out(0.0) == approx(1 / 64)
    assert standing_out(6.0) == approx(((6 + math.sqrt(40)) / 2) ** 2 / 64)
    assert standing_out(8.0) / standing_out(4.0) == approx(3.7, abs=0.1)


def test_dense_evidence_falls_to_0_below_the_background():
    assert 0 < standing_out(-8.0) < 0.001


def test_the_background_of_a_few_chunks_is_averaged_with_the_prior():
    # 8 seen and 8 of the prior: mean (0.4 + 0.2) / 2 = 0.3, deviation sqrt((0.12^2 + 0.12^2) / 2) = 0.12
    background = Background(np.array([0.4]), np.array([0.12]), 8)
    assert dense_evidence(np.array([[0.3]]), background)[0, 0] == approx(1 / 64)


def test_the_background_of_nothing_is_the_prior_alone():
    background = background_of(np.zeros((1, 0)))
    assert dense_evidence(np.array([[0.2]]), background)[0, 0] == approx(1 / 64)


def test_the_background_is_mean_and_deviation_per_query():
    background = background_of([[0.0, 0.2], [0.5, 0.5]])
    assert (background.mean.tolist(), background.deviation.tolist()) == (approx([0.1, 0.5]), approx([0.1, 0.0]))
    assert background.count == 2


@pytest.mark.parametrize(("mean", "deviation"), [(1, 2), (2, 1)])
def test_a_background_of_another_number_of_queries_is_refused_with_both_shapes(mean, deviation):
    background = Background(np.zeros(mean), np.ones(deviation), 8)
    with pytest.raises(ConfigError, match=rf"\({mean},\) and \({deviation},\); expected one number for each of 2"):
        dense_evidence(np.zeros((2, 3)), background)


def test_an_arm_whose_best_stands_out_has_a_larger_share():
    words = np.array([[0.5, 0.4]])
    _, flat = fused(words, np.array([[0.05, 0.04]]))
    _, peaked = fused(words, np.array([[0.9, 0.04]]))
    assert flat[0] == approx(0.45 * 0.5 / (0.45 * 0.5 + 0.55 * 0.05))
    assert peaked[0] < 0.5 < flat[0]


def test_without_evidence_all_scores_are_0_and_the_share_is_one_half():
    scores, share = fused(np.zeros((1, 3)), np.zeros((1, 3)))
    assert scores.tolist() == [0.0, 0.0, 0.0]
    assert share.tolist() == [0.5]


def test_variations_add_up():
    lexical = np.array([[0.4, 0.2], [0.0, 0.4]])
    scores, _ = fused(lexical, np.zeros((2, 2)), [1.0, 1.0])
    assert scores.tolist() == approx([0.45 * 0.4 / 2, 0.45 * 0.6 / 2])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 40)), min_size=1, max_size=5), st.integers(2, 40))
def test_rows_with_equal_evidence_have_equal_sums_wherever_they_stand(pairs, count):
    weights, values = np.array(pairs).T
    sums = weighted_sum(weights, np.repeat(values[:, np.newaxis], count, axis=1))
    assert len(set(sums.tolist())) == 1


def test_a_background_of_other_queries_is_refused():
    with pytest.raises(ConfigError):
        dense_evidence(np.ones((2, 3)), background_of([[0.1]]))


@given(SCORES, st.floats(0.01, 100))
def test_scaling_all_variation_weights_changes_nothing(pairs, factor):
    lexical, dense = np.array(pairs).T[:, np.newaxis, :]
    once, _ = fused(lexical, np.abs(dense), [1.0])
    scaled, _ = fused(lexical, np.abs(dense), [factor])
    assert scaled == approx(once)


@given(SCORES, st.integers(0, 19), st.floats(0.01, 5), st.floats(0.001, 1))
def test_fusion_is_monotone_in_each_arm(pairs, row, more_words, more_meaning):
    lexical, dense = np.array(pairs).T[:, np.newaxis, :]
    row %= len(pairs)
    background = Background(np.array([0.1]), np.array([0.1]), MANY)

    def places(words, meaning):
        scores, _ = fused(lexical_evidence(words, np.array([30.0])), dense_evidence(meaning, background))
        return int((scores > scores[row] + 1e-9).sum())

    raised_words, raised_meaning = lexical.copy(), dense.copy()
    raised_words[0, row] += more_words
    raised_meaning[0, row] += more_meaning
    assert places(raised_words, dense) <= places(lexical, dense)
    assert places(lexical, raised_meaning) <= places(lexical, dense)


@given(SCORES)
def test_fusion_leaves_its_input_alone(pairs):
    lexical, dense = np.array(pairs).T[:, np.newaxis, :]
    before = lexical.copy(), dense.copy()
    scores, _ = fused(lexical_evidence(lexical, np.array([30.0])), dense_evidence(dense, background_of(dense)))
    assert scores.min() >= 0
    assert (lexical == before[0]).all() and (dense == before[1]).all()
