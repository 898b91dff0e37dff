"""Bulk ingestion: one process beside Ray with two workers, and Ray with a worker and then the driver killed.

Chunks as JSONL in eight files, into a HybridStore: read, chunked, embedded and written durably. The embedder is the
seeded one of `umi_common.sim`, and on a tenth of the chunks the embedded default. Every run is one process of its own;
its clock begins when the store is open and, with Ray, its workers have answered. Every store is then read from the
first id to the last: each is there once, or the run fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpus import chunk_id, make_corpus
from benchmarks.harness import Plan, Row
from umi_common.embedders import default_embedder
from umi_common.ingest import ingest
from umi_common.protocols import Embedder
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

SIZES = (200_000,)
FILES = 8
WORKERS = 2
DIM = 64
SAMPLE = 10
"""With the embedded default embedder, one chunk in SAMPLE is ingested, because it is slower."""
EMBEDDERS: dict[str, Callable[[], Embedder]] = {"sim": partial(HashEmbedder, DIM), "embedded default": default_embedder}


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Chunks a second of each way, and what the kills cost."""
    rows: list[Row] = []
    for embedder, count in (("sim", size), ("embedded default", size // SAMPLE)):
        with tempfile.TemporaryDirectory() as home:
            docs = Path(home) / "docs"
            write_corpus(docs, count)
            for system in ("one process", "Ray, 2 workers"):
                seconds = ran(Path(home), docs, system, embedder, count)
                rows.append(_row(system, embedder, count, seconds))
                say(f"{system}, {embedder}: {count / seconds:.0f} chunks/s, each of {count} ids once")
            if embedder == "sim":
                rows.append(killed(Path(home), docs, count, say))
    return rows


def write_corpus(docs: Path, count: int) -> None:
    """`count` records in FILES files."""
    docs.mkdir()
    texts = make_corpus(count).texts()
    for number in range(FILES):
        with (docs / f"{number}.jsonl").open("w", encoding="utf-8") as file:
            for row in range(number, count, FILES):
                file.write(json.dumps({"id": chunk_id(row), "text": texts[row], "turn": row}) + "\n")


def ran(home: Path, docs: Path, system: str, embedder: str, count: int) -> float:
    """Seconds of an undisturbed run."""
    name = f"{system} {embedder}"
    ended = _drive(home / name, docs, system, embedder, kill=False)
    if ended.returncode:
        raise SystemExit(f"{name} failed: {ended.stderr[-2000:]}")
    check(home / name, embedder, count)
    return float(json.loads(ended.stdout.splitlines()[-1])["seconds"])


def killed(home: Path, docs: Path, count: int, say: Callable[[str], None]) -> Row:
    """A worker dies after a third of the batches, the driver after two thirds; then the same call again."""
    store = home / "killed"
    first = _drive(store, docs, "Ray, 2 workers", "sim", kill=True)
    if first.returncode != -signal.SIGKILL:
        raise SystemExit(
            f"the driver should have been killed and ended with {first.returncode}: {first.stderr[-2000:]}"
        )
    told = [json.loads(line) for line in first.stdout.splitlines() if line.startswith("{")]
    if not any("worker" in line for line in told):
        raise SystemExit("no worker was killed")
    left = _alive(told[-1]["processes"])
    second = _drive(store, docs, "Ray, 2 workers", "sim", kill=False)
    if second.returncode:
        raise SystemExit(f"the rerun failed: {second.stderr[-2000:]}")
    report = json.loads(second.stdout.splitlines()[-1])
    check(store, "sim", count)
    say(f"a worker and the driver killed: each of {count} ids once, {report['skipped']} parts not repeated")
    return {
        "what": "a worker and the driver killed, then the same call again",
        "system": "Ray, 2 workers",
        "chunks": count,
        "ids there once": count,
        "seconds until the driver was killed": told[-1]["seconds"],
        "seconds of the rerun": report["seconds"],
        "chunks written by the rerun": report["chunks"],
        "parts the rerun skipped": report["skipped"],
        "processes of Ray 5 s after the driver was killed": left,
    }


def check(path: Path, embedder: str, count: int) -> None:
    """Check that every id is there once with its text; reads the whole ledger."""
    with HybridStore.open(path, embedder=EMBEDDERS[embedder]()) as store:
        after, seen = None, 0
        while page := store.scan(after=after, limit=5_000):
            for chunk in page:
                if chunk.id != chunk_id(seen) or chunk.metadata["turn"] != seen:
                    raise SystemExit(f"{path.name}: {chunk.id} in place of {chunk_id(seen)}")
                seen += 1
            after = page[-1].id
        if seen != count or len(store) != count:
            raise SystemExit(f"{path.name}: {seen} of {count} ids")


def _row(system: str, embedder: str, count: int, seconds: float) -> Row:
    return {
        "what": f"ingest, {embedder} embedder",
        "system": system,
        "chunks": count,
        "seconds": seconds,
        "chunks/s": count / seconds,
        "load average beside it": os.getloadavg()[0],
    }


def _drive(store: Path, docs: Path, system: str, embedder: str, *, kill: bool) -> subprocess.CompletedProcess[str]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.part_ingest", str(store), str(docs), system, embedder, str(int(kill))]
    return subprocess.run(command, capture_output=True, text=True, timeout=3_000, check=False)


def _alive(processes: Sequence[int]) -> int:
    """Number of these processes that still run after 5 s."""
    import psutil

    time.sleep(5)
    return sum(1 for each in processes if psutil.pid_exists(each))


def main(store: str, docs: str, system: str, embedder: str, kill: str) -> None:
    """The process of one run; it prints a line of JSON for each event."""
    begun: list[float] = []
    asked = 0
    batches = 2 * sum(path.stat().st_size for path in Path(docs).iterdir()) // (1 << 20)

    def between() -> bool:
        """Called before each file and after each batch."""
        nonlocal asked
        begun.append(time.perf_counter())
        asked += 1
        if kill == "1" and asked == batches // 6:
            _tell(worker=_kill_a_worker(), seconds=time.perf_counter() - begun[0])
        if kill == "1" and asked == batches // 3:
            _tell(processes=_children(), seconds=time.perf_counter() - begun[0])
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    own = None if embedder == "embedded default" else EMBEDDERS[embedder]()
    open_store = partial(HybridStore.open, store, embedder=own)
    if system == "one process":
        with open_store() as opened:
            report = ingest(opened, [docs], checkpoint=f"{store}.checkpoint", relative_to=docs, stop=between)
    else:
        from umi_common.ingest.ray.run import ingest_on_ray

        report = ingest_on_ray(
            open_store,
            [docs],
            checkpoint=f"{store}.checkpoint",
            open_embedder=EMBEDDERS[embedder],
            workers=WORKERS,
            relative_to=docs,
            stop=between,
        )
    if report.problems:
        raise SystemExit(str(report.problems[0]))
    _tell(seconds=time.perf_counter() - begun[0], chunks=report.chunks, skipped=report.parts_skipped)


def _children() -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process().children(recursive=True)]


def _kill_a_worker() -> int:
    import psutil

    for each in psutil.Process().children(recursive=True):
        if each.name().startswith("ray::_Worker") or "ray::_Worker" in " ".join(each.cmdline()):
            each.kill()
            return int(each.pid)
    raise SystemExit("no worker to kill")


def _tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
