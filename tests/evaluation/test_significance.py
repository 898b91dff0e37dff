from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.errors import ConfigError
from umi_common.evaluation import bootstrap_mean, holm, paired_randomisation


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values, groups = [i**0.5 for i in range(30)], [str(i) for i in range(30)]
    assert bootstrap_mean(values, groups, seed=1) == bootstrap_mean(values, groups, seed=1)
    assert bootstrap_mean(values, groups, seed=1) != bootstrap_mean(values, groups, seed=2)


def test_the_order_of_the_queries_changes_no_interval_over_groups():
    values, groups = [0.0, 1.0, 0.5, 0.25], ["a", "a", "b", "b"]
    assert bootstrap_mean(values, groups) == bootstrap_mean(values[::-1], groups[::-1])


def test_whole_groups_are_drawn_so_their_means_are_the_ends():
    # Two groups of means 0 and 1: a resample is one of (0,0), (0,1), (1,0), (1,1).
    estimate = bootstrap_mean([0.0] * 50 + [1.0] * 50, ["a"] * 50 + ["b"] * 50)
    assert (estimate.mean, estimate.low, estimate.high) == (0.5, 0.0, 1.0)
    assert (estimate.queries, estimate.groups) == (100, 2)


def test_groups_of_different_size_weigh_by_their_queries():
    assert bootstrap_mean([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"]).mean == 0.75


def test_one_group_is_resampled_by_query():
    estimate = bootstrap_mean([0.0, 1.0] * 200, ["a"] * 400)
    assert estimate.groups == 400
    # the normal interval: 0.5 +- 1.96 * 0.5 / sqrt(400)
    assert (estimate.low, estimate.high) == (pytest.approx(0.451, abs=0.01), pytest.approx(0.549, abs=0.01))


def test_nan_is_left_out_and_nothing_left_is_an_error():
    assert bootstrap_mean([float("nan"), 0.5], ["a", "b"]).queries == 1
    with pytest.raises(ConfigError, match="no value"):
        bootstrap_mean([float("nan")], ["a"])
    with pytest.raises(ConfigError, match="2 values and 1 groups"):
        bootstrap_mean([0.1, 0.2], ["a"])


def test_equal_systems_do_not_differ():
    values = {"q1": 0.5, "q2": 0.25}
    difference = paired_randomisation(values, values)
    assert (difference.mean, difference.p_value) == (0.0, 1.0)
    assert (difference.better, difference.worse, difference.queries) == (0, 0, 2)


def test_p_is_near_the_exact_share_of_sign_vectors():
    ours = {f"q{i}": value for i, value in enumerate([0.3, 0.2, 0.4, -0.1, 0.25, 0.05])}
    theirs = dict.fromkeys(ours, 0.0)
    observed = abs(sum(ours.values()))
    sums = [abs(np.dot(signs, list(ours.values()))) for signs in product([1, -1], repeat=6)]
    exact = np.mean([total >= observed - 1e-12 for total in sums])
    assert paired_randomisation(ours, theirs).p_value == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e9])
def test_p_does_not_depend_on_the_unit_of_the_values(unit):
    ours = {f"q{i}": value * unit for i, value in enumerate([0.7, 0.1, 1.3, 0.9, 0.3, 1.1])}
    all_better = paired_randomisation(ours, dict.fromkeys(ours, 0.0))
    assert all_better.p_value == pytest.approx(2 / 64, abs=0.006), "the sign vectors of all + and of all -"
    no_sum = {f"q{i}": value * unit for i, value in enumerate([0.1, 0.2, -0.3])}
    assert paired_randomisation(no_sum, dict.fromkeys(no_sum, 0.0)).p_value == 1.0


def test_the_test_is_two_sided_and_seeded():
    ours, theirs = {f"q{i}": i / 10 for i in range(10)}, {f"q{i}": 0.2 for i in range(10)}
    forth, back = paired_randomisation(ours, theirs), paired_randomisation(theirs, ours)
    assert forth.p_value == back.p_value
    assert forth.mean == pytest.approx(-back.mean)
    assert (forth.better, forth.worse) == (back.worse, back.better) == (7, 2)


def test_other_queries_are_refused():
    with pytest.raises(ConfigError, match="same queries"):
        paired_randomisation({"q1": 1.0}, {"q2": 1.0})
    with pytest.raises(ConfigError, match="same queries"):
        paired_randomisation({}, {})


def test_a_query_without_a_value_of_both_systems_is_left_out_of_the_paired_test():
    ours, theirs = {"q1": 1.0, "q2": 0.5, "q3": 0.5}, {"q1": 0.0, "q2": 0.5, "q3": 1.0}
    nan = float("nan")
    assert paired_randomisation({**ours, "q4": nan, "q5": 1.0}, {**theirs, "q4": 1.0, "q5": nan}) == (
        paired_randomisation(ours, theirs)
    )
    with pytest.raises(ConfigError, match="no query has a value of both"):
        paired_randomisation({"q1": nan}, {"q1": 1.0})


def test_holm_multiplies_the_smallest_by_all_and_never_falls():
    # sorted .01, .02, .04 -> 3 * .01, 2 * .02, max(1 * .04, .04)
    assert holm({"a": 0.04, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_the_mean_lies_between_the_smallest_and_largest_value(values):
    estimate = bootstrap_mean(values, [str(i) for i in range(len(values))], resamples=50)
    tolerance = 1e-9
    assert min(values) - tolerance <= estimate.low <= estimate.high <= max(values) + tolerance
