"""Forms of a word that the stemmer does not join are found by each other: mice and mouse, went and go."""

from __future__ import annotations

import pytest

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.sim import HashEmbedder


def first(question, *texts):
    """The first of some texts by BM25, among others that hold none of the words."""
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(f"o{at}", f"Note {at}: rain and wind until evening.") for at in range(30)])
        store.add([Chunk(text, text) for text in texts])
        found = store.search_lexical(question, k=1)
    return found[0][0] if found else None


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("mouse in the cellar", "Three mice were seen near the cellar."),
        ("did Dana go to Leeds", "Dana went to Leeds."),
        ("what has Ann bought", "Ann buys apples."),
        ("who runs there", "Bob ran past the gate."),
        ("organisation of labour", "Labor needs organization."),
        ("a flat with 8 rooms", "It has eight rooms."),
        ("the seventh meeting", "Minutes of the 7th meeting."),
        ("the 16th symphony", "On the sixteenth symphony."),
        ("floor 9", "Labs are on the ninth floor."),
        ("ninth floor", "Labs are on floor 9."),
        ("a 5 ft ladder", "A ladder of 5 feet."),
        ("selenium 500 mcg", "Selenium, 500 µg a tablet."),
        ("board on Tuesday", "The board meets on Tue."),
        ("chapter 8", "Chapter VIII is on debts."),
        ("β carotene", "Beta carotene in carrots."),
    ],
)
def test_a_text_is_found_by_another_form_of_its_word(question, text):
    forms = (
        "mice",
        "went",
        "buys",
        "ran",
        "Labor",
        "eight",
        "7th",
        "sixteenth",
        "ninth",
        "floor 9",
        "feet",
        "µg",
        "Tue",
        "VIII",
        "Beta",
    )
    others = {text.replace(form, "-") for form in forms} - {text}  # shorter, and so first without the form
    assert others and first(question, text, *others) == text


@pytest.mark.parametrize(
    ("question", "text", "other"),
    [
        ("who gave a talk", "Ann gave a talk.", "Ann gives a talk."),
        ("two rooms", "A flat of two rooms.", "A flat of 2 rooms."),
        ("part ii", "See part II for it.", "See part 2 for it."),
        ("the 2 rooms", "It has 2 rooms there.", "It has two rooms there."),
    ],
)
def test_the_word_as_it_is_typed_comes_first(question, text, other):
    assert first(question, other, text) == text


@pytest.mark.parametrize(
    ("question", "text"),
    [("ring", "range"), ("index", "indicates"), ("friday", "fried fish")],
)
def test_a_word_that_only_shares_a_stem_with_a_form_is_not_sought(question, text):
    assert first(question, text) is None


def test_forms_are_sought_with_an_idf_that_may_be_nought_or_below():
    config = UmiConfig().replaced(lexical={"variant": "okapi"})
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(str(at), "two rooms" if at % 2 else "2 flats") for at in range(10)])
        result = DualRetriever(store, config=config).search("two flats")
    assert len(result.hits) == 10 and not result.degraded


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("data bases in Malmo", "The database of a branch."),
        ("how do I log in", "A login by phone."),
        ("free white space", "Whitespace at the end."),
    ],
)
def test_two_words_are_found_where_a_text_writes_them_as_one(question, text):
    assert first(question, text) == text


def test_a_mistyped_word_beside_another_one_is_still_corrected():
    assert first("ingestion mena", "Ingestion is eating.") == first("ignestion mean", "Ingestion is eating.")


def test_a_word_of_which_a_text_holds_another_form_is_not_taken_for_mistyped():
    assert first("who bought it", "Ann brought it.") == "Ann brought it."
    assert first("bought", "Ann brought apples.", "Ann buys apples.") == "Ann buys apples."


def test_a_rare_form_counts_less_than_the_frequent_word_as_typed():
    gave = [f"Ann gave {n}." for n in range(9)]
    assert first("who gave", "Bob gives 9.", *gave) in gave


def test_a_word_is_found_with_accents_although_another_text_joins_it_with_the_next_word():
    with HybridStore.open(embedder=HashEmbedder()) as store, DualRetriever(store) as umi:
        store.add([Chunk("café", "The café opens at noon."), Chunk("joined", "The cafebar is closed.")])
        assert set(umi.search("cafe bar", strategy="text").ids) == {"café", "joined"}


def test_a_word_as_it_is_typed_comes_before_the_two_words_joined():
    assert first("the data base", "It is a database.", "It is a data base.") == "It is a data base."


def test_two_words_written_as_one_are_found_also_if_the_query_holds_another_form_of_the_second_word():
    assert first("sky runs or one run", "A skyrun in the Alps.") == "A skyrun in the Alps."
