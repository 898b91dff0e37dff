"""Measure retrieval: load a collection, compare systems, tune umi to your material.

    from umi_common.evaluation import compare, load_conversations

    comparison = compare({"umi": UmiConfig(), "bm25": arm("lexical")}, load_conversations("data/locomo"))
    print(comparison)

Needs the extra `eval` (ir-measures; matplotlib for plots, pandas for frames).
"""

from umi_common.evaluation.beir import Keys, load_beir, load_conversations
from umi_common.evaluation.collections import load_folder
from umi_common.evaluation.compare import compare
from umi_common.evaluation.comparison import Comparison, Failure, Row
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.evaluation.haystacks import load_haystacks
from umi_common.evaluation.metrics import diversity, duplication, score_rankings
from umi_common.evaluation.significance import Difference, Estimate, bootstrap_mean, holm, paired_randomisation
from umi_common.evaluation.systems import Answer, UmiSystem, arm
from umi_common.evaluation.tune import Between, Trial, Tuning, tune
from umi_common.evaluation.vectors import PrecomputedEmbedder, load_vectors

__all__ = [
    "Answer",
    "Between",
    "Comparison",
    "Dataset",
    "Difference",
    "Estimate",
    "Failure",
    "Keys",
    "PrecomputedEmbedder",
    "Query",
    "Row",
    "Trial",
    "Tuning",
    "UmiSystem",
    "arm",
    "bootstrap_mean",
    "compare",
    "diversity",
    "duplication",
    "holm",
    "load_beir",
    "load_conversations",
    "load_folder",
    "load_haystacks",
    "load_vectors",
    "paired_randomisation",
    "score_rankings",
    "tune",
]
