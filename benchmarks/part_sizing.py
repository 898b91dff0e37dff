"""Disk and memory of a chunk, and processor time of a search: HybridStore, and Qdrant's engine.

Chunks of 43 words with 384-d vectors made beforehand. Qdrant's engine is the one that ships as a wheel
(`qdrant-edge-py`), one shard in this process, behind `QdrantStore`; so its figures hold no network. Memory is what a
process has of its own (RssAnon) and of files (RssFile, which the system may take back) once it searches: of HybridStore
one that opened it and did nothing else, of the engine the one that built it too, so an upper bound.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import NOW, make_chunks, make_corpus, make_vectors, question_vectors
from benchmarks.harness import Plan, Row
from umi_common.embedders import CallableEmbedder
from umi_common.protocols import Probe
from umi_common.stores.embedded.hybrid import HybridStore

SIZES = (10_000, 40_000)
DIM = 384
BATCH = 2_000
DEPTH = 200
SEARCHES = 60
SYSTEMS = ("HybridStore", "Qdrant's engine, one shard")
KINDS = {"its own": "RssAnon", "files": "RssFile"}
TESTS = Path(__file__).parents[1] / "tests" / "scale"
"""The folder of the client over Qdrant's engine."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row for each system."""
    rows: list[Row] = []
    for system in SYSTEMS:
        with tempfile.TemporaryDirectory() as home:
            command = [sys.executable, "-m", "benchmarks.part_sizing", system, str(size), home]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=2_000, check=False)
        if ended.returncode:
            rows.append({"what": "size of a chunk", "system": system, "skipped": ended.stderr.strip()[-300:]})
        else:
            rows.append(json.loads(ended.stdout.splitlines()[-1]))
        say(f"{system}: {rows[-1]}")
    return rows


def one(system: str, size: int, home: Path) -> Row:
    """Build, measure the disk, search."""
    texts = make_corpus(size).texts()
    chunks, vectors = make_chunks(texts), make_vectors(size, DIM)
    row: Row = {
        "what": "size of a chunk",
        "system": system,
        "chunks": size,
        "bytes of text": sum(len(text.encode()) for text in texts) / size,
        "terms": sum(len(set(text.split())) for text in texts) / size,
        "bytes of vector": 4 * DIM,
    }
    store = _opened(system, home)
    begun = time.process_time()
    for start in range(0, size, BATCH):
        store.add(chunks[start : start + BATCH], vectors=vectors[start : start + BATCH])
    if system != SYSTEMS[0]:
        store.shard.optimize()
        store.shard.flush()
    row["processor ms a chunk added and indexed"] = 1e3 * (time.process_time() - begun) / size
    if system == SYSTEMS[0]:
        store.close()
        command = [sys.executable, "-m", "benchmarks.part_sizing", "search", str(size), str(home)]
        row |= json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    else:
        del chunks, vectors, texts
        row |= searched(store, size, {"RssAnon": 0, "RssFile": 0})
    disk = _bytes_below(home)
    return row | {f"bytes on disk, {name}": count / size for name, count in {"all": sum(disk.values()), **disk}.items()}


def searched(store: Any, size: int, before: dict[str, int]) -> Row:
    """Figures of searches, and the memory that the process has after them."""
    corpus = make_corpus(size)
    asked = corpus.questions(SEARCHES)
    queries = question_vectors(make_vectors(size, DIM), [row for _, row in asked])
    del corpus
    wall, processor = _searches(store, asked, queries)
    engine = getattr(getattr(store, "shard", None), "spent", [])[-len(processor) :]
    after = _memory()
    return {
        "bytes of memory of its own": (after["RssAnon"] - before["RssAnon"]) / size,
        "bytes of memory of files": (after["RssFile"] - before["RssFile"]) / size,
        "search, wall p50 ms": median(wall),
        "search, processor p50 ms": median(processor),
        **({"of it in the engine, processor p50 ms": median(engine)} if engine else {}),
    }


def opened_again(size: int, home: Path) -> Row:
    """A process that only searches: its memory is the store's."""
    before = _memory()
    with _opened(SYSTEMS[0], home) as store:
        store.recall([Probe("ba", make_vectors(1, DIM)[0])], depth=DEPTH, now=NOW)
        after = _memory()
        row = searched(store, size, before)
    return row | {f"bytes of memory of {kind}": (after[name] - before[name]) / size for kind, name in KINDS.items()}


def _searches(store: Any, asked: list[tuple[str, int]], queries: Any) -> tuple[list[float], list[float]]:
    wall, processor = [], []
    for (text, _), vector in zip(asked, queries, strict=True):
        begun, spent = time.perf_counter(), time.process_time()
        store.recall([Probe(text, vector)], depth=DEPTH, now=NOW, around=1)
        wall.append(1e3 * (time.perf_counter() - begun))
        processor.append(1e3 * (time.process_time() - spent))
    return wall[10:], processor[10:]


def _opened(system: str, home: Path) -> Any:
    embedder = CallableEmbedder(_never, name="given", dim=DIM)
    if system == SYSTEMS[0]:
        return HybridStore.open(home / "store", embedder=embedder)
    sys.path.insert(0, str(TESTS))
    from edge_client import EdgeClient

    from umi_common.stores.qdrant import QdrantStore

    (home / "shard").mkdir()
    client = EdgeClient(home / "shard")
    store: Any = QdrantStore(client, "bench", embedder)
    store.shard = client._shard = Timed(client._shard)
    return store


class Timed:
    """The engine, with the processor's milliseconds that each batch of queries took in it."""

    def __init__(self, shard: Any) -> None:
        self._shard = shard
        self.spent: list[float] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._shard, name)
        if not name.startswith("query"):
            return call

        def timed(*args: Any, **named: Any) -> Any:
            begun = time.process_time()
            answer = call(*args, **named)
            self.spent.append(1e3 * (time.process_time() - begun))
            return answer

        return timed


def _never(texts: Any) -> Any:
    raise AssertionError(f"asked to embed {len(texts)} texts; all vectors are given")


def _bytes_below(home: Path) -> dict[str, int]:
    """Bytes on disk of the store's files, by part; holes of sparse files are not counted."""
    kinds = {"umi.db": "ledger", "lexical": "postings", "dense": "vectors", "vector_storage": "vectors"}
    found: dict[str, int] = {}
    for path in home.rglob("*"):
        if path.is_file():
            inside = path.relative_to(home).as_posix()
            kind = next((name for part, name in kinds.items() if part in inside), "everything else")
            if "payload" in inside:
                kind = "payload and its indexes"
            if "lexical" in inside:
                kind = "postings"
            found[kind] = found.get(kind, 0) + path.stat().st_blocks * 512
    return found


def _memory() -> dict[str, int]:
    """Bytes, by kind."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    pairs = (line.split(":", 1) for line in lines if line.startswith(("RssAnon", "RssFile")))
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}


if __name__ == "__main__":
    _what, _size, _home = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    print(json.dumps(opened_again(_size, _home) if _what == "search" else one(_what, _size, _home)))
