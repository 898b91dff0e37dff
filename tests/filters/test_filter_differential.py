"""Python and columns give the same answer for any metadata and any filter."""

from __future__ import annotations

from typing import Any

import pytest
from filter_cases import Cases, columns_of, metadatas, values, wheres
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umi_common.filters import Comparison, Filter, Not, identity, matches, parse_filter

_RELAXED = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _tree(where: dict[str, Any]) -> Filter:
    tree = parse_filter(where)
    assert tree is not None
    return tree


@_RELAXED
@given(st.lists(metadatas, min_size=1, max_size=6), wheres)
def test_columns_agree_with_the_reference(rows: list[dict[str, Any]], where: dict[str, Any]):
    tree = _tree(where)
    expected = [matches(tree, metadata) for metadata in rows]
    assert columns_of(rows).mask(tree, len(rows)).tolist() == expected


@_RELAXED
@given(metadatas, wheres)
def test_a_filter_and_its_complement_share_no_chunk_and_lose_none(metadata: dict[str, Any], where: dict[str, Any]):
    tree = _tree(where)
    assert matches(Not(tree), metadata) is not matches(tree, metadata)


@_RELAXED
@given(values, values, values)
def test_comparisons_that_are_one_cache_key_answer_alike(one: Any, other: Any, stored: Any):
    first, second = Comparison("a", "$eq", one), Comparison("a", "$eq", other)
    assert (first == second) is matches(first, {"a": other})
    if first == second:
        assert hash(first) == hash(second)
        assert matches(first, {"a": stored}) is matches(second, {"a": stored})


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1, 1.0, True), (1, True, False), (0, False, False), ((1,), (True,), False)]
)
def test_a_cached_answer_is_shared_only_between_filters_that_mean_the_same(one: Any, other: Any, same: bool):
    assert (Comparison("a", "$eq", one) == Comparison("a", "$eq", other)) is same
    assert (identity(one) == identity(other)) is same


def test_the_order_of_in_values_does_not_make_another_filter():
    assert _tree({"a": {"$in": [1, 2, 2]}}) == _tree({"a": {"$in": [2, 1.0]}})


@pytest.mark.slow
def test_ten_thousand_seeded_pairs_agree():
    cases = Cases(seed=20240501)
    pairs = passed = 0
    for _ in range(1_000):
        rows = [cases.metadata() for _ in range(10)]
        columns = columns_of(rows)
        where = cases.where()
        tree = _tree(where)
        expected = [matches(tree, metadata) for metadata in rows]
        assert columns.mask(tree, len(rows)).tolist() == expected, where
        pairs, passed = pairs + len(rows), passed + sum(expected)
    assert pairs == 10_000
    assert 0.1 < passed / pairs < 0.9, "the cases should test both answers"
