"""The checkpoint: one run at a time, for one store and one embedder; losing it costs only time."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from ingest_toys import content, opened, write_records

from umi_common.errors import ConfigError, ReindexRequired, StoreError, StoreFull, StoreLocked
from umi_common.files import session
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.ingest import ingest
from umi_common.sim import CountingEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore


@pytest.fixture()
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    write_records(folder / "a.jsonl", range(20))
    return folder


def test_a_second_run_is_refused_while_the_first_holds_it(tmp_path):
    first = IngestCheckpoint(tmp_path / "c")
    with pytest.raises(StoreLocked, match="another run"):
        IngestCheckpoint(tmp_path / "c")
    first.close()
    IngestCheckpoint(tmp_path / "c").close()


def test_ctrl_c_while_the_progress_bar_is_made_leaves_the_checkpoint_to_the_next_run(tmp_path, docs, monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    with opened(tmp_path / "s") as store:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as kept:  # as a notebook keeps it
            patched.setattr(session, "progress_bar", interrupted)
            ingest(store, [docs])
        assert ingest(store, [docs]).chunks == 20, kept


def test_a_full_disk_is_told_and_once_there_is_room_the_run_goes_on(tmp_path):
    resource = pytest.importorskip("resource", reason="file-size limits are a Unix matter")
    limits, many = resource.getrlimit(resource.RLIMIT_FSIZE), [(f"file {number}", "v") for number in range(20_000)]
    kept = IngestCheckpoint(tmp_path / "c")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StoreFull, match="free space"):
            kept.begin(many, others=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert kept.sources() == []
    kept.begin(many, others=False)
    assert len(kept.sources()) == 20_000
    kept.close()


def test_a_file_that_is_something_else_is_left_alone(tmp_path, docs):
    other = tmp_path / "letter.txt"
    other.write_text("Dear Ann, " * 100)
    with opened(tmp_path / "s") as store, pytest.raises(StoreError, match=r"letter\.txt is no .*choose another file"):
        ingest(store, [docs], checkpoint=other)
    assert other.read_text() == "Dear Ann, " * 100
    with (
        HybridStore.open(tmp_path / "s2", embedder=HashEmbedder(16)) as store,
        pytest.raises(StoreError, match="no check"),
    ):
        ingest(store, [docs], checkpoint=tmp_path / "s" / "umi.db")


def test_a_database_of_another_program_is_refused_unchanged(tmp_path):
    with sqlite3.connect(tmp_path / "books.db") as db:
        db.execute("CREATE TABLE books (title TEXT)")
    db.close()
    before = (tmp_path / "books.db").read_bytes()
    with pytest.raises(StoreError, match="no checkpoint"):
        IngestCheckpoint(tmp_path / "books.db")
    assert (tmp_path / "books.db").read_bytes() == before


def test_a_file_with_another_version_behind_it_says_so_until_it_is_settled():
    kept = IngestCheckpoint(None)
    kept.begin([("a", "v1")], others=False)
    kept.begin([("a", "v1")], others=False)
    assert not kept.file("a").others
    kept.begin([("a", "v2")], others=False)
    assert kept.file("a").others
    kept.finish([("k1", "a", "w"), ("k2", "a", None)])
    kept.settle([("a", ["k2"], "stamp")])
    assert kept.file("a") == ("v2", False, True, "stamp")
    assert kept.done(["k1", "k2", "k3"]) == {"k2"}
    kept.close()


def test_a_checkpoint_of_an_older_version_is_continued(tmp_path, docs):
    with opened(tmp_path / "s") as store:
        ingest(store, [docs], checkpoint=tmp_path / "c")
        with closing(sqlite3.connect(tmp_path / "c")) as older, older:
            older.execute("ALTER TABLE files ADD COLUMN path TEXT NOT NULL DEFAULT ''")
            older.execute("ALTER TABLE files DROP COLUMN stamp")
        (docs / "b.txt").write_text("new")
        report = ingest(store, [docs], checkpoint=tmp_path / "c")
        assert (report.unchanged, report.indexed) == (1, 1)
        (docs / "a.jsonl").unlink()
        assert ingest(store, [docs], checkpoint=tmp_path / "c").removed == 1


def test_the_checkpoint_of_another_store_is_refused(tmp_path, docs):
    with opened(tmp_path / "s") as store:
        ingest(store, [docs], checkpoint=tmp_path / "c")
    with opened(tmp_path / "empty") as other, pytest.raises(ConfigError, match="delete the checkpoint"):
        ingest(other, [docs], checkpoint=tmp_path / "c")


def test_the_checkpoint_of_another_embedder_is_refused(tmp_path, docs):
    with opened(tmp_path / "s") as store:
        ingest(store, [docs], checkpoint=tmp_path / "c")
    with (
        HybridStore.open(tmp_path / "s8", embedder=HashEmbedder(8)) as store,
        pytest.raises(ReindexRequired, match="hash/16"),
    ):
        ingest(store, [docs], checkpoint=tmp_path / "c")


def test_a_store_without_a_directory_needs_a_name_for_it(tmp_path, docs):
    class Elsewhere:
        embedder = HashEmbedder(16)

    with pytest.raises(ConfigError, match="name a file"):
        ingest(Elsewhere(), [docs])


def test_a_lost_checkpoint_costs_no_embedding_and_still_frees_the_store_of_what_is_stale(tmp_path, docs):
    embedder = CountingEmbedder(HashEmbedder(16))
    with HybridStore.open(tmp_path / "s", embedder=embedder) as store:
        ingest(store, [docs], checkpoint=tmp_path / "c")
        before = len(embedder.texts)
        for leftover in tmp_path.glob("c*"):
            leftover.unlink()
        write_records(docs / "a.jsonl", range(15))
        report = ingest(store, [docs], checkpoint=tmp_path / "c")
        assert len(embedder.texts) == before
        assert report.stale == 5
        assert set(content(store)) == {f"r{number}" for number in range(15)}
