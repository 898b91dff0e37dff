"""Any object given as a filter raises a FilterError, or is a filter that means the same everywhere.

UMI_FUZZ_EXAMPLES sets how long; 60,000 take some ten minutes.
"""

from __future__ import annotations

import copy
import os
from types import SimpleNamespace
from typing import Any

import pytest
from filter_cases import columns_of, keys, metadatas, scalars, values, wheres
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umi_common.errors import FilterError
from umi_common.filters import matches, parse_filter, scope, to_chroma

FUZZ_EXAMPLES = int(os.environ.get("UMI_FUZZ_EXAMPLES", "1500"))
"""Some fifteen seconds."""

_WORDS = st.sampled_from(
    """$and $or $not $nor $in $nin $eq $ne $gt $gte $lt $lte $contains $not_contains $exists $where $like a b a.b and or
    not == != > in nin any all is_empty text_match filters condition key operator value""".split()  # noqa: SIM905
)
_HOSTILE = st.sampled_from(["\ud800", "\0", "$", "", float("nan"), float("inf"), 2**64, -(2**200), b"x", {1}, object])
_LEAVES = scalars | _WORDS | _HOSTILE
_OBJECTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("key", "operator", "value", "condition"), _LEAVES))
_OF_LLAMAINDEX = st.sampled_from(
    "== != > >= < <= in nin text_match text_match_insensitive contains any all is_empty".split()  # noqa: SIM905
)
_ITEMS = st.builds(SimpleNamespace, key=keys, operator=_OF_LLAMAINDEX | _LEAVES, value=values | _LEAVES)
_METADATA_FILTERS = st.builds(
    SimpleNamespace, filters=st.lists(_ITEMS, max_size=3), condition=st.sampled_from(["and", "or", "not", None])
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, max_size=4)
    return (
        many
        | many.map(tuple)
        | st.dictionaries(_WORDS | scalars.filter(lambda key: isinstance(key, (str, int))), inner, max_size=3)
        | st.builds(lambda filters, more: SimpleNamespace(filters=filters, **more), many, _OBJECTS)
        | st.builds(lambda value, more: SimpleNamespace(**(more | {"value": value})), inner, _OBJECTS)
    )


anything = st.recursive(_LEAVES, _nested, max_leaves=10)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A good filter in which one part has been replaced by anything."""
    whole = copy.deepcopy(draw(wheres))
    parts: list[tuple[Any, Any]] = []
    seen = [whole]
    while seen:
        part = seen.pop()
        places = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
        parts.extend((part, place) for place in places)
        seen.extend(part[place] for place in places)
    part, place = draw(st.sampled_from(parts))
    part[place] = draw(_HOSTILE | _LEAVES | anything)
    return whole


@pytest.mark.slow
@given(anything | damaged() | wheres | _METADATA_FILTERS, st.lists(metadatas, min_size=1, max_size=3))
@settings(
    max_examples=FUZZ_EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_filter_is_a_filter_error_or_means_the_same_everywhere(where: Any, rows: list[dict[str, Any]]):
    try:
        tree = parse_filter(where)
    except FilterError as error:
        assert str(error)
        return
    if tree is None:
        assert where is None
        return
    expected = [matches(tree, metadata) for metadata in rows]
    to_chroma(tree)
    assert columns_of(rows).mask(tree, len(rows)).tolist() == expected


@pytest.mark.slow
@given(anything | damaged() | wheres | _METADATA_FILTERS, metadatas, st.sampled_from(["ann", "bob", "x", "1", 1, 2]))
@settings(max_examples=FUZZ_EXAMPLES // 4, deadline=None, derandomize=True)
def test_no_filter_shows_a_chunk_outside_the_scope(where: Any, metadata: dict[str, Any], user: Any):
    try:
        tree = scope(user="ann").narrow(where)
    except FilterError:
        return
    assert tree is not None
    assert user == "ann" or not matches(tree, {**metadata, "user": user})
