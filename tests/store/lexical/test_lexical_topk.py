"""The best k: pruned equals unpruned to the bit; filters, weights and ties as by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_reference import Book
from pytest import approx

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import InputError
from umi_common.stores.arrays import best_rows
from umi_common.stores.lexical import top_k as topk
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.bm25 import RowScorer
from umi_common.stores.lexical.corpus import Corpus
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.top_k import SearchLimits

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()
VOCABULARY = 400
WORDS = ["".join(letters) for letters in product("abcdefgh", repeat=3)][:VOCABULARY]


def zipf_texts(rng: np.random.Generator, count: int) -> list[str]:
    """Texts of 1 to 30 words, where word i is about 1/i as frequent as the first."""
    chances = 1 / np.arange(1, VOCABULARY + 1)
    words = rng.choice(VOCABULARY, size=(count, 30), p=chances / chances.sum())
    return [" ".join(WORDS[word] for word in row[: rng.integers(1, 31)]) for row in words.tolist()]


def zipf_query(rng: np.random.Generator) -> str:
    chances = 1 / np.arange(1, VOCABULARY + 1) ** 0.7
    return " ".join(WORDS[word] for word in rng.choice(VOCABULARY, rng.integers(1, 8), p=chances / chances.sum()))


def zipf_index(rng: np.random.Generator, count: int) -> tuple[LexicalIndex, dict[int, list[str]]]:
    """Some rows in several segments, some of them removed; and what is left."""
    index, live = LexicalIndex(PLAIN), {}
    for start in range(0, count, max(count // 3, 1)):
        texts = zipf_texts(rng, min(max(count // 3, 1), count - start))
        index.update(range(start, start + len(texts)), texts, [-1] * len(texts))
        live.update({start + place: text.split() for place, text in enumerate(texts)})
    gone = rng.choice(count, rng.integers(0, count // 2 + 1), replace=False).tolist()
    index.update(removed=gone)
    return index, {row: terms for row, terms in live.items() if row not in set(gone)}


seeds = st.integers(0, 2**32 - 1)
variants = st.sampled_from(["lucene", "okapi", "l", "plus"])
EVERYWHERE = 10**9
"""As `BOUNDS_PAY`: upper bounds of all rows are used for every query."""
WAYS = ((EVERYWHERE, 0), (0, 0), (0, EVERYWHERE))
"""`PRUNING_PAYS` and `BOUNDS_PAY` under which all postings are summed, few are, and all rows have an upper bound."""
ways = st.sampled_from(WAYS)


def take_way(patch: pytest.MonkeyPatch, way: tuple[int, int]) -> None:
    for name, value in zip(("PRUNING_PAYS", "BOUNDS_PAY"), way, strict=True):
        patch.setattr(topk, name, value)


def limits_of(rng: np.random.Generator, corpus: Corpus, k: int) -> SearchLimits:
    mask = corpus.alive & (rng.random(corpus.rows) < rng.choice([0.02, 0.5, 1.0]))
    weights = rng.choice([None, 0.0, 0.5])
    weights = None if weights is None else weights + (1 - weights) * rng.random(corpus.rows)
    return SearchLimits(k, mask, weights, "{:06d}".format)


@given(seeds, st.integers(1, 700), st.sampled_from([1, 2, 10, 50]), variants)
@settings(max_examples=150, deadline=None)
def test_pruned_equals_exhaustive_to_the_bit(seed: int, count: int, k: int, variant: str):
    rng = np.random.default_rng(seed)
    index, _ = zipf_index(rng, count)
    corpus = index._snapshot.corpus
    scorer = RowScorer(corpus, LexicalConfig(variant=variant))
    for _ in range(5):
        query, limits = scorer.query(Counter(PLAIN.terms(zipf_query(rng)))), limits_of(rng, corpus, k)
        if not query.terms or query.terms[-1].idf < 0:
            continue
        slow = topk.exhaustive(scorer, query, limits)
        for read, bounds_pay in ((1, 0), (100, 0), (8_192, 0), (8_192, EVERYWHERE)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(topk, "READ_AT_ONCE", read)
                patch.setattr(topk, "BOUNDS_PAY", bounds_pay)
                fast = topk.pruned(scorer, query, limits)
            assert fast.rows.tolist() == slow.rows.tolist()
            assert fast.scores.tolist() == slow.scores.tolist()


@given(seeds, st.integers(1, 120), st.sampled_from([1, 3, 10]), variants, ways)
@settings(max_examples=200, deadline=None)
def test_filters_and_weights_act_before_the_best_k_are_taken(
    seed: int, count: int, k: int, variant: str, way: tuple[int, int]
):
    rng = np.random.default_rng(seed)
    index, live = zipf_index(rng, count)
    book, ids = Book(live, LexicalConfig(variant=variant)), {row: f"{row * 7919 % 1009:04d}" for row in live}
    allowed, weights = rng.random(count + 3) < rng.choice([0.05, 0.6]), rng.random(count + 3)
    query = zipf_query(rng)
    with pytest.MonkeyPatch.context() as patch:
        take_way(patch, way)
        for mask, factors in ((None, None), (allowed, None), (None, weights), (allowed, weights)):
            expected = dict(book.ranking(query.split(), count, ids, mask, factors))
            best, everything = (
                index.search(
                    [query], k=limit, config=book.config, allowed=mask, weights=factors, id_of=ids.__getitem__
                )[0]
                for limit in (k, count)
            )
            found = dict(zip(everything.rows.tolist(), everything.scores.tolist(), strict=True))
            assert found == approx(expected, abs=1e-9)
            # Scores that are equal by the book may differ in their last bit: the order is that of the index's scores.
            assert list(found) == sorted(found, key=lambda row: (-found[row], ids[row]))
            assert best.rows.tolist() == list(found)[:k]
            assert best.scores.tolist() == list(found.values())[:k]


@pytest.mark.parametrize("way", WAYS)
def test_ties_fall_to_the_smaller_id_also_at_the_last_place(way: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    take_way(monkeypatch, way)
    index = LexicalIndex(PLAIN)
    index.update(range(60), ["ant"] * 59 + ["ant ant"], [-1] * 60)
    found = index.search(["ant"], k=4, config=LUCENE, id_of=lambda row: f"{99 - row}")[0]
    assert found.rows.tolist() == [59, 58, 57, 56]
    assert found.scores[0] > found.scores[1] == found.scores[3]


@given(seeds, st.lists(st.sampled_from(["longer", "shorter", "removed", "k1", "half as important"]), max_size=5))
@settings(max_examples=60, deadline=None)
def test_common_words_find_the_same_rows_after_any_writes_and_under_any_parameters(seed: int, changes: list[str]):
    rng = np.random.default_rng(seed)
    index, _ = zipf_index(rng, 200)
    config, weights, rows = LUCENE, np.ones(2_000), 200
    for change in ["nothing", *changes]:
        if change in ("longer", "shorter"):
            texts = zipf_texts(rng, 40)
            texts = [f"{text} " * 6 if change == "longer" else " ".join(text.split()[:2]) for text in texts]
            index.update(range(rows, rows + 40), texts, [-1] * 40)
            rows += 40
        elif change == "removed":
            index.update(removed=rng.choice(rows, 20, replace=False).tolist())
        elif change == "k1":
            config = config.model_copy(update={"k1": config.k1 * 1.5})
        else:
            weights = weights * 2.0 ** -rng.integers(0, 400, 2_000)
        query, found = " ".join([*WORDS[:5], WORDS[-1]]), []
        for way in WAYS:
            with pytest.MonkeyPatch.context() as patch:
                take_way(patch, way)
                found += index.search([query], k=10, config=config, weights=weights, id_of="{:06d}".format)
        assert found[0].rows.tolist() == found[1].rows.tolist() == found[2].rows.tolist()
        assert found[0].scores.tolist() == found[1].scores.tolist() == found[2].scores.tolist()


def test_several_queries_in_one_call_are_answered_in_their_order():
    index = LexicalIndex(PLAIN)
    index.update([3, 5], ["ant", "bee"], [-1, -1])
    found = index.search(["bee", "cat", "ant"], k=2, config=LUCENE, id_of=str)
    assert [ranking.rows.tolist() for ranking in found] == [[5], [], [3]]


def test_rows_that_no_filter_lets_through_are_not_replaced_by_others():
    index = LexicalIndex(PLAIN)
    index.update(range(5), ["ant bee"] * 5, [-1] * 5)
    allowed = np.array([False, True, False, False, False])
    assert index.search(["ant"], k=3, config=LUCENE, allowed=allowed, id_of=str)[0].rows.tolist() == [1]
    assert not len(index.search(["ant"], k=3, config=LUCENE, allowed=np.zeros(5, bool), id_of=str)[0])
    assert not len(index.search(["ant"], k=3, config=LUCENE, weights=np.zeros(5), id_of=str)[0])


def test_a_mask_that_is_too_short_or_a_k_of_zero_is_refused():
    index = LexicalIndex(PLAIN)
    index.update([0, 1], ["ant", "ant"], [-1, -1])
    with pytest.raises(InputError, match="allowed has 1 entries; expected one for each of the 2 rows"):
        index.search(["ant"], k=1, config=LUCENE, allowed=np.ones(1, bool), id_of=str)
    with pytest.raises(InputError, match="k is 0"):
        index.search(["ant"], k=0, config=LUCENE, id_of=str)


@given(st.lists(st.integers(0, 4), max_size=80), st.integers(1, 30), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_the_best_are_those_of_sorting_everything(scores: list[int], k: int, random: Random):
    count = len(scores)
    ids = random.sample([f"{number:02d}" for number in range(80)], count)
    expected = sorted((row for row in range(count) if scores[row]), key=lambda row: (-scores[row], ids[row]))[:k]
    rows, found = best_rows(np.arange(count), np.array(scores, np.float64), k, ids.__getitem__, above=0.0)
    assert rows.tolist() == expected
    assert found.tolist() == [scores[row] for row in expected]
