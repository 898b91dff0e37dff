"""Writers beside readers, failed and refused writes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import InputError
from umi_common.stores.lexical import corpus
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import LexicalIndex

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()


class Failing(Analyzer):
    """Fails on one text."""

    def stems_of(self, pieces: Sequence[str]) -> list[str]:
        if "fail" in pieces:
            raise MemoryError("no memory left")
        return super().stems_of(pieces)


def test_a_failed_addition_changes_nothing():
    index = LexicalIndex(Failing(AnalyzerConfig(language="none")))
    index.update([0], ["ant"], [-1])
    with pytest.raises(MemoryError):
        index.update([1, 2], ["ant", "fail"], [-1, -1])
    assert len(index) == 1
    with pytest.raises(MemoryError):
        index.update([1], ["fail"], [-1], removed=[0])
    assert len(index) == 1
    index.update([1], ["ant"], [-1])
    assert len(index) == 2


@pytest.mark.parametrize("rows", [[1], [0], [3, 3], [4, 3], [-1]])
def test_rows_that_do_not_rise_are_refused(rows: list[int]):
    index = LexicalIndex(PLAIN)
    index.update([1], ["ant"], [-1])
    with pytest.raises(AssertionError):
        index.update(rows, ["ant"] * len(rows), [-1] * len(rows))
    assert len(index) == 1


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="2 rows, 1 texts and 2 sources"):
        LexicalIndex(PLAIN).update([0, 1], ["ant"], [-1, -1])


class Interrupted(Analyzer):
    """Calls `write` when it is asked for the language of a text."""

    write = staticmethod(lambda: None)

    def language_of(self, text: str) -> str:
        self.write()
        return super().language_of(text)


def test_a_search_reads_one_state_of_the_index_although_a_writer_comes_between_its_queries():
    index = LexicalIndex(Interrupted(AnalyzerConfig(language="english")))
    index.update([0], ["the garden"], [-1])

    def write() -> None:
        del index.analyzer.write
        index.update([1], ["the gardn"], [-1])  # now a row holds the word, so it is not corrected to "garden"

    index.analyzer.write = write
    first, second = index.search(["gardn", "gardn"], k=2, config=LUCENE)
    assert first.rows.tolist() == second.rows.tolist() == [0]


def test_a_removed_row_does_not_decide_whether_a_mistyped_word_is_corrected():
    texts = ["the time in the garden", "a book", "a man"]
    index, new = LexicalIndex(Analyzer(AnalyzerConfig())), LexicalIndex(Analyzer(AnalyzerConfig()))
    new.update(range(3), texts, [-1] * 3)
    index.update(range(4), [*texts, "timegardn"], [-1] * 4)
    index.update(removed=[3])
    terms = index._snapshot.weighted_terms("time gardn", LUCENE)
    assert terms == new._snapshot.weighted_terms("time gardn", LUCENE) and "garden" in terms


def test_readers_beside_a_writer_never_see_a_half_written_index(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "SMALL_SEGMENT", 40)
    index, stop, faults = LexicalIndex(PLAIN), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            # Rows come and go in pairs with equal texts, so every answer holds an even number of equal scores.
            found = index.search(["ant bee"], k=1_000, config=LUCENE, id_of=str)[0]
            if len(found) % 2 or len(np.unique(found.scores)) > 1:
                faults.append((len(found), np.unique(found.scores)))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in readers:
        thread.start()
    for row in range(0, 600, 2):
        index.update([row, row + 1], ["ant bee", "ant bee"], [-1, -1])
        if row >= 100:
            index.update(removed=[row - 100, row - 99])
    stop.set()
    for thread in readers:
        thread.join()
    assert not faults
    assert len(index) == 100
