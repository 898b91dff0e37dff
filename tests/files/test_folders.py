"""A store kept level with a folder: unchanged files cost nothing, changed ones are replaced, vanished ones go."""

from __future__ import annotations

import os
import re
import shutil
from types import SimpleNamespace

import pytest
from stopwatch import processor_seconds

from umi_common.embedders import CallableEmbedder
from umi_common.errors import ConfigError, EmbedderError, FileUnreadable, InputError, StoreError
from umi_common.files import index
from umi_common.files.report import Report
from umi_common.files.run import CHECKPOINT
from umi_common.files.walk import files_below
from umi_common.sim import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk


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


@pytest.mark.parametrize("wrong", ["./store", None, HybridStore])
def test_a_directory_in_place_of_a_store_is_refused(folder, wrong):
    with pytest.raises(ConfigError, match=r"store is \w+; expected a store: HybridStore\.open\(path\) opens one"):
        index(wrong, folder)


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


def test_a_touched_file_is_read_once_also_in_a_run_that_removes_another(store, folder, monkeypatch):
    index(store, [folder])
    os.utime(folder / "a.md", ns=(1, 1))
    (folder / "deep" / "b.txt").unlink()
    assert index(store, [folder]).removed == 1
    monkeypatch.setattr("umi_common.files.session.parts_of", None)  # would fail if a file were read
    assert index(store, [folder]).unchanged == 1


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


def test_the_name_of_a_file_that_is_gone_leaves_no_byte_in_the_checkpoint(folder, tmp_path):
    secret = folder / "ursula.txt"
    secret.write_text("My kazoo is red.")
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(16)) as store:
        index(store, folder)
        assert b"ursula" in (tmp_path / "store" / CHECKPOINT).read_bytes()
        secret.unlink()
        index(store, folder)
    assert b"ursula" not in (tmp_path / "store" / CHECKPOINT).read_bytes()


def test_files_that_vanish_after_their_project_was_moved_with_its_store_leave_the_store(tmp_path):
    project, moved = tmp_path / "project", tmp_path / "moved"
    (project / "docs").mkdir(parents=True)
    for name in "abc":
        (project / "docs" / f"{name}.txt").write_text(f"Text {name}.")
    with HybridStore.open(project / "store", embedder=HashEmbedder(16)) as store:
        index(store, project / "docs")
    project.rename(moved)
    (moved / "docs" / "a.txt").unlink()
    with HybridStore.open(moved / "store", embedder=HashEmbedder(16)) as store:
        report = index(store, moved / "docs")
        assert (report.unchanged, report.removed, store.ids()) == (2, 1, ["docs/b.txt#0", "docs/c.txt#0"])


def test_chunks_that_only_have_a_key_file_are_not_taken_for_those_of_files(store, folder):
    own = [Chunk("own", "A memory.", metadata={"file": "docs/report.pdf"})]
    own.append(Chunk("other", "Another.", metadata={"file": "docs/a.md"}, source="talk"))
    store.add(own)
    assert index(store, folder).removed == 0
    (folder / "a.md").write_text("# A\n\nThe boiler is repaired.")
    index(store, folder)
    (folder / "a.md").unlink()
    assert index(store, folder).removed == 1
    assert store.ids() == ["docs/deep/b.txt#0", "other", "own"]


def test_a_file_replaced_by_a_folder_of_the_same_name_no_longer_answers(store, folder):
    index(store, [folder])
    (folder / "a.md").unlink()
    (folder / "a.md").mkdir()
    (folder / "a.md" / "new.md").write_text("The boiler is new.")
    assert index(store, [folder]).removed == 1
    assert store.ids() == ["docs/a.md/new.md#0", "docs/deep/b.txt#0"]
    shutil.rmtree(folder / "a.md")
    (folder / "a.md").write_text("The boiler is gone.")
    assert index(store, [folder]).removed == 1
    assert [chunk.text for chunk in store.get(store.ids())] == ["The boiler is gone.", "The roof is dry."]


@pytest.mark.parametrize("names", [("a.jsonl", "z.jsonl"), ("z.jsonl", "a.jsonl")])
def test_a_renamed_file_of_records_keeps_all_records_in_the_first_run(store, folder, names):
    before, after = (folder / name for name in names)
    before.write_text('{"id": "r1", "text": "one"}\n{"id": "r2", "text": "two"}\n{"text": "three"}')
    index(store, [folder])
    before.rename(after)
    report = index(store, [folder])
    assert (report.problems, report.indexed, report.removed, report.chunks) == ([], 1, 1, 3)
    assert [chunk.metadata["file"] for chunk in store.get(["r1", "r2"])] == [f"docs/{after.name}"] * 2
    assert index(store, [folder]).unchanged == 3


@pytest.mark.parametrize("names", [("a.jsonl", "z.jsonl"), ("z.jsonl", "a.jsonl")])
def test_a_record_moved_to_another_file_is_not_lost_for_a_run(store, folder, names):
    first, second = (folder / name for name in names)
    first.write_text('{"id": "r1", "text": "one"}\n{"id": "r2", "text": "two"}')
    second.write_text('{"id": "r3", "text": "three"}')
    index(store, [folder])
    first.write_text('{"id": "r1", "text": "one"}')
    second.write_text('{"id": "r3", "text": "three"}\n{"id": "r2", "text": "two"}')
    report = index(store, [folder])
    assert (report.problems, report.indexed) == ([], 2)
    assert store.get(["r2"])[0].metadata["file"] == f"docs/{second.name}"


def test_records_that_change_places_between_two_files_are_all_there(store, folder):
    texts = {name: f'{{"id": "{name}", "text": "Note {name}."}}' for name in ("r1", "r2")}
    for name, record in (("x.jsonl", "r1"), ("y.jsonl", "r2")):
        (folder / name).write_text(texts[record])
    index(store, [folder])
    for name, record in (("x.jsonl", "r2"), ("y.jsonl", "r1")):
        (folder / name).write_text(texts[record])
    report = index(store, [folder])
    assert report.problems == []
    assert [chunk.metadata["file"] for chunk in store.get(["r1", "r2"])] == ["docs/y.jsonl", "docs/x.jsonl"]


def test_a_record_without_text_is_left_out_and_said(store, folder):
    (folder / "b.jsonl").write_text('{"id": "r1", "text": "one"}\n{"id": "r2", "text": " "}\n\n{"text": ""}')
    for _ in range(2):
        (problem,) = index(store, [folder]).problems
        assert "b.jsonl: records without text are left out: 2, first line 2" in problem
        assert len(store) == 3
    (folder / "b.jsonl").write_text('{"id": "r1", "text": ""}')  # the text is gone, so it no longer answers
    assert len(index(store, [folder]).problems) == 1
    assert store.ids() == ["docs/a.md#0", "docs/deep/b.txt#0"]


def test_stopped_it_keeps_what_is_done_and_goes_on_from_there(store, folder, embedder):
    asked = iter([False, True])
    report = index(store, [folder], stop=lambda: next(asked))
    assert report.stopped and len(store) == 1
    report = index(store, [folder])
    assert (report.unchanged, report.indexed) == (1, 1)
    assert len(embedder.texts) == 2


@pytest.mark.parametrize("damage", ["lost", "garbled", "zeroed", "of another store"])
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
        zeroed = path.read_bytes()[:-4_096] + bytes(4_096)  # the last page
        {
            "lost": path.unlink,
            "garbled": lambda: path.write_text("{" * 5_000),
            "zeroed": lambda: path.write_bytes(zeroed),
        }[damage]()
    (folder / "a.md").write_text("Short now.")
    (folder / "gone.txt").unlink()
    before = len(embedder.texts)
    report = index(store, [folder])
    if damage != "of another store":
        assert report.removed == 1
        assert store.ids() == ["docs/a.md#0", "docs/deep/b.txt#0"]
    assert {"docs/a.md#0", "docs/deep/b.txt#0"} <= set(store.ids())
    assert len(embedder.texts) == before + 1


@pytest.mark.parametrize("compacted", [False, True])
def test_what_an_older_copy_of_the_ledger_lacks_is_indexed_again(tmp_path, folder, compacted):
    path = tmp_path / "store"
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        index(store, [folder])
    shutil.copy(path / "umi.db", tmp_path / "copy")
    (folder / "a.md").write_text("# A\n\nThe boiler is new.")
    (folder / "new.md").write_text("# New\n\nThe door sticks.")
    (folder / "deep" / "b.txt").unlink()
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        index(store, [folder])
        if compacted:
            store.compact()
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        assert index(store, [folder]).unchanged == 2
        held = store.get(store.ids())
    shutil.copy(tmp_path / "copy", path / "umi.db")
    with HybridStore.open(path, embedder=HashEmbedder(16)) as store:
        report = index(store, [folder])
        assert (report.indexed, report.removed) == (2, 1)
        assert store.get(store.ids()) == held
        assert index(store, [folder]).unchanged == 2


def test_a_store_with_another_embedder_by_now_is_still_followed(tmp_path, folder):
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(16)) as store:
        index(store, [folder])
    HybridStore.reindex(tmp_path / "store", embedder=HashEmbedder(8))
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        assert index(store, [folder]).unchanged == 2


def test_vectors_of_another_model_than_the_stores_are_refused(store, folder):
    other = CallableEmbedder(lambda texts: [[1.0] * 16 for _ in texts], name="other")
    with pytest.raises(ConfigError, match=r"'other' and the store's is 'hash/16'; use the store's"):
        index(store, folder, embedder=other)
    assert len(store) == 0


def test_a_file_that_is_named_beside_its_folder_is_not_counted_as_left_out(store, folder):
    (folder / "prices.csv").write_text("item,price\nboiler,900\n")
    report = index(store, [folder, folder / "deep", folder / "prices.csv"])
    assert (report.files, report.left_out) == (3, {".png": 1})


@pytest.mark.parametrize("name", ["prices.csv", ".todo.md", "venv/readme.md"])
def test_a_file_that_was_named_once_is_read_again_by_a_run_over_its_folder(store, folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("The boiler costs 900.")
    index(store, [folder, folder / name])
    assert index(store, folder).unchanged == 3
    (folder / name).write_text("The heat pump costs 4200.")
    report = index(store, folder)
    assert (report.indexed, report.left_out) == (1, {".png": 1})
    assert "The heat pump costs 4200." in {chunk.text for chunk in store.get(store.ids())}


def test_a_file_that_was_named_once_is_read_again_though_the_checkpoint_is_lost(store, folder):
    (folder / "prices.csv").write_text("The boiler costs 900.")
    index(store, [folder, folder / "prices.csv"])
    (store.path / CHECKPOINT).unlink()
    (folder / "prices.csv").write_text("The heat pump costs 4200.")
    index(store, folder)
    texts = {chunk.text for chunk in store.get(store.ids())}
    assert "The heat pump costs 4200." in texts and "The boiler costs 900." not in texts


def test_many_files_that_were_named_once_slow_down_no_folder_with_many_links(folder, tmp_path):
    for name in range(300):
        (folder / f"{name}.md").symlink_to(tmp_path)
    named = [folder / ".old" / f"{name}.md" for name in range(3_000)]
    assert processor_seconds(lambda: files_below([folder, *named], None, Report())) < 1.0


def test_a_file_that_was_named_once_and_could_not_be_read_is_left_out_of_later_runs(store, folder):
    (folder / "letter.docx").write_bytes(b"PK\x03\x04\x00\xff\xfe")
    assert len(index(store, [folder, folder / "letter.docx"]).problems) == 1
    report = index(store, folder)
    assert (report.problems, report.left_out) == ([], {".docx": 1, ".png": 1})


def test_a_file_that_was_named_once_and_is_a_link_out_of_the_folder_now_is_not_read(store, folder, tmp_path):
    (folder / "prices.csv").write_text("The boiler costs 900.")
    index(store, [folder, folder / "prices.csv"])
    (folder / "prices.csv").unlink()
    (tmp_path / "secret").write_text("The code of the safe is 4711.")
    (folder / "prices.csv").symlink_to(tmp_path / "secret")
    assert index(store, folder).removed == 1
    assert not [chunk for chunk in store.get(store.ids()) if "4711" in chunk.text]


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


def test_a_file_on_which_a_reader_fails_is_reported_and_the_others_are_indexed(store, folder, monkeypatch, caplog):
    def fails(text):
        raise IndexError(text)

    monkeypatch.setattr("umi_common.files.readers.chunks.message_pattern", fails)  # of the readers, that of .txt files
    report = index(store, [folder])
    (problem,) = report.problems
    assert store.ids() == ["docs/a.md#0"]
    assert (problem.source, problem.error) == ("docs/deep/b.txt", "IndexError")
    assert "deep/b.txt is not read: its reader failed with IndexError" in problem and "leave the file out" in problem
    assert "reader failed with IndexError, which may be a bug of umi" in caplog.text
    monkeypatch.undo()
    assert index(store, [folder]).chunks == 1


class Wrapped:
    """A store of the caller: the methods of another one, and a directory."""

    def __init__(self, store, path):
        self.store, self.path = store, path

    def __getattr__(self, name):
        return getattr(self.store, name)

    def __len__(self):
        return len(self.store)


def test_the_directory_of_a_callers_store_may_be_a_string(folder, tmp_path):
    (tmp_path / "kept").mkdir()
    with HybridStore.open(embedder=HashEmbedder(8)) as inner:
        store = Wrapped(inner, str(tmp_path / "kept"))
        assert index(store, folder).indexed == 2
        assert (tmp_path / "kept" / CHECKPOINT).exists()
        assert inner.ids() == ["docs/a.md#0", "docs/deep/b.txt#0"]
        assert index(store, folder).unchanged == 2


@pytest.mark.parametrize("methods", [[], ["recall"], ["add", "delete"]])
def test_an_object_with_an_embedder_that_lacks_methods_of_a_store_is_refused(folder, methods):
    store = SimpleNamespace(embedder=HashEmbedder(8), **dict.fromkeys(methods, len))
    with pytest.raises(ConfigError, match=r"store is SimpleNamespace; expected a store: HybridStore\.open\(path\)"):
        index(store, folder, checkpoint=folder / "c.umi")


@pytest.mark.parametrize("wrong", [5, b"docs", "a\0b"])
def test_a_base_of_sources_that_is_no_path_is_refused(store, folder, wrong):
    with pytest.raises(ConfigError, match=r"relative_to is .*; expected the name of a folder"):
        index(store, folder, relative_to=wrong)


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


def test_what_was_indexed_from_a_path_that_is_gone_is_removed_if_asked_for(store, folder, tmp_path):
    (folder / "records.jsonl").write_text('{"id": "r1", "text": "the roof"}')
    index(store, [folder])
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(FileUnreadable, match="remove_missing=True"):
        index(store, [folder, moved])
    report = index(store, [folder, moved], remove_missing=True)
    assert (report.files, report.removed, report.problems) == (3, 3, [])
    assert store.ids() == ["moved/a.md#0", "moved/deep/b.txt#0", "r1"]
    assert index(store, [moved / "a.md", folder], remove_missing=True).removed == 0
    with pytest.raises(FileUnreadable, match="does not exist"):
        index(store, ["~nobody-of-this-name/notes"], remove_missing=True)


def test_a_nightly_run_over_an_empty_mount_point_keeps_what_was_indexed_from_the_disk(store, folder, tmp_path):
    (tmp_path / "other.md").write_text("the shed")
    index(store, [folder, tmp_path / "other.md"])
    disk, before = folder.rename(tmp_path / "disk"), store.ids()
    folder.mkdir()
    for paths in (folder, [tmp_path / "other.md", folder]):
        with pytest.raises(FileUnreadable, match=r"docs is empty, .*not mounted, .*remove_missing=True"):
            index(store, paths)
    assert store.ids() == before
    folder.rmdir()
    disk.rename(folder)
    assert index(store, [folder]).unchanged == 2
    shutil.rmtree(folder)
    folder.mkdir()
    assert index(store, [folder], remove_missing=True).removed == 2
    assert index(store, [folder]).files == 0  # nothing is indexed of it any more


@pytest.mark.parametrize("paths", [None, 5, b"docs", "", [None], [""]])
def test_what_is_no_path_is_refused_and_an_empty_one_is_not_the_current_directory(store, folder, monkeypatch, paths):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match="is no path; expected names of files and folders"):
        index(store, paths)
    assert len(store) == 0


def test_the_stores_own_folder_is_not_searched(store, tmp_path, folder):
    report = index(store, [tmp_path])
    assert set(report.left_out) == {".png"}


@pytest.mark.parametrize("place", [".", "a.md/checkpoint"])
def test_a_checkpoint_that_cannot_be_made_is_told_with_its_path(store, folder, place):
    with pytest.raises(StoreError, match=re.escape(str(folder / place))):
        index(store, folder, checkpoint=folder / place)


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
