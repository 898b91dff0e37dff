"""Chroma above the threshold: what it answers, and what happens when it is damaged, hangs or crashes."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from umi_common.config import DecayConfig, UmiConfig
from umi_common.filters import parse_filter
from umi_common.protocols import Probe
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.store import generations
from umi_common.store.hybrid import HybridStore
from umi_common.types import Chunk

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
LARGE = UmiConfig(dense={"exact_up_to": 50})
SMALL = UmiConfig()
SECONDS = 60.0
QUERIES = ("red boat", "night train to the coast", "snow")
WORDS = ["red", "blue", "boat", "train", "coast", "night", "rain", "snow", "sun", "wind", "hill", "lake", "to", "the"]
ALL = os.environ.get("UMI_TEST_DENSE") == "all"
"""UMI_TEST_DENSE=all damages every file of Chroma in every way; the default is one of each."""


def content() -> list[Chunk]:
    dice = random.Random(1)
    return [
        Chunk(
            f"c{i:03}",
            " ".join(dice.choices(WORDS, k=12)),
            metadata={"user": i % 3, "rare": i % 50 == 0},
            event_time=NOW - timedelta(hours=i),
        )
        for i in range(300)
    ]


def answers(store: HybridStore, **options) -> list:
    pools = [store.recall([Probe(query)], depth=20, now=NOW, **options) for query in QUERIES]
    return [(pool.ids, pool.dense.tolist(), pool.dense_rank.tolist()) for pool in pools]


def engine(store: HybridStore) -> str:
    return store.recall([Probe("red boat")], depth=20, now=NOW).facts["dense_engine"]


def settled(store: HybridStore) -> bool:
    return store._core.indexes.generations.settle(SECONDS)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A closed store with one generation."""
    path = tmp_path_factory.mktemp("large") / "s"
    with HybridStore.open(path, embedder=HashEmbedder(32), config=LARGE) as store:
        store.add(content())
        assert engine(store) == "exact"
        assert settled(store)
        assert engine(store) == "chroma"
    return path


@pytest.fixture(scope="module")
def truth() -> HybridStore:
    """The same content, scanned."""
    with HybridStore.open(embedder=HashEmbedder(32), config=SMALL) as store:
        store.add(content())
        yield store


def test_small_stores_never_meet_chroma(tmp_path):
    script = (
        "import sys\n"
        "from umi_common.sim import HashEmbedder\n"
        "from umi_common.store.hybrid import HybridStore\n"
        "from umi_common.types import Chunk\n"
        "with HybridStore.open(sys.argv[1], embedder=HashEmbedder()) as store: store.add([Chunk('a', 'x')])\n"
        "assert 'chromadb' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], cwd=ROOT, check=True)
    assert not (tmp_path / "s" / "dense").exists()


def test_chroma_answers_as_the_scan_does(large, truth, tmp_path):
    shutil.copytree(large, tmp_path / "s")
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32), config=LARGE) as store:
        assert settled(store)
        assert engine(store) == "chroma"
        assert answers(store) == answers(truth)
        for options in (
            {"where": parse_filter({"user": 1})},
            {"where": parse_filter({"rare": True})},
            {"decay": DecayConfig(half_life_hours=5.0, floor=0.0)},
        ):
            assert answers(store, **options) == answers(truth, **options), options
        # What is newer than the generation, and what is gone from it.
        store.add([Chunk("new", "red boat red boat")])
        store.delete(["c007"])
        truth.add([Chunk("new", "red boat red boat")])
        truth.delete(["c007"])
        try:
            assert engine(store) == "chroma"
            assert answers(store) == answers(truth)
        finally:
            truth.delete(["new"])
            truth.add([chunk for chunk in content() if chunk.id == "c007"])


def chroma_files(path: Path) -> list[Path]:
    (generation,) = (path / "dense").iterdir()
    return sorted(file for file in generation.rglob("*") if file.is_file())


DAMAGES = [("delete", 0), ("truncate", 1), ("zero", 2), ("flip", 3), ("all", 0)]


@pytest.mark.parametrize(
    ("how", "number"), [(h, n) for h in ["delete", "truncate", "zero", "flip"] for n in range(8)] if ALL else DAMAGES
)
def test_damage_to_chroma_is_answered_through_and_repaired(how, number, large, truth, tmp_path):
    path = tmp_path / "s"
    shutil.copytree(large, path)
    files = chroma_files(path)
    if number >= len(files):
        pytest.skip("fewer files")
    if how == "all":
        shutil.rmtree(path / "dense")
    else:
        data = bytearray(files[number].read_bytes())
        middle = len(data) // 2
        if how == "truncate":
            del data[middle:]
        elif how == "zero":
            data[:] = bytes(len(data))
        elif data:
            data[middle] ^= 0xFF
        files[number].unlink()
        if how != "delete":
            files[number].write_bytes(data)
    embedder = CountingEmbedder(HashEmbedder(32))
    with HybridStore.open(path, embedder=embedder, config=LARGE) as store:
        minder = store._core.indexes.generations
        while not minder.settle(0.0):
            fault = minder.fault
            pools = [store.recall([Probe(query)], depth=20, now=NOW) for query in QUERIES]
            assert [(p.ids, p.dense.tolist(), p.dense_rank.tolist()) for p in pools] == answers(truth)
            if fault is not None and minder.fault is not None:
                assert [loss.part for loss in pools[0].degraded] == ["dense"]
                assert "exact" in pools[0].degraded[0].consequence
            time.sleep(0.05)
        assert engine(store) == "chroma"
        assert answers(store) == answers(truth)
        assert not store.recall([Probe("red")], depth=20, now=NOW).degraded
        assert embedder.document_calls == 0
    assert len(list((path / "dense").iterdir())) == 1


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for Python is a shell script")
@pytest.mark.parametrize("body", ["sleep 60", "kill -SEGV $$", "exit 3"])
def test_an_opener_that_hangs_or_crashes_costs_nothing_but_time(body, large, truth, tmp_path, monkeypatch):
    shutil.copytree(large, tmp_path / "s")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(generations, "sys", SimpleNamespace(executable=str(python), path=[]))
    monkeypatch.setattr(generations, "BUILD_SECONDS", 0.5)
    config = UmiConfig(dense={"exact_up_to": 50, "probe_seconds": 0.5})
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32), config=config) as store:
        assert settled(store)
        assert answers(store) == answers(truth)
        (loss,) = store.recall([Probe("red boat")], depth=20, now=NOW).degraded
        assert loss.part == "dense"
        assert "exact" in store.status().dense


def test_a_generation_that_fails_in_use_is_replaced(large, truth, tmp_path):
    shutil.copytree(large, tmp_path / "s")
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32), config=LARGE) as store:
        assert settled(store)
        current = store._core.indexes.generations.current
        current._collection = None
        assert answers(store) == answers(truth)
        assert settled(store)
        assert engine(store) == "chroma"
        assert store._core.indexes.generations.current is not current


def test_growth_makes_the_next_generation_from_the_last(large, tmp_path):
    shutil.copytree(large, tmp_path / "s")
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32), config=LARGE) as store:
        assert settled(store)
        store.add([Chunk(f"n{i}", f"red boat {i}") for i in range(100)])
        assert settled(store)
        assert store._core.indexes.generations.current.manifest.count == 400
        assert engine(store) == "chroma"
        assert np.isfinite(store.recall([Probe("red boat")], depth=20, now=NOW).dense).all()


@pytest.mark.parametrize("point", ["dense.built", "dense.publish", "dense.published"])
def test_death_at_each_step_of_a_build(point, tmp_path, truth):
    script = (
        "import os, signal, sys, time\n"
        "sys.path[:0] = [sys.argv[2], sys.argv[3]]\n"
        "from test_store_dense import *\n"
        "from umi_common.store import failpoints\n"
        "with failpoints.armed(sys.argv[4], lambda: os.kill(os.getpid(), signal.SIGKILL)):\n"
        "    store = HybridStore.open(sys.argv[1], embedder=HashEmbedder(32), config=LARGE)\n"
        "    store.add(content())\n"
        "    time.sleep(60)\n"
    )
    here = Path(__file__).parent
    arguments = [sys.executable, "-c", script, str(tmp_path / "s"), str(here), str(ROOT), point]
    assert subprocess.run(arguments, check=False).returncode == -9
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder(32), config=LARGE) as store:
        assert answers(store) == answers(truth)
        assert settled(store)
        assert engine(store) == "chroma"
        assert answers(store) == answers(truth)
    assert len(list((tmp_path / "s" / "dense").iterdir())) == 1
