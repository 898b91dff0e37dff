"""The passage of a long text that answers a query."""

from __future__ import annotations

import pytest
from stopwatch import processor_seconds

from umi_common import Chunk, DualRetriever, Hit, HybridStore, TokenBudget
from umi_common.context.budget import AssemblyPolicy
from umi_common.search.passages import assemble_for, passage_finder

TALK = "The committee met on Monday. Lunch was served at noon. The weather was fine, and what was said was short. "


def found(query, text):
    span = passage_finder(query)(Chunk("c", text))
    return None if span is None else text[span[0] : span[1]]


@pytest.mark.parametrize(
    "query, passage",
    [
        ("what is the code of the vault?", "The code of the vault is 4711."),
        ("codes for vaults", "The code of the vault is 4711."),
        ("Welchen Code hat der Tresor?", "Der Code des Tresors ist 4711."),
        ("金库的密码是什么", "金库的密码是4711。"),
        ("E-1042", "Error e1042: restart the pump."),
        ("which valve leaks", "| valve | leaks |"),
    ],
)
def test_the_sentence_or_line_with_the_words_of_the_query_is_found(query, passage):
    assert found(query, f"{TALK * 20}\n{passage}\n{TALK * 20}") == passage


def test_a_rare_word_of_the_query_counts_more_than_a_common_one():
    assert found("lunch of the vault", TALK * 20 + "The vault is deep. " + TALK * 20) == "The vault is deep."


def test_a_title_is_the_passage_if_no_other_line_holds_a_word_of_the_query():
    assert found("zeppelin engine", "Zeppelin engine\n\nIt flies far. It has two motors.") == "Zeppelin engine"


def test_a_line_that_ends_with_a_colon_is_no_title():
    assert found("alarm code", "The code of the alarm:\n\n4711, a code") == "The code of the alarm:"
    assert found("alarm code", "The code of the alarm\n\n4711, a code") == "4711, a code"


def test_an_item_of_one_long_line_is_found():
    items = [f'{{"id": {n}, "name": "item {n}", "price": {n * 3.5}, "note": "{"x" * 20}"}}' for n in range(400)]
    passage = found("price of item 333", ", ".join(items))
    assert "item 333" in passage and len(passage) <= 210


@pytest.mark.parametrize("before", range(190, 212))
def test_a_word_is_found_wherever_it_stands_in_a_line_of_thousands_of_words(before):
    words = "lunch was served at noon and the weather was fine " * 80
    text = f"{words[:before]} gatehouse {words}"
    assert "gatehouse" in found("gatehouse", text)


def test_a_sentence_below_its_heading_is_found_by_both():
    text = f"{TALK * 9}\n# Roof\nIt is new.\n{TALK * 9}\n# Boiler\nIts valve leaks.\n{TALK * 9}"
    assert found("boiler valve", text) in ("# Boiler", "Its valve leaks.")


@pytest.mark.parametrize("text", [TALK * 20, "🙂" * 50, "   \n"])
def test_a_text_without_a_word_of_the_query_has_no_such_passage(text):
    assert found("quantum chromodynamics", text + "x") is None


@pytest.mark.parametrize("text", ["a" * 200_000, "a " * 100_000, ". " * 100_000, "\n" * 200_000 + "a", "a.b" * 70_000])
def test_hostile_texts_take_little_time(text):
    assert processor_seconds(lambda: found("a b", text)) < 5.0


MENU = "The cafe serves lunch. Its menu has soup. "


def test_the_words_of_a_follow_up_question_count_more_than_those_of_the_messages_before_it():
    text = f"{MENU * 30}\nThe passport costs 60 euros.\n{MENU * 30}\nThe passport expires in ten years.\n{MENU * 30}"
    history = ["what does a passport cost?", "60 euros."]
    kept = assemble_for("and when does it expire?", [Hit(Chunk("c", text), 1.0, 1)], budget=80, history=history)
    assert "expires in ten years" in kept.text


def test_a_follow_up_question_that_names_nothing_keeps_the_passage_of_the_messages_before_it():
    text = f"{MENU * 30}\nThe boiler of the mill leaks at its valve.\n{MENU * 30}"
    with HybridStore.open() as store:
        store.add([Chunk("c", text)])
        history = ["what is broken in the mill?", "The boiler."]
        kept = DualRetriever(store).get_context("and why is that?", budget=80, history=history)
    assert "leaks at its valve" in kept.text


def test_the_roles_of_the_messages_before_a_follow_up_question_choose_no_passage():
    text = f"{MENU * 30}\nA user has a locker.\n{MENU * 30}\nA passport takes four weeks.\n{MENU * 30}"
    history = ["user: what does a passport cost?", "assistant: 60 euros."]
    kept = assemble_for("and how long is it?", [Hit(Chunk("c", text), 1.0, 1)], budget=80, history=history)
    assert "takes four weeks" in kept.text


def test_the_words_of_a_question_count_more_than_those_of_the_mail_around_it():
    text = f"{MENU * 30}\nThe code of the vault is 4711.\n{MENU * 30}"
    lunch = "the cafe had a good lunch menu with soup again. " * 3
    mail = f"Hello team, {lunch}What is the code of the vault?\nYours, Ann"
    assert "4711" in assemble_for(mail, [Hit(Chunk("c", text), 1.0, 1)], budget=80).text


def test_a_text_that_was_put_around_the_found_one_is_cut_around_this_and_a_neighbour_by_itself():
    part, beside = "The vault is locked.", f"{MENU * 30}The code of the vault is 4711. {MENU * 30}"
    section = f"The vault is deep. {MENU * 30}{part} {MENU * 30}"
    found = [Hit(Chunk("c", part, source="d", position=0), 1.0, 1)]
    hits = [Hit(Chunk("c", section, source="d", position=0), 1.0, 1)]
    around = {"c": [hits[0].chunk, Chunk("next", beside, source="d", position=1)]}
    limits = TokenBudget(max_total=300, per_chunk_max=80)
    kept = assemble_for(
        "code of the vault", hits, found=found, budget=limits, around=around, policy=AssemblyPolicy(neighbours=1)
    )
    assert part in kept.text and "4711" in kept.text


HEADERS = "From: Robert <r@example.com>\nTo: Ann <a@example.com>\nSubject: Alarm code for the office\n"


@pytest.mark.parametrize("title", [HEADERS, "Alarm code for the office\n", "# Alarm code for the office\n"])
@pytest.mark.parametrize("question", ["alarm code", "what is the code of the alarm?"])
def test_a_mail_or_note_is_cut_around_the_answer_below_its_title(title, question):
    text = f"{title}\nHi Ann,\n\n{MENU * 10}\n\nThe code is now 4711. {MENU * 3}"
    assert "4711" in assemble_for(question, [Hit(Chunk("c", text), 1.0, 1)], budget=60).text


def test_a_mail_whose_body_has_no_word_of_the_question_is_cut_to_its_headers():
    assert found("alarm code", f"{HEADERS}\nHi Ann,\n\n{MENU * 10}") == "Subject: Alarm code for the office"
