"""Writing and opening: one turn at a time, in bulk beside langchain-chroma, and from the disk.

Chunks in sources of 50; 384-d vectors made beforehand, so no figure holds any embedding. Every write is durable
(SQLite, synchronous=FULL) and can be searched when it is timed as done. Both systems take the same chunks in the same
batches, in turn; opening and closing are not timed; medians of the rounds.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import NOW, make_chunks, make_corpus, make_vectors, word
from benchmarks.harness import Plan, Row
from umi_common.embedders import CallableEmbedder
from umi_common.pool import Vectors
from umi_common.protocols import Probe
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

SIZES = (10_000, 100_000)
DIM = 384
BATCH = 5_000
"""Chroma refuses batches above 5,461."""
PEER_UP_TO = 10_000
"""Chunks above which the peer is left out: it takes minutes."""
TURNS = 200
DEPTH = 200
"""Candidates of a recall, each arm: the default of a search."""
NEVER_BEFORE = 10**9
"""Numbers of words that no text has."""
Seconds = tuple[float, float]
"""Seconds until everything was added, and until one question after that was answered."""


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Rows of a single store, measured before threads of a peer run in this process, then rows of bulk writing."""
    made, vectors = corpus(size)
    rows = one_store(made, vectors, plan)
    say("one store measured")
    return [*rows, *bulk(made, vectors, min(plan.rounds, 3) if size <= PEER_UP_TO else 1, say)]


def corpus(size: int) -> tuple[list[Chunk], Vectors]:
    """Chunks and their vectors."""
    return make_chunks(make_corpus(size).texts()), make_vectors(size, DIM)


def bulk(made: Sequence[Chunk], vectors: Vectors, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Documents a second into a new directory: the adds alone, and until one answer.

    Both, because Chroma may put rows into its index after its add has returned.
    """
    systems: dict[str, Callable[[Path], Seconds]] = {"umi": lambda home: _bulk_umi(home, made, vectors)}
    rows: list[Row] = []
    peer: Row = {"what": "bulk add, durable", "size": len(made), "system": "langchain-chroma"}
    if len(made) > PEER_UP_TO:
        rows.append({**peer, "skipped": "it takes minutes"})
    elif (documents := _documents(made, vectors)) is None:
        rows.append({**peer, "skipped": "langchain_chroma is not installed"})
    else:
        systems["langchain-chroma"] = lambda home: _bulk_chroma(home, *documents)
    spent: dict[str, list[Seconds]] = {name: [] for name in systems}
    for at in range(rounds):
        for name, add in systems.items():
            with tempfile.TemporaryDirectory() as home:
                gc.collect()
                spent[name].append(add(Path(home)))
        say(f"bulk, round {at + 1} of {rounds}")
    for part, what in enumerate(("bulk add, durable", "bulk add, until one answer")):
        for name, each in spent.items():
            rates = [len(made) / seconds[part] for seconds in each]
            times = [theirs[part] / own[part] for theirs, own in zip(each, spent["umi"], strict=True)]
            row = {"per_second": statistics.median(rates), "times": statistics.median(times), "rounds": rounds}
            rows.append({"what": what, "size": len(made), "system": name, **row})
    return rows


def _bulk_umi(home: Path, made: Sequence[Chunk], vectors: Vectors) -> Seconds:
    with HybridStore.open(home / "s", embedder=_never()) as store:
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


def one_store(made: Sequence[Chunk], vectors: Vectors, plan: Plan) -> list[Row]:
    """A turn durable and found, its parts, a recall by itself, opening to the first answer, and one fsync."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "s"
        with HybridStore.open(path, embedder=_never()) as store:
            for start in range(0, len(made), BATCH):
                store.add(made[start : start + BATCH], vectors=vectors[start : start + BATCH])
            adds, finds = _turns(store, made, vectors, TURNS)
            asked = [at * 31 % len(made) for at in range(TURNS)]
            recalls = [_recall(store, " ".join(made[at].text.split()[:5]), vectors[at])[1] for at in asked]
        opened, answered = _open(path, made[7].text, vectors[7], plan.rounds)
        synced = _fsyncs(Path(home) / "one", TURNS)
    both = [add + find for add, find in zip(adds, finds, strict=True)]
    figures = {
        "a turn, durable and found": both,
        "a turn: the durable add": adds,
        "a turn: the recall that finds it": finds,
        "floor: 4 kB written and one fsync": synced,
        "recall, nothing written before": recalls,
        "open": opened,
        "open, to the first answer": answered,
    }
    return [
        {
            "what": what,
            "size": len(made),
            "system": "umi",
            "p50_ms": statistics.median(each),
            "p95_ms": float(np.quantile(each, 0.95)),
            "questions": len(each),
        }
        for what, each in figures.items()
    ]


def _fsyncs(path: Path, count: int) -> list[float]:
    spent: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            with _timed(spent):
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
    return spent


def _turns(store: HybridStore, made: Sequence[Chunk], vectors: Vectors, turns: int) -> tuple[list[float], list[float]]:
    adds: list[float] = []
    finds: list[float] = []
    for turn in range(turns):
        known = turn * 17 % len(made)
        text = f"{made[known].text} {word(NEVER_BEFORE + turn)}"
        chunk = Chunk(f"turn-{turn}", text, metadata={"user": "u1"}, source="live", position=turn, event_time=NOW)
        with _timed(adds):
            store.add([chunk], vectors=vectors[known : known + 1])
        found, spent = _recall(store, f"{word(NEVER_BEFORE + turn)} {' '.join(text.split()[:4])}", vectors[-1 - known])
        finds.append(spent)
        if chunk.id not in found:
            raise SystemExit(f"{chunk.id} was added and is not found")
    return adds, finds


def _recall(store: HybridStore, text: str, vector: Vectors) -> tuple[Sequence[str], float]:
    spent: list[float] = []
    with _timed(spent):
        pool = store.recall([Probe(text, vector)], depth=DEPTH, now=NOW, around=1)
    return pool.ids, spent[0]


def _open(path: Path, text: str, vector: Vectors, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds until open() returns, and until the first recall has answered."""
    opened: list[float] = []
    answered: list[float] = []
    for _ in range(rounds):
        gc.collect()
        with _timed(answered):
            with _timed(opened):
                store = HybridStore.open(path, embedder=_never())
            _recall(store, text, vector)
        store.close()
    return opened, answered


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    """Append the milliseconds that the block took."""
    begun = time.perf_counter()
    yield
    into.append((time.perf_counter() - begun) * 1e3)


def _never() -> CallableEmbedder:
    """An embedder that must not be called, because all vectors are given."""

    def embed(texts: Sequence[str]) -> Any:
        raise AssertionError(f"asked to embed {len(texts)} texts")

    return CallableEmbedder(embed, name="given", dim=DIM)
