"""Saved metadata columns: the first filter after opening reads the rows that were written since, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from small_store import NOW, search

from umi_common import DualRetriever
from umi_common.filters import matches, parse_filter
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded import row_data
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.stores.failpoints import armed
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.rows import unread_columns
from umi_common.types import Chunk

ANN = {"user": "ann"}


def note(number: int, user: str, **metadata: Any) -> Chunk:
    return Chunk(f"n{number:02}", f"a note on boats, number {number}", metadata={"user": user, **metadata})


def notes(users: str = "ann bob ann eve") -> list[Chunk]:
    return [note(number, user, tags=["a", user]) for number, user in enumerate(users.split())]


def opened(path: Path, **options: Any) -> HybridStore:
    return HybridStore.open(path, embedder=HashEmbedder(16), **options)


def found(store: HybridStore, where: dict[str, Any]) -> list[str]:
    """The ids of the notes that a search with this filter finds."""
    with DualRetriever(store) as umi:
        return sorted(umi.search("notes on boats", where=where, limit=20, now=NOW).ids)


@pytest.fixture
def rows_read(monkeypatch) -> list[int]:
    """The sequence numbers of the rows that are read from the ledger to make indexes or columns."""
    read: list[int] = []
    texts = Ledger.texts

    def counted(*args: Any, **options: Any):
        for each in texts(*args, **options):
            read.append(each[0].seq)
            yield each

    monkeypatch.setattr(Ledger, "texts", counted)
    return read


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    with opened(tmp_path / "s") as store:
        store.add(notes())
    return tmp_path / "s"


@pytest.mark.parametrize("read_only", [False, True])
def test_the_first_filter_after_opening_reads_no_row_again(closed: Path, rows_read: list[int], read_only: bool):
    with opened(closed, read_only=read_only) as store:
        assert found(store, ANN) == ["n00", "n02"]
        assert found(store, {"tags": {"$contains": "eve"}}) == ["n03"]
        assert found(store, {"colour": "red"}) == []
    assert rows_read == []


def test_rows_written_since_are_read_and_no_others(closed: Path, rows_read: list[int], tmp_path: Path):
    with opened(closed) as store:
        store.add([note(1, "ann"), note(4, "bob")])
        store.delete(["n02"])
        shutil.copytree(closed, tmp_path / "killed")  # as after kill -9: written, and not saved
    for read_only in (True, False):
        rows_read.clear()
        with opened(tmp_path / "killed", read_only=read_only) as store:
            assert found(store, ANN) == ["n00", "n01"]
            assert found(store, {"user": "bob"}) == ["n04"]
        assert rows_read == [5, 6], "n01 and n04"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_whose_chunks_were_replaced_again_and_again_opens_without_reading_them(
    closed: Path, rows_read: list[int], read_only: bool
):
    with opened(closed) as store:
        for turn in range(5):
            store.add([note(number, f"user{turn}") for number in range(4)])
    rows_read.clear()
    for _ in range(2):
        with opened(closed, read_only=read_only) as store:
            assert found(store, {"user": "user4"}) == ["n00", "n01", "n02", "n03"]
            assert found(store, {"user": "user3"}) == found(store, ANN) == []
            assert store.verify(full=True)
    assert rows_read == []


def test_columns_are_saved_after_each_session_with_and_without_filters(closed: Path, rows_read: list[int]):
    user_of = {chunk.id: chunk.metadata["user"] for chunk in notes()}
    for session in range(6):
        changed = [note(3 + session, f"new{session}"), note(4 + session, "ann")]
        with opened(closed) as store:
            assert session % 2 or found(store, ANN)
            store.add(changed)
        user_of |= {chunk.id: chunk.metadata["user"] for chunk in changed}
        rows_read.clear()
        with opened(closed) as store:
            for user in user_of.values():
                assert found(store, {"user": user}) == [id for id, each in user_of.items() if each == user]
        assert rows_read == []


def test_a_directory_without_columns_is_read_as_before_and_gets_them(closed: Path, rows_read: list[int], monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(row_data, "to_save", lambda columns, alive: None)
        with opened(closed) as store:
            store.rebuild()
    for filtered in (False, True):
        with opened(closed) as store:
            assert not filtered or found(store, ANN) == ["n00", "n02"]
            store.add([note(4, "eve" if filtered else "bob")])
    rows_read.clear()
    with opened(closed) as store:
        assert found(store, {"user": "eve"}) == ["n03", "n04"]
    assert rows_read == []


@pytest.mark.parametrize("what", ["user", "codes 0", "[null"])
def test_a_damaged_file_is_not_used(closed: Path, what: str):
    (file,) = (closed / "lexical").iterdir()
    data = bytearray(file.read_bytes())
    data[data.index(what.encode())] ^= 1
    file.write_bytes(data)
    with opened(closed) as store:
        assert found(store, ANN) == ["n00", "n02"]


@pytest.mark.parametrize("point", ["snapshot.files", "snapshot.published"])
def test_a_save_that_fails_changes_no_filter(closed: Path, point: str):
    def fail() -> None:
        raise OSError("no space left on device")

    with armed(point, fail), opened(closed) as store:
        store.add([note(1, "ann"), note(4, "bob")])
    with opened(closed) as store:
        assert found(store, ANN) == ["n00", "n01", "n02"]
        assert found(store, {"user": "bob"}) == ["n04"]


def test_a_value_that_only_removed_chunks_had_is_not_saved(closed: Path):
    with opened(closed) as store:
        store.delete(["n03"])
    (file,) = (closed / "lexical").iterdir()
    assert b"ann" in file.read_bytes() and b"eve" not in file.read_bytes()
    with opened(closed) as store:
        assert found(store, {"user": {"$ne": "ann"}}) == ["n01"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("window", ["", "long " * unread_columns.BYTES_A_ROW_MAX])
def test_a_chunk_replaced_while_the_query_is_embedded_is_found_though_its_row_is_saved(
    tmp_path: Path, monkeypatch, read_only: bool, window: str
):
    """The save of the write leaves out the value of the removed row, which the running search must not miss. So does
    another filter meanwhile, on a key whose column was not saved."""
    monkeypatch.setattr(row_data, "SAVE_EVERY", 1)

    class Replacing(HashEmbedder):
        def embed_queries(self, texts):
            writer.add([*notes("eve ann"), note(2, "ann", colour="red"), note(3, "bob")])
            assert reader.unknown_keys({"window": window}) == []
            return super().embed_queries(texts)

    with HybridStore.open(tmp_path, embedder=HashEmbedder(16)) as first:
        first.add([*notes(), note(9, "bob", window=window)])
    with (
        HybridStore.open(tmp_path, embedder=Replacing(16)) as writer,
        HybridStore.open(tmp_path, embedder=Replacing(16), read_only=read_only) as reader,
    ):
        shown = found(reader, ANN)
        assert set(shown) <= {"n00", "n01", "n02"} and "n02" in shown
        assert {chunk.metadata["user"] for chunk in reader.get(shown) if chunk is not None} <= {"ann", "eve"}
        assert found(reader, ANN) == ["n01", "n02"]


def test_a_reader_that_follows_many_writes_keeps_no_list_of_them(closed: Path, monkeypatch, rows_read: list[int]):
    monkeypatch.setattr(row_data, "SAVE_EVERY", 10)
    with opened(closed) as writer, opened(closed, read_only=True) as reader:
        for number in range(4, 20):
            writer.add([note(number, "ann")])
            search(reader, "boats")
        columns = reader._ready().indexes.snapshot.row_data.columns
        assert columns is not None and len(columns) == 20
        assert len(found(reader, ANN)) == 18


def many_keys(number: int) -> dict[str, Any]:
    return {f"key {number} {at}": at for at in range(unread_columns.KEYS_MAX)}


def long_text(number: int) -> dict[str, Any]:
    return {"window": f"{number} " * 2 * unread_columns.BYTES_A_ROW_MAX}


@pytest.mark.parametrize(("metadata", "left_out"), [(many_keys, b'"user"'), (long_text, b"1 1 1 1")])
@pytest.mark.parametrize("filtered", [False, True])
def test_columns_that_would_be_large_are_not_saved(
    tmp_path: Path, metadata: Callable[[int], dict[str, Any]], left_out: bytes, filtered: bool
):
    for session in range(2):
        with opened(tmp_path / "s") as store:
            store.add([note(session, "ann", **metadata(session))])
            assert not filtered or len(found(store, ANN)) == session + 1
        (file,) = (tmp_path / "s" / "lexical").iterdir()
        assert left_out not in file.read_bytes()
    with opened(tmp_path / "s") as store:
        assert found(store, ANN) == ["n00", "n01"]


@pytest.mark.parametrize("read_only", [False, True])
def test_long_texts_under_one_key_slow_down_no_filter_on_another(tmp_path: Path, rows_read: list[int], read_only: bool):
    for session in range(3):
        with opened(tmp_path / "s") as store:
            store.add([note(number, "ann", **long_text(number)) for number in range(session, session + 3)])
    rows_read.clear()
    with opened(tmp_path / "s", read_only=read_only) as store:
        assert found(store, ANN) == ["n00", "n01", "n02", "n03", "n04"]
        assert found(store, {"user": "bob"}) == [] and rows_read == []
        assert found(store, {**ANN, "window": long_text(3)["window"]}) == ["n03"]
        assert found(store, {"window": {"$not": {"$text_match": "2 2"}}}) == ["n00", "n01", "n03", "n04"]
        assert len(rows_read) == 5, "once for both filters on the key of the long texts"
        assert store.unknown_keys({"window": "", "colour": ""}) == ["colour"]


def test_filters_pass_the_right_chunks_if_texts_become_long_and_short_again(tmp_path: Path):
    random, now, path = Random(3), dict[str, Chunk](), tmp_path / "s"
    filters = [
        {"user": "ann"},
        {"b": {"$ne": 1}},
        {"a": {"$gt": "5"}, "user": {"$in": ["bob", "ann"]}},
        {"$or": [{"a": {"$text_match": "7 7"}}, {"b": {"$exists": False}}]},
    ]
    for session in range(12):
        if session % 5 == 4:
            HybridStore.reindex(path, embedder=HashEmbedder(16))
        with opened(path) as store:
            for step in range(3):
                numbers = random.sample(range(12), random.randint(1, 4))
                texts = {key: f"{random.randint(1, 9)} " * random.choice([1, 1, 400]) for key in ("a", "b")}
                some = {key: 1 if key == "b" and step else text for key, text in texts.items() if random.random() < 0.7}
                changed = [note(number, random.choice(["ann", "bob"]), **some) for number in numbers]
                store.add(changed)
                now |= {chunk.id: chunk for chunk in changed}
                gone = random.sample(sorted(now), random.randint(0, len(now) // 3))
                store.delete(gone)
                now = {id: chunk for id, chunk in now.items() if id not in gone}
                if session % 5 == 2 and step == 1:
                    store.compact()
                for where in random.sample(filters, random.randint(0, 2)):
                    assert found(store, where) == passing(now, where)
            if session % 4 == 0:
                with opened(path, read_only=True) as reader:
                    assert [found(reader, where) for where in filters] == [passing(now, where) for where in filters]


def passing(chunks: dict[str, Chunk], where: dict[str, Any]) -> list[str]:
    tree = parse_filter(where)
    return sorted(id for id, chunk in chunks.items() if matches(tree, chunk.metadata))


def test_columns_that_an_earlier_version_saved_are_read(tmp_path: Path, rows_read: list[int], monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(row_data, "COLUMNS", unread_columns.KEYS)
        with opened(tmp_path / "s") as store:
            store.add(notes())
    with opened(tmp_path / "s") as store:
        assert found(store, ANN) == ["n00", "n02"]
    assert rows_read == []


def test_a_store_that_is_compacted_or_reindexed_keeps_its_columns(closed: Path, rows_read: list[int]):
    with opened(closed) as store:
        store.delete(["n00"])
        store.compact()
    HybridStore.reindex(closed, embedder=HashEmbedder(32))
    with HybridStore.open(closed, embedder=HashEmbedder(32)) as store:
        store.add([note(4, "bob")])
    rows_read.clear()
    with HybridStore.open(closed, embedder=HashEmbedder(32)) as store:
        assert found(store, ANN) == ["n02"]
        assert found(store, {"user": "bob"}) == ["n01", "n04"]
    assert rows_read == []
