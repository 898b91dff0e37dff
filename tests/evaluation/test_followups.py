"""Follow-up questions (MTRAG): the last turn with a rewriter that knows the conversation, and the last turn alone."""

from __future__ import annotations

import pytest
from evaluation_toys import DATA

from umi_common.config import UmiConfig
from umi_common.evaluation import UmiSystem, compare, load_beir
from umi_common.sim import CassetteLLM

GAIN_LEAST = 0.03


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "mtrag_pool").exists(), reason="../shared/data is not there")
def test_rewriting_with_the_history_beats_the_last_turn_alone():
    dataset = load_beir(DATA / "mtrag_pool")
    rewrites = {query.text: query.metadata.get("human_rewrite") for query in dataset.queries}
    human = {text: [rewrite] for text, rewrite in rewrites.items() if rewrite}
    asked = dataset.with_queries([query.id for query in dataset.queries if query.text in human])
    config = UmiConfig().replaced(routing={"mode": "always"})
    systems = {"last turn": config, "rewritten": UmiSystem(config, rewriter=CassetteLLM.from_pairs(human))}
    comparison = compare(systems, [asked], show_progress=False)
    for metric in ("ndcg@10", "recall@10"):
        assert comparison.value("rewritten", metric) >= comparison.value("last turn", metric) + GAIN_LEAST
