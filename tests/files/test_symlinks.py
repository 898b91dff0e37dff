"""A run stays inside the folders it is given: links that lead out are skipped, unless it is told to follow them."""

from __future__ import annotations

import pytest

from umi_common.files import index
from umi_common.ingest import ingest
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore


@pytest.fixture()
def store(tmp_path):
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(16)) as opened:
        yield opened


@pytest.fixture()
def folder(tmp_path):
    """docs/a.txt inside; secret.txt and private/b.txt outside of it."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "b.txt").write_text("The salary list.")
    (tmp_path / "secret.txt").write_text("The password is swordfish.")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The boiler leaks.")
    return docs


def texts(store):
    return {chunk.text for chunk in store.get(store.ids())}


bring_in = pytest.mark.parametrize("run", [index, ingest], ids=["index", "ingest"])


@bring_in
def test_links_out_of_the_folder_are_skipped_with_the_reason(store, folder, tmp_path, run):
    (folder / "passwd.txt").symlink_to("/etc/passwd")
    (folder / "secret.txt").symlink_to("../secret.txt")
    (folder / "private").symlink_to(tmp_path / "private")
    report = run(store, [folder])
    assert texts(store) == {"The boiler leaks."}
    lines = sorted(map(str, report.problems))
    assert len(lines) == 3
    for line, name, target in zip(
        lines,
        ["passwd.txt", "private", "secret.txt"],
        ["/etc/passwd", tmp_path / "private", tmp_path / "secret.txt"],
        strict=True,
    ):
        assert line.startswith(f"{folder / name} is a link to {target}, outside of the folders")
        assert "--follow-symlinks" in line


@bring_in
def test_links_are_followed_where_it_is_asked_for(store, folder, tmp_path, run):
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "private").symlink_to(tmp_path / "private")
    report = run(store, [folder], follow_symlinks=True)
    assert not report.problems
    assert texts(store) == {"The boiler leaks.", "The password is swordfish.", "The salary list."}
    assert "docs/private/b.txt#0" in store.ids()


@bring_in
def test_a_file_that_links_lead_to_is_read_once_and_named_by_its_own_path(store, folder, tmp_path, run):
    (folder / "1-again.txt").symlink_to("a.txt")
    (folder / "b.txt").symlink_to(tmp_path / "private" / "b.txt")
    (folder / "private").symlink_to(tmp_path / "private")
    report = run(store, [folder, tmp_path / "private"])
    assert report.files == 2 and not report.problems
    assert store.ids() == ["docs/a.txt#0", "private/b.txt#0"]


@bring_in
def test_a_file_that_only_links_lead_to_is_named_by_the_first_of_them(store, folder, tmp_path, run):
    (folder / ".kept").mkdir()
    (folder / ".kept" / "v1").write_text("The roof is dry.")
    (folder / "roof.txt").symlink_to(".kept/v1")
    (folder / "roof-copy.txt").symlink_to("roof.txt")
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "also-secret.txt").symlink_to(tmp_path / "secret.txt")
    assert not run(store, [folder], follow_symlinks=True).problems
    assert store.ids() == ["docs/a.txt#0", "docs/also-secret.txt#0", "docs/roof-copy.txt#0"]


@bring_in
def test_a_folder_that_only_links_lead_to_is_named_by_the_first_path_to_it(store, folder, tmp_path, run):
    (tmp_path / "private" / "deep").mkdir()
    (tmp_path / "deep-secret").mkdir()
    (tmp_path / "deep-secret" / "c.txt").write_text("The code is 1234.")
    (tmp_path / "private" / "deep" / "z").symlink_to(tmp_path / "deep-secret")
    for name, target in (("a", "private"), ("b", "private"), ("c", "deep-secret")):
        (folder / name).symlink_to(tmp_path / target)
    assert not run(store, [folder], follow_symlinks=True).problems
    assert store.ids() == ["docs/a.txt#0", "docs/a/b.txt#0", "docs/a/deep/z/c.txt#0"]


@bring_in
def test_a_copy_that_became_a_link_to_its_original_is_removed(store, folder, run):
    (folder / "copy.txt").write_text("The boiler leaks.")
    run(store, [folder])
    (folder / "copy.txt").unlink()
    (folder / "copy.txt").symlink_to("a.txt")
    report = run(store, [folder])
    assert (report.files, report.removed, report.unchanged) == (1, 1, 1)
    assert store.ids() == ["docs/a.txt#0"]


@bring_in
def test_a_named_folder_keeps_its_own_path_where_a_followed_link_leads_to_it_too(store, folder, tmp_path, run):
    (folder / "private").symlink_to(tmp_path / "private")
    run(store, [folder, tmp_path / "private"], follow_symlinks=True)
    assert store.ids() == ["docs/a.txt#0", "private/b.txt#0"]


@bring_in
def test_a_link_that_is_named_itself_is_followed(store, tmp_path, folder, run):
    (tmp_path / "link").symlink_to(folder)
    assert not run(store, [tmp_path / "link"]).problems
    assert store.ids() == ["docs/a.txt#0"]


@bring_in
def test_folders_that_all_link_to_one_another_are_walked_once_each(store, tmp_path, run):
    ring = tmp_path / "ring"
    names = [f"d{number:02}" for number in range(12)]  # 12! ways through them
    for name in names:
        (ring / name).mkdir(parents=True)
        (ring / name / "a.txt").write_text(f"Note {name}.")
        for other in names:
            (ring / name / f"to-{other}").symlink_to(ring / other)
    (ring / "up").symlink_to(ring)
    for _ in range(2):
        report = run(store, [ring], follow_symlinks=True)
        assert report.files == 12 and not report.problems
        assert store.ids() == [f"ring/{name}/a.txt#0" for name in names]


@bring_in
def test_what_links_brought_in_is_removed_by_a_run_that_does_not_follow_them(store, folder, tmp_path, run):
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "private").symlink_to(tmp_path / "private")
    run(store, [folder], follow_symlinks=True)
    report = run(store, [folder])
    assert report.removed == 2
    assert texts(store) == {"The boiler leaks."}


def test_a_file_that_becomes_a_link_out_of_the_folder_during_the_run_is_skipped(store, folder, tmp_path):
    (folder / "b.txt").write_text("The roof is dry.")

    def swap(done, total):
        if done == 1:
            (folder / "b.txt").unlink()
            (folder / "b.txt").symlink_to(tmp_path / "secret.txt")

    report = index(store, [folder], on_file=swap)
    assert texts(store) == {"The boiler leaks."}
    assert len(report.problems) == 1 and "b.txt is a link to" in report.problems[0]
