"""The answer to a question of a chat comes directly behind the question, or before it."""

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


LAKE = ("Lukas: Ben, what time shall I be at the lake tomorrow?", "Ben: not before ten, I sleep long")


@pytest.mark.parametrize(
    "query",
    [
        "what did Ben answer Lukas about the lake?",
        "what did Ben reply when Lukas wanted to know about the lake?",
        "when shall we meet at the lake?",
        "When shall I be at the lake on Sunday",
    ],
)
def test_the_answer_comes_before_a_question_that_holds_some_of_the_querys_words(query):
    assert found(*LAKE, query=query)[:2] == ["a", "q"]


@pytest.mark.parametrize(
    ("query", "question"),
    [
        ("who asked about the lake?", LAKE[0]),
        ("what was the question about the lake?", LAKE[0]),
        ("lake meeting", LAKE[0]),
        ("Ben and Lukas at the lake", LAKE[0]),
        ("what time shall I be at the lake tomorrow?", LAKE[0]),
        ("what time at the lake tomorrow?", LAKE[0]),
        ("when was the boat at the lake painted?", "Lukas: We painted the boat at the lake in May. Nice, isn't it?"),
        ("which boat is at the lake?", "Lukas: The red boat is at the lake. Shall I bring the other boat?"),
        ("who lives at the lake?", "Lukas: Uncle Karl lives at the lake. Did you know that?"),
        ("is the lake warm?", "Lukas: 22 degrees in the lake!\nAre you coming?"),
        ("when does the ferry to the lake leave?", "Lukas: Shall we take the ferry to the lake at 9 am?"),
    ],
)
def test_a_question_stays_first_if_it_is_sought_or_tells_something_itself(query, question):
    assert found(question, LAKE[1], query=query)[0] == "q"


def test_what_the_person_of_the_query_asked_comes_first():
    assert found(*LAKE, query="what did Lukas want to know about the lake?")[0] == "q"


@pytest.mark.parametrize(
    ("query", "question", "answer"),
    [
        ("what did Tom answer about the ferry at 9?", "Shall we take the ferry at 9?", "ok"),
        ("who replied to Mira about the ferry?", "Shall we take the ferry at 9?", "ok"),
        (
            "what did Tom say about the flat by the canal?",
            "Did you like the flat?",
            "Too dark, and the landlord was rude.",
        ),
        ("was hat Tom zur Fähre geantwortet?", "Nehmen wir die Fähre um neun?", "ja gern"),
        ("qu'a répondu Tom pour le ferry ?", "On prend le ferry à neuf heures ?", "oui"),
        ("¿qué contestó Tom sobre el ferry?", "¿Tomamos el ferry a las nueve?", "vale"),
    ],
)
def test_the_answer_of_the_person_asked_about_comes_before_its_question(query, question, answer):
    assert found(f"Mira: {question}", f"Tom: {answer}", query=query)[:2] == ["a", "q"]


@pytest.mark.parametrize(
    ("query", "question", "answer"),
    [
        ("wann fährt unser Zug nach Hamburg am Freitag?", "Ben, wann fährt der Zug nach Hamburg?", "Um 7:52, Gleis 11"),
        ("was schenken alle dem Papa zum Sechzigsten?", "Was schenken wir Papa?", "Einen Rundflug"),
        ("à quelle heure part le ferry de dimanche ?", "À quelle heure part le ferry ?", "À 6h40"),
        ("on mange quoi dimanche chez Odile ?", "Dimanche, on mange quoi ?", "Des pâtes"),
        ("¿quién recoge a los niños este viernes?", "¿Quién recoge a los niños?", "La abuela"),
        ("when is the shop at the weir open?", "Do you know when the shop is open?", "Until six"),
    ],
)
def test_the_answer_comes_before_a_question_for_a_fact_in_other_languages_and_behind_do_you_know(
    query, question, answer
):
    assert found(f"Mira: {question}", f"Uwe: {answer}", query=query)[:2] == ["a", "q"]


@pytest.mark.parametrize(
    ("query", "question", "answer"),
    [
        ("what did Tom say about the ferry on Monday?", "Shall we take the ferry at 9?", "ok"),
        ("when does the ferry leave on Monday?", "Shall we take the ferry when it rains?", "yes please"),
        ("what about the red boat on Monday?", "Is that the boat which is red?", "no"),
        ("where is the party of Mira on Monday?", "Could we have the party where Ana lives?", "fine"),
        ("who comes to the lake on Monday?", "Was it you who came to the lake?", "yes"),
        ("wer hat nach dem Zug nach Hamburg gefragt?", "Wann fährt der Zug nach Hamburg?", "Um 7:52"),
        ("qui a demandé l'heure du ferry ?", "À quelle heure part le ferry ?", "À 6h40"),
        ("¿quién preguntó por los niños?", "¿Quién recoge a los niños?", "La abuela"),
        ("what did Mira ask about the shop on Monday?", "When is the shop open?", "Until six"),
        ("what is the plan of Mira for the shop?", "Shall we paint the shop?", "Yes, in May with Uwe"),
    ],
)
def test_an_answer_that_tells_nothing_or_is_not_asked_for_comes_behind_its_question(query, question, answer):
    ids = found(f"Mira: {question}", f"Tom: {answer}", query=query)
    assert "a" not in ids or ids.index("q") < ids.index("a")


@pytest.mark.parametrize(
    ("query", "question", "answer"),
    [
        ("wer fährt nach Rügen?", "Lena: Wir fahren nach Rügen. Wer kommt mit?", "Jonas: Leider nein"),
        ("who asked if you answered the auditor?", "Omar: Did you answer the auditor?", "Lea: yes, yesterday"),
        (
            "who asked Lea to reply to the client?",
            "Omar: Can you reply to the client about the delay?",
            "Lea: I replied that it takes two weeks",
        ),
    ],
)
def test_a_question_that_tells_the_fact_or_is_sought_stays_before_the_reply(query, question, answer):
    assert found(question, answer, query=query)[:2] == ["q", "a"]
