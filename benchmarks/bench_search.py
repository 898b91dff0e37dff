"""How fast is a hybrid search? umi beside both frameworks' hybrids, and the ranking stages by themselves.

    python benchmarks/bench_search.py [--chunks 10000] [--rounds 5] [--queries 60] [--json FILE]

Seeded Zipf text of 43 words a chunk, 384-d random unit vectors, the same for all; systems are interleaved query by
query and the median is told. Every hybrid must find the chunk that a query was made from.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from quality_peers import importable_peers

from umi_common.embedders import CallableEmbedder, unit_rows
from umi_common.evaluation import Dataset, Query
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.ranking.fusion import rrf_ordinals
from umi_common.ranking.mmr import mmr
from umi_common.retriever import DualRetriever
from umi_common.store.hybrid import HybridStore
from umi_common.types import Chunk

DIM = 384
WORDS_EACH = 43
VOCABULARY = 20_000
SEED = 9


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line a system, write JSON; 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--json", type=Path, help="write all figures there")
    options = parser.parse_args(arguments)
    results = {"hybrid, p50 ms": hybrids(options.chunks, options.queries, options.rounds), "stages, µs": stages()}
    for title, figures in results.items():
        print(title)
        for name, figure in figures.items():
            print(f"  {name:<24} {figure:10.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def corpus(chunks: int, queries: int) -> tuple[Dataset, Embedder]:
    """Chunks, and queries of five rarer words of one chunk each."""
    random = np.random.default_rng(SEED)
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    drawn = random.choice(VOCABULARY, size=(chunks, WORDS_EACH), p=weights / weights.sum())
    texts = [" ".join(f"w{word}" for word in row) for row in drawn]
    asked = random.choice(chunks, size=queries, replace=False)
    questions = [" ".join(f"w{word}" for word in sorted(drawn[row])[-5:]) for row in asked]
    vectors = unit_rows(random.normal(size=(chunks, DIM)))
    by_text = dict(zip(texts, vectors, strict=True)) | dict(zip(questions, vectors[asked], strict=True))

    def embed(wanted: list[str]) -> Vectors:
        return np.stack([by_text[text] for text in wanted])

    dataset = Dataset(
        name="zipf",
        group="zipf",
        chunks=tuple(Chunk(f"c{row}", text) for row, text in enumerate(texts)),
        queries=tuple(Query(f"q{at}", text) for at, text in enumerate(questions)),
        qrels={f"q{at}": {f"c{row}": 1} for at, row in enumerate(asked.tolist())},
    )
    return dataset, CallableEmbedder(embed, name="random", dim=DIM)


def hybrids(chunks: int, queries: int, rounds: int) -> dict[str, float]:
    """Median milliseconds a query, by system."""
    dataset, embedder = corpus(chunks, queries)
    store = HybridStore.open(embedder=embedder)
    store.add(dataset.chunks)
    umi = DualRetriever(store)
    systems: dict[str, Callable[[str], list[str]]] = {"umi": lambda query: umi.search(query, limit=10).ids}
    for name, build in importable_peers().items():
        systems[name] = _asked(build(dataset, embedder))
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for query in dataset.queries:
            for name, search in systems.items():
                begun = time.perf_counter()
                found = search(query.text)
                times[name].append((time.perf_counter() - begun) * 1e3)
                if next(iter(dataset.qrels[query.id])) not in found:
                    raise SystemExit(f"{name} does not find the chunk that {query.id} was made from")
    store.close()
    return {name: statistics.median(each) for name, each in times.items()}


def _asked(retriever: Any) -> Callable[[str], list[str]]:
    if hasattr(retriever, "invoke"):
        return lambda query: [document.id for document in retriever.invoke(query)]
    return lambda query: [hit.node.node_id for hit in retriever.retrieve(query)]


def stages() -> dict[str, float]:
    """Median microseconds of a ranking stage by itself, LangChain's MMR beside ours."""
    random = np.random.default_rng(SEED)
    lists = [random.permutation(1_500)[:1_000], random.permutation(1_500)[:1_000]]
    vectors = unit_rows(random.normal(size=(50, DIM)))
    query = unit_rows(random.normal(size=(1, DIM)))[0]
    scores = np.asarray(vectors @ query, dtype=np.float64)
    timed = {
        "RRF 2 x 1,000": _microseconds(lambda: rrf_ordinals(lists, [1.0, 1.0], size=1_500)),
        "MMR 50 -> 10": _microseconds(lambda: mmr(scores, vectors, limit=10, trade_off=0.5)),
    }
    try:
        from langchain_core.vectorstores.utils import maximal_marginal_relevance
    except ImportError:
        return timed
    rows = [row.tolist() for row in vectors]
    theirs = maximal_marginal_relevance(query, rows, lambda_mult=0.5, k=10)
    if theirs != mmr(scores, vectors, limit=10, trade_off=0.5).tolist():
        raise SystemExit("MMR differs from LangChain's")
    timed["MMR, LangChain"] = _microseconds(lambda: maximal_marginal_relevance(query, rows, lambda_mult=0.5, k=10), 20)
    return timed


def _microseconds(run: Callable[[], object], repeats: int = 500) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
