"""A store kept level with a folder: unchanged files cost nothing, changed ones are replaced, vanished ones go."""

from __future__ import annotations

import os
import shutil

import pytest

from umi_common.errors import EmbedderError, FileUnreadable
from umi_common.files import index
from umi_common.files.run import CHECKPOINT
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore


@pytest.fixture()
def folder(tmp_path):
    docs = tmp_path / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / "a.md").write_text("# A\n\nThe boiler leaks.")
    (docs / "deep" / "b.txt").write_text("The roof is dry.")
    (docs / "c.png").write_bytes(b"\x89PNG")
    (docs / ".git").mkdir()
    (docs / ".git" / "d.txt").write_text("Not for readers.")
    return docs


@pytest.fixture()
def embedder():
    return CountingEmbedder(HashEmbedder(16))


@pytest.fixture()
def store(tmp_path, embedder):
    with HybridStore.open(tmp_path / "store", embedder=embedder) as opened:
        yield opened


def test_one_folder_needs_no_list(folder):
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        assert index(store, str(folder)).files == index(store, folder).files == 2


def test_a_folder_is_indexed_with_sources_as_seen_from_the_store(store, folder):
    report = index(store, [folder])
    assert (report.files, report.indexed, report.chunks) == (2, 2, 2)
    assert report.left_out == {".png": 1}
    assert store.ids() == ["docs/a.md#0", "docs/deep/b.txt#0"]


def test_unchanged_files_are_not_even_read(store, folder, embedder, monkeypatch):
    index(store, [folder])
    monkeypatch.setattr("umi_common.files.session.parts_of", None)  # would fail if a file were read
    report = index(store, [folder])
    assert (report.unchanged, report.indexed) == (2, 0)
    assert len(embedder.texts) == 2


def test_a_touched_file_is_read_and_left_alone(store, folder, embedder):
    index(store, [folder])
    os.utime(folder / "a.md", ns=(1, 1))
    assert index(store, [folder]).unchanged == 2
    assert len(embedder.texts) == 2


def test_a_changed_file_is_replaced_and_its_equal_chunks_are_not_embedded_again(store, folder, embedder):
    long = "Same words. " * 83
    (folder / "a.md").write_text(f"{long}\n\nOld end. {long}\n\nAnother. {long}")
    index(store, [folder])
    before = len(embedder.texts)
    (folder / "a.md").write_text(f"{long}\n\nNew end.")
    report = index(store, [folder])
    assert (report.indexed, report.unchanged) == (1, 1)
    assert [chunk.text for chunk in store.get(["docs/a.md#0", "docs/a.md#1"])] == [long.strip(), "New end."]
    assert len(store) == 3
    assert len(embedder.texts) == before + 1


def test_vanished_files_leave_the_store_and_those_of_other_folders_stay(store, folder, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Elsewhere.")
    index(store, [folder, other])
    (folder / "a.md").unlink()
    other.unlink()
    assert index(store, [folder]).removed == 1
    assert store.ids() == ["docs/deep/b.txt#0", "other.txt#0"]


def test_stopped_it_keeps_what_is_done_and_goes_on_from_there(store, folder, embedder):
    asked = iter([False, True])
    report = index(store, [folder], stop=lambda: next(asked))
    assert report.stopped and len(store) == 1
    report = index(store, [folder])
    assert (report.unchanged, report.indexed) == (1, 1)
    assert len(embedder.texts) == 2


@pytest.mark.parametrize("damage", ["lost", "garbled", "of another store"])
def test_without_its_checkpoint_it_finds_out_again_what_is_there(store, folder, embedder, damage, tmp_path):
    (folder / "a.md").write_text("One. " * 300)
    (folder / "gone.txt").write_text("Gone soon.")
    index(store, [folder])
    path = store.path / CHECKPOINT
    if damage == "of another store":
        with HybridStore.open(tmp_path / "other", embedder=HashEmbedder(16)) as other:
            (tmp_path / "elsewhere.txt").write_text("Elsewhere.")
            index(other, [tmp_path / "elsewhere.txt"])
        shutil.copy(tmp_path / "other" / CHECKPOINT, path)
    else:
        {"lost": path.unlink, "garbled": lambda: path.write_text("{" * 5_000)}[damage]()
    (folder / "a.md").write_text("Short now.")
    (folder / "gone.txt").unlink()
    before = len(embedder.texts)
    report = index(store, [folder])
    if damage != "of another store":
        assert report.removed == 1
        assert store.ids() == ["docs/a.md#0", "docs/deep/b.txt#0"]
    assert {"docs/a.md#0", "docs/deep/b.txt#0"} <= set(store.ids())
    assert len(embedder.texts) == before + 1


def test_a_store_with_another_embedder_by_now_is_still_followed(tmp_path, folder):
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(16)) as store:
        index(store, [folder])
    HybridStore.reindex(tmp_path / "store", embedder=HashEmbedder(8))
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        assert index(store, [folder]).unchanged == 2


def test_a_store_that_was_emptied_is_filled_again(store, folder):
    index(store, [folder])
    store.delete(store.ids())
    assert index(store, [folder]).indexed == 2
    assert len(store) == 2


def test_a_bad_file_is_reported_and_the_others_are_indexed(store, folder):
    (folder / "bad.jsonl").write_text("nonsense")
    report = index(store, [folder])
    assert report.indexed == 2
    assert len(report.problems) == 1 and "bad.jsonl line 1" in report.problems[0]


def test_two_files_with_one_id_do_not_overwrite_each_other(store, folder):
    (folder / "x.jsonl").write_text('{"id": "same", "text": "first"}')
    (folder / "y.jsonl").write_text('{"id": "same", "text": "second"}')
    for _ in range(2):
        report = index(store, [folder])
        assert len(report.problems) == 1 and "y.jsonl holds id 'same'" in report.problems[0]
        assert store.get(["same"])[0].text == "first"


def test_a_path_that_is_not_there_is_named(store, tmp_path):
    with pytest.raises(FileUnreadable, match="nothing does not exist"):
        index(store, [tmp_path / "nothing"])


def test_the_stores_own_folder_is_not_searched(store, tmp_path, folder):
    report = index(store, [tmp_path])
    assert set(report.left_out) == {".png"}


def test_a_store_that_lost_its_ledger_is_still_called_damaged(store, folder):
    from umi_common.errors import LedgerDamaged

    index(store, [folder])
    store.close()
    (store.path / "umi.db").unlink()
    with pytest.raises(LedgerDamaged):
        HybridStore.open(store.path)


def test_an_embedder_that_is_down_is_told_as_an_error_for_one_file_too(tmp_path, folder):
    """An expired key must not look like a folder with two odd files."""
    down = FaultyEmbedder(HashEmbedder(16))
    with HybridStore.open(tmp_path / "store", embedder=down) as store:
        with pytest.raises(EmbedderError, match="the embedder failed on everything"):
            index(store, [folder])
        assert not len(store)
