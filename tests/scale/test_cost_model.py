"""docs/scale.md says what the cost model prints, and the model multiplies as it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from benchmarks import cost_model

        yield cost_model
    sys.modules.pop("benchmarks.cost_model", None)


@pytest.mark.parametrize("table", ["chunk_table", "sizes_table", "work_table", "ingest_table"])
def test_the_page_shows_the_table(model, table):
    """`python -m benchmarks.cost_model` prints them."""
    page = (ROOT / "docs" / "scale.md").read_text()
    printed = (
        getattr(model, table)() if table in ("chunk_table", "ingest_table") else getattr(model, table)(model.measured())
    )
    assert printed in page


def test_machines_follow_the_scarcer_of_memory_and_disk_and_are_never_fewer_than_replicas(model):
    usable = 0.7 * 128e9  # of one machine's memory
    assert model.machines(1, 1.0, 1.0) == (2, "replicas")
    assert model.machines(10**9, usable * 3 / 10**9, 1.0) == (6, "memory")  # 3 machines' worth, twice
    assert model.machines(10**9, 1.0, 0.7 * 4e12 * 5 / 10**9) == (10, "disk")


def test_a_shard_is_begun_with_each_twenty_millionth_chunk(model):
    assert [model.shards(size) for size in (1, 20_000_000, 20_000_001)] == [1, 1, 2]
