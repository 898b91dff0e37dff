"""Statistics of a corpus: equal to the bit after any history of writes, and equal to those of simple loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.stores import corpus_stats as calibration
from umi_common.stores.corpus_stats import Calibration
from umi_common.stores.ledger.codec import Head
from umi_common.stores.rows import rows
from umi_common.stores.rows.rows import RowTable

SOURCES = [None, "s", "t", "u", "v"]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 4)), min_size=1, max_size=6)
        ),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 40), max_size=4)),
        st.tuples(st.just("look back"), st.just(())),
    ),
    min_size=1,
    max_size=10,
)


def vectors_of(count: int) -> np.ndarray:
    made = np.random.default_rng(5).normal(size=(count, 6)).astype(np.float32)
    made[::9] = 0.0
    return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize("small", [False, True], ids=["all looked at", "samples cut short"])
@settings(max_examples=120, deadline=None)
@given(steps=STEPS)
def test_carried_on_from_write_to_write_it_is_what_a_fresh_look_gives(small, steps):
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(calibration, "SAMPLE_SIZE", 5)
            patch.setattr(calibration, "SAMPLE_CHUNKS_MAX", 6)
            patch.setattr(calibration, "SOURCE_CHUNKS_MAX", 3)
            patch.setattr(rows, "RESORTED_FROM", 2)
        carried, table, moments = Calibration(), RowTable(), []
        for kind, what in steps:
            if kind == "add":
                first = len(table)
                heads = [
                    Head(first + at + 1, f"c{(first + at) * 37 % 101}-{first + at}", *place, None)
                    for at, place in enumerate(what)
                ]
                table.append(heads)
            elif kind == "remove":
                table.remove(np.array(sorted({row for row in what if row < len(table)}), dtype=np.int64))
            moment = moments[len(moments) // 2] if kind == "look back" and moments else table.snapshot()
            moments.append(moment)
            assert_same(carried, Calibration(), moment, table.sources)


def assert_same(carried: Calibration, fresh: Calibration, moment, sources) -> None:
    vectors, lengths = vectors_of(len(moment)), np.arange(len(moment)) % 7
    query = vectors_of(2)[1:]
    assert carried.numbers(moment, vectors, lambda: lengths, sources) == fresh.numbers(
        moment, vectors, lambda: lengths, sources
    )
    ours, theirs = (each.background(moment, vectors, query) for each in (carried, fresh))
    assert (ours.count, ours.mean.tolist(), ours.deviation.tolist()) == (
        theirs.count,
        theirs.mean.tolist(),
        theirs.deviation.tolist(),
    )


def test_a_measurement_that_breaks_off_is_not_taken_for_done(monkeypatch):
    table = RowTable()
    table.append([Head(at + 1, f"c{at}", "s" if at % 2 else "t", at, None) for at in range(8)])
    moment = table.snapshot()
    vectors, lengths = vectors_of(8), np.ones(8, dtype=np.int64)
    broken, real, calls = Calibration(), calibration._sums_of, []

    def fails_at_the_second(*given):
        calls.append(given)
        if len(calls) == 2:
            raise MemoryError
        return real(*given)

    monkeypatch.setattr(calibration, "_sums_of", fails_at_the_second)
    with pytest.raises(MemoryError):
        broken.numbers(moment, vectors, lambda: lengths, table.sources)
    assert broken.numbers(moment, vectors, lambda: lengths, table.sources) == Calibration().numbers(
        moment, vectors, lambda: lengths, table.sources
    )


def test_unity_is_the_intra_class_correlation_by_hand():
    """Two sources of two chunks each, equal within a source and orthogonal between: all variance is between sources."""
    table = RowTable()
    table.append([Head(at + 1, f"c{at}", "st"[at // 2], at, None) for at in range(4)])
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    numbers = Calibration().numbers(table.snapshot(), vectors, lambda: np.ones(4, dtype=np.int64), table.sources)
    assert (numbers["icc"], numbers["icc_chunks"], numbers["shared_source_share"]) == (1.0, 2.0, 1.0)


@pytest.mark.parametrize("position", [None, 0])
def test_a_source_for_each_text_ranks_as_no_source_does(position):
    texts = ["The boiler leaks.", "A leak in the roof of the mill.", "Heating costs rise.", "The mill is old.", "Tea."]

    def scores(source):
        with HybridStore.open() as store, DualRetriever(store) as umi:
            store.add(Chunk(f"c{at}", text, source=source(at), position=position) for at, text in enumerate(texts))
            return [(hit.chunk.id, hit.score) for hit in umi.search("who mends the leak in the boiler of the mill?")]

    assert scores(lambda at: f"file {at}") == scores(lambda at: None)


def test_sources_without_positions_count_as_shared():
    table = RowTable()
    table.append([Head(at + 1, f"c{at}", "sst"[at], None, None) for at in range(3)])
    vectors = np.eye(3, dtype=np.float32)
    numbers = Calibration().numbers(table.snapshot(), vectors, lambda: np.ones(3, dtype=np.int64), table.sources)
    assert numbers == {"shared_source_share": 2 / 3}
