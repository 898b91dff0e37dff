"""The smallest quality on LoCoMo dev with the default model and no LLM. `make bench-quality` measures the rest."""

from __future__ import annotations

import pytest
from evaluation_toys import DATA

from umi_common import UmiConfig
from umi_common.evaluation import arm, compare, load_conversations

RECALL_LEAST = 0.76


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "locomo").exists(), reason="../shared/data is not there")
def test_umi_finds_the_evidence_in_long_conversations():
    systems = {"umi": UmiConfig(), "lexical": arm("lexical"), "dense": arm("dense")}
    comparison = compare(systems, load_conversations(DATA / "locomo"), ks=(10,), show_progress=False)
    assert comparison.value("umi", "recall@10") >= RECALL_LEAST
    for other in ("lexical", "dense"):
        assert comparison.value("umi", "ndcg@10") > comparison.value(other, "ndcg@10")
        assert comparison.versus(other, "ndcg@10")["umi"].p_value < 0.01
