"""Scores: by hand, against rank_bm25, and against the book after any history of writes."""

from __future__ import annotations

from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_reference import Book
from pytest import approx
from rank_bm25 import BM25L, BM25Okapi, BM25Plus

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical import bm25, corpus
from umi_common.stores.lexical import segment as postings
from umi_common.stores.lexical import top_k as topk
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex, Snapshot

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()
VARIANTS = [LexicalConfig(variant=name) for name in ("lucene", "okapi", "l", "plus")]
WORDS = ["ant", "bee", "cat", "dog", "eel"]


@pytest.fixture(params=["thresholds as they are", "every threshold small"], autouse=True, scope="module")
def thresholds(request: pytest.FixtureRequest):
    """Once with many segments, pruning, and every cache in use on these tiny corpora."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "every threshold small":
            patch.setattr(corpus, "SMALL_SEGMENT", 3)
            patch.setattr(corpus, "MERGE_RATIO", 1)
            for module in (postings, corpus):
                patch.setattr(module, "BLOCK_ROWS", 4)
            patch.setattr(topk, "PRUNING_PAYS", 0)
            patch.setattr(topk, "READ_AT_ONCE", 3)
            patch.setattr(bm25, "DIRECT", 2)
            patch.setattr(bm25, "DENSE_SHARE", 1_000)
            patch.setattr(bm25, "DENSE_BYTES_KEPT", 20)
            patch.setattr(bm25, "LEVELS_KEPT", 2)
            patch.setattr(bm25, "ENTRIES_KEPT", 120)
            patch.setattr(bm25, "BINS", 0)
        yield


texts = st.lists(st.sampled_from([*WORDS, "ant", "ant"]), max_size=12).map(" ".join)
queries = st.lists(st.sampled_from([*WORDS, "fox"]), max_size=6).map(" ".join)


def index_of(*some: str, sources: list[int] | None = None) -> LexicalIndex:
    index = LexicalIndex(PLAIN)
    index.update(range(len(some)), some, [-1] * len(some) if sources is None else sources)
    return index


def test_lucenes_form_by_hand():
    found = index_of("ant bee", "ant ant cat", "dog").score(["ant"], [0, 1, 2], config=LUCENE)
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # average length (2 + 3 + 1) / 3 = 2
    assert found.lexical[0] == approx([idf * 1 / (1 + 1.2), idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 1.5)), 0.0])
    assert found.length.tolist() == [2, 3, 1]


def test_a_word_asked_twice_counts_twice():
    once, twice = index_of("ant bee", "bee").score(["ant", "ant ant"], [0], config=LUCENE).lexical
    assert twice == approx(2 * once)


def test_okapis_floor_is_a_share_of_the_mean_idf_of_all_words():
    some = ["ant bee", "ant cat", "ant dog", "eel"]
    found = index_of(*some).score(["ant"], [3, 0], config=LexicalConfig(variant="okapi", epsilon=0.25))
    rare, common = log(3.5 / 1.5), log(1.5 / 3.5)
    mean = (4 * rare + common) / 5
    assert found.lexical[0] == approx([0.0, 0.25 * mean * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.75))])


def test_coverage_is_the_share_of_idf_that_the_corpus_knows():
    found = index_of("ant", "bee", "bee").score(["ant fox", "fox", "", "ant bee"], [0], config=LUCENE)
    known, unknown = log(1 + 2.5 / 1.5), log(1 + 3.5 / 0.5)
    assert found.coverage == approx([known / (known + unknown), 0.0, 0.0, 1.0])


def test_a_source_is_scored_as_one_document_among_sources():
    found = index_of("ant", "bee bee", "ant cat", "dog", sources=[0, 0, 1, -1]).score(
        ["bee"], [0, 1, 2, 3], config=LUCENE
    )
    idf = log(1 + (2 - 1 + 0.5) / 1.5)  # two sources of 3 and 2 terms
    of_first = idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2.5))
    assert found.source_lexical[0] == approx([of_first, of_first, 0.0, 0.0])


@given(st.lists(texts, min_size=1, max_size=12), queries, st.floats(0.01, 3), st.floats(0, 1), st.floats(0, 2))
def test_okapi_l_and_plus_equal_rank_bm25(some: list[str], query: str, k1: float, b: float, delta: float):
    if not any(some):
        return  # rank_bm25 divides by zero
    documents, words = [text.split() for text in some], query.split()
    index = index_of(*some)
    models = {
        "okapi": lambda: BM25Okapi(documents, k1=k1, b=b),
        "l": lambda: BM25L(documents, k1=k1, b=b, delta=delta),
        "plus": lambda: BM25Plus(documents, k1=k1, b=b, delta=delta),
    }
    for variant, model in models.items():
        config = LexicalConfig(variant=variant, k1=k1, b=b, delta=delta)
        with np.errstate(invalid="ignore"):
            expected = np.nan_to_num(model().get_scores(words))
        matching = np.array([any(word in document for word in words) for document in documents])
        ours = index.score([query], range(len(some)), config=config).lexical[0]
        assert ours == approx(np.where(matching, expected, 0.0), abs=1e-9)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(texts, st.integers(-1, 3)), max_size=4)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 15), max_size=4)),
        st.tuples(st.just("save and load"), st.none()),
        st.tuples(st.just("search"), queries),  # fills caches that later writes must not trust
    ),
    max_size=12,
)


def lived(history: list[tuple[str, Any]]) -> tuple[LexicalIndex, dict[int, tuple[str, int]]]:
    """An index with that history, and what must be in it."""
    index, live, next_row = LexicalIndex(PLAIN), {}, 0
    with TemporaryDirectory() as folder:
        for action, what in history:
            if action == "add":
                rows = range(next_row, next_row + len(what))
                next_row += len(what)
                index.update(rows, [text for text, _ in what], [source for _, source in what])
                live.update(zip(rows, what, strict=True))
            elif action == "remove":
                index.update(removed=what)
                live = {row: value for row, value in live.items() if row not in what}
            elif action == "search":
                index.search([what], k=3, config=LUCENE, id_of=str)
                index.score([what], list(live), config=LUCENE)
            else:
                directory = Path(folder)
                index.save(directory, Mark(), np.arange(len(index._snapshot.corpus.alive)), [])
                index, _ = LexicalIndex.load(directory, PLAIN, lambda mark: True) or (index, None)
    return index, live


@given(actions, queries, st.sampled_from(VARIANTS))
@settings(max_examples=200, deadline=None)
def test_after_any_history_scores_are_those_of_the_book(history: Any, query: str, config: LexicalConfig):
    index, live = lived(history)
    words = query.split()
    rows = Book({row: text.split() for row, (text, _) in live.items()}, config)
    owned: dict[int, list[str]] = {}
    for text, source in live.values():
        if source >= 0:
            owned.setdefault(source, []).extend(text.split())
    sources = Book(owned, config)
    found = index.score([query], list(live), config=config)
    assert len(index) == len(live)
    assert found.lexical[0] == approx([rows.score(words, row) for row in live], abs=1e-12)
    assert found.lexical_bound[0] == approx(rows.bound(words), abs=1e-12)
    assert found.source_lexical[0] == approx([sources.score(words, source) for _, source in live.values()], abs=1e-12)
    assert found.length.tolist() == [len(text.split()) for text, _ in live.values()]


@given(actions, queries, st.sampled_from(VARIANTS))
@settings(max_examples=200, deadline=None)
def test_after_any_history_scores_are_those_of_a_fresh_index_to_the_bit(
    history: Any, query: str, config: LexicalConfig
):
    index, live = lived(history)
    fresh = index_of(*[text for text, _ in live.values()], sources=[source for _, source in live.values()])
    ids = {row: f"{place:03d}" for place, row in enumerate(live)}
    old, new = index.score([query], list(live), config=config), fresh.score([query], range(len(live)), config=config)
    for field in ("lexical", "lexical_bound", "coverage", "source_lexical", "length"):
        assert getattr(old, field).tolist() == getattr(new, field).tolist(), field
    mine = index.search([query], k=4, config=config, id_of=ids.__getitem__)[0]
    other = fresh.search([query], k=4, config=config, id_of="{:03d}".format)[0]
    assert [ids[row] for row in mine.rows.tolist()] == [f"{row:03d}" for row in other.rows.tolist()]
    assert mine.scores.tolist() == other.scores.tolist()


@given(actions, queries, st.sampled_from(VARIANTS))
@settings(max_examples=200, deadline=None)
def test_an_index_without_its_dead_rows_scores_as_before_to_the_bit_and_goes_on(
    history: Any, query: str, config: LexicalConfig
):
    index, live = lived(history)
    rows = sorted(live)
    made = index.without_dead_rows(np.array([live[row][1] for row in rows], dtype=np.int64))
    for _ in range(2):  # the second time after a write to both
        old, new = index.score([query], rows, config=config), made.score([query], range(len(rows)), config=config)
        for field in ("lexical", "lexical_bound", "coverage", "source_lexical", "length"):
            assert getattr(old, field).tolist() == getattr(new, field).tolist(), field
        assert made.corpus.frequencies(query.split()) == index.corpus.frequencies(query.split())
        index.update([index.corpus.rows], [query], [0], removed=rows[:1])
        made.update([made.corpus.rows], [query], [0], removed=range(len(rows[:1])))
        rows = [*rows[1:], index.corpus.rows - 1]
        made = made.without_dead_rows(made.corpus.sources[made.corpus.alive])


@given(actions, st.lists(queries, min_size=2, max_size=8), st.sampled_from(VARIANTS))
@settings(max_examples=200, deadline=None)
def test_a_question_gets_the_same_to_the_bit_whatever_was_asked_before(
    history: Any, asked: list[str], config: LexicalConfig
):
    index, live = lived(history)
    for query in asked:
        never_asked = index.view()
        never_asked._snapshot = Snapshot(index._snapshot.corpus, index.analyzer, index._spellings)
        results = []
        for one in (index, never_asked):
            found = one.search([query], k=4, config=config, id_of=str)
            scores = one.score([query], list(live), config=config, searched=found)
            fields = ("lexical", "lexical_bound", "coverage", "source_lexical", "length")
            results.append([found[0].rows, found[0].scores, *(getattr(scores, field) for field in fields)])
        before, fresh = ([array.tolist() for array in each] for each in results)
        assert before == fresh


def test_rows_that_are_dead_or_were_never_added_score_nothing():
    index = index_of("ant", "ant bee", sources=[0, 0])
    index.update(removed=[0])
    found = index.score(["ant"], [7, 1, 0, -1], config=LUCENE)
    assert (found.lexical[0] > 0).tolist() == [False, True, False, False]
    assert (found.source_lexical[0] > 0).tolist() == [False, True, False, False]
    assert found.length.tolist() == [0, 2, 0, 0]


@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: config.variant)
def test_an_empty_index_and_an_empty_query_answer_with_nothing(config: LexicalConfig):
    for index in (LexicalIndex(PLAIN), index_of("", "...")):
        found = index.score(["ant", ""], [0], config=config)
        assert not found.lexical.any()
        assert not found.lexical_bound.any()
        assert [len(ranking) for ranking in index.search(["ant", ""], k=3, config=config, id_of=str)] == [0, 0]


def test_the_bound_falls_when_the_best_row_goes():
    some = ["ant ant ant", *["ant bee cat dog"] * 9]
    index = index_of(*some)
    before = index.score(["ant"], [0], config=LUCENE)
    assert before.lexical_bound[0] == before.lexical[0, 0]
    index.update(removed=[0])
    after = index.score(["ant"], range(10), config=LUCENE)
    assert (
        after.lexical_bound[0]
        == after.lexical.max()
        == index_of(*some[1:]).score(["ant"], [0], config=LUCENE).lexical_bound[0]
    )
