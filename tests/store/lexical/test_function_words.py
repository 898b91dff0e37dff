"""Function words of a query count less than its other words; nothing is left out of the index."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_reference import Book
from pytest import approx

from umi_common import DualRetriever, HybridStore, UmiConfig
from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.sim import HashEmbedder
from umi_common.stores.lexical import top_k
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.types import Chunk

PLAIN = Analyzer(AnalyzerConfig(language="none"))
EQUAL = LexicalConfig(function_word_weight=1.0)


def index_of(*texts: str, language: str = "english", stop_words: frozenset[str] = frozenset()) -> LexicalIndex:
    index = LexicalIndex(Analyzer(AnalyzerConfig(language=language, stop_words=stop_words)))
    index.update(range(len(texts)), texts, [-1] * len(texts))
    return index


def scores(index: LexicalIndex, query: str, config: LexicalConfig = LexicalConfig()) -> list[float]:  # noqa: B008
    return index.score([query], range(len(index)), config=config).lexical[0].tolist()


def test_a_function_word_of_the_query_counts_half_by_hand():
    index = index_of("the boat", "boat race", "the race")  # every text has 2 terms, so K = k1 = 1.2
    worth = log(1 + (3 - 2 + 0.5) / (2 + 0.5)) / (1 + 1.2)  # each word is in two of three texts
    assert scores(index, "the boat") == approx([1.5 * worth, worth, 0.5 * worth])
    assert index.score(["the boat"], [0], config=LexicalConfig()).lexical_bound[0] == approx(1.5 * worth)


def test_at_weight_1_the_query_is_scored_as_if_there_were_no_function_words():
    index = index_of("the boat", "boat race", "the race")
    worth = log(1 + (3 - 2 + 0.5) / (2 + 0.5)) / (1 + 1.2)
    assert scores(index, "the boat", EQUAL) == approx([2 * worth, worth, worth])


def test_a_text_that_only_shares_function_words_does_not_beat_one_that_shares_the_subject():
    index = index_of("what is it that you do when you do it", "a zeppelin", *["what is it"] * 3, *["a hat"] * 20)
    (found,) = index.search(["what is it that you call a zeppelin"], k=3, config=LexicalConfig())
    assert found.rows[0] == 1


def test_where_no_text_speaks_the_i_of_a_question_is_a_function_word():
    manual = index_of("Hold the button to reset it.", "Appendix I", *["Keep the room locked."] * 20)
    for query, answer in (("how do I reset it", 0), ("show me my button", 0), ("appendix I", 1)):
        (found,) = manual.search([query], k=3, config=LexicalConfig())
        assert found.rows[0] == answer, query
    assert scores(manual, "how do I reset it")[1] == approx(scores(manual, "I")[1] / 2)


def test_the_i_behind_a_content_word_is_a_number_and_counts_in_full():
    kings = index_of("King Louis I ruled until 1848", "King Louis II ruled", *["Keep the room locked."] * 20)
    for query in ("king louis i", "who was King Louis I"):
        assert scores(kings, query)[0] - scores(kings, "king louis")[0] == approx(scores(kings, "I")[0]), query


def test_where_many_texts_speak_i_counts_in_full():
    chat = index_of("I like tea", "you like tea", "I like rice")
    assert scores(chat, "do I like it")[0] - scores(chat, "do we like it")[0] == approx(scores(chat, "I")[0])


def test_the_i_of_iphone_does_not_answer_the_i_of_a_question():
    index = index_of("Annual leave has 30 days.", "iPhones are for field staff.", *["Keep the room locked."] * 20)
    for query, answer in (("how many days do I have", 0), ("which phone", 1), ("an iPhone", 1), ("my iphone", 1)):
        (found,) = index.search([query], k=3, config=LexicalConfig())
        assert found.rows.tolist() == [answer]


def test_to_be_or_not_to_be_still_finds_itself():
    index = index_of("the question", "to be or not to be", "to do or to die", "not now")
    (found,) = index.search(["to be or not to be"], k=1, config=LexicalConfig(function_word_weight=0.0))
    assert found.rows.tolist() == [1]
    assert scores(index, "to be or not to be") == scores(index, "to be or not to be", EQUAL)


def test_at_weight_0_function_words_find_nothing_beside_another_word():
    index = index_of("the boat", "the race", "the")
    (found,) = index.search(["the boat"], k=3, config=LexicalConfig(function_word_weight=0.0))
    assert found.rows.tolist() == [0]
    assert len(index.search(["the"], k=3, config=LexicalConfig(function_word_weight=0.0))[0]) == 3


@pytest.mark.parametrize(
    ("language", "query", "weights"),
    [
        ("english", "What is the boat?", {"what": 0.25, "is": 0.25, "the": 0.25, "boat": 1}),
        ("english", "THE Boat's", {"the": 0.25, "boat": 1, "s": 0.25}),
        ("english", "don't panic", {"do": 0.25, "not": 0.25, "panic": 1}),
        ("english", "the beings of the being", {"the": 0.5, "be": 1.25, "of": 0.25}),
        ("english", "что такое лодка", {"что": 0.25, "так": 1, "лодк": 1}),
        ("german", "Wo ist das Boot", {"wo": 0.25, "ist": 0.25, "das": 0.25, "boot": 1}),
        ("german", "the Boot", {"the": 1, "boot": 1}),
        ("spanish", "el barco", {"el": 0.25, "barc": 1}),
        ("romanian", "este barca", {"este": 0.25, "barc": 1}),
        ("catalan", "el vaixell", {"el": 1, "vaix": 1}),
        ("none", "the boat", {"the": 1, "boat": 1}),
        ("english", "船 the 船", {"船": 2, "the": 0.25}),
    ],
)
def test_function_words_are_those_of_the_language_and_known_before_stemming(language, query, weights):
    assert Analyzer(AnalyzerConfig(language=language)).weighted_terms(query, 0.25) == weights


def test_stop_words_of_the_caller_stay_dropped():
    index = index_of("the boat", "the race", stop_words=frozenset({"the"}))
    assert scores(index, "the boat") == scores(index, "boat")
    assert scores(index, "the") == [0.0, 0.0]


def test_function_words_are_those_of_the_query_or_if_no_text_has_its_language_of_most_texts():
    index, config = LexicalIndex(Analyzer(AnalyzerConfig())), LexicalConfig(function_word_weight=0.0)
    assert index._snapshot.weighted_terms("was ist der Garten", config).keys() >= {"ist", "der"}
    german = [f"das ist die Schule und der Garten, aber nicht das Haus {n}" for n in range(3)]
    index.update(range(4), [*german, "this is the town that we have seen and the lake"], [-1] * 4)
    assert index._snapshot.weighted_terms("what is the town that they have", config) == {"town": 1.0}
    assert index._snapshot.weighted_terms("der Garten", config) == {"gart": 1.0}


def test_an_unknown_function_word_lowers_the_coverage_less_than_another_unknown_word():
    index = index_of("boat", "race")
    config = LexicalConfig()
    known, function_word, other = index.score(["boat", "the boat", "canoe boat"], [0], config=config).coverage
    idf, unknown = log(1 + (2 - 1 + 0.5) / (1 + 0.5)), log(1 + (2 + 0.5) / 0.5)
    assert known == 1.0
    assert function_word == approx(idf / (idf + 0.5 * unknown))
    assert other == approx(idf / (idf + unknown))


def test_of_a_pasted_text_the_48_rarest_words_count():
    names = [f"name{chr(97 + number // 8)}{chr(97 + number % 8)}" for number in range(60)]
    texts = [" ".join(names[number:]) for number in range(60)]  # name59 is in all texts, name00 in one
    index, book = LexicalIndex(PLAIN), Book({row: text.split() for row, text in enumerate(texts)}, EQUAL)
    index.update(range(60), texts, [-1] * 60)
    found = index.score([" ".join([*names, "unknown"])], range(60), config=EQUAL)
    telling = [name for name in names if sum(name in text for text in texts) <= 48]
    assert len(telling) == 48
    assert found.lexical[0] == approx([book.score(telling, row) for row in range(60)])
    assert found.lexical_bound[0] == approx(book.bound(telling))
    every, unknown = sum(book.idf(name) for name in names), log(1 + (60 + 0.5) / 0.5)
    assert found.coverage[0] == approx(every / (every + unknown))


def test_the_weight_changes_without_a_reindex():
    config = UmiConfig()
    config.checked_live_change(config.replaced(lexical={"function_word_weight": 0.5}))
    with HybridStore.open(embedder=HashEmbedder()) as store:
        store.add([Chunk(id="a", text="the boat"), Chunk(id="b", text="the race of the boats")])
        low, equal = (
            DualRetriever(store, config=config.replaced(lexical={"function_word_weight": weight}))
            .search("the boat", strategy="text")
            .hits
            for weight in (0.0, 1.0)
        )
    low, equal = ({hit.chunk.id: hit.signals[0].score for hit in hits} for hits in (low, equal))
    assert all(low[id] < equal[id] for id in ("a", "b"))


texts = st.lists(st.sampled_from(["the", "of", "the", "is", "ant", "bee", "cat"]), max_size=12).map(" ".join)
queries = st.lists(st.sampled_from(["the", "of", "is", "being", "ant", "cat", "fox"]), max_size=7).map(" ".join)


@given(
    st.lists(texts, min_size=1, max_size=40),
    queries,
    st.sampled_from(["lucene", "okapi", "l", "plus"]),
    st.sampled_from([0.0, 0.1, 0.25, 1.0]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_searches_scores_and_bounds_are_those_of_the_weighted_formula(
    some: list[str], query: str, variant: str, weight: float, pruning: bool
):
    config = LexicalConfig(variant=variant, function_word_weight=weight)
    index, book = index_of(*some), Book({row: text.split() for row, text in enumerate(some)}, config)
    words = [{"being": "be"}.get(word, word) for word in query.split()]
    content = [word for word in words if word in ("ant", "cat", "fox")]
    weights = Counter({word: 1.0 if not content or word in content else weight for word in set(words)})
    weights = Counter({word: weights[word] * words.count(word) for word in weights if weights[word]})
    found = index.score([query], range(len(some)), config=config)
    assert found.lexical[0] == approx([book.score(weights, row) for row in range(len(some))], abs=1e-9)
    assert found.lexical_bound[0] == approx(book.bound(weights), abs=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "PRUNING_PAYS", 0 if pruning else 10**9)
        patch.setattr(top_k, "READ_AT_ONCE", 3)
        (best,) = index.search([query], k=5, config=config, id_of="{:03d}".format)
    ranking = book.ranking(weights, len(some), {row: f"{row:03d}" for row in range(len(some))})
    expected = [score for _, score in ranking[:5] if score > 1e-9]
    # By score: rounding decides the order of scores that differ in the last bit, and whether one of 1e-18 is above 0.
    telling = [row for row, score in zip(best.rows.tolist(), best.scores, strict=True) if score > 1e-9]
    assert [dict(ranking)[row] for row in telling] == approx(expected, abs=1e-9)
    assert best.scores[: len(telling)] == approx(expected, abs=1e-9)
