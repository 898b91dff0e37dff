"""AUROC, coverage at a share of false answers, and reliability, by hand and by law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from benchmarks.quality_answering import auroc, coverage_at, plot_reliability, reliability
from umi_common.errors import ConfigError, InputError

NUMBERS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def test_auroc_is_the_share_of_pairs_in_the_right_order_and_ties_count_half():
    assert auroc([0.9, 0.5], [0.5, 0.1]).mean == approx((1 + 1 + 0.5 + 1) / 4)


def test_auroc_of_the_same_numbers_is_a_half_and_its_interval_holds_it():
    numbers = [place / 50 for place in range(50)]
    found = auroc(numbers, numbers)
    assert found.mean == approx(0.5)
    assert found.low < 0.5 < found.high


@given(above=NUMBERS, below=NUMBERS)
def test_auroc_is_what_counting_pairs_gives(above, below):
    pairs = [(a > b) + (a == b) / 2 for a in above for b in below]
    assert auroc(above, below, resamples=2).mean == approx(sum(pairs) / len(pairs))


@pytest.mark.parametrize("measure", [auroc, coverage_at])
@pytest.mark.parametrize("answerable, unanswerable, said", [([], [0.5], "0 and 1 questions"), ([0.5], [], "1 and 0")])
def test_a_measure_without_a_kind_of_question_is_refused(measure, answerable, unanswerable, said):
    with pytest.raises(ConfigError, match=f"{measure.__name__} of {said}.*; expected at least one of each kind"):
        measure(answerable, unanswerable)


def test_a_share_of_false_answers_outside_0_to_1_is_refused():
    with pytest.raises(ConfigError, match=r"false_answers is 5; expected a share, 0\.\.1"):
        coverage_at([0.9], [0.1], false_answers=5)


def test_coverage_at_no_false_answer_counts_those_above_the_best_false_one():
    assert coverage_at([0.9, 0.6, 0.2], [0.5, 0.1], false_answers=0.0) == approx(2 / 3)


def test_reliability_gives_each_bin_that_holds_a_hit():
    assert reliability([0.05, 0.0, 0.95, 1.0], [0, 1, 1, 1]) == [(0.025, 0.5, 2), (approx(0.975), 1.0, 2)]


def test_reliability_of_more_hits_than_judgements_is_refused():
    with pytest.raises(ConfigError, match="2 relevances and 1 judgements; expected one of each for every hit"):
        reliability([0.5, 0.6], [1])


def test_a_plot_of_reliability_without_hits_is_refused():
    with pytest.raises(InputError, match="no hits to plot; give a relevance and a judgement of at least one"):
        plot_reliability([], [])


def test_reliability_is_drawn(tmp_path):
    plot_reliability([0.1, 0.4, 0.9], [0, 1, 1], tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").stat().st_size > 1_000
