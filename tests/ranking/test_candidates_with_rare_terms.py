"""A candidate with a rare term of the query stands before those with a much smaller BM25."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common.ranking.fusion import LEAD, with_rare_terms

SCORE = st.floats(0, 1)


def raised(scores, lexical, rare, other_language=False):
    foreign = np.broadcast_to(np.array(other_language), len(scores))
    return with_rare_terms(np.array(scores), np.array(lexical), np.array(rare), foreign).tolist()


def test_it_passes_the_candidate_that_has_a_much_smaller_bm25_and_no_other():
    scores, lexical = [1.0, 0.95, 0.4], [1.5, 1.9, 2.0]  # 1.5 < 0.8 * 2.0 < 1.9
    assert raised(scores, lexical, [False, False, True]) == approx([1.0, 0.95, 1.0 + LEAD])


def test_of_two_that_pass_the_same_candidate_the_larger_bm25_leads():
    assert raised([1.0, 0.2, 0.3], [0.0, 2.0, 1.9], [False, True, True]) == approx([1.0, 1.0 + LEAD, 1.0 + 0.95 * LEAD])


def test_without_nearly_the_best_bm25_it_passes_nothing():
    assert raised([1.0, 0.5, 0.2], [0.0, 2.0, 1.5], [False, False, True]) == [1.0, 0.5, 0.2]


def test_it_passes_none_in_another_language_whose_bm25_says_little():
    assert raised([1.0, 0.5], [0.0, 2.0], [False, True], [True, False]) == [1.0, 0.5]


def test_nothing_changes_without_a_lexical_arm():
    assert raised([1.0, 0.5], [0.0, 0.0], [False, False]) == [1.0, 0.5]


@given(st.lists(st.tuples(SCORE, st.floats(0, 20), st.booleans()), min_size=1, max_size=20))
def test_no_candidate_loses_and_those_without_a_rare_term_keep_their_score(candidates):
    scores, lexical, rare = map(list, zip(*candidates, strict=True))
    for before, after, holds in zip(scores, raised(scores, lexical, rare), rare, strict=True):
        assert after >= before if holds else after == before
