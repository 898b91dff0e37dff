"""Forms of a word that no stemmer joins are one term: mice and mouse, went and go, Tue and Tuesday."""

from __future__ import annotations

import pytest

from umi_common import Chunk, HybridStore
from umi_common.config import AnalyzerConfig
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical.analyzer import Analyzer

TERMS = Analyzer(AnalyzerConfig()).terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the mice", "the mouse"),
        ("she went", "she goes"),
        ("Ann bought", "Ann buys"),
        ("coloured organisations", "colored organization"),
        ("eight rooms", "8 rooms"),
        ("Tue, 3 Sept", "Tuesday, 3 September"),
        ("Chapter VIII", "chapter 8"),
    ],
)
def test_two_forms_of_a_word_are_one_term(one: str, other: str):
    assert TERMS(one) == TERMS(other)


@pytest.mark.parametrize(("one", "other"), [("the seventh meeting", "7th"), ("β-carotene", "beta")])
def test_a_text_has_the_term_of_the_other_form(one: str, other: str):
    assert TERMS(other)[-1] in TERMS(one)


@pytest.mark.parametrize(
    "one", ["found founder", "see saw", "rise rose", "leaf leaves", "one 1", "second 2", "Sat Saturday"]
)
def test_words_that_are_often_another_word_stay_apart(one: str):
    first, second = one.split()
    assert TERMS(first) != TERMS(second)


def test_a_german_text_has_german_number_words():
    german, english = (Analyzer(AnalyzerConfig(language=language)) for language in ("german", "english"))
    assert german.terms("acht Stück") == german.terms("8 Stück")
    assert english.terms("acht") == ["acht"]


def test_a_question_in_the_present_tense_finds_the_turn_in_the_past_among_many():
    others = [Chunk(f"o{at}", f"Dana goes on about shelf {at} and the market.") for at in range(300)]
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([*others, Chunk("right", "Yesterday Dana caught a trout and thought of it.")])
        assert store.search_lexical("which fish did Dana catch?", k=1)[0][0] == "right"
