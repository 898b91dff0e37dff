"""The text that says exactly what was asked comes first, before texts that say more or a word less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.search.reorder.words import earlier_first

ENDINGS = ("today", "in the app", "without a receipt", "if it was a gift", "and get my money back", "after thirty days")
BEGINNINGS = ("Re:", "Please tell me:", "Often asked:")
THINGS = ("garden", "kettle", "lamp", "tent")


def variants(text):
    """Texts with more words than this one, and texts that lack one of its words."""
    body, end = (text[:-1], text[-1]) if text[-1] in ".?" else (text, "")
    words = text.split()
    longer = [f"{body} {ending}{end}" for ending in ENDINGS] + [f"{beginning} {text}" for beginning in BEGINNINGS]
    return longer + [" ".join(words[:at] + words[at + 1 :]) for at in range(len(words))]


@pytest.mark.parametrize(
    "asked",
    [
        "How do I return {thing} 24?",
        "What does it cost to insure {thing} 5?",
        "INFO {thing} request 31 took 208 ms",
        "Kündigung von {thing} 49",
        "{thing} stew for 6",
        "Is the {thing} still available in March?",
        "cannot open file {thing}.log: permission denied",
        "Please repair the {thing} on the third floor and call Mira Tanaka at extension 721 when it is done",
    ],
)
@pytest.mark.parametrize("method", ["convex", "rrf"])
def test_the_text_that_is_the_query_comes_first(asked, method):
    texts = [asked.format(thing=thing) for thing in THINGS]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        umi.reconfigure(fusion={"method": method})
        all_texts = dict.fromkeys(each for text in texts for each in [*variants(text), text])
        store.add([Chunk(each, each) for each in all_texts])
        assert [umi.search(text).ids[0] for text in texts] == texts


@pytest.mark.parametrize("asked", ["show me {}", "where do I find {}", "which line is {}?"])
@pytest.mark.parametrize("name", ["[{}] user {} logged in", "WARN {} retry {} of 5", "Salmon {} for {}"])
def test_the_text_that_is_a_phrase_of_the_query_comes_before_longer_ones(asked, name):
    names = [name.format(thing, number) for number, thing in enumerate(THINGS * 3, start=21)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        texts = [text for each in names for text in [each, *(f"{each} {ending}" for ending in ENDINGS)]]
        store.add([Chunk(text, text) for text in texts])
        assert [umi.search(asked.format(each)).ids[0] for each in names] == names


def test_a_text_in_other_capitals_and_signs_is_equal():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(
            [Chunk(text, text) for text in ["does it cost to track tent 56", "What does it cost: to track TENT 56"]]
        )
        assert umi.search("what does it cost to track tent 56?").ids[0] == "What does it cost: to track TENT 56"


def test_a_query_of_signs_alone_is_equal_to_no_text():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk("signs", "!!"), Chunk("words", "three question marks")])
        assert set(umi.search("???").ids) <= {"signs", "words"}


ASKED = ("what is the code of the {} door", "who is the owner of the {} house", "what is the price of the {} lamp")
STATED = (
    "The code of the {} door is 4711.",
    "The owner of the {} house is Ann.",
    "The price of the {} lamp is 300 euros.",
)


def test_a_question_that_was_asked_before_does_not_pass_its_answer():
    with HybridStore.open() as store, DualRetriever(store) as umi:
        colors = ("red", "blue", "green", "black", "white", "grey", "brown", "pink")
        store.add([Chunk(text.format(c), text.format(c)) for c in colors for text in STATED])
        store.add([Chunk(f"{text.format(c)}?", f"{text.format(c)}?") for c in colors for text in ASKED])
        for asked, stated in zip(ASKED, STATED, strict=True):
            assert [umi.search(f"{asked.format(c)}?").ids[0] for c in colors] == [stated.format(c) for c in colors]


def test_a_short_mention_of_a_number_does_not_pass_the_longer_text_on_it():
    use = ("lift", "gym", "garage", "roof", "kitchen")
    clauses = [f"Rules of the club, clause {n}: guests use the {use[n % 5]} on weekdays." for n in range(1, 21)]
    mentions = [f"Guests: subject to clause {n}" for n in range(1, 21)]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add([Chunk(text, text) for text in clauses + mentions])
        assert [umi.search(f"text of clause {n}").ids[0] for n in range(1, 21)] == clauses


tails = st.lists(st.sampled_from(("today", "please", "in Oslo")), max_size=3).map(" ".join)


@given(tails, tails, st.sampled_from(("", "Re: ")))
def test_a_part_counts_no_less_in_a_text_whose_words_a_longer_text_has(one, more, before):
    texts = [f"Return lamp 24 {one}", f"{before}Return lamp 24 {one} {more}"]
    g = np.array([[1 - text.index("24") / len(text)] for text in texts])
    raised = earlier_first(g, texts)
    assert (raised >= g).all()
    assert raised[0, 0] >= raised[1, 0]
    assert raised.max() == g.max()


def test_the_place_of_a_part_counts_as_before_among_texts_with_other_words():
    g = np.array([[0.9, 0.0], [0.5, 0.2], [0.0, 0.8]])
    assert earlier_first(g, ["24 lamps are here", "see lamp 24", "another text"]).tolist() == g.tolist()
