"""A filter narrowed by a scope never passes a chunk outside the scope."""

from __future__ import annotations

from typing import Any

import pytest
from filter_cases import metadatas, wheres
from hypothesis import given, settings

from umi_common.errors import FilterError
from umi_common.filters import EVERYTHING, And, Comparison, Scope, matches, narrow, parse_filter, scope

ANN = {"user": "ann", "session": "s1"}


def test_a_user_sees_their_own_chunks_and_nobody_elses():
    seen = scope(user="ann").narrow()
    assert matches(seen, ANN)
    assert matches(seen, {"user": "ann"})
    assert not matches(seen, {"user": "bob"})
    assert not matches(seen, {})
    assert not matches(seen, {"user": ["ann", "bob"]})


def test_a_session_is_a_part_of_its_user():
    seen = scope(user="ann", session="s1").narrow()
    assert matches(seen, ANN)
    assert not matches(seen, {"user": "ann", "session": "s2"})
    assert not matches(seen, {"user": "bob", "session": "s1"})


def test_further_keys_are_all_required():
    seen = scope(user="ann", tenant=7).narrow()
    assert matches(seen, {"user": "ann", "tenant": 7})
    assert not matches(seen, {"user": "ann"})


def test_everything_has_no_limit_and_keeps_the_filter():
    assert EVERYTHING.narrow() is None
    assert narrow(EVERYTHING, {"a": 1}) == Comparison("a", "$eq", 1)


def test_a_filter_is_joined_to_the_scope():
    assert narrow(scope(user="ann"), {"a": 1}) == And((Comparison("user", "$eq", "ann"), Comparison("a", "$eq", 1)))


@pytest.mark.parametrize(
    "attempt",
    [
        {"user": "bob"},
        {"$or": [{"user": "ann"}, {"user": "bob"}]},
        {"$not": {"user": "ann"}},
        {"user": {"$exists": False}},
        {"user": {"$ne": "ann"}},
        EVERYTHING.narrow({"user": "bob"}),
    ],
)
def test_no_filter_opens_another_users_chunks(attempt: Any):
    assert not matches(scope(user="ann").narrow(attempt), {"user": "bob"})


@settings(max_examples=200, deadline=None)
@given(metadatas, wheres)
def test_narrowing_never_widens(metadata: dict[str, Any], where: dict[str, Any]):
    for stored in (metadata, {**metadata, **ANN}):
        inside = scope(user="ann", session="s1")
        assert matches(inside.narrow(where), stored) is (
            matches(inside.where, stored) and matches(parse_filter(where), stored)
        )


@pytest.mark.parametrize(
    "lost",
    [{"user": None}, {"user": ""}, {"user": True}, {"user": "ann", "session": ""}, {"user": "ann", "tenant": None}],
)
def test_a_lost_id_is_refused_and_does_not_open_everything(lost: dict[str, Any]):
    with pytest.raises(FilterError, match="EVERYTHING"):
        scope(**lost)


def test_a_scope_may_use_other_keys():
    assert matches(Scope(parse_filter({"user_id": "ann"})).narrow({"a": 1}), {"user_id": "ann", "a": 1})


def test_a_broken_filter_is_refused_inside_a_scope_too():
    with pytest.raises(FilterError, match="empty"):
        scope(user="ann").narrow({})
