"""Filters that are wide, deep, or have many values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from filter_cases import columns_of

from umi_common.errors import FilterError
from umi_common.filters import And, Comparison, Filter, Not, Or, matches, parse_filter


def _tallest(widen: Any) -> Filter:
    """Grow a filter level by level until it is refused, and give the last that was not."""
    tree: Filter = Comparison("tags", "$eq", ("x", 1))
    with suppress(FilterError):
        while True:
            tree = widen(tree)
    return tree


_B = Comparison("b", "$in", (None, 1, "x"))

SHAPES = {
    "not": Not,
    "deep part last": lambda tree: And((_B, _B, Or((_B, tree)))),
    "deep part first": lambda tree: Or((tree, *([_B] * 50))),
    "deep part in the middle": lambda tree: Or((*([_B] * 20), Not(tree), *([_B] * 20))),
    "beside a bushy part": lambda tree: And((Or((And((_B, _B)), And((_B, Not(_B))))), Not(tree))),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_deepest_filter_that_exists_can_be_run(shape: str):
    tree = _tallest(SHAPES[shape])
    rows: list[dict[str, Any]] = [{}, {"b": 1}, {"tags": ["x", 1]}, {"b": 2, "tags": ["x", 1]}]
    assert columns_of(rows).mask(tree, len(rows)).tolist() == [matches(tree, row) for row in rows]


def test_two_equal_deep_halves_at_each_level_can_be_run():
    tree: Filter = Comparison("tags", "$contains", "x")
    for _ in range(24):
        tree = Not(tree)
    for level in range(8):
        tree = And((tree, tree)) if level % 2 else Or((tree, tree))
    assert columns_of([{"tags": ["x"]}, {}]).mask(tree, 2).tolist() == [True, False]


def test_thousands_of_conditions_can_be_run():
    tree = parse_filter({"$or": [{"doc": f"d{i}"} for i in range(3_000)]})
    assert tree is not None
    assert columns_of([{"doc": "d2999"}, {"doc": "d3000"}]).mask(tree, 2).tolist() == [True, False]


def test_a_hundred_thousand_values_can_be_run():
    tree = Comparison("doc", "$in", tuple(range(100_000)))
    assert columns_of([{"doc": 99_999}, {"doc": 100_000}]).mask(tree, 2).tolist() == [True, False]
