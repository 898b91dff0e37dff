"""A simulated disk that fails on request, and the content that it has after a power cut.

It watches a folder: the operations of SQLite in it (`sqlite_files`), and those of Python: files opened for writing,
renames, new and removed folders (audit events), and `os.fsync`. Each operation is an event; a `Fault` happens at the
n-th.

After a crash the disk (the folder `image`) holds everything that was synced, and of the rest any part:

- of SQLite's unsynced writes any subset, each whole or cut at sectors of 512 bytes;
- of another unsynced file its last synced content, its present content, a beginning of that, or zeros of its length;
- of names changed in a folder since the folder was synced, each the old or the new one, in any combination; a renamed
  file keeps one of its names. A new folder whose parent was not synced may be missing with all its content.

Simpler than a real disk: single writes of Python's own files are not watched. So a full disk fails at the opening, sync
or rename of such a file, and after a crash an unsynced file has one of the four contents above, not any mixture of its
writes. When SQLite syncs a file, its name is durable, too, as SQLite itself ensures for new logs; other names become
durable when their folder is synced.
"""

from __future__ import annotations

import errno
import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlite_files
from sqlite_files import SqliteFiles

SECTOR = 512
Kind = Literal["write fails", "disk full", "read fails", "crash"]
KINDS: tuple[Kind, ...] = ("write fails", "disk full", "read fails", "crash")
WRITING: tuple[Kind, ...] = ("write fails", "disk full", "crash")
Edit: TypeAlias = "tuple[int, bytes | None]"
"""Offset and bytes written there; None: the file was cut at the offset."""
_REAL_FSYNC = os.fsync
_watching: Disk | None = None
_hooked = False


class Fault(NamedTuple):
    """A fault of the disk during a step."""

    kind: Kind
    at: int
    """Number of the event at which it happens, from 1. "disk full": at that write and all later ones."""
    seed: int = 0
    """Seed of the choices in the content after a crash."""


class File:
    """A file and its durable content. It is kept open, so that no other file gets its inode number."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDONLY)
        self.synced = b""
        self.edits: list[Edit] = []
        """SQLite's writes since the last sync."""
        self.of_sqlite = False

    def content(self) -> bytes:
        """The present content, as programs read it."""
        return os.pread(self.handle, os.fstat(self.handle).st_size, 0)

    def sync(self) -> None:
        """Make the content durable, as a sync by its writer does."""
        self.synced = edited(self.synced, self.edits) if self.of_sqlite else self.content()
        self.edits = []

    def settle(self) -> None:
        """Make the present content durable, whoever wrote it."""
        self.synced, self.edits = self.content(), []

    def after_crash(self, dice: random.Random) -> bytes:
        """The content after a crash."""
        if self.of_sqlite:
            return edited(self.synced, left_over(self.edits, dice))
        present = self.content()
        if present == self.synced:
            return present
        return dice.choice([self.synced, present, present[: dice.randint(0, len(present))], bytes(len(present))])


class Folder:
    """A folder and the names that are durable in it."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDONLY)
        self.synced: dict[str, File | Folder] = {}


def edited(content: bytes, edits: list[Edit]) -> bytes:
    """The content after the edits, made in order."""
    data = bytearray(content)
    for offset, written in edits:
        if written is None:
            del data[offset:]
        else:
            data.extend(bytes(max(0, offset - len(data))))
            data[offset : offset + len(written)] = written
    return bytes(data)


def left_over(edits: list[Edit], dice: random.Random) -> list[Edit]:
    """The unsynced edits that reach the disk: none, all, the first ones, or any; of the last perhaps single sectors."""
    how = dice.choice(("none", "all", "beginning", "any"))
    if how == "all":
        return edits
    kept = {
        "none": [],
        "beginning": edits[: dice.randint(0, len(edits))],
        "any": [edit for edit in edits if dice.random() < 0.5],
    }[how]
    if not kept or kept[-1][1] is None or dice.random() < 0.5:
        return kept
    offset, written = kept[-1]
    assert written is not None
    sectors = range(0, len(written), SECTOR)
    some = [(offset + at, written[at : at + SECTOR]) for at in sectors if dice.random() < 0.5]
    return [*kept[:-1], *some]


class Disk:
    """Watches a folder inside a `with` block. One at a time in a process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = 0
        """Number of events since the fault was set."""
        self.fault: Fault | None = None
        self.struck = False
        self.crashed: Path | None = None
        """The folder with the content after the crash, if there was one."""
        self._lock = threading.RLock()
        self._nodes: dict[int, File | Folder] = {}
        self._files = SqliteFiles(root, self) if sqlite_files.usable() else None
        self._off = False

    def __enter__(self) -> Disk:
        global _watching
        assert _watching is None, "one disk at a time"
        _hook()
        os.fsync = self._fsync
        if self._files is not None:
            self._files.install()
        _watching = self
        self.settle()
        return self

    def __exit__(self, *exc_info: object) -> None:
        global _watching
        _watching = None
        os.fsync = _REAL_FSYNC
        if self._files is not None:
            self._files.remove()
            _KEPT.append(self._files)
        for node in self._nodes.values():
            os.close(node.handle)
        self._nodes.clear()

    @contextmanager
    def failing(self, fault: Fault | None, image: Path) -> Iterator[None]:
        """The fault happens inside the block; after a crash, `image` is the folder with the disk's content."""
        self.fault, self.events, self.struck, self.crashed, self._image = fault, 0, False, None, image
        try:
            yield
            if fault is not None and fault.kind == "crash" and not self.struck:
                self.crash(fault.seed)
        finally:
            self.fault = None

    def crash(self, seed: int) -> None:
        """Simulate a power cut now."""
        with self.unwatched():
            self.struck, self.crashed = True, self._image
            self._image.mkdir()
            self._build(self._node(self.root), self.root, self._image, random.Random(seed))

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Operations inside the block are not events: they are the simulation's own."""
        before, self._off = self._off, True
        try:
            yield
        finally:
            self._off = before

    def settle(self) -> None:
        """Make everything in the folder durable, as after a copy by a user."""
        with self._lock, self.unwatched():
            self._settle(self.root)

    def _settle(self, path: Path) -> None:
        node = self._node(path)
        if isinstance(node, File):
            node.settle()
            return
        for child in path.iterdir():
            self._settle(child)
        node.synced = {child.name: self._node(child) for child in path.iterdir()}

    def _node(self, path: Path) -> File | Folder:
        number = path.stat().st_ino
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = Folder(path) if path.is_dir() else File(path)
        return node

    def _build(self, node: File | Folder, present: Path | None, image: Path, dice: random.Random) -> None:
        """Write the folder's content after a crash to `image`; `present`: where the folder is now."""
        assert isinstance(node, Folder)
        now = {} if present is None else {child.name: self._node(child) for child in sorted(present.iterdir())}
        chosen = {name: dice.choice([node.synced.get(name), now.get(name)]) for name in sorted({*node.synced, *now})}
        for name, child in node.synced.items():
            if child in now.values() and child not in chosen.values():
                chosen[name] = child  # a rename loses no file
        for name, child in chosen.items():
            if isinstance(child, File) and not name.endswith("-shm"):
                (image / name).write_bytes(child.after_crash(dice))
            elif isinstance(child, Folder):
                (image / name).mkdir()
                inside = present / name if present is not None and now.get(name) is child else None
                self._build(child, inside, image / name, dice)

    def _event(self, kinds: tuple[Kind, ...]) -> Kind | None:
        """Count an event at which faults of these kinds may happen; returns the kind of the fault that happens now."""
        fault = self.fault
        if fault is None or fault.kind not in kinds:
            return None
        self.events += 1
        if self.events < fault.at or (self.struck and fault.kind != "disk full"):
            return None
        self.struck = True
        if fault.kind == "crash":
            self.crash(fault.seed)
            return None
        return fault.kind

    # SQLite's files

    def sqlite_opened(self, path: str) -> None:
        with self._lock, suppress(FileNotFoundError), self.unwatched():
            node = self._node(Path(path))
            assert isinstance(node, File)
            node.of_sqlite = True

    def sqlite_read(self, path: str) -> int:
        if self.fault is None or self.fault.kind != "read fails" or self._off:
            return sqlite_files.OK
        with self._lock:
            return sqlite_files.READ_FAILED if self._event(("read fails",)) else sqlite_files.OK

    def sqlite_write(self, path: str, offset: int, data: bytes) -> int:
        return self._sqlite_change(
            path, (offset, data), sqlite_files.WRITE_FAILED, ("write fails", "disk full", "crash")
        )

    def sqlite_truncate(self, path: str, size: int) -> int:
        return self._sqlite_change(path, (size, None), sqlite_files.CUT_FAILED, ("write fails", "crash"))

    def _sqlite_change(self, path: str, edit: Edit, code: int, kinds: tuple[Kind, ...]) -> int:
        with self._lock:
            struck = None if self._off else self._event(kinds)
            if struck is not None:
                return sqlite_files.FULL if struck == "disk full" else code
            with self.unwatched():
                node = self._sqlite_node(path)
                if node is not None:
                    node.edits.append(edit)
        return sqlite_files.OK

    def sqlite_sync(self, path: str) -> int:
        with self._lock:
            if not self._off and self._event(("write fails", "crash")):
                return sqlite_files.SYNC_FAILED
            with self.unwatched():
                node = self._sqlite_node(path)
                if node is not None:
                    node.sync()
                    parent = self._node(Path(path).parent)
                    assert isinstance(parent, Folder)
                    parent.synced[Path(path).name] = node
        return sqlite_files.OK

    def sqlite_delete(self, path: str) -> int:
        with self._lock:
            return sqlite_files.DELETE_FAILED if not self._off and self._event(("crash",)) else sqlite_files.OK

    def _sqlite_node(self, path: str) -> File | None:
        """The file; None: it has no name any more, so it does not exist after a crash."""
        try:
            node = self._node(Path(path))
        except FileNotFoundError:
            return None
        assert isinstance(node, File)
        return node

    # Python's files

    def python_event(self, name: str, path: str) -> None:
        """Count an operation of Python on a file, before it is done; raises the OSError of a fault."""
        with self._lock:
            struck = self._event(("crash",) if name == "removed" else WRITING)
        if struck is not None:
            code = errno.ENOSPC if struck == "disk full" else errno.EIO
            raise OSError(code, os.strerror(code), path)

    def _fsync(self, handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        path = Path(f"/proc/self/fd/{number}").readlink()
        if self._off or not path.is_relative_to(self.root):
            _REAL_FSYNC(number)
            return
        with self._lock:
            if self._event(WRITING):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            with self.unwatched():  # no real sync: the power is never cut
                node = self._node(path)
                if isinstance(node, File):
                    node.sync()
                else:
                    node.synced = {child.name: self._node(child) for child in path.iterdir()}


_KEPT: list[SqliteFiles] = []
"""Kept for ever: connections that were opened while they were installed may still be open."""
_EVENTS = {"os.rename": "renamed", "os.mkdir": "made", "shutil.rmtree": "removed", "os.truncate": "cut"}


def _hook() -> None:
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_audited)


def _audited(event: str, arguments: tuple[Any, ...]) -> None:
    disk = _watching
    if disk is None or disk.fault is None or disk._off or (event != "open" and event not in _EVENTS):
        return
    path = arguments[0]
    if not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(str(disk.root)):
        return
    if event != "open":
        disk.python_event(_EVENTS[event], os.fspath(path))
    elif isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        disk.python_event("opened", os.fspath(path))
