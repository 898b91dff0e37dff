"""Values: what a chunk may hold, and that its content cannot change."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import re
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from umi_common import DualRetriever, HybridStore, TokenBudget
from umi_common.errors import (
    InputError,
    InvalidChunk,
    InvalidTimeRange,
    MissingExtra,
    UmiError,
    optional_module,
    writing,
)
from umi_common.protocols import Probe
from umi_common.ranking.period import in_period
from umi_common.search import rank
from umi_common.search.reorder import stages
from umi_common.sim import HashEmbedder
from umi_common.types import Chunk, Hit, Stage, TimeRange, Trace

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"id": "", "text": "x"}, "id"),
        ({"id": 7, "text": "x"}, "id"),
        ({"id": "a" * 1025, "text": "x"}, "1024"),
        ({"id": "a", "text": " \n\t"}, "text is empty"),
        ({"id": "a", "text": None}, "NoneType"),
        ({"id": "a", "text": "\ud800"}, "surrogate"),
        ({"id": "a", "text": "x", "source": 3}, "source"),
        ({"id": "a", "text": "x", "position": "3"}, "position"),
        ({"id": "a", "text": "x", "position": True}, "position"),
        ({"id": "a", "text": "x", "position": -(2**62)}, r"position .*between -2\^62 and 2\^62"),
        ({"id": "a", "text": "x", "position": 1e300}, r"position 1e\+300: expected a whole number"),
        ({"id": "a", "text": "x", "event_time": datetime(2024, 5, 1)}, "time zone"),
        ({"id": "a", "text": "x", "event_time": "2024-05-01"}, "event_time"),
        ({"id": "a", "text": "x", "event_time": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "year 1"),
        ({"id": "a", "text": "x", "event_time": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "9999"),
        ({"id": "a", "text": "x", "metadata": {1: "x"}}, "metadata key"),
        ({"id": "a", "text": "x", "metadata": {"k": {"deep": 1}}}, "'k'"),
        ({"id": "a", "text": "x", "metadata": {"k": float("inf")}}, "'k'"),
        ({"id": "a", "text": "x", "metadata": {"k": b"bytes"}}, "'k'.*bytes"),
        ({"id": "a", "text": "x", "metadata": {"k": {1, (2, 3)}}}, "'k'.*tuple"),
        ({"id": "a", "text": "x", "metadata": {"k": 2**63}}, "64 bits"),
        ({"id": "a", "text": "x", "metadata": {"k": timedelta(1)}}, "'k'.*timedelta"),
        ({"id": "a", "text": "x", "metadata": [("k", 1)]}, "dict"),
    ],
)
def test_a_bad_chunk_is_refused_naming_what_is_wrong(arguments, named):
    with pytest.raises(InvalidChunk, match=named) as caught:
        Chunk(**arguments)
    assert isinstance(caught.value, (UmiError, ValueError))


def test_event_time_becomes_utc():
    tokyo = timezone(timedelta(hours=9))
    assert Chunk("a", "x", event_time=NOON.astimezone(tokyo)).event_time == NOON
    assert Chunk("a", "x", event_time=NOON.astimezone(tokyo)).event_time.tzinfo is timezone.utc


def test_numpys_nan_and_nat_are_missing_values_and_its_whole_floats_are_positions():
    missing = np.float32("nan"), np.datetime64("NaT"), float("nan")
    for value in missing:
        assert Chunk("x", "text", source=value, position=value, event_time=value, search_text=value) == Chunk(
            "x", "text"
        )
    assert Chunk("x", "text", position=np.float32(3)).position == 3


def test_a_day_before_1740_is_in_a_period_that_begins_with_it():
    """An age of more than 2^53 microseconds is rounded; a store and the search must round it alike."""
    starts = [datetime(year, 1, 1, tzinfo=timezone.utc) for year in range(1000, 1740)]
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(Chunk(f"{start.year}", "text", event_time=start) for start in starts)
        now = NOON.replace(microsecond=79_191, second=1)
        pool = store.recall([Probe("text")], depth=1_000, now=now)
    held = [bool(in_period(pool, TimeRange(start, None), now)[pool.ids.index(f"{start.year}")]) for start in starts]
    assert all(held)


def test_a_chunk_cannot_change_nor_can_its_metadata():
    mine = {"tags": ["a", "b"]}
    chunk = Chunk("a", "x", metadata=mine)
    mine["tags"] = "changed"
    assert chunk.metadata["tags"] == ("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        chunk.text = "y"
    with pytest.raises(TypeError):
        chunk.metadata["tags"] = 1


def test_a_result_and_a_budget_can_be_logged_as_json_copied_and_pickled():
    with HybridStore.open(embedder=HashEmbedder(16)) as store:
        store.add([Chunk("a", "a cat", metadata={"user": "ann", "tags": ["x", "y"]}), Chunk("b", "a dog")])
        with DualRetriever(store) as umi:
            result, context = umi.search("cat"), umi.get_context("cat")
    logged = json.loads(json.dumps(asdict(result), default=str))
    assert logged["hits"][0]["chunk"]["metadata"] == {"user": "ann", "tags": ["x", "y"]}
    for value in (result, context, TokenBudget(reserves={"system": 5}), result.hits[0].chunk):
        assert json.dumps(asdict(value), default=str)
        assert copy.deepcopy(value) == value == pickle.loads(pickle.dumps(value))  # noqa: S301 our own bytes
    with pytest.raises(TypeError, match="dict"):
        pickle.loads(pickle.dumps(result)).hits[0].chunk.metadata["user"] = "bob"  # noqa: S301 our own bytes


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.__setitem__("a", 2),
        lambda values: values.__delitem__("a"),
        lambda values: values.__ior__({"a": 2}),
        lambda values: values.update(a=2),
        lambda values: values.setdefault("b", 2),
        lambda values: values.pop("a"),
        lambda values: values.popitem(),
        lambda values: values.clear(),
    ],
)
def test_metadata_cannot_be_changed(change):
    stored = Chunk("x", "text", metadata={"a": 1}).metadata
    with pytest.raises(TypeError, match=r"dict\(chunk.metadata\)"):
        change(stored)
    assert stored == {"a": 1} and {**stored, "b": 2} == stored | {"b": 2}


def test_a_chunk_can_be_copied_pickled_and_hashed():
    chunk = Chunk("a", "x", metadata={"k": (1, None, True)}, source="s", position=2, event_time=NOON)
    assert copy.deepcopy(chunk) == chunk == pickle.loads(pickle.dumps(chunk))  # noqa: S301 our own bytes
    assert len({chunk, copy.copy(chunk)}) == 1


def test_a_time_range_holds_its_start_and_not_its_end():
    day = TimeRange(NOON, NOON + timedelta(days=1))
    assert NOON in day
    assert NOON + timedelta(days=1) not in day
    assert NOON in TimeRange(None, None)
    assert NOON not in TimeRange(None, NOON)


LAST = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))


@pytest.mark.parametrize(
    "bounds", [(NOON, NOON), (NOON, NOON - timedelta(1)), (datetime(2024, 1, 1), None), (None, LAST)]
)
def test_a_backward_or_naive_time_range_is_refused(bounds):
    with pytest.raises(InvalidTimeRange):
        TimeRange(*bounds)


def test_the_docs_of_a_hit_list_every_stage():
    code = "".join(inspect.getsource(module) for module in (rank, stages))
    ran = re.findall(r'(?:ReorderStage\(|yield )"(\w+)"', code)
    listed = re.search(r"in this order: ([\w, ]+)\.", " ".join(inspect.getsource(Hit).split()))
    assert len(ran) > 15 and set(ran) - set(listed[1].split(", ")) == set()


def test_the_error_for_a_missing_package_says_the_same_after_a_copy_or_in_another_process():
    error = MissingExtra("pypdf", "files")
    assert str(copy.copy(error)) == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


def test_an_installed_package_that_cannot_be_loaded_is_not_said_to_be_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("raise ImportError('built for another version of numpy')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="another version of numpy"):
        optional_module("broken_package", "broken-package")


def test_a_folder_with_a_name_that_is_too_long_cannot_be_written_to(tmp_path):
    path = tmp_path / ("x" * 300) / "why.html"
    with pytest.raises(InputError, match="name another file"), writing(path):
        path.write_text("page")


def test_a_hit_and_a_trace_are_shown_on_one_line_without_the_rest_of_a_long_text():
    hit = Hit(Chunk("notes#3", "The boiler is old. " * 5_000), 0.81234, 1, relevance=0.4567)
    assert (
        repr(hit).startswith("Hit(#1 'notes#3', score=0.812, relevance=0.46, 'The boiler is old. The")
        and len(repr(hit)) < 200
    )
    assert repr(Hit(Chunk("a", "b"), 1.0, 2)) == "Hit(#2 'a', score=1.000, 'b')"
    assert (
        repr(Trace((Stage("recall", 2.0), Stage("fuse", 0.123)), 3.5)) == "Trace(3.50 ms: recall 2.00 ms, fuse 0.12 ms)"
    )
