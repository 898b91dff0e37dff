"""The trigger words as the ADRs list them, and the evidence gate on pools made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umi_common.config import RoutingConfig
from umi_common.pool import Pool
from umi_common.query.routing import pronoun_precedes_nouns, query_words, route, weigh_evidence

# ADR-015, "Deep Search Heuristics": "Static word sets for O(1) lookup"
ADR_015 = {
    "question": ["who", "what", "when", "where", "why", "how"],
    "relationship": ["related", "about", "regarding", "involving", "connected"],
    "temporal": ["yesterday", "today", "last", "recent", "before", "after", "week", "month", "year"],
    "abstract": ["similar", "like", "connections", "associated", "linked"],
}
# ADR-009, "Deep Search Heuristics": "Triggers when query contains"
ADR_009 = {
    "question": ["who", "what", "when", "where", "why", "how"],
    "relationship": ["related to", "about", "regarding", "involving"],
    "temporal": ["yesterday", "last week", "recently", "before"],
    "abstract": ["similar", "like", "connections"],
}
PAIRS = sorted({(kind, word) for table in (ADR_009, ADR_015) for kind, words in table.items() for word in words})


@pytest.mark.parametrize(("kind", "trigger"), PAIRS)
def test_a_trigger_of_the_adrs_fires_and_is_named(kind: str, trigger: str):
    decision = route(f"Acme {trigger} Sarah")
    assert decision.deep
    assert decision.reasons == (f"{kind}: {trigger}",)
    assert decision.signals[kind] == 1.0


@pytest.mark.parametrize(("kind", "trigger"), PAIRS)
def test_a_trigger_inside_another_word_does_not_fire(kind: str, trigger: str):
    assert not route(f"acme x{trigger.replace(' ', '')} {trigger.replace(' ', '')}x").deep


@pytest.mark.parametrize(
    "query",
    [
        "Who do I know at Acme?",  # ADR-009, "Context": implicit relationships
        "What happened last week?",  # ADR-009, "Context": temporal queries
        "who's there",
        "what’s up",
        "WHERE",
        "(how)",
        "yesterday's notes",
        "...about...",
        "this year’s plan",
        "related,to",
    ],
)
def test_these_go_deep(query: str):
    assert route(query).deep


@pytest.mark.parametrize(
    "query",
    [
        "Acme",
        "Sarah Chen phone",
        "whose",
        "likely",
        "lasting",
        "whatever",
        "howl",
        "weekly",
        "yearly",
        "unlike",
        "",
        "?!",
        "likes",
    ],
)
def test_these_stay_fast(query: str):
    assert not route(query).deep


def test_all_reasons_are_given_in_the_order_of_the_sets():
    decision = route("Who talked about the launch last week, like before?")
    assert decision.reasons == (
        "question: who",
        "relationship: about",
        "temporal: last week",
        "temporal: before",
        "abstract: like",
    )
    assert decision.signals == {"question": 1.0, "relationship": 1.0, "temporal": 2.0, "abstract": 1.0}


def test_words_lose_case_punctuation_and_possessives():
    assert query_words("Who's Anna’s friend — Café-Bob?") == ["who", "anna", "friend", "café", "bob"]


def pool(
    lexical: list[float],
    dense: list[float],
    *,
    bound: float = 10.0,
    coverage: float = 1.0,
    chunks: int = 1_000,
    mode: str = "hybrid",
) -> Pool:
    """A pool of one query; ranks follow from the scores."""
    n = len(lexical)

    def ranks(scores: list[float], floor: float) -> np.ndarray:
        order = sorted((row for row in range(n) if scores[row] > floor), key=lambda row: (-scores[row], row))
        found = np.zeros((1, n), dtype=np.int64)
        for rank, row in enumerate(order, 1):
            found[0, row] = rank
        return found

    return Pool.of(
        [f"{number:04}" for number in range(n)],
        lexical=np.array([lexical], dtype=np.float64),
        dense=np.array([dense], dtype=np.float64),
        lexical_rank=ranks(lexical, 0.0),
        dense_rank=ranks(dense, -1.0),
        lexical_bound=np.array([bound]),
        coverage=np.array([coverage]),
        length=np.full(n, 10),
        mode=mode,
        facts={"chunks": chunks},
    )


FOUND = [9.0] + [1.0] * 9 + [0.5] * 30
NEAR = [0.9] + [0.3] * 9 + [0.1] * 30
STEEP = np.array([1.0] + [0.1] * 39)
"""Scores of a ranking whose best stands out."""


def weighed(found: Pool, scores=STEEP, config: RoutingConfig | None = None):
    return weigh_evidence(found, np.asarray(scores)[: len(found)], "acme", config=config)


def test_the_signals_are_those_of_the_formula():
    decision = weighed(pool(FOUND, NEAR, coverage=0.8, chunks=1_000), np.linspace(0.8, 0.02, 40))
    thin = math.exp(-9.0 / math.log(1_000))
    flat = (0.8 - 9 * 0.02) / 0.8
    assert decision.signals["thin"] == pytest.approx(thin)
    assert decision.signals["uncovered"] == pytest.approx(0.2)
    assert decision.signals["flat"] == pytest.approx(flat)
    assert decision.signals["disagreement"] == 0.0
    assert decision.signals["pronoun"] == 0.0
    assert decision.signals["weakness"] == pytest.approx(1 - (1 - thin) * 0.8 * (1 - flat))


def test_an_answer_that_stands_out_needs_no_llm():
    assert not weighed(pool([20.0, *FOUND[1:]], NEAR, bound=21.0)).deep


def test_ten_candidates_that_score_alike_call_for_the_llm():
    found = pool([20.0, *FOUND[1:]], NEAR, bound=21.0)
    decision = weighed(found, np.full(40, 0.9))
    assert decision.deep
    assert "no candidate stands out" in decision.reasons


def test_words_that_no_chunk_shares_call_for_the_llm():
    decision = weighed(pool([1.0] * 40, NEAR, coverage=0.3))
    assert decision.deep
    assert "no chunk shares enough rare words" in decision.reasons
    assert "words that the corpus does not know" in decision.reasons


def test_nothing_found_calls_for_the_llm():
    decision = weighed(pool([], []))
    assert decision.deep
    assert decision.reasons == ("nothing found",)


def test_arms_that_share_no_top_candidate_disagree():
    lexical = [9.0] * 10 + [0.5] * 30
    dense = [0.1] * 30 + [0.9] * 10
    assert weighed(pool(lexical, dense)).signals["disagreement"] == 1.0


@pytest.mark.parametrize("mode", ["text", "vector"])
def test_one_arm_alone_is_weighed_too(mode: str):
    strong = weighed(pool([20.0, *FOUND[1:]], NEAR, bound=21.0, mode=mode))
    flat = weighed(pool([1.0] * 40, [0.5] * 15 + [0.1] * 25, mode=mode, coverage=0.3), np.full(40, 0.9))
    assert "disagreement" not in strong.signals
    assert strong.signals["weakness"] < flat.signals["weakness"]


def test_the_threshold_is_the_configured_one():
    found = pool(FOUND, NEAR)
    weakness = weighed(found).signals["weakness"]
    assert weighed(found, config=RoutingConfig(weakness=weakness - 1e-6)).deep
    assert not weighed(found, config=RoutingConfig(weakness=weakness + 1e-6)).deep


@pytest.mark.parametrize("query", ["What did she say?", "and how did they do it", "Why is that?", "its price"])
def test_a_pronoun_before_its_noun_is_unresolved(query: str):
    assert pronoun_precedes_nouns(query)


@pytest.mark.parametrize("query", ["Did Ann keep her job?", "acme", "", "Where did Bob say he was?", "who do I know"])
def test_a_pronoun_after_a_noun_is_resolved(query: str):
    assert not pronoun_precedes_nouns(query)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(-1, 1), st.floats(-1, 2)), max_size=30),
    st.floats(0, 60),
    st.floats(0, 1),
    st.sampled_from(["hybrid", "text", "vector"]),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_signal_stays_between_0_and_1(rows: list[tuple[float, ...]], bound: float, coverage: float, mode: str):
    lexical, dense, scores = ([row[column] for row in rows] for column in range(3))
    bound = max(bound, max(lexical, default=0.0))
    found = pool(lexical, dense, bound=bound, coverage=coverage, mode=mode)
    decision = weigh_evidence(found, np.array(scores), "what did she say")
    assert all(0.0 <= value <= 1.0 for value in decision.signals.values())


@given(st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_knowing_fewer_words_never_makes_the_evidence_stronger(one: float, other: float):
    base = pool(FOUND, NEAR)
    less, more = sorted((one, other))
    weak = weighed(replace(base, coverage=np.array([less]))).signals["weakness"]
    strong = weighed(replace(base, coverage=np.array([more]))).signals["weakness"]
    assert weak >= strong
