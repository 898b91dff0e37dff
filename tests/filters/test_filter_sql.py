"""Filters that reach limits of SQLite: wide, deep, with many values; and names of columns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from filter_cases import SqlRows

from umi_common.errors import FilterError
from umi_common.filters import And, Comparison, Filter, Not, Or, matches, parse_filter, to_sql


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
    with SqlRows(rows) as sql:
        assert sql.passing(tree) == [matches(tree, row) for row in rows]


def test_two_equal_deep_halves_at_each_level_can_be_run():
    tree: Filter = Comparison("tags", "$contains", "x")
    for _ in range(24):
        tree = Not(tree)
    for level in range(8):
        tree = And((tree, tree)) if level % 2 else Or((tree, tree))
    with SqlRows([{"tags": ["x"]}, {}]) as sql:
        assert sql.passing(tree) == [True, False]


def test_thousands_of_conditions_can_be_run():
    tree = parse_filter({"$or": [{"doc": f"d{i}"} for i in range(3_000)]})
    assert tree is not None
    with SqlRows([{"doc": "d2999"}, {"doc": "d3000"}]) as sql:
        assert sql.passing(tree) == [True, False]


def test_a_hundred_thousand_values_are_one_parameter():
    tree = Comparison("doc", "$in", tuple(range(100_000)))
    assert len(to_sql(tree)[1]) == 2
    with SqlRows([{"doc": 99_999}, {"doc": 100_000}]) as sql:
        assert sql.passing(tree) == [True, False]


def test_keys_and_values_never_reach_the_sql_text():
    hostile = "x'); DROP TABLE chunks; --"
    condition, parameters = to_sql(Comparison(hostile, "$gt", hostile))
    assert "DROP" not in condition
    assert parameters == [hostile, hostile]


@pytest.mark.parametrize("column", ["metadata; --", "", "a.b.c", "méta", 'm"', "m\n"])
def test_a_column_that_is_no_name_is_refused(column: str):
    with pytest.raises(FilterError, match="expected a name"):
        to_sql(_B, column)


def test_a_column_of_a_joined_table_is_taken():
    assert "replace(c.metadata," in to_sql(_B, "c.metadata")[0]
