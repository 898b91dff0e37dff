"""States, writers beside readers, refused writes."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from umi_common.config import AnalyzerConfig, LexicalConfig
from umi_common.errors import IndexUnavailable, InputError
from umi_common.stores.lexical import corpus
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import IndexState, IndexStatus, PostingsIndex

PLAIN = Analyzer(AnalyzerConfig(language="none"))
LUCENE = LexicalConfig()


class Watching(Analyzer):
    """Notes the index's state while it analyses, and fails on one text."""

    def __init__(self) -> None:
        super().__init__(AnalyzerConfig(language="none"))
        self.index: PostingsIndex | None = None
        self.seen: list[IndexStatus] = []

    def stems_of(self, pieces: Sequence[str]) -> list[str]:
        if self.index is not None:
            self.seen.append(self.index.status())
        if "fail" in pieces:
            raise MemoryError("no memory left")
        return super().stems_of(pieces)


def test_an_index_goes_from_uninitialized_over_building_to_ready_and_empty():
    analyzer = Watching()
    index = analyzer.index = PostingsIndex(analyzer)
    assert index.status() == IndexStatus(IndexState.UNINITIALIZED)
    index.rebuild([0, 1], ["ant", "bee"], [-1, -1])
    assert {status.state for status in analyzer.seen} == {IndexState.BUILDING}
    assert index.status() == IndexStatus(IndexState.READY, 2)
    index.remove([0, 1])
    assert index.status() == IndexStatus(IndexState.EMPTY)
    assert len(index) == 0


def test_a_rebuild_that_fails_is_an_error_until_one_succeeds():
    analyzer = Watching()
    index = PostingsIndex(analyzer)
    index.rebuild([0], ["ant"], [-1])
    with pytest.raises(IndexUnavailable, match="no memory left"):
        index.rebuild([0], ["fail"], [-1])
    assert index.status() == IndexStatus(IndexState.ERROR, reason="rebuild failed: no memory left")
    with pytest.raises(IndexUnavailable, match="rebuild it"):
        index.search(["ant"], k=1, config=LUCENE, id_of=str)
    index.rebuild([0], ["ant"], [-1])
    assert index.status() == IndexStatus(IndexState.READY, 1)


def test_an_index_declared_unusable_says_why():
    index = PostingsIndex(PLAIN)
    index.fail("the snapshot is damaged")
    assert index.status() == IndexStatus(IndexState.ERROR, reason="the snapshot is damaged")
    with pytest.raises(IndexUnavailable, match="the snapshot is damaged"):
        index.score(["ant"], [0], config=LUCENE)


def test_a_failed_addition_changes_nothing():
    index = PostingsIndex(Watching())
    index.add([0], ["ant"], [-1])
    with pytest.raises(MemoryError):
        index.add([1, 2], ["ant", "fail"], [-1, -1])
    assert len(index) == 1
    index.add([1], ["ant"], [-1])
    assert len(index) == 2


@pytest.mark.parametrize("rows", [[1], [0], [3, 3], [4, 3], [-1]])
def test_rows_that_do_not_rise_are_refused(rows: list[int]):
    index = PostingsIndex(PLAIN)
    index.add([1], ["ant"], [-1])
    with pytest.raises(InputError, match="rows must rise"):
        index.add(rows, ["ant"] * len(rows), [-1] * len(rows))
    assert len(index) == 1


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="2 rows, 1 texts and 2 sources"):
        PostingsIndex(PLAIN).add([0, 1], ["ant"], [-1, -1])


def test_readers_beside_a_writer_never_see_a_half_written_index(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "SMALL_SEGMENT", 40)
    index, stop, faults = PostingsIndex(PLAIN), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            # Rows come and go in pairs with equal texts, so every answer holds an even number of equal scores.
            found = index.search(["ant bee"], k=1_000, config=LUCENE, id_of=str)[0]
            if len(found) % 2 or len(np.unique(found.scores)) > 1:
                faults.append((len(found), np.unique(found.scores)))

    readers = [threading.Thread(target=read) for _ in range(4)]
    compacting = threading.Thread(target=lambda: [index.compact() for _ in iter(stop.is_set, True)])
    for thread in (*readers, compacting):
        thread.start()
    for row in range(0, 600, 2):
        index.add([row, row + 1], ["ant bee", "ant bee"], [-1, -1])
        if row >= 100:
            index.remove([row - 100, row - 99])
    stop.set()
    for thread in (*readers, compacting):
        thread.join()
    assert not faults
    assert len(index) == 100
