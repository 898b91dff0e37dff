"""What a search may ask for; everything else is refused before any work."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common.errors import (
    ConfigError,
    EmptyQuery,
    FilterError,
    InputError,
    InvalidLimit,
    InvalidTimeRange,
    InvalidVector,
    QueryTooLong,
)
from umi_common.search.request import SearchRequest
from umi_common.types import TimeRange

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
FINE = {
    "query": "q",
    "limit": 10,
    "deep_search": True,
    "time_range": None,
    "where": None,
    "now": NOW,
    "history": (),
    "strategy": "hybrid",
    "query_vector": None,
}


@pytest.mark.parametrize(
    "change, error",
    [
        ({"query": ""}, EmptyQuery),
        ({"query": " \n"}, EmptyQuery),
        ({"query": None}, InputError),
        ({"query": np.zeros(3)}, InputError),
        ({"query": "é" * 5_001}, QueryTooLong),
        ({"limit": 0}, InvalidLimit),
        ({"limit": 101}, InvalidLimit),
        ({"limit": 3.0}, InvalidLimit),
        ({"limit": True}, InvalidLimit),
        ({"time_range": (NOW, NOW)}, InvalidTimeRange),
        ({"time_range": (datetime(2024, 1, 1), None)}, InvalidTimeRange),
        ({"time_range": "yesterday"}, InvalidTimeRange),
        ({"now": datetime(2024, 1, 1)}, InvalidTimeRange),
        ({"where": {}}, FilterError),
        ({"where": {"a": {"$near": 1}}}, FilterError),
        ({"history": "one string"}, InputError),
        ({"history": None}, InputError),
        ({"history": {"role": "user", "content": "hello"}}, InputError),
        ({"history": {"one", "two"}}, InputError),
        ({"history": [{"role": "user", "content": "hello"}]}, InputError),
        ({"history": [None]}, InputError),
        ({"strategy": "magic"}, ConfigError),
        ({"deep_search": "false"}, ConfigError),
        ({"query_vector": [1.0, float("nan")]}, InvalidVector),
        ({"query_vector": [[1.0]]}, InvalidVector),
    ],
)
def test_a_wrong_argument_is_refused_as_a_value_error_of_its_kind(change, error):
    with pytest.raises(error) as caught:
        SearchRequest.checked(**{**FINE, **change})
    assert isinstance(caught.value, ValueError)


def test_the_limits_themselves_are_fine():
    assert SearchRequest.checked(**{**FINE, "query": "é" * 5_000, "limit": 100}).limit == 100
    assert SearchRequest.checked(**{**FINE, "limit": np.int64(1)}).limit == 1
    assert SearchRequest.checked(**{**FINE, "min_relevance": np.float32(0.5)}).min_relevance == 0.5


def test_a_pair_of_moments_is_a_time_range():
    span = (NOW, NOW + timedelta(days=1))
    assert SearchRequest.checked(**{**FINE, "time_range": span}).time_range == TimeRange(*span)


def test_a_lone_surrogate_in_a_query_is_replaced_and_nothing_else_changes():
    assert SearchRequest.checked(**{**FINE, "query": "caf\u00e9 \ud800"}).query == "caf\u00e9 ?"


def test_a_lone_surrogate_in_the_history_is_replaced_as_in_the_query():
    assert SearchRequest.checked(**{**FINE, "history": ["caf\u00e9 \ud83d", "b"]}).history == ("caf\u00e9 ?", "b")


def test_messages_of_a_generator_are_the_history_like_those_of_a_list():
    assert SearchRequest.checked(**FINE | {"history": (turn for turn in ["a", "b"])}).history == ("a", "b")


class TrainedTensor:
    """As a torch tensor that requires a gradient."""

    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


@pytest.mark.parametrize("vector", [TrainedTensor(), [10**400], ["0.5", "x"]], ids=["tensor", "huge", "words"])
def test_a_vector_that_is_no_list_of_numbers_is_refused_and_says_why(vector):
    with pytest.raises(InvalidVector, match=r"no list of numbers: (Can't call|int too large|could not convert)"):
        SearchRequest.checked(**FINE | {"query_vector": vector})


def test_a_vector_of_a_model_that_gives_nan_is_not_said_to_have_a_wrong_shape():
    with pytest.raises(InvalidVector, match="holds NaN or infinity; check the model"):
        SearchRequest.checked(**FINE | {"query_vector": [0.5, float("nan")]})
