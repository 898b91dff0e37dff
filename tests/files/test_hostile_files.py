"""Files that nobody meant to be indexed: each gives one line that names it and says what to do, and stops nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from umi_common.errors import FileUnreadable
from umi_common.files import chunks_of, index
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

REFUSED = {
    "binary.txt": bytes(range(256)) * 40,
    "noise.txt": bytes(1 + (7 * at * at) % 255 for at in range(5_000)),
    "broken.pdf": b"%PDF-1.4\n garbage",
    "empty.pdf": b"",
    "list.jsonl": b"[1]\n",
    "deep.jsonl": b"[" * 200_000,
    "digits.jsonl": b'{"text": "a", "n": ' + b"9" * 5_000 + b"}",
}
EMPTY = {"empty.txt": b"", "blank.md": b" \n \n"}
WITHOUT_TEXT = {"tag.html": b"<a " * 10_000, "comment.html": b"<!--" * 10_000, "empty.ipynb": b'{"cells": []}'}
READ = {
    "latin.txt": "Größe".encode("latin-1"),
    "cut-utf16.txt": "Größe".encode("utf-16")[:-1],
    "line.txt": b"valve " * 100_000,
    "nan.jsonl": b'{"text": "a", "n": NaN}',
    "word.txt": b"x" * 500_000,
    "lines.txt": b" \n" * 100_000 + b"x",
    "hashes.md": b"# " + b"#" * 100_000 + b"x",
    "headings.md": b"# a\n" * 50_000,
    "deep.html": b"<div>" * 50_000 + b"deep",
    "word-office.html": b"<p>seen<![foo[bar]]><![if !IE]>too",
    "escapes.txt": b"a \x1b[31mred\x07 valve",
    "surrogate.jsonl": b'{"text": "a cut emoji \\ud83d"}',
    "surrogate.ipynb": b'{"cells": [{"cell_type": "markdown", "source": "a cut emoji \\ud83d"}]}',
}
SECONDS_MAX = 20.0
"""Generous; what this holds off took minutes."""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "hostile"
    made.mkdir()
    for name, content in {**REFUSED, **EMPTY, **WITHOUT_TEXT, **READ}.items():
        (made / name).write_bytes(content)
    return made


@pytest.mark.filterwarnings("ignore")  # pypdf's own
def test_one_line_each_and_the_rest_is_found(folder):
    pytest.importorskip("pypdf")
    os.mkfifo(folder / "pipe.txt")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "nothing.md").symlink_to(folder / "nowhere")
    (folder / "ring").symlink_to(folder)
    (folder / "new\nline\x1b[31m.jsonl").write_text("no")
    refused = {*REFUSED, "pipe.txt", "loop.txt", "nothing.md", "new\nline\x1b[31m.jsonl", "bad\udcff.txt"}
    Path(folder, "bad\udcff.txt").write_text("a name that is no text")
    begun = time.perf_counter()
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        report = index(store, [folder])
        there = {chunk.metadata["file"] for chunk in store.get(store.ids())}
    assert time.perf_counter() - begun < SECONDS_MAX
    assert there == {(folder / name).as_posix() for name in READ}
    assert report.indexed == len(READ) + len(EMPTY) + len(WITHOUT_TEXT)
    told = refused | {*WITHOUT_TEXT}
    assert len(report.problems) == len(told)
    for name in told:
        assert sum(f"{name!a}"[1:-1] in line or name in line for line in report.problems) == 1, name


@pytest.mark.parametrize("name", READ)
def test_what_can_be_read_is(folder, name):
    assert chunks_of(folder / name)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(FileUnreadable, match="no regular file"):
        chunks_of(tmp_path / "pipe.txt")
    with HybridStore.open(embedder=HashEmbedder(8)) as store:
        assert len(index(store, [tmp_path / "pipe.txt"]).problems) == 1


def test_a_file_that_vanishes_meanwhile_is_named_and_leaves_the_store(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(f"The valve of {name}.")
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        index(store, [tmp_path])
        (tmp_path / "a.txt").write_text("Changed.")
        report = index(store, [tmp_path], on_file=lambda done, _: done == 1 and (tmp_path / "b.txt").unlink())
        assert [line.split(" has gone")[0] for line in report.problems] == [str(tmp_path / "b.txt")]
        assert (report.indexed, report.unchanged, report.removed) == (1, 1, 1)
        assert store.ids() == ["a.txt#0", "c.txt#0"]


def test_a_folder_that_cannot_be_looked_into_is_named_and_its_chunks_stay(tmp_path, monkeypatch):
    closed = tmp_path / "notes" / "closed"
    closed.mkdir(parents=True)
    (closed / "a.txt").write_text("The valve.")
    with HybridStore.open(tmp_path / "store", embedder=HashEmbedder(8)) as store:
        index(store, [tmp_path / "notes"])
        scandir, stat = os.scandir, Path.stat
        refuse = PermissionError(13, "Permission denied", str(closed))
        monkeypatch.setattr(os, "scandir", lambda path: _raise(refuse) if Path(path) == closed else scandir(path))
        monkeypatch.setattr(
            Path, "stat", lambda self, **how: _raise(refuse) if self.parent == closed else stat(self, **how)
        )
        report = index(store, [tmp_path / "notes"])
        assert report.problems == [
            f"{closed} cannot be read (Permission denied); check its permissions; what an earlier run stored of its "
            "files can still be found"
        ]
        assert (report.removed, len(store)) == (0, 1)


def _raise(error):
    raise error


@pytest.mark.parametrize(
    "line, title", [("# Setup ##", "Setup"), ("# C#", "C#"), ("# F# and C# #", "F# and C#"), ("## Go", "Go")]
)
def test_a_heading_ends_before_its_closing_signs(tmp_path, line, title):
    (tmp_path / "a.md").write_text(f"{line}\n\nText.")
    assert chunks_of(tmp_path / "a.md")[0].metadata["section"] == title
