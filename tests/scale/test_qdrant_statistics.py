"""Statistics of a collection from two samples."""

from __future__ import annotations

import numpy as np
import pytest
from qdrant_toys import local, qdrant, search

from umi_common.stores.qdrant import statistics
from umi_common.stores.qdrant.statistics import CachedStatistics, Statistics
from umi_common.types import Chunk


def drawn(chunks: int) -> Statistics:
    return Statistics(chunks, 10.0, np.zeros((0, 4), dtype=np.float32), {})


def test_the_number_of_chunks_is_exact_below_the_sample_and_near_above():
    assert statistics._count([5, 9, 20]) == 3
    dice = np.random.default_rng(7)
    for chunks in (5_000, 200_000):
        draws = np.sort(dice.integers(0, 2**32, chunks))[: statistics.SAMPLE_SIZE]
        assert statistics._count(draws.tolist()) == pytest.approx(chunks, rel=0.1)


def test_few_chunks_are_looked_at_after_every_write_and_many_after_an_eighth():
    remembered = CachedStatistics()
    assert remembered.mark() == 0
    remembered.keep(drawn(100), 0)
    assert remembered.mark() is None
    remembered.changed(1)
    assert remembered.mark() == 1
    remembered.keep(drawn(8_000), 1)
    remembered.changed(999)
    assert remembered.mark() is None
    remembered.changed(1)
    assert remembered.mark() == 1_001


def test_writes_during_a_drawing_still_count():
    remembered = CachedStatistics()
    mark = remembered.mark()
    remembered.changed(3)
    remembered.keep(drawn(100), mark)
    assert remembered.mark() == 3


def test_a_slow_drawing_from_before_a_write_does_not_replace_one_from_after_it():
    remembered = CachedStatistics()
    before = remembered.mark()
    remembered.changed(3)
    remembered.keep(drawn(103), remembered.mark())
    remembered.keep(drawn(100), before)
    assert remembered.cached().chunks == 103


def test_others_writes_are_looked_for_after_a_while(monkeypatch):
    remembered = CachedStatistics()
    remembered.keep(drawn(100), 0)
    monkeypatch.setattr(statistics, "SECONDS", 0.0)
    assert remembered.mark() == 0


def test_a_source_that_the_sample_cuts_is_left_out(monkeypatch):
    monkeypatch.setattr(statistics, "SOURCE_SAMPLE_SIZE", 11)
    store = qdrant(local())
    store.add([Chunk(f"{s}{n}", f"boat {s} {n}", source=s, position=n) for s in "ab" for n in range(8)])
    pool = search(store, "boat")
    assert pool.calibration["icc_chunks"] == 0.0  # one source is no evidence
    assert pool.calibration["autocorrelation_pairs"] == 7 + 6


def test_one_source_larger_than_the_sample_tells_nothing(monkeypatch):
    monkeypatch.setattr(statistics, "SOURCE_SAMPLE_SIZE", 5)
    store = qdrant(local())
    store.add([Chunk(f"c{n}", f"boat {n}", source="a", position=n) for n in range(8)])
    assert search(store, "boat", around=1).calibration == {}
