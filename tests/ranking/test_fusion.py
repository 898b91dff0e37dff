from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from ranking_toys import pool_of

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.config import FusionConfig
from umi_common.errors import ConfigError, InputError
from umi_common.pool import NOT_RANKED
from umi_common.ranking.evidence import arm_evidence
from umi_common.ranking.fusion import convex, fuse_pool, merge_rrf, rrf, weighted_rrf
from umi_common.sim import FaultyEmbedder, HashEmbedder

LISTS = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=15), min_size=1, max_size=4)


def fuse(pool, config):
    return fuse_pool(pool, config, arm_evidence(pool, 1.0))


def names(ranking):
    return [f"{ordinal:02d}" for ordinal in ranking]


def test_a_chunk_in_both_lists_beats_one_that_is_first_in_either():
    fused = weighted_rrf([["a", "b"], ["c", "b"]], [1.0, 1.0])
    assert fused[0] == ("b", approx(1 / 62 + 1 / 62))
    assert fused[1:] == [("a", approx(1 / 61)), ("c", approx(1 / 61))]


def test_a_weight_of_2_counts_a_list_twice():
    assert dict(weighted_rrf([["a"], ["b"]], [2.0, 1.0])) == {"a": approx(2 / 61), "b": approx(1 / 61)}


def test_the_same_ranks_in_another_order_tie_exactly():
    fused = weighted_rrf([["c", "b", "a"], ["b", "a", "c"], ["a", "c", "b"]], [1.0, 1.0, 1.0])
    assert [id for id, _ in fused] == ["a", "b", "c"]
    assert len({score for _, score in fused}) == 1


def test_merge_rrf_takes_any_number_of_lists_and_breaks_ties_by_id():
    assert merge_rrf(["b", "a"], ["c"]) == ["b", "c", "a"]
    assert merge_rrf(["x"], ["x"], ["y"], k=1) == ["x", "y"]
    assert merge_rrf() == []


@pytest.mark.parametrize("lists", [("doc-1", "doc-2"), (["doc-1"], None), (["doc-1"], 5)])
def test_merge_rrf_refuses_an_id_in_the_place_of_a_list(lists):
    with pytest.raises(InputError, match="expected a list of ids"):
        merge_rrf(*lists)


@pytest.mark.parametrize("ranking", ["doc-1", None])
def test_an_id_in_the_place_of_a_ranking_is_refused_and_not_read_letter_by_letter(ranking):
    with pytest.raises(InputError, match="expected a list of ids"):
        weighted_rrf([["doc-1"], ranking], [1.0, 1.0])


@pytest.mark.parametrize("k", ["60", None])
def test_a_k_that_is_no_number_is_refused_by_name(k):
    with pytest.raises(ConfigError, match=r"rrf k is .*; expected a number > 0"):
        merge_rrf(["a"], ["b"], k=k)


def test_the_ids_of_a_list_of_weight_0_are_in_the_result():
    assert merge_rrf(["a"]) == ["a"]
    assert [id for id, _ in weighted_rrf([["b"], ["a"]], [1.0, 0.0])] == ["b", "a"]


@pytest.mark.parametrize(
    ("weights", "k"), [([1.0], 60), (1.0, 60), ([1.0, -1.0], 60), ([1.0, float("nan")], 60), ([1.0, 1.0], 0)]
)
def test_wrong_weights_and_k_are_refused(weights, k):
    with pytest.raises(ConfigError):
        weighted_rrf([["a"], ["b"]], weights, k=k)
    with pytest.raises(ConfigError):
        rrf(np.array([[1, 0], [0, 1]]), weights, k=k)


def test_rrf_over_ranks_adds_0_for_rows_that_an_arm_did_not_rank():
    ranks = np.array([[1, 2, NOT_RANKED], [NOT_RANKED, 1, 2]])
    assert rrf(ranks, [1.0, 0.5]).tolist() == approx([1 / 61, 1 / 62 + 0.5 / 61, 0.5 / 62])


@given(LISTS, st.data())
def test_ranks_over_a_pool_and_ids_give_the_same_scores(lists, data):
    weights = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(lists), max_size=len(lists)))
    by_id = dict(weighted_rrf([names(ranking) for ranking in lists], weights))
    ranks = np.full((len(lists), 21), NOT_RANKED)
    for own, ranking in zip(ranks, lists, strict=True):
        own[ranking] = np.arange(1, len(ranking) + 1)
    assert rrf(ranks, weights).tolist() == approx([by_id.get(name, 0.0) for name in names(range(21))])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # numba's
def test_rrf_equals_ranx():
    ranx = pytest.importorskip("ranx")
    rng = np.random.default_rng(7)
    for count in (2, 3, 4):
        lists = [names(rng.permutation(21)[: rng.integers(1, 15)]) for _ in range(count)]
        runs = [ranx.Run({"q": {id: float(-place) for place, id in enumerate(ids)}}) for ids in lists]
        theirs = ranx.fuse(runs, norm=None, method="rrf", params={"k": 60})
        assert dict(theirs["q"]) == approx(dict(weighted_rrf(lists, [1.0] * count)))


@given(LISTS, st.floats(0.1, 100.0))
def test_scaling_all_weights_changes_no_order(lists, factor):
    ids = [names(ranking) for ranking in lists]
    one = [id for id, _ in weighted_rrf(ids, [1.0] * len(ids))]
    scaled = dict(weighted_rrf(ids, [factor] * len(ids)))
    assert all(scaled[a] >= scaled[b] * (1 - 1e-12) for a, b in pairwise(one))


@given(LISTS, st.data())
def test_a_better_rank_never_lowers_a_score(lists, data):
    ids = [names(ranking) for ranking in lists]
    which = data.draw(st.integers(0, len(ids) - 1))
    if len(ids[which]) < 2:
        return
    place = data.draw(st.integers(1, len(ids[which]) - 1))
    raised = list(ids[which])
    raised[place - 1], raised[place] = raised[place], raised[place - 1]
    weights = [1.0] * len(ids)
    before = dict(weighted_rrf(ids, weights))
    after = dict(weighted_rrf([*ids[:which], raised, *ids[which + 1 :]], weights))
    assert after[raised[place - 1]] > before[raised[place - 1]]


def test_convex_weighs_arms_and_variations():
    lexical, dense = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    # variations 2:1, arms 1:3 -> lexical [2/3, 1/3], dense [1/3, 2/3]
    assert convex([lexical, dense], [1.0, 3.0], [2.0, 1.0]).tolist() == approx([2 / 12 + 3 / 12, 1 / 12 + 6 / 12])


@pytest.mark.parametrize("method", ["rrf", "convex"])
def test_a_search_by_an_arm_of_weight_0_is_refused_and_not_answered_in_the_order_of_ids(method):
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk("a", "unrelated"), Chunk("b", "zeppelin")])
        config = UmiConfig(fusion={"method": method, "lexical_weight": 0})
        with DualRetriever(store, config=config) as umi, pytest.raises(ConfigError, match="all fusion weights"):
            umi.search("zeppelin", strategy="text")


@pytest.mark.parametrize("fusion", [{"method": "rrf"}, {"adaptive": True}, {"adaptive": False}])
def test_extra_arms_rank_alone_if_the_arms_of_the_store_have_weight_0(fusion):
    pool = pool_of(lexical=[[3.0, 1.0, 0.0]], dense=[[0.2, 0.5, 0.1]], bound=[12.0])
    pool = replace(pool, extra={"web": np.array([0.0, 0.5, 1.0])})
    config, evidence = FusionConfig(**fusion, lexical_weight=0, dense_weight=0), arm_evidence(pool, 1.0)
    scores, _ = fuse_pool(pool, config, evidence, arm_weights={"web": 1.0})
    assert scores[2] > scores[1] > scores[0] == 0
    with pytest.raises(ConfigError, match="all fusion weights"):
        fuse_pool(pool, config, evidence, arm_weights={"web": 0.0})


@pytest.mark.parametrize("fusion", [{"method": "rrf"}, {"adaptive": True}, {"adaptive": False}])
def test_if_the_arm_that_counts_fails_the_arm_of_weight_0_answers(fusion):
    with HybridStore.open(embedder=FaultyEmbedder(HashEmbedder(), "which")) as store:
        store.add([Chunk("a", "unrelated"), Chunk("b", "zeppelin")])
        found = DualRetriever(store, config=UmiConfig(fusion={**fusion, "lexical_weight": 0})).search("which zeppelin")
    assert found.ids[0] == "b"
    assert [loss.part for loss in found.degraded] == ["embedder"]


def test_all_weights_0_are_refused():
    with pytest.raises(ConfigError, match="all fusion weights of this search are 0"):
        convex([np.ones((1, 2))], [0.0], [1.0])


@pytest.mark.parametrize("normalizer", ["bound", "minmax", "logistic"])
@pytest.mark.parametrize("mode", ["hybrid", "text", "vector"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_one_arm_alone_is_scaled_to_0_and_1_and_keeps_its_order(mode, normalizer, adaptive):
    pool = pool_of(lexical=[[3.0, 0.0, 9.0]], dense=[[0.2, 0.5, 0.3]], bound=[12.0], mode=mode)
    scores, _ = fuse(pool, FusionConfig(normalizer=normalizer, adaptive=adaptive))
    assert scores.min() >= 0
    assert scores.max() == approx(1.0)
    if mode != "hybrid":
        assert np.argsort(-scores).tolist() == ([2, 0, 1] if mode == "text" else [1, 2, 0])


@pytest.mark.parametrize("method", ["convex", "rrf"])
@pytest.mark.parametrize("normalizer", ["bound", "minmax", "zscore", "logistic", "none"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_no_fusion_changes_the_pool(method, normalizer, adaptive):
    pool = pool_of(lexical=[[3.0, 0.0], [1.0, 1.0]], dense=[[0.2, 0.5], [0.1, 0.0]], bound=[12.0, 0.0])
    before = pool.lexical.copy(), pool.dense.copy()
    scores, _ = fuse(pool, FusionConfig(method=method, normalizer=normalizer, adaptive=adaptive))
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    assert (pool.lexical == before[0]).all() and (pool.dense == before[1]).all()


@pytest.mark.parametrize("method", ["convex", "rrf"])
@pytest.mark.parametrize("weights", [None, {"graph": 1.0}])
def test_an_extra_arm_without_a_weight_is_refused_by_name(method, weights):
    pool = pool_of(lexical=[[3.0, 1.0]], dense=[[0.2, 0.5]], bound=[12.0])
    pool = replace(pool, extra={"web": np.array([1.0, 0.0])})
    with pytest.raises(ConfigError, match="'web'"):
        fuse_pool(pool, FusionConfig(method=method), arm_evidence(pool, 1.0), arm_weights=weights)


def test_an_empty_pool_fuses_to_nothing():
    scores, _ = fuse(pool_of(lexical=[[]], dense=[[]], bound=[0.0]), FusionConfig())
    assert scores.shape == (0,)
