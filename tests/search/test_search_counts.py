"""How many searches a store has answered: in this process by `metrics()`, over all processes by `status().searches`."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys

import chromadb
import pytest
from qdrant_client import QdrantClient
from typer.testing import CliRunner

from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig
from umi_common.cli.program import app
from umi_common.errors import SearchUnavailable
from umi_common.search.recall import Store
from umi_common.sim import FaultyLLM, HashEmbedder, ScriptedLLM
from umi_common.stores import search_counts
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.qdrant import QdrantStore
from umi_langchain import UmiRetriever

CHUNKS = [Chunk("t1", "The pear tree blossoms in April."), Chunk("t2", "The roofers come in May.")]
QUERY = "when do the roofers come"
NAME = "searches.json"


def opened(path=None, **options) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(16), **options)


def filled(path=None) -> HybridStore:
    store = opened(path)
    store.add(CHUNKS)
    return store


def search(store: Store, times: int = 1) -> None:
    for _ in range(times):
        DualRetriever(store).search(QUERY)


def shown_by_status(path) -> tuple[str, dict]:
    """What `umi status` prints about searches, and the same as JSON."""
    lines = CliRunner().invoke(app, ["status", "--store", str(path)], catch_exceptions=False).output.splitlines()
    said = CliRunner().invoke(app, ["status", "--store", str(path), "--json"], catch_exceptions=False).output
    first = next(at for at, line in enumerate(lines) if line.startswith("searches"))
    return " ".join(" ".join(lines[first : first + 2]).split()), json.loads(said)["searches"]


def over_chroma(path):
    collection = chromadb.PersistentClient(str(path)).create_collection("notes", embedding_function=None)
    return ChromaStore(collection, HashEmbedder(16))


def over_qdrant(path):
    return QdrantStore(QdrantClient(":memory:"), "notes", HashEmbedder(16))


@pytest.mark.parametrize("made", [opened, over_chroma, over_qdrant])
def test_a_store_counts_the_searches_of_all_its_retrievers(tmp_path, made):
    with made(tmp_path) as store:
        store.add(CHUNKS)
        assert store.metrics().searches == 0
        first, adapter = DualRetriever(store), UmiRetriever.from_store(store)
        first.search(QUERY)
        first.with_config(fusion={"method": "rrf"}).search_many([QUERY, "pear"])
        adapter.invoke(QUERY)
        counted = store.metrics()
    assert (first.metrics().searches, adapter.umi.metrics().searches) == (3, 1)
    assert (counted.searches, counted.failures, counted.hits.total) == (4, 0, 8)
    assert counted.milliseconds.total == first.metrics().milliseconds.total + adapter.umi.metrics().milliseconds.total


def test_a_store_counts_failures_lost_parts_and_calls_of_the_llm(monkeypatch):
    always = UmiConfig(routing={"mode": "always"}, rewrite={"retries": 0})
    with filled() as store:
        asking = DualRetriever(store, rewriter=ScriptedLLM(lambda _: ["roof"]), config=always)
        asking.search(QUERY)
        asking.search(QUERY)
        DualRetriever(store, rewriter=FaultyLLM("raises"), config=always).search(QUERY)
        with monkeypatch.context() as patch:
            patch.setattr(HybridStore, "recall_many", lambda *_: (_ for _ in ()).throw(SearchUnavailable("down")))
            with pytest.raises(SearchUnavailable):
                asking.search(QUERY)
        counted = store.metrics()
    assert (counted.searches, counted.failures, counted.fallbacks, counted.llm_calls, counted.cache_hits) == (
        *(3, 1, 1),
        *(2, 1),
    )


def test_stores_that_share_a_directory_share_their_counts(tmp_path):
    with filled(tmp_path) as one, opened(tmp_path) as other:
        search(one)
        search(other, 2)
        assert one.metrics() == other.metrics() and one.metrics().searches == 3


def test_a_store_of_ones_own_needs_no_counts():
    class Listed:
        def recall(self, probes, **options):
            raise SearchUnavailable("nothing here")

    umi = DualRetriever(Listed())
    with pytest.raises(SearchUnavailable):
        umi.search(QUERY)
    assert umi.metrics().failures == 1


def test_counts_add_up_over_processes_and_umi_status_shows_them(tmp_path):
    with filled(tmp_path) as store:
        search(store, 2)
    with opened(tmp_path) as store:
        search(store, 3)
        assert (store.metrics().searches, store.status().searches.searches) == (3, 5)
        with opened(tmp_path, read_only=True) as reader:  # sees what was saved
            assert reader.status().searches.searches == 2
    line, found = shown_by_status(tmp_path)
    assert found["searches"] == sum(found["milliseconds"]["counts"]) == 5
    mean = found["milliseconds"]["total"] / 5
    assert line.startswith(f"searches 5, and 0 that failed; mean {mean:.1f} ms, p95 ")
    assert line.endswith("0.0 % without some part; 0 LLM calls, 0 cache hits")


def test_counts_of_a_reader_are_its_own_and_leave_nothing(tmp_path):
    filled(tmp_path).close()
    with opened(tmp_path, read_only=True) as reader:
        search(reader)
        assert (reader.metrics().searches, reader.status().searches.searches) == (1, 0)
    assert not (tmp_path / NAME).exists()
    assert shown_by_status(tmp_path)[0].startswith("searches none counted")


KILLED = """
import sys
from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.sim import HashEmbedder
from umi_common.stores import search_counts
search_counts.SECONDS = float(sys.argv[2])
store = HybridStore.open(sys.argv[1], embedder=HashEmbedder(16))
store.add([Chunk("t1", "The roofers come in May.")])
for turn in range(3):
    DualRetriever(store).search("roofers")
    store.add([Chunk(f"turn {turn}", f"The {turn}th turn.")])
DualRetriever(store).search("roofers")
print("ready", flush=True)
input()
"""


@pytest.mark.parametrize("seconds, kept", [(0, 3), (3600, 0)])
def test_a_killed_writer_loses_the_searches_after_its_last_save(tmp_path, seconds, kept):
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        os.kill(writer.pid, signal.SIGKILL)
    with opened(tmp_path, read_only=True) as reader:
        assert reader.status().searches.searches == kept


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 1}',
        b'{"version": 99, "searches": 3}',
        "too few buckets",
        "a word for a number",
    ],
)
def test_a_damaged_file_means_no_counts_and_is_said(tmp_path, content, caplog):
    with filled(tmp_path) as store:
        search(store)
    known = json.loads((tmp_path / NAME).read_text())
    if content == "too few buckets":
        content = json.dumps({**known, "hits": {"counts": [1], "total": 1}}).encode()
    elif content == "a word for a number":
        content = json.dumps({**known, "searches": "many"}).encode()
    (tmp_path / NAME).write_bytes(content)
    line, found = shown_by_status(tmp_path)
    assert line.startswith(f"searches unknown: {NAME} cannot be read") and found is None
    caplog.clear()
    with opened(tmp_path) as store:
        search(store)
        assert store.status().searches.searches == 1
    assert [record.levelname for record in caplog.records if NAME in record.getMessage()] == ["WARNING"]
    assert shown_by_status(tmp_path)[1]["searches"] == 1


def test_a_file_that_cannot_be_written_is_said_and_the_store_closes(tmp_path, caplog):
    store = filled(tmp_path)
    search(store)
    (tmp_path / f"{NAME}.new").mkdir()
    store.close()
    assert [record.levelname for record in caplog.records if NAME in record.getMessage()] == ["WARNING"]
    opened(tmp_path).close()


def test_a_store_that_was_moved_away_writes_no_counts_where_it_was(tmp_path):
    store = filled(tmp_path / "memory")
    search(store)
    (tmp_path / "memory").rename(tmp_path / "moved")
    (tmp_path / "memory").mkdir()
    store.close()
    assert list((tmp_path / "memory").iterdir()) == []


def test_no_search_writes_and_the_file_holds_no_word_of_a_user(tmp_path, monkeypatch):
    writes = []
    gc.collect()  # a store that another test did not close saves its counts when it is collected
    monkeypatch.setattr(search_counts.DirectoryCounter, "save", lambda *_, **__: writes.append(1))
    with filled(tmp_path) as store:
        before = len(writes)
        search(store, 5)
        assert len(writes) == before
    monkeypatch.undo()
    with opened(tmp_path) as store:
        search(store)
    text = (tmp_path / NAME).read_text()
    assert set(json.loads(text)) == {"version", *search_counts.SearchMetrics.__dataclass_fields__}
    assert not any(word in text for word in ("roofers", "pear", "t1"))


def test_a_pickled_retriever_counts_at_the_store_that_it_opens(tmp_path):
    with filled(tmp_path) as store:
        umi = pickle.loads(pickle.dumps(DualRetriever(store)))  # noqa: S301 our own bytes
        umi.search(QUERY)
        assert (umi.store.metrics().searches, store.metrics().searches) == (1, 0)
        umi.store.close()
