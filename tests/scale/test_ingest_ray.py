"""On Ray, two workers: a worker, a writer and a driver are killed, and each chunk is there exactly once."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from ingest_toys import DIM, PART, Deadly, content, on_ray, opened, opened_by_one_who_dies, write_records

from umi_common.errors import ConfigError, StoreLocked
from umi_common.ingest import ingest
from umi_common.ingest.ray import run as ingest_ray
from umi_common.ingest.ray.run import ingest_on_ray
from umi_common.sim import HashEmbedder

pytest.importorskip("ray", reason="ray is not installed: pip install 'umi-retrieval[scale]'")
pytestmark = pytest.mark.slow
RECORDS = 300


def processes_of_ray() -> set[int]:
    """The processes of Ray that descend from this one."""
    import psutil

    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.fixture(scope="module")
def ray():
    """The local Ray that `ingest_on_ray` starts where none is connected, though the environment names a cluster.

    It leaves nothing behind.
    """
    before, usage = processes_of_ray(), os.environ.get("RAY_USAGE_STATS_ENABLED")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)  # for workers that need ingest_toys
        patch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        with ingest_ray._ray(2) as started:
            assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
            yield started
    assert processes_of_ray() <= before
    assert os.environ.get("RAY_USAGE_STATS_ENABLED") == usage


@pytest.fixture()
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    write_records(folder / "a.jsonl", range(RECORDS))
    (folder / "b.md").write_text("# Boiler\n\nThe boiler leaks.")
    return folder


def check_each_once(path: Path, docs: Path) -> None:
    with opened(path) as store:
        found = content(store)
        assert {id for id in found if id.startswith("r")} == {f"r{number}" for number in range(RECORDS)}
        assert len(found) == RECORDS + 1
        assert store.verify()


def test_a_killed_worker_and_a_killed_writer_cost_nothing_but_time(ray, docs, tmp_path):
    report = ingest_on_ray(
        partial(opened_by_one_who_dies, tmp_path / "s", tmp_path / "writer died"),
        [docs],
        checkpoint=tmp_path / "c",
        open_embedder=partial(Deadly, tmp_path / "worker died"),
        workers=2,
        part_bytes=PART,
    )
    assert (tmp_path / "worker died").exists() and (tmp_path / "writer died").exists()
    assert (report.finished, report.chunks, report.problems) == (2, RECORDS + 1, [])
    check_each_once(tmp_path / "s", docs)


def test_after_a_killed_driver_the_same_call_goes_on(ray, docs, tmp_path):
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, str(Path(__file__).parent / "ingest_toys.py"), str(tmp_path / "s"), str(docs), "3"]
    ended = subprocess.run([*command, address], capture_output=True, text=True, timeout=100)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    report = on_ray(tmp_path / "s", docs)
    assert report.parts_skipped >= 2 and report.finished == 2
    check_each_once(tmp_path / "s", docs)
    with opened(tmp_path / "s") as store, opened(tmp_path / "alone") as other:
        ingest(other, [docs], relative_to="/")
        assert content(other).values() != [] and len(other) == len(store)


def test_files_that_one_process_ingested_are_known_to_ray_and_not_stored_twice(ray, docs, tmp_path):
    with opened(tmp_path / "s") as store:
        ingest(store, [docs], checkpoint=tmp_path / "c", part_bytes=PART)
        before = content(store)
    report = ingest_on_ray(
        partial(opened, tmp_path / "s"),
        [docs],
        checkpoint=tmp_path / "c",
        open_embedder=partial(HashEmbedder, DIM),
        workers=1,
        part_bytes=PART,
    )
    assert (report.finished, report.unchanged) == (0, 2)
    with opened(tmp_path / "s") as store:
        assert content(store) == before


def test_errors_come_back_as_what_they_are(ray, docs, tmp_path):
    with pytest.raises(ConfigError, match="hash/8"):
        ingest_on_ray(
            partial(opened, tmp_path / "s"), [docs], checkpoint=tmp_path / "c", open_embedder=partial(HashEmbedder, 8)
        )
    with pytest.raises(ConfigError, match="hash/8"):
        ingest_on_ray(
            partial(opened, tmp_path / "t"),
            [docs],
            checkpoint=tmp_path / "d",
            open_embedder=partial(HashEmbedder, 8),
            each_writes=True,
        )
    for lock in (threading.Lock(), multiprocessing.Lock(), ctypes.pointer(ctypes.c_int(1))):
        with pytest.raises(ConfigError, match="open_store cannot be pickled"):
            ingest_on_ray(partial(opened, lock), [docs], checkpoint=tmp_path / "c")
    with pytest.raises(StoreLocked):
        ingest_on_ray(
            partial(opened, tmp_path / "s"),
            [docs],
            checkpoint=tmp_path / "c",
            open_embedder=partial(HashEmbedder, DIM),
            workers=1,
            each_writes=True,
        )


def test_a_file_that_kills_its_workers_is_reported_and_the_others_are_there(ray, docs, tmp_path):
    (docs / "c.md").write_text("poison")
    report = ingest_on_ray(
        partial(opened, tmp_path / "s"),
        [docs],
        checkpoint=tmp_path / "c",
        open_embedder=Deadly,
        workers=2,
        part_bytes=100,
    )
    assert [(problem.error, Path(problem.source).name) for problem in report.problems] == [("WorkerDied", "c.md")]
    check_each_once(tmp_path / "s", docs)


@pytest.mark.parametrize("workers", [0, 1.5, "2"])
def test_no_worker_is_refused(docs, tmp_path, workers):
    with pytest.raises(ConfigError, match=f"workers={workers!r}; expected at least 1"):
        ingest_on_ray(partial(opened, tmp_path / "s"), [docs], checkpoint=tmp_path / "c", workers=workers)
