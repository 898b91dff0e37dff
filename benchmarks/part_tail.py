"""Real passages and questions of every mix: p50, p95 and the slowest, of the hybrid search and of BM25 alone.

The dev sets' passages, one after the other, repeated under other ids where they are fewer than asked for. No two mixes
share a question; each question is asked REPEATS times and its median counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import Plan, Row
from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.protocols import Strategy
from umi_common.sim import HashEmbedder

WHAT = "tail, real passages"
SIZES = (10_000, 100_000)
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
QUESTIONS = 200
PASTED = 20
PASTED_BYTES = 2_000
REPEATS = 3
BATCH = 10_000
RARE = "zeppelin"
"""A word that three chunks get."""
COMMON = (f"what is the {RARE}", f"how did they get it to be a {RARE}", f"who was in the {RARE} and what did he do")
FUNCTION_WORDS = ("to be or not to be", "what is it that you did", "who are they and why")


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row for each mix and strategy."""
    if not DATA.is_dir():
        return [{"what": WHAT, "size": size, "system": "umi", "skipped": "the evaluation data is not there"}]
    texts, questions = list(_lines("corpus.jsonl")), list(_lines("queries.jsonl"))
    random = np.random.default_rng(8)
    order = random.permutation(np.arange(size) % len(texts)).tolist()
    asked = [questions[at] for at in random.choice(len(questions), QUESTIONS, replace=False).tolist()]
    pasted = [_pasted(texts, random.choice(len(texts), 40).tolist()) for _ in range(PASTED)]
    mixes = {
        "questions": asked,
        "questions and pasted text": [*asked[PASTED:], *pasted],
        "common words and a rare one": COMMON,
        "function words alone": FUNCTION_WORDS,
    }
    with HybridStore.open(embedder=HashEmbedder()) as store:
        for start in range(0, size, BATCH):
            rows = range(start, min(start + BATCH, size))
            store.add(
                [Chunk(id=f"{row:07d}", text=texts[order[row]] + f" {RARE}" * (row % (size // 3) == 7)) for row in rows]
            )
        say("store filled")
        retriever = DualRetriever(store)
        return [
            _row(size, mix, retriever, some, strategy) for mix, some in mixes.items() for strategy in ("hybrid", "text")
        ]


def _row(size: int, mix: str, retriever: DualRetriever, questions: Sequence[str], strategy: Strategy) -> Row:
    for question in questions:  # once before it counts: the terms of all are cached, as in a store in use
        retriever.search(question, strategy=strategy)
    times = np.median([_asked(retriever, questions, strategy) for _ in range(REPEATS)], axis=0)
    p50, p95 = np.quantile(times, (0.5, 0.95)).tolist()
    figures = {"p50_ms": p50, "p95_ms": p95, "max_ms": float(times.max())}
    return {"what": WHAT, "size": size, "system": f"{mix}, {strategy}", **figures}


def _asked(retriever: DualRetriever, questions: Sequence[str], strategy: Strategy) -> list[float]:
    """Milliseconds of each question."""
    times = []
    for question in questions:
        begun = time.perf_counter()
        retriever.search(question, strategy=strategy)
        times.append((time.perf_counter() - begun) * 1e3)
    return times


def _pasted(texts: Sequence[str], rows: Sequence[int]) -> str:
    return " ".join(texts[row] for row in rows).encode()[:PASTED_BYTES].decode(errors="ignore")


def _lines(name: str) -> Iterator[str]:
    """The texts of all files of a name, in the order of their paths; those in English."""
    for path in sorted(DATA.rglob(name)):
        if "xquad" not in path.parts:
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if text := f"{record.get('title') or ''} {record['text']}".strip():
                    yield text
