"""How fast does a store take chunks in? One turn at a time, in bulk beside langchain-chroma, and from the disk.

    python benchmarks/bench_store.py [--chunks 10000] [--large 100000] [--turns 200] [--json FILE]

Seeded Zipf text of 43 words a chunk, in sources of 50; 384-d random vectors made beforehand, so no figure holds any
embedding. Every write is durable (SQLite, synchronous=FULL) and can be searched when it is timed as done. Both systems
take the same chunks in the same batches, in turn; opening and closing are not timed; the median of the rounds is told.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.embedders import CallableEmbedder, unit_rows
from umi_common.pool import Vectors
from umi_common.protocols import Probe
from umi_common.store.hybrid import HybridStore
from umi_common.types import Chunk

DIM = 384
WORDS_EACH = 43
VOCABULARY = 20_000
SOURCE_CHUNKS = 50
BATCH = 5_000
"""Chroma refuses batches above 5,461."""
ROUNDS = 3
DEPTH = 200
"""Candidates of a recall, each arm: the default of a search."""
SEED = 3
SCANNED = UmiConfig(dense={"exact_up_to": 10_000_000})
"""The dense arm by its exact scan; above 50,000 chunks the building of Chroma's index would run beside the timing."""
Seconds = tuple[float, float]
"""Until everything was added, and until one question after that was answered."""
NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line a figure, write JSON; 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=100_000, help="chunks of the store that is opened; 0: leave out")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args(arguments)
    results: dict[str, dict[str, float]] = {}
    sizes = list(dict.fromkeys(size for size in (options.chunks, options.large) if size))
    for chunks in sizes:  # first, while no peer's threads run in this process
        results[f"one store of {chunks} chunks"] = one_store(chunks, options.turns)
    for chunks in sizes:
        results[f"bulk add, {chunks} chunks"] = bulk(chunks, ROUNDS if chunks == options.chunks else 1)
    for title, figures in results.items():
        print(title)
        for name, figure in figures.items():
            print(f"  {name:<44} {figure:12.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def corpus(chunks: int) -> tuple[list[Chunk], Vectors]:
    """Chunks and their vectors."""
    random = np.random.default_rng(SEED)
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    drawn = random.choice(VOCABULARY, size=(chunks, WORDS_EACH), p=weights / weights.sum())
    words = [word(number) for number in range(VOCABULARY)]
    made = [
        Chunk(
            f"c{row:06}",
            " ".join([words[number] for number in numbers]),
            metadata={"user": f"u{row % 7}", "turn": row},
            source=f"chat-{row // SOURCE_CHUNKS}",
            position=row % SOURCE_CHUNKS,
            event_time=NOW - timedelta(minutes=row),
        )
        for row, numbers in enumerate(drawn.tolist())
    ]
    return made, unit_rows(random.normal(size=(chunks, DIM)))


def word(number: int) -> str:
    """A word of letters, another one for each number: "ba", "ca", ..., "baba", ..."""
    syllables = []
    number += 1
    while number:
        number, rest = divmod(number, 80)
        syllables.append("bcdfghjklmnprstv"[rest % 16] + "aeiou"[rest // 16])
    return "".join(syllables)


def bulk(chunks: int, rounds: int) -> dict[str, float]:
    """Documents a second into a new directory, and how many times the peer's: the adds alone, and until one answer.

    Both, because Chroma may put rows into its index after its add has returned.
    """
    made, vectors = corpus(chunks)
    systems: dict[str, Callable[[Path], Seconds]] = {"umi": lambda home: _bulk_umi(home, made, vectors)}
    documents = _documents(made, vectors)
    if documents is not None:
        systems["langchain-chroma"] = lambda home: _bulk_chroma(home, *documents)
    spent: dict[str, list[Seconds]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, add in systems.items():
            with tempfile.TemporaryDirectory() as home:
                gc.collect()
                spent[name].append(add(Path(home)))
    figures: dict[str, float] = {}
    for part, until in enumerate(("added", "added and asked")):
        rates = {name: [chunks / seconds[part] for seconds in each] for name, each in spent.items()}
        figures |= {f"{name}, documents/s {until}": statistics.median(each) for name, each in rates.items()}
        if documents is not None:
            ratios = [ours / peer for ours, peer in zip(rates["umi"], rates["langchain-chroma"], strict=True)]
            figures[f"ratio {until} (bar: 20)"] = statistics.median(ratios)
    return figures


def _bulk_umi(home: Path, made: Sequence[Chunk], vectors: Vectors) -> Seconds:
    with HybridStore.open(home / "s", embedder=_never(), config=SCANNED) as store:
        begun = time.perf_counter()
        for start in range(0, len(made), BATCH):
            store.add(made[start : start + BATCH], vectors=vectors[start : start + BATCH])
        added = time.perf_counter() - begun
        _recall(store, made[7].text, vectors[7])
        return added, time.perf_counter() - begun


def _bulk_chroma(home: Path, documents: Sequence[Any], known: Any) -> Seconds:
    from langchain_chroma import Chroma

    store = Chroma("bench", known, persist_directory=str(home / "c"))
    begun = time.perf_counter()
    for start in range(0, len(documents), BATCH):
        store.add_documents(documents[start : start + BATCH])
    added = time.perf_counter() - begun
    store.similarity_search(documents[7].page_content, k=10)
    return added, time.perf_counter() - begun


def _documents(made: Sequence[Chunk], vectors: Vectors) -> tuple[list[Any], Any] | None:
    """The chunks as LangChain takes them, and an embedding that looks their vectors up; None: it is not installed."""
    try:
        import langchain_chroma  # noqa: F401
        from langchain_core.documents import Document
        from langchain_core.embeddings import Embeddings
    except ImportError:
        return None
    by_text = dict(zip([chunk.text for chunk in made], vectors.tolist(), strict=True))

    class Known(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [by_text[text] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return by_text[text]

    documents = [Document(id=chunk.id, page_content=chunk.text, metadata=dict(chunk.metadata)) for chunk in made]
    return documents, Known()


def one_store(chunks: int, turns: int) -> dict[str, float]:
    """Milliseconds: a turn durable and found, its parts, a recall by itself, and opening to the first answer."""
    made, vectors = corpus(chunks)
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "s"
        with HybridStore.open(path, embedder=_never(), config=SCANNED) as store:
            for start in range(0, chunks, BATCH):
                store.add(made[start : start + BATCH], vectors=vectors[start : start + BATCH])
            adds, finds = _turns(store, made, vectors, turns)
            asked = [at * 31 % chunks for at in range(turns)]
            recalls = [_recall(store, " ".join(made[at].text.split()[:5]), vectors[at])[1] for at in asked]
        opened, answered = _open(path, made[7].text, vectors[7])
    both = [add + find for add, find in zip(adds, finds, strict=True)]
    return {
        "a turn durable and found, p50 ms (bar: 5)": statistics.median(both),
        "  of it the durable add, p50 ms": statistics.median(adds),
        "  of it the recall that finds it, p50 ms": statistics.median(finds),
        "  both, p95 ms": float(np.quantile(both, 0.95)),
        "recall, nothing written before, p50 ms": statistics.median(recalls),
        "open, ms": opened,
        "open to first answer, ms (bar: 1000)": answered,
    }


def _turns(store: HybridStore, made: Sequence[Chunk], vectors: Vectors, turns: int) -> tuple[list[float], list[float]]:
    adds, finds = [], []
    for turn in range(turns):
        known = turn * 17 % len(made)
        text = f"{made[known].text} needle{word(turn)}"
        chunk = Chunk(f"turn-{turn}", text, metadata={"user": "u1"}, source="live", position=turn, event_time=NOW)
        with _timed(adds):
            store.add([chunk], vectors=vectors[known : known + 1])
        found, spent = _recall(store, f"needle{word(turn)} {' '.join(text.split()[:4])}", vectors[-1 - known])
        finds.append(spent)
        if chunk.id not in found:
            raise SystemExit(f"{chunk.id} was added and is not found")
    return adds, finds


def _recall(store: HybridStore, text: str, vector: Vectors) -> tuple[Sequence[str], float]:
    spent: list[float] = []
    with _timed(spent):
        pool = store.recall([Probe(text, vector)], depth=DEPTH, now=NOW, around=1)
    return pool.ids, spent[0]


def _open(path: Path, text: str, vector: Vectors) -> tuple[float, float]:
    """Median milliseconds until open() returns, and until the first recall has answered."""
    opened: list[float] = []
    answered: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        with _timed(answered):
            with _timed(opened):
                store = HybridStore.open(path, embedder=_never(), config=SCANNED)
            _recall(store, text, vector)
        store.close()
    return statistics.median(opened), statistics.median(answered)


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    """Append the milliseconds that the block took."""
    begun = time.perf_counter()
    yield
    into.append((time.perf_counter() - begun) * 1e3)


def _never() -> CallableEmbedder:
    """All vectors are given; an embedder that is asked is a fault of the benchmark."""

    def embed(texts: Sequence[str]) -> Any:
        raise AssertionError(f"asked to embed {len(texts)} texts")

    return CallableEmbedder(embed, name="given", dim=DIM)


if __name__ == "__main__":
    raise SystemExit(main())
