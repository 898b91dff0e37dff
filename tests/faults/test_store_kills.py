"""SIGKILL at random moments and at every failpoint: nothing acknowledged is lost, nothing is half there."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from datetime import datetime, timezone
from multiprocessing import forkserver
from pathlib import Path

import pytest
from store_writer import replay, write_until_killed

from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder
from umi_common.store.failpoints import POINTS
from umi_common.store.hybrid import HybridStore

KILLS = int(os.environ.get("UMI_TEST_KILLS", "60"))
"""UMI_TEST_KILLS=500 runs the long form."""
KILLS_PER_STORE = 10
REOPEN_SECONDS = 2.0
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


def killed(processes, path, diary, seed: int) -> None:
    """One life of a writer: odd seeds die at a failpoint, even ones at some moment."""
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
        process.join(20 if point != "ledger.create" else 0.5)
        assert process.exitcode == -signal.SIGKILL or point == "ledger.create", f"seed {seed}: {point} was not passed"
    finally:
        process.kill()
        process.join()


def test_kills(processes, tmp_path):
    content: dict[str, str] = {}
    for seed in range(KILLS):
        path = tmp_path / f"store{seed // KILLS_PER_STORE}"
        if not path.exists():
            content = {}
        diary = tmp_path / f"diary{seed}"
        killed(processes, path, diary, seed)
        must, may = replay(diary, content)
        started = time.monotonic()
        with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
            found = {chunk.id: chunk.text for chunk in store.get(store.ids())}
            assert found in (must, may), f"seed {seed}: {len(found)} chunks, {len(must)} acknowledged"
            for id, text in list(found.items())[:3]:
                pool = store.recall([Probe(text)], depth=10, now=NOW)
                assert id in pool.ids, f"seed {seed}: {id} is not found"
                assert not pool.degraded
            assert time.monotonic() - started < REOPEN_SECONDS
            assert store.verify(), f"seed {seed}: {store.verify().problems}"
        content = found
