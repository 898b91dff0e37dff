"""`Chunk.search_text` in a store in a directory: added, replaced, reopened."""

from __future__ import annotations

import copy
import pickle
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from umi_common import Chunk, HybridStore, UmiConfig
from umi_common.config import AnalyzerConfig
from umi_common.errors import InvalidChunk
from umi_common.protocols import Probe
from umi_common.sim import HashEmbedder

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

import store_v1

NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
REPORT = Chunk("report", "Sales fell.", search_text="Annual report of Hedgehog Ltd. Sales fell.")


def found(store: HybridStore, query: str) -> list[str]:
    return [id for id, _ in store.search_lexical(query)]


def test_it_is_found_after_the_store_was_closed_and_opened_again(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        store.add([REPORT, Chunk("other", "The boiler.")])
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        assert found(store, "hedgehog") == ["report"]
        assert store.get(["report"]) == [REPORT]
        assert store.verify(full=True)


def test_it_is_indexed_again_after_a_rebuild_and_after_another_analyzer(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        store.add([REPORT, Chunk("other", "The boiler.")])
        store.rebuild()
        assert found(store, "hedgehog") == ["report"] and store.verify(full=True)
    HybridStore.reindex(tmp_path, config=UmiConfig(analyzer=AnalyzerConfig(language="none")))
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        assert found(store, "hedgehog") == ["report"]
        assert found(store, "Sales") == ["report"]


def test_another_embedder_embeds_it_and_not_the_text(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        store.add([REPORT])
    HybridStore.reindex(tmp_path, embedder=HashEmbedder(32))
    with HybridStore.open(tmp_path, embedder=HashEmbedder(32)) as store:
        pool = store.recall([Probe(REPORT.search_text)], depth=1, now=NOW, strategy="vector")
        assert pool.dense[0, 0] > 0.999


def test_a_reader_in_read_only_mode_sees_it_as_soon_as_it_is_written(tmp_path):
    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as store:
        store.add([Chunk("other", "The boiler.")])
        with HybridStore.open(tmp_path, embedder=HashEmbedder(16), read_only=True) as reader:
            assert len(reader) == 1
            store.add([REPORT])
            assert reader.get(["report"]) == [REPORT] and found(reader, "hedgehog") == ["report"]


def test_a_store_that_was_made_before_search_text_opens_as_it_is_and_takes_it_at_the_next_write(tmp_path):
    path = tmp_path / "store"
    shutil.copytree(store_v1.STORE, path)
    with HybridStore.open(path, embedder=store_v1.embedder(), read_only=True) as old:
        assert old.get(["t0"]) == [store_v1.chunks()[0]]
        with HybridStore.open(path, embedder=store_v1.embedder()) as store:
            assert [chunk.search_text for chunk in store.scan()] == [None] * 5
            store.add([REPORT])
            assert found(store, "hedgehog") == ["report"] and store.verify(full=True)
            assert old.get(["report", "t0"]) == [REPORT, store_v1.chunks()[0]]


@pytest.mark.parametrize(
    ("value", "said"),
    [("", "is empty"), (" \n", "is empty"), (3, "int"), ("\ud800", "surrogate")],
)
def test_a_search_text_that_cannot_be_searched_is_refused_by_name(value, said):
    with pytest.raises(InvalidChunk, match=f"chunk 'c': search_text.*{said}"):
        Chunk("c", "text", search_text=value)


def test_a_chunk_with_search_text_can_be_copied_and_pickled():
    assert copy.deepcopy(REPORT) == REPORT == pickle.loads(pickle.dumps(REPORT))  # noqa: S301 our own bytes
    assert Chunk("report", "Sales fell.") != REPORT
