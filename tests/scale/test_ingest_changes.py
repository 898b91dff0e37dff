"""After any changes of a folder and any interruptions, one whole run leaves what a first run over the folder leaves."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from ingest_toys import DIM, Died, Dying, opened

from umi_common.errors import EmbedderError, FileUnreadable
from umi_common.files import index
from umi_common.files import session as sessions
from umi_common.files.checkpoint import IngestCheckpoint
from umi_common.sim import FaultyEmbedder, HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore

NAMES = ("a.txt", "b.md", "c.jsonl", "d.jsonl", "e.jsonl", "g.html")
FOLDERS = ("", "s", "s/t", "u")
RECORDS = 30
"""Ids of records; an id is in one file at a time, since of two files with one id the first to be indexed keeps it."""


class Folder:
    """A folder of small files that are changed at random; `docs` beside a folder `out`, to which links lead."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root, self.docs, self.dice = root, root / "docs", dice
        self.docs.mkdir()
        (root / "out").mkdir()
        (root / "out" / "x.txt").write_text("outside of the folder")

    def files(self) -> list[Path]:
        return [path for path in sorted(self.docs.rglob("*")) if path.is_file() and not path.is_symlink()]

    def records(self, *, without: Path | None = None) -> set[str]:
        """Ids of the records in all JSONL files."""
        texts = [path.read_text() for path in self.files() if path.suffix == ".jsonl" and path != without]
        return {json.loads(line)["id"] for text in texts for line in text.splitlines()}

    def place(self) -> Path:
        """A path at which there is no folder and no link; its folder exists."""
        path = self.docs / self.dice.choice(FOLDERS) / self.dice.choice(NAMES)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        return path

    def content(self, path: Path) -> str:
        """Records for a JSONL file, else some paragraphs; sometimes empty."""
        if path.suffix != ".jsonl":
            words = ("boiler", "roof", "leak", "dry", "pump")
            return "\n\n".join(" ".join(self.dice.choices(words, k=90)) for _ in range(self.dice.randrange(4)))
        free = sorted({f"r{number}" for number in range(RECORDS)} - self.records(without=path))
        ids = self.dice.sample(free, min(len(free), self.dice.choice((0, 1, 3, 8))))
        return "".join(json.dumps({"id": id, "text": f"{id} v{self.dice.randrange(3)}"}) + "\n" for id in ids)

    def change(self) -> None:
        """One change. An operation for which there is no file, or whose target is taken, changes nothing."""
        change = self.dice.choice(
            [
                *(self._write, self._write, self._rename, self._swap, self._delete, self._empty, self._touch),
                *(self._to_folder, self._link, self._link_folder, self._link_out, self._move_folder),
                self._remove_folder,
            ]
        )
        with suppress(OSError, ValueError):
            change(self.files())

    def _write(self, _files: list[Path]) -> None:
        path = self.place()
        path.write_text(self.content(path))

    def _rename(self, files: list[Path]) -> None:
        old = self.dice.choice(files or [self.docs])
        new = self.place().with_suffix(old.suffix)
        if not new.is_dir():
            old.replace(new)

    def _swap(self, files: list[Path]) -> None:
        first, second = self.dice.sample([path for path in files if path.suffix == ".jsonl"], 2)
        between = self.root / "between"
        first.replace(between)
        second.replace(first)
        between.replace(second)

    def _delete(self, files: list[Path]) -> None:
        self.dice.choice(files or [self.docs]).unlink()

    def _empty(self, files: list[Path]) -> None:
        self.dice.choice(files or [self.docs]).write_text("")

    def _to_folder(self, files: list[Path]) -> None:
        path = self.dice.choice(files or [self.docs])
        path.unlink()
        path.mkdir()
        (path / "in.txt").write_text(self.content(path / "in.txt"))

    def _link(self, files: list[Path]) -> None:
        target = self.dice.choice(files or [self.docs])
        path = self.place().with_suffix(target.suffix)
        if path != target and not path.is_dir():
            path.unlink(missing_ok=True)
            path.symlink_to(target)

    def _link_folder(self, _files: list[Path]) -> None:
        path = self.docs / "linked"
        path.unlink(missing_ok=True)
        path.symlink_to(self.dice.choice((self.docs / "s", self.docs, self.root / "out")))

    def _link_out(self, _files: list[Path]) -> None:
        path = self.place()
        path.unlink(missing_ok=True)
        path.symlink_to(self.root / "out" / self.dice.choice(("x.txt", "none.txt")))

    def _move_folder(self, _files: list[Path]) -> None:
        old, new = self.dice.sample([self.docs / "s", self.docs / "u", self.docs / "w"], 2)
        if old.is_dir() and not new.exists():
            old.rename(new)

    def _remove_folder(self, _files: list[Path]) -> None:
        shutil.rmtree(self.docs / self.dice.choice(FOLDERS[1:]))

    def _touch(self, files: list[Path]) -> None:
        os.utime(self.dice.choice(files or [self.docs]))


class Changing(Dying):
    """A store that dies at its n-th step; before some of its steps the folder changes."""

    def __init__(self, store: HybridStore, steps: int, folder: Folder, share: float) -> None:
        super().__init__(store, steps)
        self._folder, self._share = folder, share

    def _step(self) -> None:
        if self._folder.dice.random() < self._share:
            self._folder.change()
        super()._step()


def interrupted_run(store: HybridStore, folder: Folder, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    """A run that ends at a random step of the store or the checkpoint, is stopped, or lacks its embedder or records."""
    dice, steps, left = folder.dice, count(), folder.dice.randrange(14)
    how = dice.choice(("store", "store", "checkpoint", "embedder", "stop", "lost"))

    def dies_at_a_step(write):
        def die_or_write(self, *args, **named):
            if next(steps) == left:
                raise Died
            return write(self, *args, **named)

        return die_or_write

    with monkeypatch.context() as patch:
        if how == "checkpoint":
            for name in ("begin", "finish", "settle", "forget", "put"):
                patch.setattr(IngestCheckpoint, name, dies_at_a_step(getattr(IngestCheckpoint, name)))
        elif how == "embedder":
            options["embedder"] = FaultyEmbedder(HashEmbedder(DIM), fail_on=lambda _: dice.random() < 0.3)
        elif how == "stop":
            options["stop"] = lambda: next(steps) > left
        elif how == "lost":
            (store.path / "umi.db-ingest").unlink(missing_ok=True)
        running = Changing(store, left if how == "store" else 10**9, folder, dice.choice((0, 0, 0.2)))
        with suppress(Died, EmbedderError, FileUnreadable):
            index(running, folder.docs, **options)


@pytest.mark.parametrize("seed", range(12))
def test_after_changes_and_interruptions_one_whole_run_leaves_what_a_first_run_leaves(tmp_path, monkeypatch, seed):
    dice = random.Random(seed)
    folder = Folder(tmp_path, dice)
    options = {"part_bytes": dice.choice((100, 2_000)), "follow_symlinks": dice.random() < 0.3}
    monkeypatch.setattr(sessions, "FILES_AT_ONCE", dice.choice((1, 3, 200)))
    with opened(tmp_path / "store") as store:
        for _ in range(5):
            for _ in range(8):
                folder.change()
            time.sleep(0.005)  # a second change within a tick of the file system's clock might not be seen
            interrupted_run(store, folder, monkeypatch, **options)
            time.sleep(0.005)
        report = index(store, folder.docs, remove_missing=True, **options)
        with HybridStore.open(embedder=HashEmbedder(DIM)) as first:
            expected = index(first, folder.docs, relative_to=tmp_path, **options)
            wanted = {chunk.id: chunk for chunk in first.get(first.ids())}
        assert {chunk.id: chunk for chunk in store.get(store.ids())} == wanted
        assert {id for id in wanted if "#" not in id} >= folder.records()
        assert sorted(report.problems) == sorted(expected.problems)
        assert store.verify()
        again = index(store, folder.docs, remove_missing=True, **options)
        assert (again.indexed, again.removed, again.stale) == (0, 0, 0)
