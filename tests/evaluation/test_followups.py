"""Follow-up questions (MTRAG): the last turn with a rewriter that knows the conversation, and the last turn alone."""

from __future__ import annotations

import json

import pytest
from evaluation_toys import DATA

from benchmarks.quality_sets import by_query
from umi_common import DualRetriever, HybridStore, SearchResult
from umi_common.config import UmiConfig
from umi_common.evaluation import UmiSystem, compare, load_beir
from umi_common.sim import ScriptedLLM

GAIN_LEAST = 0.03


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "mtrag_pool").exists(), reason="../shared/data is not there")
def test_rewriting_with_the_history_beats_the_last_turn_alone():
    dataset = load_beir(DATA / "mtrag_pool")
    rewrites = {query.text: query.metadata.get("human_rewrite") for query in dataset.queries}
    human = {text: [rewrite] for text, rewrite in rewrites.items() if rewrite}
    asked = dataset.with_queries([query.id for query in dataset.queries if query.text in human])
    config = UmiConfig().replaced(routing={"mode": "always"})
    systems = {"last turn": config, "rewritten": UmiSystem(config, rewriter=ScriptedLLM(by_query(human)))}
    comparison = compare(systems, [asked], show_progress=False)
    for metric in ("ndcg@10", "recall@10"):
        assert comparison.value("rewritten", metric) >= comparison.value("last turn", metric) + GAIN_LEAST


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "mtrag_pool").exists(), reason="../shared/data is not there")
def test_the_history_helps_without_an_llm_too():
    dataset = load_beir(DATA / "mtrag_pool")
    lines = (DATA / "mtrag_pool" / "queries.jsonl").read_text("utf-8").splitlines()
    before = {query["_id"]: query["metadata"].get("history") or [] for query in map(json.loads, lines)}
    asked = [query for query in dataset.judged if before[query.id]]  # the others get the same hits either way
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(dataset.chunks)
        alone = umi.search_many([query.text for query in asked])
        told = [umi.search(query.text, history=[turn["content"] for turn in before[query.id]]) for query in asked]

    def found(results: list[SearchResult]) -> float:
        """The sum of the questions' R@10."""
        relevant = [set(dataset.relevant(query.id)) for query in asked]
        return sum(
            len(right.intersection(each.ids)) / len(right) for right, each in zip(relevant, results, strict=True)
        )

    assert found(told) >= found(alone) + GAIN_LEAST * len(dataset.judged)
