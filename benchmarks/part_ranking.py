"""The pure stages by themselves: fusion of two lists of 1,000, and MMR from 50 to 10, beside the peers'."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Plan, Row, alternated, timing
from umi_common.embedders import unit_rows
from umi_common.pool import FIRST_RANK, NOT_RANKED, best_first
from umi_common.ranking.fusion import rrf
from umi_common.ranking.mmr import mmr

SIZES = (0,)
"""Nothing here depends on the number of chunks."""
FUSION, MMR = "weighted RRF, 2 x 1,000", "MMR, 50 to 10, 384-d"
DIM, POOL, LIMIT, TRADE_OFF = 384, 50, 10, 0.7
LONG, AMONG = 1_000, 1_500
System = Callable[[], Any]


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system of each stage; every answer is compared with umi's before it is timed."""
    return [*_compared(FUSION, fusion(), plan, say), *_compared(MMR, diversity(), plan, say)]


def _compared(what: str, systems: dict[str, System | str], plan: Plan, say: Callable[[str], None]) -> list[Row]:
    runs = {name: system for name, system in systems.items() if not isinstance(system, str)}
    truth, rows, agrees = runs["umi"](), [], {}
    for name, run in runs.items():
        agrees[name] = sum(ours == theirs for ours, theirs in zip(truth, run(), strict=False)) / len(truth)
    spent = alternated(runs, rounds=plan.rounds, repeats=plan.questions)
    for name, system in systems.items():
        row: Row = {"what": what, "size": None, "system": name}
        if isinstance(system, str):
            rows.append({**row, "skipped": system})
            say(f"{name}: left out, {system}")
            continue
        pairs = zip(spent[name], spent["umi"], strict=True)
        times = statistics.median(statistics.median(theirs) / statistics.median(own) for theirs, own in pairs)
        rows.append({**row, **timing(spent[name]), "times": times, "agrees": agrees[name]})
    return rows


def _or_reason(make: Callable[[], System]) -> System | str:
    try:
        return make()
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"


def fusion() -> dict[str, System | str]:
    """Each gives the ten best of two lists; "agrees" compares them place by place, so ties show."""
    random = np.random.default_rng(9)
    lists = [random.permutation(AMONG)[:LONG], random.permutation(AMONG)[:LONG]]
    plain = [each.tolist() for each in lists]
    ranks = np.full((len(lists), AMONG), NOT_RANKED)
    for own, each in zip(ranks, lists, strict=True):
        own[each] = np.arange(FIRST_RANK, len(each) + FIRST_RANK)

    def ours() -> list[int]:
        rows: list[int] = best_first(rrf(ranks, [0.6, 0.4]))[:LIMIT].tolist()
        return rows

    def dictionary() -> list[int]:
        scores: dict[int, float] = {}
        for weight, each in zip((0.6, 0.4), plain, strict=True):
            for rank, row in enumerate(each, 1):
                scores[row] = scores.get(row, 0.0) + weight / (60 + rank)
        return sorted(scores, key=lambda row: (-scores[row], row))[:LIMIT]

    def langchain() -> System:
        classic = importlib.import_module("langchain_classic.retrievers")
        documents = importlib.import_module("langchain_core.documents")
        made = [[documents.Document(str(row), metadata={"row": row}) for row in each] for each in plain]
        both = classic.EnsembleRetriever.model_construct(
            retrievers=[None, None], weights=[0.6, 0.4], c=60, id_key="row"
        )
        return lambda: [document.metadata["row"] for document in both.weighted_reciprocal_rank(made)[:LIMIT]]

    def llamaindex() -> System:
        core = importlib.import_module("llama_index.core.retrievers")
        schema, llms = (importlib.import_module(f"llama_index.core.{name}") for name in ("schema", "llms"))
        nodes = [
            [schema.NodeWithScore(node=schema.TextNode(id_=str(r), text=str(r)), score=1.0) for r in e] for e in plain
        ]
        both = core.QueryFusionRetriever([None, None], llm=llms.MockLLM(), num_queries=1)
        named = {("q", at): each for at, each in enumerate(nodes)}
        return lambda: [int(hit.node.node_id) for hit in both._reciprocal_rerank_fusion(named)[:LIMIT]]

    return {
        "umi": ours,
        "a dict in Python": dictionary,
        "LangChain EnsembleRetriever": _or_reason(langchain),
        "LlamaIndex QueryFusionRetriever, weights ignored": _or_reason(llamaindex),
    }


def diversity() -> dict[str, System | str]:
    """Each gives ten of fifty, in the order chosen; a conversion that a framework needs is included in its time."""
    random = np.random.default_rng(9)
    vectors = unit_rows(random.normal(size=(POOL, DIM)))
    query = unit_rows(random.normal(size=(1, DIM)))[0]
    scores = np.asarray(vectors @ query, dtype=np.float64)
    as_lists = [row.tolist() for row in vectors]

    def ours() -> list[int]:
        rows: list[int] = mmr(scores, vectors, limit=LIMIT, trade_off=TRADE_OFF).tolist()
        return rows

    def langchain() -> System:
        utils = importlib.import_module("langchain_core.vectorstores.utils")
        return lambda: utils.maximal_marginal_relevance(query, as_lists, lambda_mult=TRADE_OFF, k=LIMIT)

    def llamaindex() -> System:
        utils = importlib.import_module("llama_index.core.indices.query.embedding_utils")

        def run() -> list[int]:
            _, chosen = utils.get_top_k_mmr_embeddings(
                query.tolist(), as_lists, similarity_top_k=LIMIT, mmr_threshold=TRADE_OFF
            )
            return [int(row) for row in chosen]

        return run

    def pyversity() -> System:
        library = importlib.import_module("pyversity")

        def run() -> list[int]:
            found = library.diversify(
                embeddings=vectors, scores=scores, k=LIMIT, strategy=library.Strategy.MMR, diversity=1.0 - TRADE_OFF
            )
            return [int(row) for row in found.indices]

        return run

    return {
        "umi": ours,
        "pyversity": _or_reason(pyversity),
        "LlamaIndex": _or_reason(llamaindex),
        "LangChain": _or_reason(langchain),
    }
