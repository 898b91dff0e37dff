"""A follow-up question is searched with the messages before it; a question that stands for itself is not."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.query.followups import MESSAGE_CHARACTERS, follow_up

TALK = ("Is the car insured?", "Yes, with Allianz.")


@pytest.mark.parametrize(
    "query",
    [
        "when does it expire?",
        "and when does that expire?",
        "What about the boat?",
        "how much do they pay?",
        "How do I get there?",
        "is there another one?",
        "Why?",
        "what did I tell them?",
        "how long is it valid if I\u2019m abroad?",
        "what\u2019s the price if it\u2019s new?",
        "what does it say about 'best' effort?",
    ],
)
def test_a_question_about_what_was_said_before_is_searched_with_it(query):
    assert follow_up(query, TALK) == f"Is the car insured?\nYes, with Allianz.\n{query}"


@pytest.mark.parametrize(
    "query",
    [
        "When did Caroline buy her boat?",
        "where do I live?",
        "what was my last name before I have at some time changed it?",
        "why did the crane fail?",
        "Wann läuft die Versicherung ab?",
        "when does it expire? " + "I have been waiting for the letter of the company for weeks. " * 6,
    ],
)
def test_a_question_that_says_what_it_is_about_is_searched_alone(query):
    assert follow_up(query, TALK) is None


def test_the_last_two_messages_count_and_of_each_its_beginning():
    found = follow_up("when does it expire?", ["old", "x" * 5_000, "y"])
    assert found == "x" * MESSAGE_CHARACTERS + "\ny\nwhen does it expire?"
    assert follow_up("when does it expire?", []) is None


def test_a_follow_up_question_finds_its_answer_without_an_llm():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(
            [
                Chunk("car", "The insurance of the car ends on 3 March."),
                Chunk("milk", "Milk: does it expire when opened?"),
                *(Chunk(f"n{n}", f"Tin {n} does expire, and when is on its lid.") for n in range(8)),
            ]
        )
        query = "and when does it expire?"
        assert umi.search(query, limit=1).ids != ["car"]
        found = umi.search(query, limit=1, history=TALK)
        assert found.ids == ["car"] and not found.deep_search_used
        assert found.query_variations == (f"{TALK[0]}\n{TALK[1]}\n{query}",)
        assert umi.search("is the car insured?", history=["and then?"]).query_variations == ()
        assert umi.search(query, strategy="text", history=TALK).query_variations == ()
