"""A copy of a store is put back in any way, then written to, then a crash: the results of the copy, or a typed error.

A copy is one that docs/operate.md describes. It is put back file by file, so every set of files that an interrupted
restore leaves is tried, beside what the folder held: the same store some writes later, or another of the same length.
A crash is a copy of the open store's folder: what a process that dies leaves behind.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime, timezone
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from umi_common.errors import LedgerDamaged
from umi_common.protocols import Probe
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded import row_data
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
DIMENSIONS = 16
FRUIT = ("banana", "cherry", "plum", "pear", "quince", "medlar")
QUERIES = ("banana", "cherry plum", "quince medlar pear")
COPIES = ("closed folder", "open folder", "umi.db and its log", "sqlite backup")
BEFORE = ("the same store, later", "the same store, killed", "another store", "nothing")
"""What the folder holds when the copy comes back."""
LOGS = ("the same store", "the same store, two sessions", "another store")
SETS = (("umi.db",), ("umi.db", "umi.mark"), ("umi.db", "lexical"), ("umi.db", "umi.mark", "lexical"))
"""What of the copy is put back; what it does not hold is left out."""
COPIED, LATER, AFTERWARDS = 20, 10, 15
"""Chunks in the copy, written to the store after it was made, and written after it was put back."""
SEEN = ("lexical", "dense", "lexical_rank", "dense_rank", "source_lexical", "position", "source", "length")


def chunks(first: int, count: int, turn: int = 0) -> list[Chunk]:
    return [
        Chunk(
            f"c{number}",
            f"{FRUIT[(number + turn) % 6]} {FRUIT[(number * 5 + turn + 1) % 6]} turn {turn}",
            metadata={"turn": turn},
            source=f"s{number % 3}",
            position=number,
        )
        for number in range(first, first + count)
    ]


def open_store(path: Path | None, embedder: CountingEmbedder | None = None) -> HybridStore:
    return HybridStore.open(path, embedder=embedder or HashEmbedder(DIMENSIONS))


def killed(path: Path, image: Path) -> None:
    """A copy of the files as a writer that is killed now leaves them."""
    shutil.copytree(path, image, ignore=shutil.ignore_patterns("*-shm"))


def make_copy(path: Path, copy: Path, how: str) -> None:
    if how == "closed folder":
        shutil.copytree(path, copy)
        return
    with open_store(path) as store:
        assert store.search_lexical("banana")
        if how == "sqlite backup":
            copy.mkdir()
            with closing(sqlite3.connect(path / "umi.db")) as live, closing(sqlite3.connect(copy / "umi.db")) as into:
                live.backup(into)
            return
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*-shm"))
    if how == "umi.db and its log":
        shutil.rmtree(copy / "lexical", ignore_errors=True)
        (copy / "umi.mark").unlink(missing_ok=True)


def copied_store(path: Path, copy: Path, how: str) -> list[Chunk]:
    """A closed store of COPIED chunks, its copy, and the content of the copy."""
    with open_store(path) as store:
        store.add(chunks(0, COPIED))
    if how in ("open folder", "umi.db and its log"):  # with part of it in the log alone
        image = path.with_name("unfolded")
        with open_store(path) as store:
            store.add(chunks(0, 3, turn=1))
            killed(path, image)
        shutil.rmtree(path)
        image.rename(path)
        make_copy(path, copy, how)
        return [*chunks(0, 3, turn=1), *chunks(3, COPIED - 3)]
    make_copy(path, copy, how)
    return chunks(0, COPIED)


def go_on(path: Path, how: str) -> None:
    """Write to the folder after the copy was made."""
    if how == "nothing":
        shutil.rmtree(path)
        path.mkdir()
    elif how == "another store":
        shutil.rmtree(path)
        with open_store(path) as store:
            store.add(chunks(0, COPIED + 3, turn=7))
            store.delete([f"c{number}" for number in range(3)])
    else:
        image = path.with_name("image")
        with open_store(path) as store:
            for chunk in chunks(0, LATER, turn=2):
                store.add([chunk])
            killed(path, image)
        if how == "the same store, killed":
            shutil.rmtree(path)
            image.rename(path)
        else:
            shutil.rmtree(image)


def put_back(copy: Path, path: Path, names: Iterable[str], *, remove_log: bool) -> None:
    if remove_log:
        (path / "umi.db-wal").unlink(missing_ok=True)
    for name in names:
        if (copy / name).is_dir():
            shutil.copytree(copy / name, path / name, dirs_exist_ok=True)
        elif (copy / name).exists():
            shutil.copyfile(copy / name, path / name)
    if (copy / "umi.db-wal").exists():
        shutil.copyfile(copy / "umi.db-wal", path / "umi.db-wal")


def check(store: HybridStore, content: list[Chunk]) -> None:
    """Assert that both arms answer as a store written in one batch, and that verify() finds no problem."""
    by_id = {chunk.id: chunk for chunk in content}
    assert store.ids() == sorted(by_id)
    assert store.get(sorted(by_id)) == [by_id[id] for id in sorted(by_id)]
    with open_store(None) as fresh:
        fresh.add([by_id[id] for id in sorted(by_id)])
        for query in QUERIES:
            assert store.search_lexical(query, k=50) == fresh.search_lexical(query, k=50)
            pool, other = (each.recall([Probe(query)], depth=20, now=NOW, around=1) for each in (store, fresh))
            assert pool.ids == other.ids
            assert not pool.degraded
            for name in SEEN:
                np.testing.assert_array_equal(getattr(pool, name), getattr(other, name), err_msg=f"{query}: {name}")
    assert store.verify()


def opened(path: Path) -> HybridStore:
    """Open the store; fails if anything is embedded."""
    embedder = CountingEmbedder(HashEmbedder(DIMENSIONS))
    store = open_store(path, embedder)
    assert embedder.document_calls == 0
    return store


def snapshots_after(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_data, "SAVE_EVERY", changes)


@pytest.fixture(autouse=True)
def snapshots_are_written_often(monkeypatch):
    snapshots_after(5, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("changes", [5, 50_000])
def test_a_copy_put_back_in_any_way_answers_as_the_copy(how, before, changes, tmp_path, monkeypatch):
    store_path, copy = tmp_path / "store", tmp_path / "copy"
    content = copied_store(store_path, copy, how)
    go_on(store_path, before)
    snapshots_after(changes, monkeypatch)
    for number, names in enumerate(SETS):
        path = tmp_path / f"restored{number}"
        shutil.copytree(store_path, path)
        put_back(copy, path, names, remove_log=True)
        with opened(path) as store:
            check(store, content)
            store.add(chunks(0, AFTERWARDS, turn=4))
            killed(path, tmp_path / f"killed{number}")
        after = {chunk.id: chunk for chunk in (*content, *chunks(0, AFTERWARDS, turn=4))}
        with opened(tmp_path / f"killed{number}") as store:
            check(store, list(after.values()))


@pytest.mark.slow
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_in_a_new_folder_or_in_place_of_the_old_one_is_the_store(how, tmp_path):
    store_path, copy = tmp_path / "store", tmp_path / "copy"
    content = copied_store(store_path, copy, how)
    go_on(store_path, "the same store, killed")
    shutil.rmtree(store_path)
    shutil.copytree(copy, store_path)
    embedder = CountingEmbedder(HashEmbedder(DIMENSIONS))
    with open_store(store_path, embedder) as store:
        check(store, content)
        store.add(chunks(0, AFTERWARDS, turn=4))
        killed(store_path, tmp_path / "killed")
    with open_store(tmp_path / "killed") as store:
        check(store, list({chunk.id: chunk for chunk in (*content, *chunks(0, AFTERWARDS, turn=4))}.values()))
    with open_store(copy, embedder) as store:
        check(store, content)


@pytest.mark.slow
@pytest.mark.parametrize("indexes", ["of the copy", "of another store", "older", "none"])
@pytest.mark.parametrize("then", ["closed", "killed"])
def test_indexes_put_beside_any_ledger_never_answer_for_it(indexes, then, tmp_path):
    """Only the folder `lexical` is put back; the ledger is newer, or another store's."""
    store_path, copy = tmp_path / "store", tmp_path / "copy"
    copied_store(store_path, copy, "closed folder")
    go_on(store_path, "the same store, later" if then == "closed" else "the same store, killed")
    other = tmp_path / "other"
    with open_store(other) as twin:
        twin.add(chunks(0, COPIED, turn=9))
        for chunk in chunks(0, LATER, turn=8):
            twin.add([chunk])
    shutil.rmtree(store_path / "lexical", ignore_errors=True)
    if indexes != "none":
        shutil.copytree((other if indexes == "of another store" else copy) / "lexical", store_path / "lexical")
    with opened(store_path) as store:
        check(store, [*chunks(0, LATER, turn=2), *chunks(LATER, COPIED - LATER)])


def leave_a_log(path: Path, whose: str) -> list[Chunk]:
    """Write until the writer is killed: the folder has a log that is not the copy's. Returns the content."""
    if whose == "another store":
        go_on(path, whose)
        content = chunks(3, COPIED, turn=7)
    elif whose == "the same store, two sessions":
        go_on(path, "the same store, later")
        content = [*chunks(0, LATER, turn=2), *chunks(LATER, COPIED - LATER)]
    else:
        content = [*chunks(0, COPIED)]
    image = path.with_name("image")
    with open_store(path) as store:
        content = list({chunk.id: chunk for chunk in (*content, *store.get(store.ids())) if chunk}.values())
        store.add(chunks(5, 4, turn=3))
        store.delete(["c9"])
        killed(path, image)
    shutil.rmtree(path)
    image.rename(path)
    changed = {chunk.id: chunk for chunk in (*content, *chunks(5, 4, turn=3)) if chunk.id != "c9"}
    assert (path / "umi.db-wal").stat().st_size
    return list(changed.values())


@pytest.mark.slow
@pytest.mark.parametrize("whose", LOGS)
@pytest.mark.parametrize(("how", "names"), list(product(COPIES, SETS)))
def test_a_ledger_put_back_beside_a_log_that_is_not_its_own_is_refused_or_whole(how, names, whose, tmp_path):
    """Against docs/operate.md the log that a killed writer left was not removed; SQLite reads it as the copy's."""
    restored_beside_a_log(tmp_path, how, names, whose)


@pytest.mark.slow
@pytest.mark.parametrize("whose", LOGS)
@pytest.mark.parametrize("how", ["closed folder", "sqlite backup"])
def test_the_same_where_the_log_holds_a_part_of_the_pages(how, whose, tmp_path, monkeypatch):
    """Pages of two files together may look like a database, but they are not a store."""
    monkeypatch.setattr(sys.modules[__name__], "COPIED", 600)
    restored_beside_a_log(tmp_path, how, ("umi.db",), whose)


def restored_beside_a_log(tmp_path: Path, how: str, names: Iterable[str], whose: str) -> None:
    store_path, copy = tmp_path / "store", tmp_path / "copy"
    content = copied_store(store_path, copy, how)
    newest = leave_a_log(store_path, whose)
    put_back(copy, store_path, names, remove_log=False)
    try:
        store = open_store(store_path)
    except LedgerDamaged as error:
        assert "restore" in str(error)
        return
    with store:
        holds_copy = store.get(store.ids()) == sorted(content, key=lambda chunk: chunk.id)
        check(store, content if holds_copy else newest)
