"""Late interaction: the turn whose own words answer stands before the turns beside it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.embedders.default import default_embedder
from umi_common.ranking.neighbours import order_share
from umi_common.search.reorder.late_interaction import (
    COMPARED_CHARACTERS_MAX,
    max_similarity,
    token_factors,
    token_vectors,
    with_late_interaction,
)
from umi_common.sim import HashEmbedder

ALWAYS = UmiConfig(late_interaction={"adaptive": False})
OFF = UmiConfig(late_interaction={"enabled": False})
QUESTION = "what is the cat called"
TURNS = [
    "I adopted a grey cat last spring.",
    "Did you give it a name?",
    "Yes, the kitten is called Luna.",
    "My sister keeps bees on the roof.",
    "How many hives does she have?",
    "Five, and two more at the lake.",
    "The tax office wrote again about the garage.",
    "You should call them on Monday.",
]
CHAT = [Chunk(f"t{at}", text, source="chat", position=at) for at, text in enumerate(TURNS)]


def test_the_formula_by_hand():
    # Two candidates say the query's first token with .8 and .2, its second alike with .6:
    # w = (1 - .5, 1 - .6) = (.5, .4); s = (.5 * .8 + .4 * .6) / .9 = .7111 and (.5 * .2 + .4 * .6) / .9 = .3778;
    # the mean is .5444 and the deviation .1667, so z = 1 and -1; 150 terms halve the gain.
    matches = np.array([[0.8, 0.2], [0.6, 0.6]])
    assert with_late_interaction(np.array([0.5, 1.0]), matches, np.array([0, 9]), 0.25) == approx([0.625, 1.0])
    assert with_late_interaction(np.array([0.5, 1.0]), matches, np.array([150, 9]), 0.25) == approx([0.5625, 1.0])


def test_near_duplicates_whose_words_match_nearly_alike_gain_next_to_nothing():
    # s = .71 and .69, so the deviation is .01, and .07 counts in its place: z = 1 / 7, and .25 z^2 = .0051.
    matches = np.array([[0.71, 0.69]])
    assert with_late_interaction(np.ones(2), matches, np.zeros(2, dtype=np.int64), 0.25) == approx(
        [1.0051, 1.0], abs=1e-4
    )


def test_a_token_that_only_function_words_hold_counts_less():
    # The first candidate holds "part", the second one "of": w = (.6, .6 * .6); s = (.6 * .8 + .36 * .2) / .96 = .575,
    # (.6 * .2 + .36 * .8) / .96 = .425, and .2; the mean is .4, the deviation .1541; z = 1.1355, .1622 and below 0.
    matches = np.array([[0.8, 0.2, 0.2], [0.2, 0.8, 0.2]])
    factors = token_factors("part of")
    assert factors.tolist() == [1.0, 0.6]
    raised = with_late_interaction(np.ones(3), matches, np.zeros(3, dtype=np.int64), 0.25, factors)
    assert raised == approx([1 + 0.25 * 1.1355**2, 1 + 0.25 * 0.1622**2, 1.0], abs=1e-4)
    assert set(token_factors("who is it?").tolist()) == {1.0}


SECTIONS = (
    "Schedule\nThe filter of the {kind} is changed every 250 hours, the oil of the gear every 4000 hours. For the test "
    "of the switch, call the electrician.",
    "Changing the belt\nTake the old belt off the wheels of the {kind}, put the new one on, and tighten the plate for "
    "the motor with 62 Nm. The belt yields 9 mm to the thumb.",
    "Faults\nE{n}3 oil leaks at the shaft, seal damaged: fit a new shaft seal\nE{n}7 pressure drops: change filter",
    "Spare parts\nNumber, part\n{n}-4154 Shaft seal\n{n}-7310 Bearing\n{n}-2291 Cartridge\n{n}-9034 Belt",
)


def test_prose_full_of_function_words_does_not_come_before_the_table_that_holds_the_words_of_the_question():
    kinds = ("pump", "dryer", "mixer", "boiler", "press", "lathe")
    with HybridStore.open() as store:
        for n in range(36):
            texts = [text.format(kind=kinds[n % 6], n=310 + n) for text in SECTIONS]
            head = f"Manual {kinds[n % 6]} C{200 + 7 * n} > "
            store.add(Chunk(f"{n} {at}", head + text, source=f"m{n}", position=at) for at, text in enumerate(texts))
        umi = DualRetriever(store, config=ALWAYS)
        firsts = [umi.search(f"number of the belt for the C{200 + 7 * n}").ids[0] for n in range(36)]
    assert sum(first == f"{n} 3" for n, first in enumerate(firsts)) >= 30  # 26 if function words count fully


def test_each_token_of_the_query_meets_its_most_similar_token():
    vectors = np.eye(3, dtype=np.float32)
    query = np.array([[1, 0, 0], [0, 0.6, 0.8]], dtype=np.float32)
    found = max_similarity(query, vectors, np.array([0, 1, 1, 2]), np.array([2, 0, 2]))
    assert found == approx(np.array([[1, 0, 0], [0.6, 0, 0.8]]))


@given(
    st.lists(st.floats(-1, 2), min_size=1, max_size=12),
    st.lists(st.floats(-0.2, 1), min_size=24, max_size=24),
    st.floats(0, 3),
)
def test_no_score_falls_and_candidates_that_are_alike_keep_their_order(scores, similarities, weight):
    given_scores = np.array(scores)
    matches = np.resize(np.array(similarities), (2, len(scores)))
    raised = with_late_interaction(given_scores, matches, np.arange(len(scores)), weight)
    assert (raised >= given_scores).all()
    alike = with_late_interaction(given_scores, np.full((2, len(scores)), 0.5), np.arange(len(scores)), weight)
    assert (alike == given_scores).all()


def test_texts_of_equal_words_get_equal_tokens_whatever_their_case_and_punctuation():
    vectors, rows, counts = token_vectors(["Grey CAT!", "grey, cat", "", "..."])
    assert counts.tolist() == [2, 2, 0, 0]
    assert sorted(rows[:2]) == sorted(rows[2:])
    assert np.linalg.norm(vectors, axis=1) == approx(np.ones(len(vectors)))


def test_of_a_long_text_a_bounded_part_is_read():
    text = " ".join(f"word{at}" for at in range(100_000))
    vectors, _, (count,) = token_vectors([text])
    assert len(vectors) == count <= COMPARED_CHARACTERS_MAX


def test_the_turn_that_says_it_gains_most_and_the_trace_and_the_hit_show_it():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(CHAT)
        off = DualRetriever(store, config=OFF).search(QUESTION)
        on = DualRetriever(store, config=ALWAYS).search(QUESTION)
    before = {hit.chunk.id: hit.score for hit in off.hits}
    gains = {hit.chunk.id: hit.score / before[hit.chunk.id] for hit in on.hits if before.get(hit.chunk.id)}
    assert max(gains, key=gains.get) == "t2"
    assert on.hits[0].score == approx(off.hits[0].score)  # the best score stays what it was
    (stage,) = [stage for stage in on.trace.stages if stage.name == "late_interaction"]
    assert stage.facts == {"candidates": len(CHAT), "share": 1.0}
    assert all("late_interaction" in hit.stages for hit in on.hits)


def test_two_processes_give_the_same_scores_to_the_last_digit():
    script = (
        "from umi_common import Chunk, DualRetriever, HybridStore\n"
        "store = HybridStore.open()\n"
        f"store.add([Chunk(str(at), text, source='chat', position=at) for at, text in enumerate({TURNS!r})])\n"
        "umi = DualRetriever(store, config=store.config.replaced(late_interaction={'adaptive': False}))\n"
        f"print([[hit.score for hit in umi.search(query)] for query in {[' '.join(TURNS), ' '.join(TURNS[:4])]!r}])"
    )
    scores = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert scores[0] == scores[1] != b""


def test_chunks_without_positions_are_ranked_as_without_it():
    with HybridStore.open() as store:
        store.add([Chunk(f"t{at}", text) for at, text in enumerate(TURNS)])
        on, off = (DualRetriever(store, config=config).search(QUESTION) for config in (UmiConfig(), OFF))
    assert [(hit.chunk.id, hit.score) for hit in on.hits] == [(hit.chunk.id, hit.score) for hit in off.hits]
    assert "late_interaction" not in on.hits[0].stages


@pytest.mark.parametrize(
    ("autocorrelation", "pairs", "share"),
    [(0.0, 1_000, 0.0), (0.2, 0, 0.0), (0.2, 1_000, 1.0), (0.11, 40, 0.5), (-0.3, 1_000, 0.0)],
)
def test_the_share_is_how_far_positions_carry(autocorrelation, pairs, share):
    # 0.11 from 40 pairs, averaged with 40 pairs of 0: 0.055, in the middle between 0.03 and 0.08
    assert order_share({"autocorrelation": autocorrelation, "autocorrelation_pairs": pairs}) == approx(share)
    assert order_share({}) == 0


def test_one_arm_alone_is_left_as_it_is():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(CHAT)
        umi = DualRetriever(store, config=ALWAYS)
        stages = {strategy: umi.search(QUESTION, strategy=strategy).hits[0].stages for strategy in ("text", "vector")}
    assert not any("late_interaction" in of_hit for of_hit in stages.values())


def test_a_query_without_words_changes_nothing():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add(CHAT)
        on, off = (DualRetriever(store, config=config).search("?!") for config in (ALWAYS, OFF))
    assert [(hit.chunk.id, hit.score) for hit in on.hits] == [(hit.chunk.id, hit.score) for hit in off.hits]


def test_without_the_embedded_model_the_order_stays_and_the_result_says_so(monkeypatch):
    default_embedder.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    try:
        with HybridStore.open(embedder=HashEmbedder()) as store:
            store.add(CHAT)
            on, off = (DualRetriever(store, config=config).search(QUESTION) for config in (ALWAYS, OFF))
    finally:
        default_embedder.cache_clear()
    assert on.ids == off.ids
    (loss,) = on.degraded
    assert loss.part == "late_interaction" and "pip install wordllama" in loss.reason
