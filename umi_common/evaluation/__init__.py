"""Measure retrieval: load a collection, compare systems, tune umi to your own documents.

    from umi_common import UmiConfig
    from umi_common.evaluation import arm, compare, load_conversations

    comparison = compare({"umi": UmiConfig(), "bm25": arm("lexical")}, load_conversations("data/locomo"))
    print(comparison)

Needs the extra `eval` (ir-measures; matplotlib for plots, pandas for frames).

    datasets      documents, queries, and judgements of which documents answer which query
    folders       reads folders in the layouts of BEIR and LongMemEval as datasets
    systems       umi and other retrievers as functions from a query to ids; the store and the vectors of each dataset
    compare       runs every system on every dataset; the results: rows, significance, failures, tables
    metrics       metrics of a ranked list (relevance, diversity, duplication), and of latency
    significance  confidence intervals and paired tests
    tune          searches for the best settings on training groups; measures them on held-out groups
    plots         figures; _figure imports matplotlib
"""

from umi_common.evaluation.compare import Failure, Row, SystemComparison, compare
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.evaluation.folders import Keys, load_beir, load_conversations, load_folder, load_haystacks
from umi_common.evaluation.metrics import diversity, duplication, score_rankings
from umi_common.evaluation.significance import Difference, Estimate, bootstrap_mean, holm, paired_randomisation
from umi_common.evaluation.systems import Answer, UmiSystem, arm
from umi_common.evaluation.tune import Between, Trial, Tuning, tune

__all__ = [
    "Answer",
    "Between",
    "Dataset",
    "Difference",
    "Estimate",
    "Failure",
    "Keys",
    "Query",
    "Row",
    "SystemComparison",
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
    "paired_randomisation",
    "score_rankings",
    "tune",
]
