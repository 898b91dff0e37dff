"""SIGKILL at random moments and at every failpoint: no acknowledged write is lost, and no batch is stored in part."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from datetime import datetime, timezone
from multiprocessing import forkserver
from pathlib import Path

import pytest
from store_writer import replay, write_until_killed

from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import POINTS
from umi_common.types import Chunk

KILLS = int(os.environ.get("UMI_TEST_KILLS", "60"))
"""UMI_TEST_KILLS=500 runs the long form."""
KILLS_PER_STORE = 10
LARGE_STORES = 5
"""One store in so many begins with LARGE chunks."""
LARGE = 10_000
REOPEN_SECONDS, WAITED_SECONDS = 2.0, 9.0
"""Most that an opening and a first answer may take: CPU time, which a busy machine does not lengthen; by the clock."""
OF_THE_LEDGER = [point for point in POINTS if not point.startswith("dense.")]
pytestmark = pytest.mark.slow
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def processes():
    """Processes that are forked with umi already imported, so that a kill costs little."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["store_writer"])
    here = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(here), str(here.parents[1])]))
        forkserver.ensure_running()
    return context


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """A closed store of LARGE chunks, and its texts by id."""
    path = tmp_path_factory.mktemp("large") / "s"
    texts = {f"o{i}": f"old chunk {i} about {'red boats' if i % 3 else 'night trains'}" for i in range(LARGE)}
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        store.add(
            [
                Chunk(id, text, source=f"s{number // 50}", position=number)
                for number, (id, text) in enumerate(texts.items())
            ]
        )
    return path, texts


def killed(processes, path, diary, seed: int) -> None:
    """Run a writer until it is killed: odd seeds at a failpoint, even ones at a random moment."""
    dice = random.Random(seed)
    point = OF_THE_LEDGER[seed // 2 % len(OF_THE_LEDGER)] if seed % 2 else None
    process = processes.Process(
        target=write_until_killed, args=(str(path), str(diary), seed, point, dice.randint(1, 4))
    )
    process.start()
    try:
        if point is None:
            deadline = time.monotonic() + 30
            while not diary.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(dice.uniform(0.0, 0.15))
            os.kill(process.pid, signal.SIGKILL)
        # A ledger is made only once a store; there the writer may never pass the point.
        process.join(120 if point != "ledger.create" else 0.5)
        assert process.exitcode == -signal.SIGKILL or point == "ledger.create", f"seed {seed}: {point} was not passed"
    finally:
        process.kill()
        process.join()


def reopened(path: Path) -> tuple[HybridStore, float]:
    """The opened store, and the CPU seconds until its first answer."""
    started, working = time.monotonic(), time.process_time()
    store = HybridStore.open(path, embedder=HashEmbedder(16))
    pool = store.recall([Probe("red boats at night")], depth=10, now=NOW)
    worked = time.process_time() - working
    assert not pool.degraded
    assert time.monotonic() - started < WAITED_SECONDS
    return store, worked


def test_kills(processes, large, tmp_path, record_property):
    content: dict[str, str] = {}
    slowest = 0.0
    for seed in range(KILLS):
        number = seed // KILLS_PER_STORE
        path = tmp_path / f"store{number}"
        if not path.exists():
            content = {}
            if number % LARGE_STORES == LARGE_STORES - 1:
                shutil.rmtree(tmp_path / f"store{number - 1}")
                shutil.copytree(large[0], path)
                content = dict(large[1])
        diary = tmp_path / f"diary{seed}"
        killed(processes, path, diary, seed)
        must, may = replay(diary, content)
        store, seconds = reopened(path)
        slowest = max(slowest, seconds)
        with store:
            found = {chunk.id: chunk.text for chunk in store.get(store.ids())}
            assert found in (must, may), f"seed {seed}: {len(found)} chunks, {len(must)} acknowledged"
            for id, text in list(found.items())[:3]:
                pool = store.recall([Probe(text)], depth=10, now=NOW)
                assert id in pool.ids, f"seed {seed}: {id} is not found"
            assert seconds < REOPEN_SECONDS, f"seed {seed}: {seconds:.2f} s to the first answer"
            assert store.verify(), f"seed {seed}: {store.verify().problems}"
        content = found
    record_property("slowest reopening to first answer, s", round(slowest, 2))
