"""The same thing said twice is shown once, and the better hit stays."""

from __future__ import annotations

import random

import numpy as np
import pytest
from context_toys import Words, hit, hits

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget

BARE = AssemblyPolicy(format="{text}", citation="", separator="\n")
"""Only the texts, a line each: tokens are their words."""
WORDS = "The boiler {} put in before last winter leaks from the valve under a pump, so that water stands in our cellar"


def bare(found, total):
    return assemble(found, budget=TokenBudget(max_total=total), policy=BARE, counter=Words())


def test_the_same_text_is_shown_once_and_the_better_hit_stays():
    context = bare([hit("a", "to be or  not", 0.1, 2), hit("b", "to be or not", 0.9, 1)], 100)
    assert context.ids == ["b"]
    assert [(d.id, d.reason, d.by) for d in context.stats.dropped] == [("a", "same text", "b")]
    assert context.stats.duplication_ratio == pytest.approx(13 / 25)


def test_nearly_the_same_words_are_shown_once():
    # 22 words are 20 runs of three; a word more shares 20 of 21, 0.952; two more 20 of 22, 0.909.
    text = WORDS.format("Jonas")
    context = bare(
        [hit("a", text, 0.9, 1), hit("b", text + " now", 0.8, 2), hit("c", text + " once more", 0.7, 3)], 100
    )
    assert context.ids == ["a", "c"]
    assert [(d.id, d.reason, d.by) for d in context.stats.dropped] == [("b", "near-duplicate", "a")]


def test_two_amounts_are_two_facts_however_many_words_they_share():
    text = " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(150))
    assert bare([hit("a", f"{text} for 300", 0.9, 1), hit("b", f"{text} for 400", 0.8, 2)], 999).ids == ["a", "b"]
    assert bare([hit("a", f"{text} for him", 0.9, 1), hit("b", f"{text} for her", 0.8, 2)], 999).ids == ["a"]


def test_long_texts_of_the_same_words_in_another_order_are_two_texts():
    chance = random.Random(3)
    vocabulary = [f"word{chr(97 + i)}" for i in range(26)]
    found = hits(" ".join(chance.choices(vocabulary, k=300)), " ".join(chance.choices(vocabulary, k=300)))
    assert bare(found, 1_000).ids == ["a", "b"]


def test_texts_without_a_single_word_are_told_apart_by_their_characters_alone():
    assert bare(hits("!!!", "???"), 100).ids == ["a", "b"]


def test_vectors_tell_where_both_chunks_have_one():
    found = hits("alpha beta", "gamma delta", "epsilon zeta")
    vectors = {"a": np.array([1.0, 0.0]), "b": np.array([2.0, 0.1]), "c": np.array([0.0, 1.0])}
    context = assemble(found, budget=TokenBudget(), policy=BARE, counter=Words(), vectors=vectors)
    assert context.ids == ["a", "c"]
    assert context.stats.dropped[0].by == "a"


def test_an_id_given_twice_counts_once_with_its_better_score():
    found = [hit("a", "alpha", 0.2, 5), hit("b", "beta", 0.5, 2), hit("a", "alpha", 0.9, 1)]
    context = bare(found, 100)
    assert context.ids == ["a", "b"]
    assert context.parts[0].score == 0.9
