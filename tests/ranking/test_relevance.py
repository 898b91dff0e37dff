"""Relevance: comparable over queries, stores and embedders; the larger the score, the larger the relevance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from ranking_toys import pool_of

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.pool import Background
from umi_common.ranking.evidence import arm_evidence
from umi_common.ranking.relevance import COEFFICIENTS, relevance
from umi_common.sim.embedders import HashEmbedder

MANY = 10**9
"""Chunks behind a background, so many that the prior says nothing."""
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def a_pool(*, cosines=(0.6, 0.2), bm25=(8.0, 2.0), mean=0.1, deviation=0.1, mode="hybrid", count=MANY):
    pool = pool_of(lexical=[bm25], dense=[cosines], bound=[16.0], mode=mode)
    return replace(pool, background=Background(np.array([mean]), np.array([deviation]), count))


def relevance_of(pool, scores, unit=1.0):
    return relevance(pool, scores, arm_evidence(pool, unit))


def sigmoid(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def test_the_formula_by_hand():
    lift, spread, covered = 0.5 / 0.9, 0.1 / 0.9, 8 / 16
    evidence = 0.45 * 8 / math.sqrt(16) / 4 + 0.55 * ((5 + math.sqrt(29)) / 2) ** 2 / 64
    known = sigmoid(COEFFICIENTS["hybrid"].known @ np.array([lift, spread, covered, 1]))
    answers = COEFFICIENTS["hybrid"].answers @ np.array([covered, evidence, 1])
    half = answers + COEFFICIENTS["hybrid"].fall * math.log(0.5)
    found = relevance_of(a_pool(), np.array([1.0, 0.5]))
    assert found.tolist() == approx([known * sigmoid(answers), known * sigmoid(half)])


def test_the_fewer_chunks_a_store_holds_below_a_hundred_the_larger_the_odds_of_an_answer_by_hand():
    def odds(count):
        found, many = (  # background as the prior: the same for every count; of the second chunk, which is below 0.5
            relevance_of(a_pool(mean=0.2, deviation=0.12, count=chunks), np.array([1.0, 0.5]))[1]
            for chunks in (count, MANY)
        )
        known = sigmoid(COEFFICIENTS["hybrid"].known @ np.array([0.4 / 0.8, 0.12 / 0.8, 0.5, 1]))
        return [np.log(each / (known - each)) for each in (found, many)]

    for count, summand in ((5, 0.6 * math.log(20)), (50, 0.6 * math.log(2)), (100, 0.0), (1_000, 0.0)):
        few, many = odds(count)
        assert few - many == approx(summand)


def test_above_even_odds_the_odds_are_raised_to_a_power_by_hand():
    strong = a_pool(cosines=(0.9, 0.2), bm25=(16.0, 2.0))
    evidence = 0.45 * 16 / math.sqrt(16) / 4 + 0.55 * ((8 + math.sqrt(68)) / 2) ** 2 / 64
    known = sigmoid(COEFFICIENTS["hybrid"].known @ np.array([0.8 / 0.9, 0.1 / 0.9, 1, 1]))
    product = known * sigmoid(COEFFICIENTS["hybrid"].answers @ np.array([1, evidence, 1]))
    odds = (product / (1 - product)) ** 1.25
    assert product > 0.5
    assert relevance_of(strong, np.array([1.0, 0.5]))[0] == approx(odds / (1 + odds))


@given(scores=SCORES, mode=st.sampled_from(["hybrid", "text", "vector"]))
def test_relevance_lies_in_0_to_1_and_rises_with_the_score(scores, mode):
    values = np.array(scores)
    pool = a_pool(cosines=np.linspace(-1, 1, len(values)), bm25=np.linspace(0, 16, len(values)), mode=mode)
    found = relevance_of(pool, values)[np.argsort(values)]
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("mode", ["hybrid", "text", "vector"])
def test_more_words_matched_and_a_better_cosine_are_more_relevant(mode):
    weak = relevance_of(a_pool(mode=mode), np.array([1.0, 0.5]))[0]
    strong = relevance_of(a_pool(cosines=(0.8, 0.2), bm25=(16.0, 2.0), mode=mode), np.array([1.0, 0.5]))[0]
    assert strong > weak


def test_an_embedder_whose_cosines_all_lie_between_07_and_1_gives_the_same_relevance():
    def narrowed(cosine):
        return 0.7 + 0.3 * cosine

    narrow = a_pool(cosines=(narrowed(0.6), narrowed(0.2)), mean=narrowed(0.1), deviation=0.03)
    scores = np.array([1.0, 0.5])
    assert relevance_of(narrow, scores).tolist() == approx(relevance_of(a_pool(), scores).tolist())


def test_bm25_with_another_unit_gives_the_same_relevance():
    lucene, okapi = a_pool(), a_pool(bm25=(8.0 * 2.2, 2.0 * 2.2))
    okapi = replace(okapi, lexical_bound=lucene.lexical_bound * 2.2)
    scores = np.array([1.0, 0.5])
    assert relevance_of(okapi, scores, unit=2.2).tolist() == approx(relevance_of(lucene, scores).tolist())


def test_a_store_that_states_no_background_is_measured_by_its_own_candidates():
    stated = a_pool(mean=0.4, deviation=0.2)
    silent = replace(stated, background=None)
    found = relevance_of(silent, np.array([1.0, 0.5]))
    assert 0 < found[0] < 1


def test_without_a_bound_relevance_uses_the_dense_arm_alone_or_is_not_known():
    scores = np.array([1.0, 0.5])
    unbound = replace(a_pool(), lexical_bound=np.zeros(1))
    assert relevance_of(unbound, scores).tolist() == approx(relevance_of(a_pool(mode="vector"), scores).tolist())
    assert relevance_of(replace(unbound, mode="text"), scores) is None


def test_without_any_score_nothing_is_relevant():
    assert relevance_of(a_pool(), np.zeros(2)).tolist() == [0.0, 0.0]
    empty = a_pool().rows(np.zeros(0, dtype=np.int64))
    assert relevance_of(empty, np.zeros(0)).tolist() == []


def test_a_variation_whose_okapi_scores_are_all_below_0_takes_nothing_from_the_relevance():
    store = HybridStore.open(embedder=HashEmbedder())
    store.add([Chunk(f"c{i}", f"alpha beta gamma {i % 3}") for i in range(40)])  # a word in every chunk has an idf < 0
    config = UmiConfig(lexical={"variant": "okapi"}, routing={"mode": "always"}, fusion={"variation_weight": 0.1})
    found = DualRetriever(store, rewriter=lambda prompt: '["alpha beta"]', config=config).search("0")
    alone = DualRetriever(store, config=config).search("0")
    assert found.query_variations == ("alpha beta",)
    assert found[0].relevance == approx(alone[0].relevance, abs=0.1)
