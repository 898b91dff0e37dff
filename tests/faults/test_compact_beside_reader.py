"""A store is compacted while a reader opens it: every order of the two, one call of the package at a time.

The one is held before a call, and the other runs to its end, or to the moment at which the saved indexes are gone. Both
run in one thread, so every run of this test makes the same schedules.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import umi_common
from umi_common import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import armed
from umi_common.types import Chunk

STORES = Path(umi_common.__file__).parent / "stores"
ROOMS = tuple(str(STORES / room) for room in ("ledger", "embedded", "lexical/file", "dense/vectors"))
"""Beginnings of the paths of the files that touch the disk; what runs between their calls computes only."""
CALLS_MIN = 100
"""An opening, and a compaction, make more calls in these files than this."""

WAITED_MAX = 5.0
"""Seconds that a compaction may take beside a reader that does not end; it waited 10 s."""

Place = tuple[str, int]
"""File and line of a call."""


def watched(action: Callable[[], Any], before_call: Callable[[Place], None]) -> Any:
    """The result of `action`; `before_call` is called with the place of each call that a file in ROOMS makes."""

    def profile(frame: FrameType | None, event: str, _: Any) -> None:
        frame = frame.f_back if event == "call" and frame is not None else frame
        if event in ("call", "c_call") and frame is not None and frame.f_code.co_filename.startswith(ROOMS):
            before_call((frame.f_code.co_filename, frame.f_lineno))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return action()
    finally:
        sys.setprofile(before)


def calls_of(action: Callable[[], Any]) -> list[Place]:
    """The places at which `action` makes calls, by their first call."""
    seen: dict[Place, None] = {}
    watched(action, lambda place: seen.setdefault(place, None))
    return list(seen)


def held_before(call: Place, action: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
    """The result of `action`, during which `meanwhile` runs before the first call at a place, or else after it."""
    left = [meanwhile]

    def before_call(place: Place) -> None:
        if place == call and left:
            left.pop()()

    result = watched(action, before_call)
    if left:
        meanwhile()
    return result


@pytest.fixture()
def store(tmp_path, monkeypatch):
    # A reader that is held inside a snapshot does not end it, however long the writer waits.
    monkeypatch.setattr("umi_common.stores.ledger.ledger.READER_SECONDS", 0.001)
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as opened:
        opened.add([Chunk(f"c{number}", f"note {number} of the boiler") for number in range(4)])
        yield opened


def write(store: HybridStore, number: int) -> None:
    """Replace a chunk, so that there is something to compact."""
    store.add([Chunk("c1", f"note of the boiler, version {number}")])


def opened(store: HybridStore) -> HybridStore:
    return HybridStore.open(store.path, embedder=HashEmbedder(8), read_only=True)


def check(reader: HybridStore, number: int) -> None:
    """The reader finds the store's present content."""
    with reader, DualRetriever(reader) as umi:
        found = umi.search(f"boiler version {number}", limit=10)
        assert found.hits[0].chunk.text.endswith(f"version {number}") and not found.degraded
        assert {hit.chunk.id for hit in found} == {f"c{each}" for each in range(4)}


def warnings_but_of_readers(caplog) -> list[str]:
    """What was logged, except that a reader, which was held inside a snapshot, kept removed chunks on the disk."""
    return [line for line in caplog.messages if "a reader still reads" not in line]


class Held(Exception):
    """A writer that goes no further."""


def hold():
    raise Held


@pytest.mark.parametrize("to", ["the end", "rebuild.dropped"])
def test_a_store_is_written_and_compacted_before_any_call_of_a_readers_opening(store, to, caplog):
    def compact() -> None:
        write(store, number)
        if to == "the end":
            store.compact()
        else:
            with armed(to, hold), suppress(Held):
                store.compact()

    readers: list[HybridStore] = []
    calls = calls_of(lambda: readers.append(opened(store)))
    readers.pop().close()
    assert len(calls) > CALLS_MIN
    for number, call in enumerate(calls):
        check(held_before(call, lambda: opened(store), compact), number)
        if to != "the end":
            store.rebuild()
    assert warnings_but_of_readers(caplog) == []


def test_a_reader_opens_before_any_call_of_a_compaction(store, caplog):
    write(store, -1)
    calls = calls_of(store.compact)
    assert len(calls) > CALLS_MIN
    for number, call in enumerate(calls):
        write(store, number)
        held_before(call, store.compact, lambda at=number: check(opened(store), at))
    assert warnings_but_of_readers(caplog) == []


def test_what_a_reader_keeps_on_the_disk_is_told_and_gone_with_the_next_compaction(store, caplog):
    store.add([Chunk("secret", "The password is swordfish.")])
    with closing(sqlite3.connect(store.path / "umi.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM chunks").fetchone() == (5,)
        store.delete(["secret"])
        begun = time.monotonic()
        store.compact()
        assert time.monotonic() - begun < WAITED_MAX
        assert any("Removed chunks stay on the disk until" in line for line in caplog.messages)
        reader.execute("COMMIT")
    caplog.clear()
    store.compact()
    assert caplog.records == []
    assert not any(b"swordfish" in file.read_bytes() for file in store.path.rglob("*") if file.is_file())
