"""The tree of each dict spelling, and the error of each mistake."""

from __future__ import annotations

import datetime
import enum
import math
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common.errors import FilterError
from umi_common.filters import DEPTH_MAX, NODES_MAX, VALUES_MAX, And, Comparison, Not, Or, matches, parse_filter
from umi_common.types import Chunk

A1, B2 = Comparison("a", "$eq", 1), Comparison("b", "$eq", 2)


@pytest.mark.parametrize(
    ("where", "tree"),
    [
        ({"a": 1}, A1),
        ({"a": {"$eq": 1}}, A1),
        ({"a": 1, "b": 2}, And((A1, B2))),
        ({"a": {"$gte": 1, "$lt": 5}}, And((Comparison("a", "$gte", 1), Comparison("a", "$lt", 5)))),
        ({"a": {"$ne": 1}}, Not(A1)),
        ({"a": {"$nin": [1, 2]}}, Not(Comparison("a", "$in", (1, 2)))),
        ({"a": {"$not_contains": "x"}}, Not(Comparison("a", "$contains", "x"))),
        ({"a": {"$exists": False}}, Comparison("a", "$eq", None)),
        ({"a": {"$exists": True}}, Not(Comparison("a", "$eq", None))),
        ({"a": {"$not": {"$gt": 5}}}, Not(Comparison("a", "$gt", 5))),
        ({"$and": [{"a": 1}]}, A1),
        ({"$or": ({"a": 1}, {"b": 2})}, Or((A1, B2))),
        ({"$not": {"a": 1}}, Not(A1)),
        ({"$or": [{"a": 1}, {"b": 2}], "c": 3}, And((Or((A1, B2)), Comparison("c", "$eq", 3)))),
        ({"$and": [A1, {"b": 2}]}, And((A1, B2))),
        ({"a": {"$in": {1}}}, Comparison("a", "$in", (1,))),
    ],
)
def test_a_dict_becomes_this_tree(where: dict[str, Any], tree: Any):
    assert parse_filter(where) == tree
    assert parse_filter(tree) is tree


class Colour(str, enum.Enum):
    RED = "red"


class Size(enum.Enum):
    LARGE = 3
    ANY = (1, 2, 3)


@pytest.mark.parametrize(("given", "plain"), [(Colour.RED, "red"), (np.float64(1.5), 1.5), (np.str_("x"), "x")])
def test_subclasses_of_plain_values_become_plain(given: Any, plain: Any):
    tree = parse_filter({"a": given})
    assert isinstance(tree, Comparison)
    assert tree.value == plain
    assert type(tree.value) is type(plain)


MISTAKES: list[tuple[Any, str]] = [
    ({}, r"filter \{\} is empty; pass where=None"),
    ("a = 1", r"is str; expected a dict"),
    ([{"a": 1}], r"is list; expected a dict"),
    (0, r"is int; expected a dict"),
    (lambda metadata: True, r"is function; expected a dict"),
    ({1: 2}, r"filter key 1 is int; expected a string"),
    ({"price >": 3}, r"'price >' ends in a comparison; write \{\"price\": \{\"\$gt\": 3\}\}; .*\{\"\$eq\": 3\}"),
    ({"price>=": 3}, r"write \{\"price\": \{\"\$gte\": 3\}\}"),
    ({"price !=": 3}, r"write \{\"price\": \{\"\$ne\": 3\}\}"),
    ({"price <>": 3}, r"write \{\"price\": \{\"\$ne\": 3\}\}"),
    ({"price =": 3}, r"write \{\"price\": \{\"\$eq\": 3\}\}"),
    ({"price__gt": 3}, r"write \{\"price\": \{\"\$gt\": 3\}\}"),
    ({"$or": [{"a": 1}, {"due date <=": "2024"}]}, r"write \{\"due date\": \{\"\$lte\": '2024'\}\}"),
    ({"a": {}}, r"'a': \{\} is empty"),
    ({"a": {"$gte": 1, 2: 3}}, r"'a': operator 2 is int"),
    ({"$and": []}, r"\$and holds an empty list"),
    ({"$or": []}, r"\$or holds an empty list"),
    ({"$or": {"a": 1}}, r"\$or holds \{'a': 1\}; expected a list"),
    ({"$and": [{"a": 1}, {}]}, r"filter \{\} is empty"),
    ({"$and": [None]}, r"filter None is NoneType"),
    ({"$not": {}}, r"filter \{\} is empty"),
    ({"$eq": 1}, r'operator \$eq has no key; write \{"key": \{"\$eq": 1\}\}'),
    ({"$nor": [{"a": 1}]}, r"unknown operator '\$nor'; write \{\"\$not\""),
    ({"$ad": [{"a": 1}]}, r"unknown operator '\$ad'; did you mean \$and\?"),
    ({"a": {"$gte ": 1}}, r"'a': unknown operator '\$gte '; did you mean \$gte\?"),
    ({"a": {"gt": 1}}, r"'a': unknown operator 'gt'; did you mean \$gt\?"),
    ({"a": {"city": "Rome"}}, r"'a': unknown operator 'city'; metadata is flat"),
    ({"author": {"age": 3}}, r"'author': unknown operator 'age'; metadata is flat, .* use \$eq, \$in, "),
    ({"author": {"name": "Ann"}}, r"'author': unknown operator 'name'; metadata is flat"),
    ({"a": {"$regex": "x.*"}}, r"'a': unknown operator '\$regex'; .* use .text_match or"),
    ({"a": {"$like": "x%"}}, r"use .text_match or"),
    ({"a": {"$ilike": "x%"}}, r"use .text_match or"),
    ({"a": {"$between": [1, 2]}}, r"\$gte"),
    ({"AND": [{"a": 1}]}, r"'AND': a bare list; did you mean \$and\?"),
    ({"a": ["x", "y"]}, r"'a': a bare list can mean two things; write \{\"\$in\""),
    ({"a": {"$in": []}}, r"'a', '\$in': empty list, which matches nothing; give at least one value, or do not search"),
    ({"a": {"$nin": []}}, r"'a', '\$nin': empty list, which matches everything"),
    ({"a": {"$nin": "xyz"}}, r"'a', '\$nin': expected a list of values, got 'xyz'; use \$ne for a single value"),
    ({"a": {"$ne": b"x"}}, r"'a', '\$ne': .* is bytes"),
    ({"a": {"$not_contains": ["x"]}}, r"'a', '\$not_contains': \['x'\] is list"),
    ({"a": {"$not": {"$nin": 3}}}, r"'a', '\$nin': expected a list of values, got 3"),
    ({"a": {"$in": "xyz"}}, r"'a', '\$in': expected a list of values, got 'xyz'; use \$eq for a single value"),
    ({"a": {"$in": range(3)}}, r"'a', '\$in': expected a list of values, got range\(0, 3\); list\(...\) makes one"),
    ({"a": {"$in": [["x"]]}}, r"'a', '\$in': \['x'\] is list"),
    ({"a": {"$in": range(3)}}, r"expected a list"),
    ({"a": {"$gt": True}}, r"'a', '\$gt': True has no order"),
    ({"a": {"$lt": None}}, r"'a', '\$lt': None has no order"),
    ({"a": {"$lt": [1]}}, r"'a', '\$lt': \[1\] is list"),
    ({"a": {"$contains": ["x"]}}, r"'a', '\$contains': \['x'\] is list"),
    ({"a": {"$exists": 1}}, r"'a', \$exists: 1; expected True or False"),
    ({"a": {"$not": 5}}, r"'a', \$not: expected an operator"),
    ({"a": math.nan}, r"'a', '\$eq': nan is not finite"),
    ({"a": {"$gt": math.inf}}, r"'a', '\$gt': inf is not finite"),
    ({"a": 2**63}, r"'a', '\$eq': 9223372036854775808 does not fit 64 bits"),
    ({"a": 10**5000}, r"<int of 16610 bits> does not fit 64 bits"),
    ({"a": datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)}, r"is datetime; .*time_range or \.isoformat"),
    ({"a": np.datetime64("2024-01-01")}, r"is datetime64; .*time_range or \.isoformat"),
    ({"a": np.float32("nan")}, r"nan.* is float32; expected str"),
    ({"a": Decimal("nan")}, r"NaN.* is Decimal; expected str"),
    ({"a": Size.ANY}, r"is tuple"),
    ({"a": b"x"}, r"is bytes"),
    ({"a": "\ud800"}, r"'a', '\$eq': lone surrogate at 0"),
    ({"\ud800": 1}, r"filter key '\\ud800': lone surrogate"),
    ({"a": {"$in": [0] * 100_001}}, r"100001 values; at most 100000"),
]


PLAIN_IN_METADATA = [np.int64(3), np.float32(0.1), np.bool_(True), np.str_("x"), Decimal("1.5"), UUID(int=7)]


@pytest.mark.parametrize("value", [*PLAIN_IN_METADATA, PurePosixPath("/a/b"), Size.LARGE], ids=repr)
def test_every_value_that_metadata_may_hold_can_be_filtered_by(value: Any):
    chunk = Chunk("a", "text", metadata={"key": value})
    for where in ({"key": value}, {"key": {"$in": [value]}}, Comparison("key", "$eq", value)):
        assert matches(parse_filter(where), chunk.metadata)


@pytest.mark.parametrize(("where", "message"), MISTAKES, ids=[message[:50] for _, message in MISTAKES])
def test_a_mistake_is_an_error_with_its_fix(where: Any, message: str):
    with pytest.raises(FilterError, match=message):
        parse_filter(where)


def test_parts_that_are_no_tuple_are_not_called_missing():
    with pytest.raises(FilterError, match=r"\$and holds \[Comparison.*\]; expected a tuple of filters"):
        And([Comparison("a", "$eq", 1)])


@pytest.mark.parametrize("key", ["a>b", "List<str>", "<title>", "aGk==", "->", "=", "item__in", "a__b", "x > y", "gt"])
def test_a_key_that_only_looks_like_a_comparison_is_a_key(key: str):
    assert parse_filter({key: 1}) == Comparison(key, "$eq", 1)


def test_a_stored_key_that_ends_in_a_comparison_is_found_by_its_operator():
    assert parse_filter({"price >": {"$eq": 3}}) == Comparison("price >", "$eq", 3)


def _nested(levels: int) -> dict[str, Any]:
    where: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        where = {"$not": where}
    return where


def test_nesting_is_taken_to_its_limit_and_refused_beyond():
    assert parse_filter(_nested(DEPTH_MAX)) is not None
    for levels in (DEPTH_MAX + 1, 500):
        with pytest.raises(FilterError, match="deeper than 32"):
            parse_filter(_nested(levels))


def test_a_dict_that_holds_itself_is_refused():
    where: dict[str, Any] = {}
    where["$not"] = where
    with pytest.raises(FilterError, match="deeper than 32"):
        parse_filter(where)
    value: dict[str, Any] = {}
    value["$not"] = value
    with pytest.raises(FilterError, match="deeper than 32"):
        parse_filter({"a": value})


def test_shared_parts_that_would_grow_without_end_are_refused():
    where: dict[str, Any] = {"a": 1}
    for _ in range(30):
        where = {"$and": [where, where]}
    with pytest.raises(FilterError, match=f"more than {NODES_MAX}"):
        parse_filter(where)


def test_too_many_conditions_are_refused():
    with pytest.raises(FilterError, match=r"more than 10000 conditions; use \$in"):
        parse_filter({"$or": [{"a": i} for i in range(NODES_MAX)]})


def test_a_negated_condition_counts_as_one():
    assert parse_filter({"$and": [{"a": {"$ne": n}} for n in range(NODES_MAX // 2 - 1)]}) is not None


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Comparison(1, "$eq", 1),  # type: ignore[arg-type]
        lambda: Comparison("a", "$ne", 1),  # type: ignore[arg-type]
        lambda: Comparison("a", "$in", ()),
        lambda: And(()),
        lambda: Or(({"a": 1},)),  # type: ignore[arg-type]
        lambda: Not(None),  # type: ignore[arg-type]
    ],
)
def test_a_tree_made_by_hand_is_valid_or_refused(broken: Any):
    with pytest.raises(FilterError):
        broken()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["$and", "a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(["$and", "$or", "$not", "$in", "$eq", "$gt", "$exists", "$contains", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(_json)
def test_any_json_becomes_a_tree_or_a_filter_error(where: Any):
    try:
        tree = parse_filter(where)
    except FilterError as error:
        assert len(str(error)) < 700
    else:
        assert (tree is None) is (where is None)
        assert hash(tree) is not None


@settings(max_examples=100, deadline=None)
@given(st.integers(100, 3_000), st.sampled_from(["$and", "$not", "a", "$in"]))
def test_deep_nesting_is_a_filter_error_and_no_recursion_error(levels: int, key: str):
    value: Any = "x"
    for _ in range(levels):
        value = [value] if key == "$in" else {key: [value] if key == "$and" else value}
    with pytest.raises(FilterError):
        parse_filter({"a": {"$in": value}} if key == "$in" else value)


def test_a_filter_with_too_many_values_in_all_its_lists_is_refused():
    """3,000 conditions of 1,000 values each kept an event loop busy for a second."""
    where = {"$or": [{f"key{n}": {"$in": [f"{n}-{value}" for value in range(1_000)]}} for n in range(3_000)]}
    with pytest.raises(FilterError, match="more than 100000 values"):
        parse_filter(where)


@pytest.mark.parametrize("operator", ["$in", "$nin", "$eq"])
def test_the_largest_number_of_values_is_accepted_whatever_the_operator(operator):
    half = list(range(VALUES_MAX // 2))
    assert parse_filter({"a": {operator: half}, "b": {operator: half}})
    with pytest.raises(FilterError, match="values in its lists"):
        parse_filter({"a": {operator: half}, "b": {operator: [*half, 0]}})
