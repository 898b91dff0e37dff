"""Filters as conditions of Qdrant: all chunks that pass umi's filter pass them; if they are exact, no others."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from qdrant_client import models
from qdrant_client.local.payload_filters import check_filter

sys.path.insert(0, str(Path(__file__).parents[1] / "filters"))
from filter_cases import Cases

from umi_common.filters import matches, parse_filter
from umi_common.stores.qdrant.filters import compiled, facts_of, numbers_of, prefix, texts_of
from umi_common.types import Chunk, TimeRange

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def payload_of(metadata, **more):
    chunk = Chunk("x", "text", metadata=metadata)
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in chunk.metadata.items()}
    facts = {
        "facts": facts_of(chunk.metadata),
        "numbers": numbers_of(chunk.metadata),
        "texts": texts_of(chunk.metadata),
        "metadata": plain,
        **more,
    }
    return json.loads(json.dumps(facts))


def passes(found, payload):
    return found.condition is None or check_filter(models.Filter(must=[found.condition]), payload, "x", {})


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_passes_is_kept_out_and_exact_means_exact(seed):
    cases = Cases(100 + seed)
    metadatas = [Chunk("x", "text", metadata=cases.metadata()).metadata for _ in range(40)]
    payloads = [payload_of(metadata) for metadata in metadatas]
    exact = 0
    for _ in range(60):
        where = parse_filter(cases.where())
        found = compiled(where, None)
        exact += found.exact
        for metadata, payload in zip(metadatas, payloads, strict=True):
            let_through, may = passes(found, payload), matches(where, metadata)
            assert let_through or not may, (where, metadata)
            assert not found.exact or let_through == may, (where, metadata)
    assert exact > 10


@pytest.mark.parametrize(
    "where, exact",
    [
        ({"a": "x"}, True),
        ({"a": {"$ne": "x"}}, True),
        ({"a": {"$nin": [1, "x", None]}}, True),
        ({"a": {"$eq": ["x", 1.0]}}, True),
        ({"$not": {"$or": [{"a": 1}, {"b": {"$contains": None}}]}}, True),
        ({"a": {"$gt": 2.5}}, False),
        ({"$not": {"a": {"$gt": 2.5}}}, False),
        ({"a": {"$gt": 2**53}}, False),
        ({"a": {"$gt": "2024"}}, False),
    ],
)
def test_only_orders_are_widened(where, exact):
    assert compiled(parse_filter(where), None).exact is exact


@pytest.mark.parametrize("word", ["$gt", "$gte", "$lt", "$lte"])
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("bound", [2**53, 2**53 + 1, -(2**53) - 1, 2**62, 1.7976931348623157e308, 1e300])
def test_numbers_that_float64_blurs_are_let_through(word, negated, bound):
    inner = {"a": {word: bound}}
    where = parse_filter({"$not": inner} if negated else inner)
    found = compiled(where, None)
    near = [bound - 1, bound, bound + 1] if isinstance(bound, int) else [bound]
    for value in (*near, 0, 2**63 - 1, -(2**63)):
        if -(2**63) <= value < 2**63 or isinstance(value, float):
            metadata = {"a": value}
            assert passes(found, payload_of(metadata)) or not matches(where, metadata), value


def test_the_prefix_of_a_string_never_falls_where_the_string_rises():
    texts = sorted(
        ["", "a", "ab", "Z", "é", "e\u0301", "2024-01", "2024-02", "\uffff", "😀", "日本", "a\0", "abcdefg", "abcdefh"]
    )
    numbers = [prefix(text) for text in texts]
    assert numbers == sorted(numbers)
    assert all(0 <= number < 2**53 for number in numbers)


def test_a_window_is_half_open_and_leaves_out_what_has_no_time():
    micro = 1714564800000000
    found = compiled(None, TimeRange(NOON, NOON + timedelta(hours=1)))
    assert found.exact
    times = {None: False, micro - 1: False, micro: True, micro + 3_599_999_999: True, micro + 3_600_000_000: False}
    for time, expected in times.items():
        assert passes(found, payload_of({}, **({} if time is None else {"time": time}))) is expected
    everything = compiled(None, TimeRange(None, None))
    assert passes(everything, payload_of({}, time=micro)) and not passes(everything, payload_of({}))


def test_a_tenant_is_looked_up_in_its_index_and_checked_as_a_fact():
    found = compiled(parse_filter({"user": "ann"}), None, ("user",))
    assert found.exact
    assert found.condition.must[0].key == "metadata.user"
    assert passes(found, payload_of({"user": "ann"}))
    assert not passes(found, payload_of({"user": ["ann", "bob"]}))
