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
        "und wann läuft sie ab?",
        "Und für Kinder?",
        "Wann läuft sie ab?",
        "Et pour les enfants\u00a0?",
        "mais quand expire-t-elle ?",
        "Quand expire-t-elle\u00a0?",
        "Qu\u2019en est-il d\u2019un sinistre ?",
        "¿Y cuánto cuesta?",
        "¿y a qué número llamo?",
        "E quando scade?",
        "e para crianças?",
        "En wanneer loopt hij af?",
        "A dla dzieci?",
        "а когда заканчивается?",
        "Peki çocuklar için?",
        "وكم تكلف؟",
        "और बच्चों के लिए?",
        "那孩子呢？",
        "それはいつまで？",
        "그럼 아이들은?",
        "Warum?",
    ],
)
def test_a_follow_up_question_is_recognised_in_other_languages(query):
    assert follow_up(query, TALK) == f"{TALK[0]}\n{TALK[1]}\n{query}"


@pytest.mark.parametrize(
    "query",
    [
        "When did Caroline buy her boat?",
        "where do I live?",
        "what was my last name before I have at some time changed it?",
        "why did the crane fail?",
        "Wann läuft die Versicherung ab?",
        "En quelle année le contrat a-t-il commencé ?",
        "Y a-t-il un médecin à Lyon ?",
        "A list of the ships",
        "e mail address of the office",
        "Wie melden Sie einen Schaden der Versicherung?",
        "ma facture est fausse",
        "mais leituras sobre pacotes",
        "da quando vale il contratto?",
        "cuánto cuesta el seguro de viaje",
        "when does it expire? " + "I have been waiting for the letter of the company for weeks. " * 6,
    ],
)
def test_a_question_that_says_what_it_is_about_is_searched_alone(query):
    assert follow_up(query, TALK) is None


def test_the_last_two_messages_count_and_of_each_its_beginning():
    found = follow_up("when does it expire?", ["old", "x" * 5_000, "y"])
    assert found == "x" * MESSAGE_CHARACTERS + "\ny\nwhen does it expire?"
    assert follow_up("when does it expire?", []) is None


def test_a_german_follow_up_question_finds_its_answer_among_contracts_with_the_same_words():
    names = ("Auto", "Hausrat", "Reise", "Zahn", "Tier", "Boot")
    history = ("Was kostet die Zahnversicherung?", "33 Euro.")
    with HybridStore.open() as store, DualRetriever(store) as umi:
        for number, name in enumerate(names):
            store.add([Chunk(f"{name} 0", f"Die {name}versicherung kostet 3{number} Euro.")])
            store.add([Chunk(f"{name} 1", f"Die {name}versicherung läuft am {number}. Mai ab.")])
        assert "Zahn 1" in umi.search("und wann läuft sie ab?", limit=2, history=history).ids
        assert "Zahn 1" not in umi.search("und wann läuft sie ab?", limit=2).ids


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


def test_what_an_agents_tools_said_and_turns_without_text_are_no_messages_of_the_conversation():
    talk = [
        "human: Is the car insured?",
        "ai: ",
        "tool: [1] 400 pages",
        "ai: Yes, with Allianz.",
        "remove: ",
        "system: Be brief.",
    ]
    assert follow_up("when does it expire?", talk) == "Is the car insured?\nYes, with Allianz.\nwhen does it expire?"
    assert follow_up("when does it expire?", ["assistant: ", "tool: [1] 400 pages"]) is None


def test_the_question_itself_at_the_end_of_the_history_is_no_message_before_it():
    asked = "when does it expire?"
    talk = ["human: Is the car insured?", "ai: Yes, with Allianz.", f"human: {asked}"]
    assert follow_up(asked, talk) == f"Is the car insured?\nYes, with Allianz.\n{asked}"
    assert follow_up(f" {asked}\n", [asked]) is None
