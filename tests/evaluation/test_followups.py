"""Follow-up questions (MTRAG): the last turn with a rewriter that knows the conversation, and the last turn alone."""

from __future__ import annotations

import json

import pytest
from evaluation_toys import DATA

from benchmarks.quality_sets import by_query
from umi_common import DualRetriever, HybridStore
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
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(dataset.chunks)

        def recall(told: bool) -> float:
            """Mean R@10 of the questions, with the conversations before them or without."""
            found = []
            for query in dataset.judged:
                history = [turn["content"] for turn in before[query.id]] if told else []
                relevant = set(dataset.relevant(query.id))
                found.append(len(relevant.intersection(umi.search(query.text, history=history).ids)) / len(relevant))
            return sum(found) / len(found)

        assert recall(told=True) >= recall(told=False) + GAIN_LEAST
