from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.errors import ConfigError, DatasetError
from umi_common.evaluation import diversity, duplication, score_rankings
from umi_common.evaluation.metrics import default_metrics, latency, parse_metric

GRADES = {"q": {"a": 2, "b": 1, "c": 1, "x": 0}}
"""Three relevant documents, one of them worth twice, and one judged useless."""


def measured(name: str, ids: list[str], grades: dict[str, dict[str, int]] = GRADES) -> float:
    return score_rankings(grades, {"q": ids}, [name])[name]["q"]


def test_recall_is_the_share_of_the_relevant_that_was_found():
    assert measured("recall@3", ["x", "a", "y", "b"]) == pytest.approx(1 / 3)
    assert measured("recall@4", ["x", "a", "y", "b"]) == pytest.approx(2 / 3)


def test_hit_is_1_if_any_relevant_document_was_found():
    assert measured("hit@1", ["x", "a"]) == 0.0
    assert measured("hit@2", ["x", "a"]) == 1.0


def test_precision_divides_by_k_even_where_fewer_came_back():
    assert measured("precision@5", ["a", "b"]) == pytest.approx(2 / 5)


def test_mrr_is_one_over_the_first_relevant_rank():
    assert measured("mrr@10", ["x", "y", "b", "a"]) == pytest.approx(1 / 3)
    assert measured("mrr@2", ["x", "y", "b", "a"]) == 0.0
    assert measured("mrr", ["x", "y", "z", "b"]) == pytest.approx(1 / 4)


def test_ndcg_discounts_grades_by_the_log_of_rank_plus_one():
    found = 1 / math.log2(2) + 0 + 2 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert measured("ndcg@3", ["b", "x", "a", "c"]) == pytest.approx(found / ideal)


def test_map_averages_precision_at_each_relevant_document():
    assert measured("map@10", ["a", "x", "b"]) == pytest.approx((1 / 1 + 2 / 3 + 0) / 3)


def test_a_metric_without_a_cut_off_counts_the_whole_list():
    found = [f"x{rank}" for rank in range(1, 150)]
    assert measured("map", [*found, "a"], {"q": {"a": 1}}) == pytest.approx(1 / 150)


def test_an_empty_list_and_a_missing_one_score_zero():
    grades = {"q": {"a": 1}, "lost": {"a": 1}}
    scores = score_rankings(grades, {"q": []}, ["ndcg@10", "mrr@10"])
    assert scores == {"ndcg@10": {"q": 0.0, "lost": 0.0}, "mrr@10": {"q": 0.0, "lost": 0.0}}


def test_queries_without_a_relevant_document_are_left_out():
    assert score_rankings({"q": {"a": 0}, "r": {"a": 1}}, {"q": ["a"], "r": ["a"]}, ["hit@1"]) == {"hit@1": {"r": 1.0}}


def test_the_order_of_the_list_decides_whatever_the_ids_are():
    # trec_eval breaks equal scores by falling id; a list must not be judged in another order than it came in.
    for ids in (["a", "z"], ["z", "a"]):
        assert measured("mrr@10", ids, {"q": {"a": 1}}) == 1 / (ids.index("a") + 1)


def test_a_long_list_keeps_its_order():
    ids = [f"d{i}" for i in range(5_000)]
    assert measured("mrr", ids, {"q": {"d4321": 1}}) == pytest.approx(1 / 4322)


@pytest.mark.parametrize(
    "name",
    [
        *("ndcg@0", "recall", "ndcg@ten", "accuracy@5", "@5", "", "precision@", "ndcg@-1"),
        *("ndcg@", "ndcg@010", "ndcg@²", "ndcg@٣", "ndcg@10\n", "ndcg@99999999999"),
    ],
)
def test_an_unknown_metric_is_refused(name):
    with pytest.raises(ConfigError, match=r"ndcg@10"):
        parse_metric(name)


def test_the_error_names_the_metrics_that_need_no_cut_off():
    with pytest.raises(ConfigError, match=r"only mrr, ndcg, map may stand without @k"):
        parse_metric("recall")
    assert [parse_metric(name) for name in ("mrr", "ndcg", "map")] == [("mrr", None), ("ndcg", None), ("map", None)]


@pytest.mark.parametrize("judged", [{"a": 0.5}, {"a": "1"}, {"a": None}, ["a"]])
def test_a_grade_that_is_no_whole_number_is_refused_and_not_scored_0(judged):
    with pytest.raises(DatasetError, match=r"query 'q' is judged by .*expected a whole number by document id"):
        score_rankings({"q": judged}, {"q": ["a"]}, ["mrr@10"])


def test_the_wrong_grade_is_in_the_error_also_if_many_are_right():
    judged = {f"document-{number}": 1 for number in range(50)} | {"torn": 1.5}
    with pytest.raises(DatasetError, match=r"query 'q' is judged by \{'torn': 1.5\}"):
        score_rankings({"q": judged}, {"q": ["torn"]}, ["ndcg@10"])


@pytest.mark.parametrize("grade", [10**12, -(10**12), float("nan"), float("inf")])
def test_a_grade_that_is_no_number_of_at_most_a_million_is_refused(grade):
    with pytest.raises(DatasetError, match=r"query 'q' is judged by .*to 1,000,000"):
        score_rankings({"q": {"a": grade}}, {"q": ["a"]}, ["ndcg@10"])


def test_grades_may_be_whole_numbers_of_any_type():
    for grade in (1, True, 1.0, np.int64(1), np.float32(1), np.bool_(True)):
        assert measured("ndcg@10", ["a"], {"q": {"a": grade}}) == 1.0


def test_a_negative_grade_counts_0_for_ndcg():
    grades = {"q": {"a": 1, "b": 2, "c": -1}}
    gain = 0 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    best = 2 / math.log2(2) + 1 / math.log2(3)
    assert measured("ndcg@10", ["c", "b", "a"], grades) == pytest.approx(gain / best)


def test_a_list_with_an_id_twice_is_refused():
    with pytest.raises(ConfigError, match="'q' has an id twice"):
        measured("ndcg@10", ["a", "a"])


def test_default_metrics_name_every_cut_and_end_with_mrr_and_map_at_the_largest():
    assert default_metrics((5, 10))[-2:] == ["mrr@10", "map@10"]
    assert "recall@5" in default_metrics((5, 10))


@given(
    relevant=st.sets(st.integers(0, 30), min_size=1, max_size=8),
    ranking=st.lists(st.integers(0, 30), unique=True, max_size=25),
    k=st.integers(1, 30),
)
def test_recall_precision_and_mrr_equal_their_definitions(relevant, ranking, k):
    grades = {"q": {str(id): 1 for id in relevant}}
    found = [id in relevant for id in ranking[:k]]
    first = found.index(True) + 1 if any(found) else None
    ids = [str(id) for id in ranking]
    assert measured(f"recall@{k}", ids, grades) == pytest.approx(sum(found) / len(relevant))
    assert measured(f"precision@{k}", ids, grades) == pytest.approx(sum(found) / k)
    assert measured(f"mrr@{k}", ids, grades) == pytest.approx(0.0 if first is None else 1 / first)


@given(
    grades=st.dictionaries(st.integers(0, 12), st.integers(1, 4), min_size=1, max_size=6),
    ranking=st.lists(st.integers(0, 12), unique=True),
    k=st.integers(1, 12),
)
def test_ndcg_equals_its_definition(grades, ranking, k):
    def gain(in_order: list[int]) -> float:
        return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(in_order[:k], 1))

    expected = gain([grades.get(id, 0) for id in ranking]) / gain(sorted(grades.values(), reverse=True))
    judged = {"q": {str(id): grade for id, grade in grades.items()}}
    assert measured(f"ndcg@{k}", [str(id) for id in ranking], judged) == pytest.approx(expected)


def test_diversity_is_one_minus_the_mean_cosine_of_all_pairs():
    # cosines: a.b = 1, a.c = 0, b.c = 0 -> mean 1/3
    assert diversity(np.array([[1, 0], [2, 0], [0, 3]], np.float32)) == pytest.approx(2 / 3)
    assert math.isnan(diversity(np.array([[1, 0]], np.float32)))


def test_duplication_counts_hits_that_repeat_a_better_ranked_one():
    assert duplication(np.array([[1, 0], [2, 0], [0, 3], [1, 0]], np.float32)) == pytest.approx(2 / 4)
    assert duplication(np.zeros((0, 2), np.float32)) == 0.0


def test_the_first_hit_is_no_duplicate_and_opposite_hits_have_diversity_2():
    assert duplication(np.eye(3), similarity=0.0) == pytest.approx(2 / 3)
    assert duplication(np.eye(3), similarity=-1.0) == pytest.approx(2 / 3)
    assert diversity(np.array([[1, 0], [-1, 0]], np.float32)) == pytest.approx(2.0)


def test_zero_vectors_are_no_duplicates():
    assert duplication(np.zeros((3, 2), np.float32)) == 0.0


def test_latency_percentiles_interpolate():
    assert latency(list(range(1, 102))) == {"p50": 51.0, "p95": 96.0, "p99": 100.0}
    assert all(math.isnan(value) for value in latency([]).values())
