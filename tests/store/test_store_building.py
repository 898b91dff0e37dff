"""Large batches: each SQL statement writes the chunks that were given."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
import pytest

from umi_common.embedders import CallableEmbedder
from umi_common.pool import unit_vectors
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger import ledger
from umi_common.stores.ledger.file import PAGE_BYTES
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.types import Chunk

EMBEDDER = CallableEmbedder(
    lambda texts: np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]], name="e", dim=4
)
FULL = ledger.SQL_VARIABLES // 9
"""Chunks in a full statement."""


@pytest.mark.parametrize("count", [1, FULL - 1, FULL, FULL + 1, 4 * FULL + 3])
def test_a_batch_of_any_size_comes_back_as_it_was(tmp_path, count):
    vectors = unit_vectors(np.random.default_rng(count).normal(size=(count, 4)))
    given = [Chunk(f"c{at}", f"text {at}", metadata={"n": at}, source="s", position=at) for at in range(count)]
    with HybridStore.open(tmp_path / "s", embedder=EMBEDDER) as store:
        store.add(given, vectors=vectors)
    with HybridStore.open(tmp_path / "s", embedder=EMBEDDER) as store:
        ids = [chunk.id for chunk in given]
        assert store.get(ids) == given
        assert np.array_equal(store.vectors(ids), vectors)
        assert store.verify()


def test_what_a_caller_does_to_their_vectors_after_an_add_changes_nothing(tmp_path):
    mine = np.eye(4, dtype=np.float32)
    with HybridStore.open(tmp_path / "s", embedder=EMBEDDER) as store:
        store.add([Chunk(f"c{at}", "text") for at in range(4)], vectors=mine)
        mine[:] = 7
        assert np.array_equal(store.vectors(["c0", "c3"]), np.eye(4, dtype=np.float32)[[0, 3]])


def test_a_new_ledger_has_pages_that_five_vectors_of_384_fill(tmp_path):
    HybridStore.open(tmp_path / "s", embedder=EMBEDDER).close()
    connection = sqlite3.connect(tmp_path / "s" / "umi.db")
    try:
        assert connection.execute("PRAGMA page_size").fetchone() == (PAGE_BYTES,)
    finally:
        connection.close()


def test_a_large_batch_is_stored_though_its_analysis_fails(tmp_path, monkeypatch):
    """Only the lexical arm fails."""
    asked: list[int] = []

    def failing(analyzer: Analyzer, pieces: Sequence[str]) -> list[str]:
        asked.append(len(pieces))
        raise ValueError("no stems")

    batch = [Chunk(f"c{at}", f"common word{at}x") for at in range(300)]
    with HybridStore.open(tmp_path / "s", embedder=EMBEDDER) as store:
        with monkeypatch.context() as patched:
            patched.setattr(Analyzer, "stems_of", failing)
            store.add(batch)
        assert len(asked) == 1
        assert len(store) == 300
        assert not store.verify()
        assert store.repair()
        assert [id for id, _ in store.search_lexical("common word7x", k=1)] == ["c7"]
