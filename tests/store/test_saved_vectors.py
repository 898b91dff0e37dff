"""Vectors saved beside the ledger: a large store maps them, gives equal results and notices damage."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from umi_common.errors import LedgerDamaged
from umi_common.protocols import Probe
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.dense import vectors as dense_file
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import armed
from umi_common.types import Chunk

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
DIM, SIZE = 64, 1_050
"""Vectors and codes fill more than one block of checksums each (`_BLOCK` in stores/dense/vectors.py)."""
VECTORS = np.random.default_rng(3).normal(size=(2 * SIZE, DIM)).astype(np.float32)
WORDS = ["red", "blue", "green", "boat", "train", "coast", "night", "rain", "snow", "sun", "wind", "hill"]


def chunks(first: int, last: int) -> list[Chunk]:
    """Chunks by number; each holds a word that no other has."""
    dice = random.Random(first)
    return [
        Chunk(f"c{i}", f"{' '.join(dice.choices(WORDS, k=4))} n{i}", source=f"s{i // 9}", position=i)
        for i in range(first, last)
    ]


def add(store: HybridStore, first: int, last: int) -> None:
    store.add(chunks(first, last), vectors=VECTORS[first:last])


def opened(path: Path, **options) -> HybridStore:
    return HybridStore.open(path, embedder=CountingEmbedder(HashEmbedder(DIM)), **options)


def answers(store: HybridStore) -> list:
    """The pools of some searches by both arms, with all their numbers."""
    seen = []
    for text, vector in (("red boat", VECTORS[5]), ("night n77", VECTORS[-1]), ("snow n1040", VECTORS[1_040])):
        pool = store.recall([Probe(text, vector)], depth=20, now=NOW, around=1)
        arrays = (
            pool.lexical,
            pool.dense,
            pool.background.mean,
            pool.background.deviation,
            pool.position,
            pool.version,
        )
        seen.append((pool.ids, [np.asarray(array).tolist() for array in arrays], dict(pool.calibration)))
    return [len(store), seen]


@pytest.fixture(scope="module", autouse=True)
def saved_from() -> Iterator[None]:
    """Vectors are saved from a tenth of the rows on, so that these stores are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_file, "SAVED_FROM", dense_file.SAVED_FROM // 10)
        yield


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store whose vectors were saved, with a few replaced and deleted chunks."""
    path = tmp_path_factory.mktemp("large") / "s"
    with opened(path) as store:
        add(store, 0, SIZE)
        store.delete(["c3", "c800"])
        store.add([Chunk("c10", "a red boat again", source="s1", position=2)], vectors=VECTORS[-2:-1])
    return path


@pytest.fixture
def large(closed: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copytree(closed, tmp_path / "s"))


def from_ledger(path: Path) -> list:
    """The answers of the same store, made from its ledger alone."""
    copy = path.with_name("from ledger")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    for folder in ("lexical", "dense"):
        shutil.rmtree(copy / folder, ignore_errors=True)
    with opened(copy) as store:
        return answers(store)


@pytest.fixture(scope="module")
def truth(closed: Path, tmp_path_factory: pytest.TempPathFactory) -> list:
    """The answers of that store, made from its ledger alone."""
    return from_ledger(Path(shutil.copytree(closed, tmp_path_factory.mktemp("truth") / "s")))


def test_a_large_store_opens_without_reading_the_chunks_in_its_ledger(large: Path, truth: list):
    with closing(sqlite3.connect(large / "umi.db")) as connection, connection:
        connection.execute("UPDATE vectors SET checksum = 0")
        connection.execute("UPDATE chunks SET head = 0")
    with opened(large) as store:
        assert answers(store) == truth
        assert not store.verify(), "verify() reads all rows of the ledger and names those"


@pytest.mark.parametrize("before", [0, 10_003])
def test_saving_vectors_takes_no_memory_for_a_copy_of_them(tmp_path: Path, before: int):
    vectors = np.resize(VECTORS, (before + 20_001, DIM))
    rows = dense_file.VectorRows.of(vectors[:before])
    rows.use_saved(tmp_path, rows.save(tmp_path, {}, {}))
    rows.extend(vectors[before:])
    rows.quantised.of(rows.view)
    tracemalloc.start()
    assert rows.save(tmp_path, {}, {}) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * vectors[before:].nbytes


def test_turns_added_after_opening_are_found_and_saved_and_change_no_answer(large: Path):
    for turn in range(3):
        with opened(large) as store, opened(large, read_only=True) as reader:
            add(store, SIZE + turn, SIZE + turn + 1)
            store.delete([f"c{turn + 20}"])
            (found,) = store.recall([Probe(f"n{SIZE + turn}", VECTORS[SIZE + turn])], depth=1, now=NOW).ids
            assert found == f"c{SIZE + turn}"
            assert answers(reader) == answers(store)
    names = sorted(path.name for path in (large / "dense").iterdir())
    assert len(names) == 2, "each save appends to the same two files"
    with opened(large) as store:
        assert answers(store) == from_ledger(large)
        assert store.verify(full=True)


def test_more_chunks_than_the_files_have_room_for_are_all_found(large: Path):
    with opened(large) as store, opened(large, read_only=True) as reader:
        add(store, SIZE, 2 * SIZE)
        assert answers(reader) == answers(store) == from_ledger(large)


@pytest.mark.parametrize("damage", ["vectors deleted", "vectors flipped", "codes cut", "codes zeroed"])
def test_damaged_vectors_are_read_from_the_ledger_and_never_answer(large: Path, truth: list, damage: str):
    which, how = damage.split()
    (file,) = [path for path in (large / "dense").iterdir() if (path.suffix == ".codes") == (which == "codes")]
    data = bytearray(file.read_bytes())
    at = random.Random(damage).randrange(SIZE * DIM)
    if how == "deleted":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[:at])
    else:
        data[at : at + 1] = bytes([data[at] ^ 4])
        data[at : at + 512] = bytes(512) if how == "zeroed" else data[at : at + 512]
        file.write_bytes(data)
    with opened(large) as store:
        assert answers(store) == truth
        add(store, SIZE, SIZE + 1)
        store.delete([f"c{SIZE}"])
        expected = answers(store)
    with opened(large) as store:  # from what the first opening saved
        assert answers(store) == expected


@pytest.mark.parametrize("point", ["snapshot.files", "snapshot.published"])
def test_a_save_that_is_interrupted_loses_and_changes_nothing(large: Path, point: str):
    def fail() -> None:
        raise OSError("no space left on device")

    with armed(point, fail), opened(large) as store:
        add(store, SIZE, SIZE + 40)
        expected = answers(store)
    with opened(large) as store:
        assert answers(store) == expected
        add(store, SIZE + 40, SIZE + 60)
    with opened(large) as store:
        assert answers(store) == from_ledger(large)


def test_a_completed_save_whose_files_cannot_be_mapped_is_no_failed_save(large: Path, monkeypatch, caplog):
    def fail(*args: object, **options: object) -> None:
        raise OSError("cannot allocate memory")

    with opened(large) as store:
        add(store, SIZE, SIZE + 40)
        expected = answers(store)
        monkeypatch.setattr(dense_file, "_map_rows", fail)
        store.rebuild()
        assert answers(store) == expected
    assert "cannot be mapped (cannot allocate memory)" in caplog.text
    assert "were not saved" not in caplog.text
    monkeypatch.undo()
    caplog.clear()
    with opened(large) as store:
        assert answers(store) == expected
    assert "cannot be used" not in caplog.text


def test_saves_that_fail_again_and_again_leave_no_files_behind(large: Path):
    shutil.rmtree(large / "lexical")
    (large / "lexical").write_text("in the way of the saved index")
    for _ in range(3):
        with opened(large) as store:
            store.rebuild()
    assert [*(large / "dense").iterdir()] == []


@pytest.mark.parametrize("kept", [0, 10])
def test_no_vector_of_a_removed_chunk_stays_on_the_disk_once_a_large_store_is_small_and_compacted(large: Path, kept):
    with opened(large) as store:
        store.delete(store.ids()[kept:])
        store.compact()
    assert [*(large / "dense").iterdir()] == []


def test_vectors_of_another_store_are_not_used(large: Path, truth: list, tmp_path: Path):
    other = tmp_path / "other"
    with opened(other) as store:
        store.add(chunks(0, SIZE), vectors=-VECTORS[:SIZE])
    name = next(path.name for path in (large / "dense").iterdir() if not path.suffix)
    for path in (other / "dense").iterdir():
        shutil.copy(path, large / "dense" / f"{name}{path.suffix}")
    with opened(large) as store:
        assert answers(store) == truth


def test_rows_deleted_behind_the_stores_back_are_noticed_at_opening(large: Path):
    with closing(sqlite3.connect(large / "umi.db")) as connection, connection:
        connection.execute("DELETE FROM chunks WHERE id = 'c100'")
    with pytest.raises(LedgerDamaged, match="lost or gained rows"):
        opened(large)


def test_reindexing_replaces_the_saved_vectors(large: Path):
    HybridStore.reindex(large, embedder=HashEmbedder(2 * DIM))
    with HybridStore.open(large, embedder=HashEmbedder(2 * DIM)) as store:
        assert store.vectors(["c1"]).shape == (1, 2 * DIM)
        assert "c77" in store.recall([Probe("n77")], depth=1, now=NOW).ids
        store.add([Chunk("new", "a new chunk")])
    with HybridStore.open(large, embedder=HashEmbedder(2 * DIM)) as store:
        assert store.verify(full=True)
        assert store.vectors(["new"]).any()
