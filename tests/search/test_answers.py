"""The answer to a question of a chat comes directly behind the question."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from umi_common import Chunk, DualRetriever, HybridStore

START = datetime(2024, 5, 6, 8, tzinfo=timezone.utc)
SMALL_TALK = ("Mira: did you sleep well?", "Tom: not really", "Mira: what is for tea then?", "Tom: toast")


QUERY = "which paint did Tom use for the kitchen?"


def found(question: str, answer: str, *, minutes: float | None = 1, query: str = QUERY) -> list[str]:
    """The ids for the query, best first, in a chat with much small talk; the question is "q", the answer "a"."""
    texts = [*SMALL_TALK * 5, question, answer, *SMALL_TALK * 5]
    ids = [*(f"before {at}" for at in range(20)), "q", "a", *(f"later {at}" for at in range(20))]
    times = [None if minutes is None else START + timedelta(minutes=minutes * at) for at in range(len(texts))]
    chat = [
        Chunk(id, text, source="chat", position=at, event_time=time)
        for at, (id, text, time) in enumerate(zip(ids, texts, times, strict=True))
    ]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(chat)
        return list(umi.search(query).ids)


@pytest.mark.parametrize("query", [QUERY, "which paint was used for the kitchen?"])
@pytest.mark.parametrize("minutes", [None, 1, 60])
@pytest.mark.parametrize("names", [("Mira: ", "Tom: "), ("", "")])
def test_an_answer_without_words_of_the_query_comes_behind_its_question(names, minutes, query):
    mira, tom = names
    question, answer = f"{mira}which paint did you use for the kitchen?", f"{tom}sage green, two coats"
    assert found(question, answer, minutes=minutes, query=query)[:2] == ["q", "a"]


@pytest.mark.parametrize("end", ["? 😊", "?!", "؟", "？", "？！"])
def test_a_question_may_end_with_an_emoji_an_exclamation_mark_or_the_mark_of_another_script(end):
    question = f"Mira: which paint did you use for the kitchen{end}"
    assert found(question, "Tom: sage green, two coats")[:2] == ["q", "a"]


@pytest.mark.parametrize(
    ("question", "answer", "minutes"),
    [
        ("Mira: which paint did you use for the kitchen?", "Mira: sorry, must run", 1),
        ("Mira: which paint did you use for the kitchen?", "Tom: sage green, two coats", 61),
        ("Mira: which paint did you use for the kitchen?", "Tom: why do you ask?", 1),
        ("Mira: I like the paint that you used for the kitchen", "Tom: sage green, two coats", 1),
    ],
)
def test_the_askers_next_message_a_later_talk_a_question_and_a_text_behind_a_statement_are_not_raised(
    question, answer, minutes
):
    for query in (QUERY, "which paint was used for the kitchen?"):
        ids = found(question, answer, minutes=minutes, query=query)
        assert ids[0] == "q"
        assert ids[1] != "a"


def test_what_another_answers_to_the_person_whom_the_query_names_is_not_raised():
    ids = found("Tom: which paint should I use for the kitchen?", "Mira: sage green, two coats")
    assert ids[0] == "q"
    assert ids[1] != "a"
