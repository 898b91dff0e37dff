"""Building an index: what is remembered between texts, blocks of rows, bytes a posting."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.stores.arrays import Growing
from umi_common.stores.lexical import vocabulary as vocabulary_module
from umi_common.stores.lexical.analyzer import Analyzer, pieces
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.lexical.segment import BLOCK_ROWS
from umi_common.stores.lexical.vocabulary import Vocabulary

ENGLISH = Analyzer(AnalyzerConfig())
PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=8))
def test_the_codes_of_texts_are_their_terms(texts: list[str]):
    vocabulary = Vocabulary(ENGLISH)
    coded = vocabulary.coded(texts)
    names = list(vocabulary.codes)
    expected = [ENGLISH.terms(text) for text in texts]
    assert coded.lengths.tolist() == [len(terms) for terms in expected]
    assert [names[code] for code in coded.tokens.tolist()] == [term for terms in expected for term in terms]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_piece_has_the_same_terms_by_itself_as_in_its_text(text: str):
    assert ENGLISH.terms(text) == [term for piece in pieces(text) for term in ENGLISH.terms_of_piece(piece)]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDISH = st.text("abtIYŞ.,'-_+#(7 ", max_size=12)


@given(st.lists(TEXT | WORDISH), st.sampled_from(["english", "german", "turkish", "none"]), st.sets(WORDISH))
def test_plain_words_have_the_terms_together_that_they_have_alone(texts: list[str], language: str, stop: set[str]):
    analyzer = Analyzer(AnalyzerConfig(language=language, stop_words=frozenset(stop)))
    cut = [piece for text in texts for piece in pieces(text)]
    for piece, stem in zip(cut, analyzer.stems_of(cut), strict=True):
        assert not stem or analyzer.terms_of_piece(piece) == (stem,)


def test_nearly_all_words_of_a_text_are_plain():
    assert ENGLISH.stems_of(["Boats", "(boats),", "BOATS!", "iBoat", "boat's", "2"]) == ["boat"] * 3 + [""] * 3


def test_codes_stay_right_when_remembering_starts_over(monkeypatch):
    monkeypatch.setattr(vocabulary_module, "LETTERS_KEPT", 20)
    monkeypatch.setattr(vocabulary_module, "TEXTS_A_STEP", 2)
    vocabulary = Vocabulary(ENGLISH)
    texts = [f"ant bee{i % 7} AC-{i % 5} ..." for i in range(40)]
    for _ in range(2):
        tokens = vocabulary.coded(texts).tokens.tolist()
        names = list(vocabulary.codes)
        assert [names[code] for code in tokens] == [term for text in texts for term in ENGLISH.terms(text)]
        assert all(len(each._pieces) < 12 for each in vocabulary._by_analyzer.values())


def test_codes_stay_right_after_an_analysis_that_failed(monkeypatch):
    vocabulary = Vocabulary(ENGLISH)
    with monkeypatch.context() as patched:
        patched.setattr(Analyzer, "stems_of", lambda analyzer, pieces: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vocabulary.coded(["ant bee"])
    assert vocabulary.coded(["bee ant"]).tokens.tolist() == [0, 1]
    assert list(vocabulary.codes) == ["bee", "ant"]


def test_rows_on_both_sides_of_a_block_edge_are_found_and_removed():
    rows = [BLOCK_ROWS - 2, BLOCK_ROWS - 1, BLOCK_ROWS, 3 * BLOCK_ROWS]
    index, small = LexicalIndex(PLAIN), LexicalIndex(PLAIN)
    some = ["ant bee", "ant ant", "ant cat", "ant eel eel"]
    index.update(rows, some, [-1] * 4)
    small.update(range(4), some, [-1] * 4)
    assert len(index._snapshot.corpus.parts) == 3
    for gone in (None, 1, 2):
        if gone is not None:
            index.update(removed=[rows[gone]])
            small.update(removed=[gone])
        found = index.search(["ant", "eel cat"], k=4, config=LUCENE, id_of=lambda row: f"{row:09}")
        expected = small.search(["ant", "eel cat"], k=4, config=LUCENE, id_of=lambda row: f"{row:09}")
        assert [[rows.index(row) for row in ranking.rows.tolist()] for ranking in found] == [
            ranking.rows.tolist() for ranking in expected
        ]
        assert [ranking.scores.tolist() for ranking in found] == [ranking.scores.tolist() for ranking in expected]


def test_rows_of_two_blocks_are_found_where_dead_rows_before_them_are_dropped():
    rows = [0, 1, BLOCK_ROWS - 1, *range(BLOCK_ROWS, 2 * BLOCK_ROWS), 3 * BLOCK_ROWS]
    texts = ["gone", "ant", "bee ant", *["cat"] * (BLOCK_ROWS - 1), "eel ant", "ant ant fox"]
    index, fresh = LexicalIndex(PLAIN), LexicalIndex(PLAIN)
    index.update(rows, texts, [-1] * len(rows))
    index.update(removed=[0])
    made = index.without_dead_rows(np.full(len(rows) - 1, -1))
    fresh.update(range(len(rows) - 1), texts[1:], [-1] * (len(rows) - 1))
    assert [(part.segment.first, part.segment.last) for part in made.corpus.parts] == [
        (0, BLOCK_ROWS - 1),
        (BLOCK_ROWS, len(rows) - 2),
    ]
    assert "gone" not in made.corpus.codes
    for query in ("ant", "cat eel", "fox", "bee"):
        mine, other = (each.search([query], k=9, config=LUCENE, id_of="{:09}".format)[0] for each in (made, fresh))
        assert mine.rows.tolist() == other.rows.tolist() and mine.scores.tolist() == other.scores.tolist()


def test_a_block_that_is_whole_is_one_segment():
    index = LexicalIndex(PLAIN)
    for start in range(0, BLOCK_ROWS + 8_000, 8_000):
        index.update(range(start, start + 8_000), ["ant bee", "cat"] * 4_000, [-1] * 8_000)
    first = [part for part in index._snapshot.corpus.parts if part.segment.first < BLOCK_ROWS]
    assert [part.segment.documents for part in first] == [BLOCK_ROWS]


def test_a_posting_takes_three_bytes():
    random = np.random.default_rng(5)
    texts = [" ".join(f"w{word}" for word in random.integers(0, 300, 40)) for _ in range(2_000)]
    index = LexicalIndex(PLAIN)
    index.update(range(2_000), texts, [-1] * 2_000)
    (part,) = index._snapshot.corpus.parts
    assert part.segment.offsets.nbytes + part.segment.tf.nbytes == 3 * len(part.segment.offsets)


@pytest.mark.parametrize("count", [300, 70_000])
def test_more_occurrences_than_a_byte_counts_are_counted(count: int):
    index = LexicalIndex(PLAIN)
    index.update([0, 1], ["ant " * count, "ant bee"], [-1, -1])
    held = index._snapshot.corpus.parts[0].segment.postings(0)
    assert held[1].tolist() == [count, 1]
    assert index.search(["bee"], k=1, config=LUCENE, id_of=str)[0].rows.tolist() == [1]


def test_an_addition_that_fails_leaves_what_was_there_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch):
    index = LexicalIndex(PLAIN)
    index.update([0], ["ant"], [3])
    before = index._snapshot.corpus

    def refuse(*_: object) -> None:
        raise MemoryError("no memory left")

    with monkeypatch.context() as patch:
        patch.setattr("umi_common.stores.lexical.corpus.build", refuse)
        with pytest.raises(MemoryError):
            index.update([1, 2], ["bee", "cat"], [4, 5])
    index.update([1], ["dog"], [6])
    now = index._snapshot.corpus
    assert (now.alive.tolist(), now.lengths.tolist(), now.sources.tolist()) == ([True, True], [1, 1], [3, 6])
    assert before.sources.tolist() == [3]


def test_a_write_costs_what_it_adds_and_not_what_is_there():
    index = LexicalIndex(PLAIN)
    index.update(range(60_000), ["ant"] * 60_000, [-1] * 60_000)
    index.update([60_000], ["bee"], [-1])
    tracemalloc.start()
    try:
        for row in range(60_001, 60_011):
            index.update([row], ["cat"], [-1])
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert grown < 60_000  # a copy of one array by row would take as much


def test_an_array_that_another_line_has_outgrown_is_copied():
    growing: Growing[np.int32] = Growing(np.int32)
    growing.extend([1, 2])
    view = growing.view
    growing.extend([3])
    other = growing.after(2)
    other.extend([4])
    assert (growing.view.tolist(), other.view.tolist(), view.tolist()) == ([1, 2, 3], [1, 2, 4], [1, 2])
    assert growing.after(3) is growing
