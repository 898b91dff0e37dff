"""The passage of a long text that answers a query."""

from __future__ import annotations

import time

import pytest

from umi_common import Chunk
from umi_common.config import AnalyzerConfig
from umi_common.search.passages import passage_finder

TALK = "The committee met on Monday. Lunch was served at noon. The weather was fine, and what was said was short. "


def found(query, text):
    span = passage_finder(query, AnalyzerConfig())(Chunk("c", text))
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


def test_an_item_of_one_long_line_is_found():
    items = [f'{{"id": {n}, "name": "item {n}", "price": {n * 3.5}, "note": "{"x" * 20}"}}' for n in range(400)]
    passage = found("price of item 333", ", ".join(items))
    assert "item 333" in passage and len(passage) <= 210


def test_a_sentence_below_its_heading_is_found_by_both():
    text = f"{TALK * 9}\n# Roof\nIt is new.\n{TALK * 9}\n# Boiler\nIts valve leaks.\n{TALK * 9}"
    assert found("boiler valve", text) in ("# Boiler", "Its valve leaks.")


@pytest.mark.parametrize("text", [TALK * 20, "🙂" * 50, "   \n"])
def test_a_text_without_a_word_of_the_query_has_no_such_passage(text):
    assert found("quantum chromodynamics", text + "x") is None


@pytest.mark.parametrize("text", ["a" * 200_000, "a " * 100_000, ". " * 100_000, "\n" * 200_000 + "a", "a.b" * 70_000])
def test_hostile_texts_take_little_time(text):
    started = time.perf_counter()
    found("a b", text)
    assert time.perf_counter() - started < 5.0
