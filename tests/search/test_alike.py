"""Of texts that are alike but for a few words, the one that holds more of what is asked comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.alike import CHARACTERS_MAX, STAGE, fuller_first, words_of

PLACES = ("Bistro Anker", "Golden Wok", "Pizzeria Rosa", "School kitchen Elm Street")
ITEMS = ("fridge temperature", "hand basin", "pest traps", "fire extinguisher")
YEARS = ("2021", "2022", "2023", "2024")


def inspections():
    """One line for each place, year and item, with its date."""
    each = [(place, year, item) for place in PLACES for year in YEARS for item in ITEMS]
    return [
        Chunk(
            f"{place} {year} {item}",
            f"INS-{7919 * at % 9001}, {place}, {1 + 5 * at % 28}.{1 + at % 12:02}.{year}, {item}: "
            + ("Result: pass." if at % 3 else "in bad order. Result: FAIL, to be mended within 14 days."),
        )
        for at, (place, year, item) in enumerate(each)
    ]


@pytest.fixture(scope="module")
def umi():
    with HybridStore.open() as store, DualRetriever(store) as made:
        store.add(inspections())
        yield made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("item", ITEMS)
def test_a_line_of_a_form_is_found_by_all_that_is_asked_of_it(umi, place, item):
    for year in YEARS:
        assert umi.search(f"{place} {year} {item}").ids[0] == f"{place} {year} {item}"


def test_the_first_hit_does_not_depend_on_the_limit(umi):
    for chunk in inspections():
        assert umi.search(chunk.id, limit=1).ids == umi.search(chunk.id, limit=10).ids[:1]


def test_scores_and_relevance_still_fall_along_the_result(umi):
    for chunk in inspections():
        hits = umi.search(chunk.id).hits
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)


def test_the_stage_is_named_in_the_hits_and_can_be_turned_off(umi):
    off = umi.with_config(fusion={"alike": False})
    for each, expected in ((umi, True), (off, False)):
        assert any(STAGE in hit.stages for chunk in inspections() for hit in each.search(chunk.id)) is expected


def order_of(texts, query, scores=None):
    words = [words_of(text) for text in texts]
    return fuller_first(words, [own & words_of(query) for own in words], scores or [1.0] * len(texts))


def test_a_text_passes_those_before_it_that_hold_less():
    texts = ["line N4 stops at Stadium", "line N4 stops at Museum", "line 14 stops at Stadium"]
    assert order_of(texts, "line 14 Stadium") == [2, 0, 1]


def test_a_text_that_lacks_a_word_of_the_other_does_not_pass_it():
    assert order_of(["line 14 stops at Museum", "line N4 stops at Stadium"], "line 14 Stadium") == [0, 1]


def test_texts_that_share_few_words_keep_their_order():
    prose = "Buses to the Stadium are full before a match, so walk."
    assert order_of([prose, "line 14 stops at Stadium"], "line 14 Stadium") == [0, 1]


def test_a_text_with_a_much_lower_score_passes_nothing():
    texts = ["line N4 stops at Stadium", "line 14 stops at Stadium"]
    assert order_of(texts, "line 14 Stadium", [1.0, 0.81]) == [1, 0]
    assert order_of(texts, "line 14 Stadium", [1.0, 0.79]) == [0, 1]


@pytest.mark.parametrize("text", ["line 14 stops " * CHARACTERS_MAX, "-- / --"], ids=["a book", "no words"])
def test_a_book_and_a_text_without_words_are_alike_to_nothing(text):
    words = [words_of(text), words_of("line 14 stops at Stadium")]
    assert fuller_first(words, [frozenset(), frozenset({"stadium"})], [1.0, 1.0]) == [0, 1]


WORDS = st.frozensets(st.sampled_from("abcdef"), max_size=6)


@given(st.lists(WORDS, max_size=5), WORDS)
def test_every_text_stays_and_equal_texts_keep_their_order(words, asked):
    order = fuller_first(words, [own & asked for own in words], [1.0] * len(words))
    assert sorted(order) == list(range(len(words)))
    for own in set(words):
        same = [at for at in order if words[at] == own]
        assert same == sorted(same)
