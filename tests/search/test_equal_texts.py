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


offsets_and_ends = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=20)


@given(offsets_and_ends)
def test_a_text_that_holds_a_part_earlier_never_has_a_smaller_g(places):
    offsets = [offset for offset, _ in places]
    lengths = [offset + rest for offset, rest in places]
    g = np.array([[1 - offset / length] for offset, length in zip(offsets, lengths, strict=True)])
    raised = earlier_first(g, lengths)
    assert (raised >= g).all()
    assert raised.max() == g.max()
    in_order = raised[np.argsort(offsets, kind="stable"), 0]
    assert (np.diff(in_order) <= 0).all()
    assert len(set(zip(offsets, raised[:, 0].tolist(), strict=True))) == len(set(offsets))


def test_the_place_of_a_part_counts_as_before_among_texts_of_one_length():
    g = np.array([[0.9, 0.0], [0.5, 0.2], [0.0, 0.8]])
    assert earlier_first(g, [10, 10, 10]).tolist() == g.tolist()
