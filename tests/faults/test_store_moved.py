"""The directory of an open store is deleted, renamed or replaced: no write to it is acknowledged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from umi_common.config import UmiConfig
from umi_common.errors import StoreError, StoreMoved
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores import failpoints
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not rename a directory with open files")


def open_store(path: Path, **options) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(16), **options)


def content_of(path: Path) -> dict[str, bytes]:
    """Content of all files but SQLite's umi.db-shm and umi.db-wal, which a process that has umi.db open changes."""
    sqlites = ("umi.db-shm", "umi.db-wal")
    return {
        str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file() and file.name not in sqlites
    }


@pytest.fixture
def live(tmp_path: Path) -> Path:
    with open_store(tmp_path / "live") as store:
        store.add([Chunk("old", "an old apple"), Chunk("both", "the old words")])
    return tmp_path / "live"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Another store, closed; one write less than the other, so that a mark of the other would call it damaged."""
    with open_store(tmp_path / "new") as store:
        store.add([Chunk("both", "the new words")])
    return tmp_path / "new"


def replace_ledger(live: Path, new: Path) -> None:
    (new / "umi.db").replace(live / "umi.db")


MOVES: dict[str, Callable[[Path, Path], object]] = {
    "deleted": lambda live, new: shutil.rmtree(live),
    "renamed": lambda live, new: live.rename(live.parent / "elsewhere"),
    "replaced": lambda live, new: (live.rename(live.parent / "elsewhere"), new.rename(live)),
    "umi.db deleted": lambda live, new: (live / "umi.db").unlink(),
    "umi.db replaced": replace_ledger,
}


@pytest.mark.parametrize("what", MOVES)
def test_a_write_into_a_directory_that_has_gone_is_not_acknowledged(live, new, what):
    store = open_store(live)
    MOVES[what](live, new)
    before = content_of(live) if live.exists() else None
    writes = (
        partial(store.add, [Chunk("lost", "nowhere")]),
        partial(store.delete, ["old"]),
        store.rebuild,
        store.compact,
    )
    for write in writes:
        with pytest.raises(StoreMoved, match="deleted, renamed or replaced"):
            write()
    store.close()
    assert (content_of(live) if live.exists() else None) == before


def test_a_replaced_store_is_not_touched_by_the_writer_of_the_one_before(live, new):
    """`mv live old; mv new live`, and somebody writes to the new one meanwhile."""
    old = open_store(live)
    old.add([Chunk(f"o{i}", "more old words") for i in range(5)])
    live.rename(live.parent / "old")
    new.rename(live)
    with open_store(live) as current:
        current.add([Chunk("fresh", "new words")])
        before = content_of(live)
        with pytest.raises(StoreMoved):
            old.add([Chunk("lost", "nowhere")])
        old.close()
        assert content_of(live) == before
        current.add([Chunk("later", "still new words")])
    with open_store(live) as current:
        assert current.ids() == ["both", "fresh", "later"]
        assert current.verify()
    with open_store(live.parent / "old") as kept:
        assert kept.ids() == ["both", *(f"o{i}" for i in range(5)), "old"]


@pytest.mark.parametrize("point", ["ledger.insert", "ledger.commit"])
def test_a_directory_that_is_replaced_during_a_write_gets_no_acknowledgement(live, new, point):
    store = open_store(live)
    with failpoints.armed(point, lambda: MOVES["replaced"](live, new)), pytest.raises(StoreMoved):
        store.add([Chunk("lost", "nowhere")])
    store.close()
    with open_store(live) as current:
        assert current.ids() == ["both"]
        assert current.verify()


def test_a_directory_that_comes_back_is_written_to_again(live, tmp_path):
    with open_store(live) as store:
        live.rename(tmp_path / "aside")
        with pytest.raises(StoreMoved):
            store.add([Chunk("lost", "nowhere")])
        (tmp_path / "aside").rename(live)
        store.add([Chunk("kept", "somewhere")])
    with open_store(live) as store:
        assert store.ids() == ["both", "kept", "old"]


def test_an_open_store_never_reads_from_the_store_that_took_its_place(live, new):
    """Many threads need many connections, which are opened after the move."""
    with open_store(live) as store:
        MOVES["replaced"](live, new)

        def read(_: int) -> str:
            try:
                return "".join(chunk.text for chunk in store.scan(where=None) if chunk.id == "both")
            except StoreMoved:
                return "moved"

        with ThreadPoolExecutor(16) as threads:
            assert set(threads.map(read, range(200))) <= {"the old words", "moved"}


def test_a_reader_of_a_replaced_directory_is_told(live, new):
    with open_store(live, read_only=True) as reader:
        assert reader.ids() == ["both", "old"]
        MOVES["replaced"](live, new)
        for _ in range(2):
            with pytest.raises(StoreMoved, match="open it under its present path"):
                reader.get(["both"])
    with open_store(live, read_only=True) as reader:
        assert reader.get(["both"])[0].text == "the new words"


@contextmanager
def no_access(path: Path) -> Iterator[None]:
    """Nobody but root may enter the directory, and this process is not root."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    try:
        if user == 0:
            os.seteuid(65534)
        yield
    finally:
        if user == 0:
            os.seteuid(0)
        path.chmod(mode)


@pytest.mark.parametrize("where", ["the store's directory", "the directory above"])
def test_a_directory_whose_permission_was_removed_is_not_said_to_be_deleted(live, where):
    closed = live if where == "the store's directory" else live.parent
    with open_store(live, read_only=True) as reader, open_store(live) as store:
        with no_access(closed):
            for call in (reader.ids, reader.verify, partial(store.add, [Chunk("late", "a late apple")]), store.compact):
                with pytest.raises(StoreError, match=r"Permission denied.*check the permissions") as caught:
                    call()
                assert not isinstance(caught.value, StoreMoved)
            assert any("Permission denied" in problem for problem in store.verify().problems)
        store.add([Chunk("late", "a late apple")])
        assert reader.ids() == ["both", "late", "old"]
        assert store.verify()


@pytest.mark.parametrize("what", MOVES)
def test_verify_and_status_of_an_open_store_say_that_its_directory_has_gone(live, new, what):
    with open_store(live) as store:
        assert store.verify()
        assert not store.status().problems
        MOVES[what](live, new)
        found = store.verify()
        assert not found
        assert "deleted, renamed or replaced" in found.problems[0]
        assert found.problems[0] in store.status().problems
        with pytest.raises(StoreMoved, match="restore a deleted store from a copy"):
            store.repair()


def test_a_reader_of_a_directory_that_has_gone_is_not_told_of_a_lost_write(live):
    with open_store(live, read_only=True) as reader:
        shutil.rmtree(live)
        with pytest.raises(StoreMoved, match=r"replaced while the store was open\. Close") as caught:
            reader.ids()
        assert "write" not in str(caught.value)


@pytest.mark.parametrize("what", ["deleted", "renamed", "replaced"])
def test_llm_replies_are_not_written_into_a_directory_that_has_gone(live, new, what, caplog):
    config = UmiConfig(rewrite={"keep_replies": True})
    store = open_store(live)
    with DualRetriever(store, rewriter=lambda prompt: '["an apple"]', config=config) as umi:
        MOVES[what](live, new)
        assert umi.search("what fruit is there", deep_search=True).deep_search_used
    store.close()
    assert not (live / "rewrites.db").exists()
    assert live.exists() == (what == "replaced")
    assert "rewrites.db cannot be used" in caplog.text


def test_a_store_opened_by_a_relative_path_stays_when_the_program_changes_its_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store(Path("s")) as store:
        store.add([Chunk("a", "an apple")])
        (tmp_path / "away").mkdir()
        monkeypatch.chdir(tmp_path / "away")
        store.add([Chunk("b", "a banana")])
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(lambda _: len(store.scan()) == 2, range(50)))
    assert not any((tmp_path / "away").iterdir())
    with open_store(tmp_path / "s") as store:
        assert store.ids() == ["a", "b"]


def test_a_new_stores_folders_are_synced_so_that_a_crash_of_the_machine_does_not_lose_them(tmp_path, monkeypatch):
    synced: list[str] = []
    fsync = os.fsync

    def noting(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").exists():
            synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not say which file a handle is of")
    monkeypatch.setattr(os, "fsync", noting)
    open_store(tmp_path / "one" / "two" / "s").close()
    assert {str(tmp_path / name) for name in ("", "one", "one/two", "one/two/s")} <= set(synced)
    synced.clear()
    (tmp_path / "made before").mkdir()
    open_store(tmp_path / "made before").close()
    assert str(tmp_path) in synced


def test_a_moved_store_can_be_opened_again_at_once(live):
    """The lock file is in the directory, and closing the old store releases it."""
    store = open_store(live)
    live.rename(live.parent / "moved")
    with pytest.raises(StoreError):
        store.add([Chunk("x", "y")])
    store.close()
    with open_store(live.parent / "moved") as again:
        again.add([Chunk("x", "y")])
    assert subprocess.run(["ls", str(live.parent)], capture_output=True, text=True, check=True).stdout == "moved\n"
