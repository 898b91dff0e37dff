"""An index, a reader and a mark belong to one ledger: an index of another one is made again at the opening."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from umi_common.errors import LedgerDamaged
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

ROOT = Path(__file__).parents[2]
FRUIT = ("apple", "banana", "cherry", "damson", "elder")


def chunks(first: int, count: int) -> list[Chunk]:
    """Chunks that each name one fruit, in turn."""
    return [
        Chunk(f"c{i:03}", f"The {FRUIT[i % 5]} of row {i}.", metadata={"n": i}) for i in range(first, first + count)
    ]


def opened(path: Path, **options: object) -> HybridStore:
    return HybridStore.open(path, embedder=CountingEmbedder(HashEmbedder(16)), **options)


def check(store: HybridStore, expected: list[Chunk]) -> None:
    """Assert that the lexical arm finds the chunks of the ledger, and that nothing was embedded."""
    assert store.get(store.ids()) == sorted(expected, key=lambda chunk: chunk.id)
    for fruit in FRUIT:
        found = {id for id, _ in store.search_lexical(fruit, k=1_000)} if expected else set()
        assert found == {chunk.id for chunk in expected if fruit in chunk.text}, fruit
    assert store.verify()
    assert store.embedder.document_calls == 0


def put_back(copy: Path, store: Path) -> None:
    """Replace the ledger of a store, and no other file, by that of a copy."""
    for leftover in store.glob("umi.db-*"):
        leftover.unlink()
    shutil.copyfile(copy / "umi.db", store / "umi.db")


def killed_after(path: Path, first: int, count: int) -> None:
    """Another process adds chunks one by one and dies."""
    script = (
        "import os, signal, sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from test_lineage import *\n"
        "store = opened(Path(sys.argv[3]))\n"
        "for chunk in chunks(int(sys.argv[4]), int(sys.argv[5])): store.add([chunk])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    arguments = [str(Path(__file__).parent), str(ROOT), str(path), str(first), str(count)]
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_store_whose_ledger_was_exchanged_for_anothers_answers_from_the_new_one(tmp_path):
    for name, first in (("one", 0), ("two", 3)):
        with opened(tmp_path / name) as store:
            store.add(chunks(first, 20))
    put_back(tmp_path / "two", tmp_path / "one")
    with opened(tmp_path / "one") as store:
        check(store, chunks(3, 20))


@pytest.mark.parametrize("closing_of_the_copied", ["closed", "open"])
def test_a_backup_put_back_and_written_to_answers_from_what_was_written(closing_of_the_copied, tmp_path):
    """Backup, ten adds, restore, fifteen other adds, kill, open: the saved index in the folder holds the ten."""
    path, backup = tmp_path / "store", tmp_path / "backup"
    backup.mkdir()
    with opened(path) as store:
        store.add(chunks(0, 20))
        if closing_of_the_copied == "open":
            with closing(sqlite3.connect(path / "umi.db")) as live, closing(sqlite3.connect(backup / "umi.db")) as copy:
                live.backup(copy)
        else:
            store.close()
            shutil.copyfile(path / "umi.db", backup / "umi.db")
    with opened(path) as store:
        store.add(chunks(101, 10))
    put_back(backup, path)
    killed_after(path, 203, 15)
    with opened(path) as store:
        check(store, chunks(0, 20) + chunks(203, 15))


def test_an_older_ledger_beside_newer_indexes_answers_as_it_did_then(tmp_path):
    path = tmp_path / "store"
    with opened(path) as store:
        store.add(chunks(0, 20))
    shutil.copytree(path, tmp_path / "older")
    with opened(path) as store:
        store.delete(["c001", "c002"])
        store.add([Chunk("c003", "The elder of row 3."), *chunks(50, 5)])
    put_back(tmp_path / "older", path)
    with opened(path) as store:
        check(store, chunks(0, 20))
        store.add(chunks(30, 5))
        check_words = {id for id, _ in store.search_lexical("apple", k=100)}
        assert check_words == {"c000", "c005", "c010", "c015", "c030"}


def test_a_ledger_put_back_after_a_crash_answers_as_it_did_then(tmp_path):
    path = tmp_path / "store"
    with opened(path) as store:
        store.add(chunks(0, 20))
    shutil.copytree(path, tmp_path / "older")
    killed_after(path, 40, 5)
    put_back(tmp_path / "older", path)
    with opened(path) as store:
        check(store, chunks(0, 20))


def test_a_reader_notices_that_the_ledger_went_another_way(tmp_path):
    """The reader has read writes that the restored ledger never had; by sequence numbers alone it would not notice."""
    path = tmp_path / "store"
    with opened(path) as store:
        store.add(chunks(0, 20))
    shutil.copytree(path, tmp_path / "older")
    with opened(path) as store:
        store.add(chunks(101, 5))
    reader = opened(path, read_only=True)
    assert len(reader) == 25
    with closing(sqlite3.connect(path / "umi.db")) as live, closing(sqlite3.connect(tmp_path / "older/umi.db")) as copy:
        copy.backup(live)  # in place, as a restore by SQLite's own means does it
    with opened(path) as store:
        store.add(chunks(203, 9))
        check(reader, chunks(0, 20) + chunks(203, 9))
    reader.close()


def test_a_copied_folder_may_go_its_own_way(tmp_path):
    """Two copies of a store are written to; then the saved index of one is put into the other."""
    with opened(tmp_path / "a") as store:
        store.add(chunks(0, 10))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for name, first in (("a", 21), ("b", 32)):
        with opened(tmp_path / name) as store:
            store.add(chunks(first, 10))
    shutil.rmtree(tmp_path / "a" / "lexical")
    shutil.copytree(tmp_path / "b" / "lexical", tmp_path / "a" / "lexical")
    with opened(tmp_path / "a") as store:
        check(store, chunks(0, 10) + chunks(21, 10))


def store_without_its_log(tmp_path):
    """The path of a store whose writer was killed, and whose log was then lost with acknowledged writes."""
    path = tmp_path / "store"
    with opened(path) as store:
        store.add(chunks(0, 20))
    killed_after(path, 40, 5)
    (path / "umi.db-wal").unlink()
    return path


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted on Windows")
def test_a_log_lost_after_a_crash_is_still_told_from_a_copy_put_back(tmp_path):
    """The mark says what was acknowledged in the same session."""
    path = store_without_its_log(tmp_path)
    with pytest.raises(LedgerDamaged, match=r"acknowledged.*umi\.mark"):
        opened(path)


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted on Windows")
def test_reindexing_reports_a_lost_log_and_does_not_take_the_loss_for_the_whole_store(tmp_path):
    path = store_without_its_log(tmp_path)
    with pytest.raises(LedgerDamaged, match=r"acknowledged.*umi\.mark"):
        HybridStore.reindex(path, embedder=HashEmbedder(32))
    with pytest.raises(LedgerDamaged, match=r"acknowledged.*umi\.mark"):
        opened(path)
