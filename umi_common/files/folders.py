"""Keep a store level with files: new ones in, changed ones anew, vanished ones out, unchanged ones untouched."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from umi_common.errors import FileUnreadable, MissingExtra
from umi_common.files.chunks import ENDINGS, chunks_in, version_of
from umi_common.files.manifest import FILE_KEY, Entry, Manifest
from umi_common.files.reading import check_name, content_of, unreadable
from umi_common.store.hybrid import HybridStore
from umi_common.types import Chunk

FOLDERS_LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Beside every folder whose name begins with a dot."""
BATCH = 1_000
"""Chunks a write, about; an interruption loses at most one."""


@dataclass(slots=True)
class Report:
    """What `index` did."""

    files: int = 0
    """That the paths hold and umi can read."""
    unchanged: int = 0
    indexed: int = 0
    """New or changed."""
    removed: int = 0
    """Gone from the disk, and so from the store."""
    chunks: int = 0
    """Of the indexed files."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Files of other kinds, by ending."""
    problems: list[str] = field(default_factory=list)
    """One line a file that could not be read: which, why, what to do."""
    stopped: bool = False
    """Whether it was asked to stop before the end; the same call goes on from there."""


def index(
    store: HybridStore,
    paths: Sequence[str | Path],
    *,
    on_file: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Bring the store level with files and folders.

    A chunk's source is the file's path from the folder the store is in, where the file lies below it, else the whole
    path; so a project can be moved together with its store. Folders whose name begins with a dot are left out.

    Args:
        paths: Files and folders. Files under these folders that were indexed and are gone are removed.
        on_file: Told (files done, files in all) as it goes.
        stop: Asked between files; True ends the work in good order.

    Raises:
        FileUnreadable: If a path does not exist. What is wrong with a file inside a folder is in the report.
        StoreError: As the store raises them.
    """
    roots = checked_roots(paths)
    work = _Work(store, Manifest(store))
    report = work.report
    files = sorted(set(files_below(roots, None if store.path is None else store.path.resolve(), report)))
    report.files = len(files)
    for done, path in enumerate(files):
        if stop():
            report.stopped = True
            break
        work.take(path)
        if on_file is not None:
            on_file(done + 1, len(files))
    work.write()
    if not report.stopped:
        work.remove_vanished(roots)
    work.manifest.save(settled=True)
    return report


def checked_roots(paths: Iterable[str | Path]) -> list[Path]:
    """The paths, absolute.

    Raises:
        FileUnreadable: If one does not exist.
    """
    for path in paths:
        if not Path(path).exists():
            raise FileUnreadable(f"{path} does not exist; give files or folders that do")
    return [Path(path).resolve() for path in paths]


def files_below(roots: Iterable[Path], store: Path | None, report: Report) -> Iterator[Path]:
    for root in roots:
        if not root.is_dir():
            yield root
            continue
        for folder, folders, names in os.walk(root, onerror=lambda error: report.problems.append(_refused(error))):
            folders[:] = [name for name in folders if _is_looked_into(Path(folder, name), store)]
            for path in (Path(folder, name) for name in names if not name.startswith(".")):
                if path.suffix.lower() in ENDINGS:
                    yield path
                else:
                    report.left_out[path.suffix.lower() or path.name] += 1


def source_of(path: Path, base: Path | None) -> str:
    """What an absolute path is called: as seen from `base`, where it lies below it."""
    below = base is not None and path.is_relative_to(base)
    return (path.relative_to(base) if below and base is not None else path).as_posix()


def _refused(error: OSError) -> str:
    return str(unreadable(Path(error.filename), error))


def _is_looked_into(folder: Path, store: Path | None) -> bool:
    return not folder.name.startswith(".") and folder.name not in FOLDERS_LEFT_OUT and folder != store


class _Work:
    """Chunks of whole files gathered until a write is worth it."""

    def __init__(self, store: HybridStore, manifest: Manifest) -> None:
        self.store, self.manifest, self.report = store, manifest, Report()
        self._base = None if store.path is None else store.path.resolve().parent
        self._chunks: dict[str, Chunk] = {}
        self._entries: dict[str, Entry] = {}
        self._settled = True

    def take(self, path: Path) -> None:
        """Read a file if it may have changed."""
        source = source_of(path, self._base)
        known = self.manifest.entries.get(source, Entry(()))
        try:
            stat = path.stat()
            if (known.size, known.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
                self.report.unchanged += 1
                return
            check_name(source, path)
            content = content_of(path)
            version = version_of(content)
            if known.version == version:
                self.manifest.entries[source] = replace(known, size=stat.st_size, mtime_ns=stat.st_mtime_ns)
                self.report.unchanged += 1
                return
            chunks = chunks_in(path, content, source)
            self._refuse_foreign(path, chunks)
        except (FileUnreadable, MissingExtra) as error:
            self.report.problems.append(str(error))
        except OSError as error:
            self.report.problems.append(str(unreadable(path, error)))
        else:
            self._chunks.update((chunk.id, chunk) for chunk in chunks)
            ids = tuple(chunk.id for chunk in chunks)
            self._entries[source] = Entry(ids, stat.st_size, stat.st_mtime_ns, version)
            if len(self._chunks) >= BATCH:
                self.write()

    def _refuse_foreign(self, path: Path, chunks: list[Chunk]) -> None:
        """Two records with one id would overwrite each other, and each run would swap them."""
        fix = "give every record an id of its own"
        twice = [id for id, count in Counter(chunk.id for chunk in chunks).items() if count > 1]
        if twice:
            raise FileUnreadable(f"{path} holds id {twice[0]!r} twice; {fix}")
        there = self.store.get([chunk.id for chunk in chunks])
        for chunk, stored in zip(chunks, there, strict=True):
            other = self._chunks.get(chunk.id, stored)
            if other is not None and other.metadata.get(FILE_KEY) != chunk.metadata[FILE_KEY]:
                owner = other.metadata.get(FILE_KEY, "elsewhere")
                raise FileUnreadable(f"{path} holds id {chunk.id!r}, which the store has from {owner}; {fix}")

    def write(self) -> None:
        """Add what is gathered, then drop what these files held before; searches see a file at every moment."""
        if not self._entries:
            return
        self._unsettle()
        if self._chunks:
            self.store.add(list(self._chunks.values()))
        stale = [
            id
            for source, entry in self._entries.items()
            for id in set(self.manifest.entries.get(source, Entry(())).ids) - set(entry.ids)
        ]
        if stale:
            self.store.delete(stale)
        self.manifest.entries.update(self._entries)
        self.report.indexed += len(self._entries)
        self.report.chunks += len(self._chunks)
        self._chunks, self._entries = {}, {}

    def _unsettle(self) -> None:
        if self._settled:
            self.manifest.save(settled=False)
            self._settled = False

    def remove_vanished(self, roots: Sequence[Path]) -> None:
        """Out with files that lay under the roots and are gone."""
        base = Path("/") if self._base is None else self._base
        for source, entry in list(self.manifest.entries.items()):
            path = base / source
            if any(path.is_relative_to(root) for root in roots) and is_gone(path):
                self._unsettle()
                self.store.delete(entry.ids)
                del self.manifest.entries[source]
                self.report.removed += 1


def is_gone(path: Path) -> bool:
    """Not there, for certain: what cannot be looked at may be back tomorrow."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
