"""One writer, many readers, threads and forks."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from small_store import chunks, search

from umi_common import DualRetriever
from umi_common.config import LexicalConfig, UmiConfig
from umi_common.errors import SearchUnavailable, StoreClosed, StoreForked, StoreLocked, StoreMoved
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.ledger import Ledger
from umi_common.types import Chunk

ROOT = Path(__file__).parents[2]
SHARED_SECONDS = float(os.environ.get("UMI_TEST_SHARED_SECONDS", "3"))
"""UMI_TEST_SHARED_SECONDS=60 runs one writer beside four readers in the long form."""


@pytest.fixture
def path(tmp_path):
    with HybridStore.open(tmp_path / "s", embedder=HashEmbedder()) as store:
        store.add(chunks())
    return tmp_path / "s"


OPEN_ELSEWHERE = """
import sys, time
from umi_common.errors import StoreLocked
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
started = time.monotonic()
try:
    HybridStore.open(sys.argv[1], embedder=HashEmbedder()).close()
except StoreLocked as error:
    assert time.monotonic() - started < 5.0, 'SQLite would wait for 10 s'
    print(error)
"""


def message_elsewhere(path: Path) -> str:
    """What another process is told that opens the store for writing; "": it could open it."""
    command = [sys.executable, "-c", OPEN_ELSEWHERE, str(path)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def test_a_second_process_that_writes_is_told_at_once_how_to_read(path):
    with HybridStore.open(path, embedder=HashEmbedder()):
        said = message_elsewhere(path)
        assert f"HybridStore.open({str(path)!r}, read_only=True)" in said and "close it there" in said
    assert message_elsewhere(path) == ""


def test_running_a_notebook_cell_twice_works(path):
    for number in range(3):  # the store of the run before is still open while the cell opens it again
        store = HybridStore.open(path, embedder=HashEmbedder())
        store.add([Chunk(f"run {number}", f"written in run {number}")])
    assert {"run 0", "run 1", "run 2"} <= set(store.ids())
    gc.collect()
    assert store.get(["run 0"])[0] is not None
    store.close()
    assert message_elsewhere(path) == ""


def test_closing_one_of_two_stores_in_a_directory_leaves_the_other_open(path):
    one, two = HybridStore.open(path, embedder=HashEmbedder()), HybridStore.open(path, embedder=HashEmbedder())
    one.add([Chunk("new", "purple submarine")])
    assert two.search_lexical("submarine")[0][0] == "new"
    one.close()
    one.close()
    for call in (one.status, one.ids, lambda: one.add([Chunk("late", "text")]), lambda: len(one)):
        with pytest.raises(StoreClosed):
            call()
    assert one.path == path
    two.add([Chunk("later", "yellow submarine")])
    assert len(two.search_lexical("submarine")) == 2
    assert message_elsewhere(path) != ""
    two.close()
    assert message_elsewhere(path) == ""


def test_two_spellings_of_a_path_are_one_directory(path, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    names = (path, "s", "./s/../s", tmp_path / "link")
    with ExitStack() as opened:
        for name in names:
            opened.enter_context(HybridStore.open(name, embedder=HashEmbedder())).add([Chunk(str(name), "text")])
        assert set(map(str, names)) <= set(opened.enter_context(HybridStore.open(path, embedder=HashEmbedder())).ids())


def test_another_embedder_or_config_for_an_open_directory_is_refused_by_name(path):
    narrow = UmiConfig(lexical=LexicalConfig(k1=0.9))
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        with pytest.raises(StoreLocked, match=r"in this process with embedder 'hash/\d+', not 'hash/8'"):
            HybridStore.open(path, embedder=HashEmbedder(8))
        with pytest.raises(StoreLocked, match=r"in this process with another config \(lexical\)"):
            HybridStore.open(path, embedder=HashEmbedder(), config=narrow)
        store.reconfigure(narrow)
        HybridStore.open(path, embedder=HashEmbedder(), config=narrow).close()
        with pytest.raises(StoreLocked, match="another config"):
            HybridStore.open(path, embedder=HashEmbedder())
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        assert store.config == UmiConfig()


def test_the_same_call_opens_a_store_with_an_analyzer_of_its_own_a_second_time(tmp_path):
    plain, narrow = UmiConfig(analyzer={"language": "none"}), UmiConfig(lexical=LexicalConfig(k1=0.9))
    HybridStore.open(tmp_path, embedder=HashEmbedder(), config=plain).close()
    with (
        HybridStore.open(tmp_path, embedder=HashEmbedder(), config=narrow) as store,
        HybridStore.open(tmp_path, embedder=HashEmbedder(), config=narrow) as again,
    ):
        assert again.config == store.config
        assert (store.config.analyzer.language, store.config.lexical.k1) == ("none", 0.9)


def test_new_settings_of_one_store_hold_for_the_others_in_its_directory(path):
    with HybridStore.open(path, embedder=HashEmbedder()) as one, HybridStore.open(path, embedder=HashEmbedder()) as two:
        one.reconfigure(UmiConfig(lexical=LexicalConfig(k1=0.0)))
        assert two.config.lexical.k1 == 0.0
        assert one.search_lexical("boiler") == two.search_lexical("boiler")


def test_reindexing_an_open_store_is_still_refused(path):
    with HybridStore.open(path, embedder=HashEmbedder()), pytest.raises(StoreLocked):
        HybridStore.reindex(path, embedder=HashEmbedder(8))


def test_a_directory_that_took_the_place_of_an_open_store_is_not_shared_with_it(path, tmp_path):
    with HybridStore.open(path, embedder=HashEmbedder()) as old:
        path.rename(tmp_path / "away")
        with HybridStore.open(path, embedder=HashEmbedder()) as new:
            assert len(new) == 0
            with HybridStore.open(path, embedder=HashEmbedder()) as again:
                again.add([Chunk("new", "text")])
                assert len(new) == 1
            with pytest.raises(StoreMoved):
                old.add([Chunk("lost", "text")])


def test_threads_that_open_and_close_one_directory_at_once_share_it(path):
    def run(number: int) -> None:
        for turn in range(5):
            with HybridStore.open(path, embedder=HashEmbedder()) as store:
                store.add([Chunk(f"{number}-{turn}", f"text {number} {turn}")])
                assert store.get([f"{number}-{turn}"])[0] is not None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        assert {f"{number}-{turn}" for number in range(8) for turn in range(5)} <= set(store.ids())
        assert store.verify(full=True)
    assert message_elsewhere(path) == ""


def test_a_failed_opening_leaves_no_lock(path):
    for _ in range(2):
        with pytest.raises(Exception, match="hash/8"):
            HybridStore.open(path, embedder=HashEmbedder(8))
    HybridStore.open(path, embedder=HashEmbedder()).close()


def test_a_reader_sees_the_next_write(path):
    with (
        HybridStore.open(path, embedder=HashEmbedder()) as writer,
        HybridStore.open(path, embedder=HashEmbedder(), read_only=True) as reader,
    ):
        writer.add([Chunk("new", "a purple submarine", metadata={"user": "cyd"})])
        pool = search(reader, "purple submarine")
        assert pool.lexical_rank[0, pool.ids.index("new")] == 1
        writer.delete(where={"user": "ann"})
        assert reader.ids() == writer.ids() == ["new", "t1", "t3"]
        assert reader.get(["t0", "new"])[0] is None
        np.testing.assert_array_equal(search(reader, "boat").lexical, search(writer, "boat").lexical)
        writer.compact()
        assert reader.ids() == writer.ids()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("dim", [HashEmbedder().dim, 8])
def test_a_reader_is_told_that_another_process_has_embedded_everything_with_another_model(path, dim):
    class Another(HashEmbedder):
        """Of the same or another dimension; cosines between its vectors and those of the first model mean nothing."""

        def __init__(self) -> None:
            super().__init__(dim)
            self.name = "another"

        def embed_documents(self, texts):
            return -super().embed_documents(texts)

    with HybridStore.open(path, embedder=HashEmbedder(), read_only=True) as reader:
        umi = DualRetriever(reader)
        before = umi.search("boat").ids
        HybridStore.reindex(path, embedder=Another())
        for found in (umi.search("boat"), asyncio.run(umi.asearch("boat"))):
            assert found.mode == "text"
            assert [(loss.part, "'another', not 'hash/64'" in loss.reason) for loss in found.degraded] == [
                ("embedder", True)
            ]
        with pytest.raises(SearchUnavailable, match="another"):
            umi.search("boat", strategy="vector")
        HybridStore.reindex(path, embedder=HashEmbedder())
        assert (umi.search("boat").ids, umi.search("boat").degraded) == (before, ())


def test_a_fork_is_told_and_does_not_hang(path):
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        child = os.fork()
        if child == 0:
            told = 0
            try:
                for call in (lambda: store.get(["t0"]), store.repair, lambda: store.reconfigure(UmiConfig())):
                    with pytest.raises(StoreForked):
                        call()
                    told += 1
                store.close()
            finally:
                os._exit(told)
        deadline = time.monotonic() + 60
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(done[1]) == 3
        # The child's end has not let another writer in.
        assert message_elsewhere(path) != ""
        store.add([Chunk("after", "the fork")])
        assert store.get(["after"])[0] is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_of_a_store_in_memory_is_told_that_it_cannot_be_opened_again():
    with HybridStore.open(embedder=HashEmbedder()) as store:
        child = os.fork()
        if child == 0:
            told = 1
            try:
                with pytest.raises(StoreForked, match="in this process, open one in a directory"):
                    store.get(["t0"])
                told = 0
            finally:
                os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_thirty_two_threads_at_once(path):
    errors: list[BaseException] = []
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        start = threading.Barrier(32)

        def work(number: int) -> None:
            start.wait()
            for turn in range(15):
                id = f"n{number}-{turn % 5}"
                kind = (number + turn) % 4
                try:
                    if kind == 0:
                        store.add([Chunk(id, f"thread {number} turn {turn}", source=f"s{number}", position=turn)])
                        assert store.get([id])[0].text.endswith(f"turn {turn}")
                    elif kind == 1:
                        store.delete([id])
                        assert store.get([id]) == [None]
                    elif kind == 2:
                        pool = search(store, "thread boat", around=1)
                        assert not pool.degraded
                        assert "t0" in pool.ids
                    else:
                        assert len(store.neighbours(["t2"], reach=2)["t2"]) == 5
                        assert set(search(store, "red").ids) >= {"t0"}
                except BaseException as error:  # noqa: BLE001 told by the main thread
                    errors.append(error)
                    return

        with ThreadPoolExecutor(32) as threads:
            list(threads.map(work, range(32)))
        assert not errors, errors[0]
        assert store.verify()
        expected = store.ids()
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        assert store.ids() == expected


READER = """
import sys, time
from small_store import search
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

seen = set()
with HybridStore.open(sys.argv[1], embedder=HashEmbedder(), read_only=True) as store:
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end or len(seen) <= 5 and time.monotonic() < end + 60:  # a busy machine takes longer
        pool = search(store, "batch", depth=50)
        lengths = {int(n) for id, n in zip(pool.ids, pool.length) if id[0] == "b"}
        found = sum(id[0] == "b" for id in pool.ids)
        assert found == 20, found
        assert len(lengths) == 1, lengths
        assert not pool.degraded, pool.degraded
        chunks = [chunk for chunk in store.get(store.ids()) if chunk is not None]
        numbers = {chunk.metadata["number"] for chunk in chunks if chunk.id[0] == "b"}
        seen |= numbers
    assert store.verify(), store.verify()
assert len(seen) > 5, seen
print(len(seen))
"""


def test_reader_processes_beside_a_writer(path, record_property):
    """Each batch replaces the same 20 chunks, all of one length; a search must never see two lengths or 19 chunks."""
    with HybridStore.open(path, embedder=HashEmbedder()) as store:

        def batch(number):
            text = "batch" + " of words" * (number % 7)
            return [Chunk(f"b{i}", text, metadata={"number": number}, source=f"s{i}", position=i) for i in range(20)]

        store.add(batch(0))
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", READER, str(path), str(SHARED_SECONDS)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(4)
        ]
        number = 0
        while any(reader.poll() is None for reader in readers):
            number += 1
            store.add(batch(number))
            if number % 50 == 0:
                store.compact()
            time.sleep(0.002)
    record_property("batches", number)
    said = [reader.communicate()[1].decode() for reader in readers]
    for reader, error in zip(readers, said, strict=True):
        assert reader.returncode == 0, error[-800:]


def test_a_store_that_is_compacted_while_a_reader_opens_is_not_called_damaged(path):
    """A reader's opening reads the mark first and looks for its commit last; compact() clears the list of commits."""
    with HybridStore.open(path, embedder=HashEmbedder()) as store:
        store.add([Chunk("a", "one")])
        mark_file = MarkFile(path)
        read_first = mark_file.read()
        store.add([Chunk("b", "two")])
        store.compact()
        with closing(Ledger(path / FILE, read_only=True)) as ledger, ledger.snapshot() as connection:
            mark_file.check(read_first, ledger, ledger.mark(connection))


def test_a_store_that_is_closed_while_another_opening_of_it_is_refused_releases_its_directory(path):
    first = HybridStore.open(path, embedder=HashEmbedder())

    class Other(HashEmbedder):
        def __getattribute__(self, name):
            first.close()  # as another thread, or the garbage collector, may at any moment
            return super().__getattribute__(name)

    with pytest.raises(StoreLocked, match="with embedder"):
        HybridStore.open(path, embedder=Other(32))
    assert message_elsewhere(path) == ""


def test_a_store_locked_by_a_connection_of_its_own_process_does_not_blame_another_program(tmp_path, monkeypatch):
    monkeypatch.setattr("umi_common.stores.ledger.sqlite.BUSY_SECONDS", 0.1)
    with HybridStore.open(tmp_path, embedder=HashEmbedder(8)) as store:
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked, match=r"locked for 0\.1 s by another connection, perhaps"):
                store.add([Chunk("a", "boat")])
        assert store.ids() == []
