"""Keep a store level with files: new ones in, changed ones anew, vanished ones out, unchanged ones untouched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from umi_common.errors import InputError, MissingExtra
from umi_common.files.chunks import FileChunks, chunks_in, version_of
from umi_common.files.manifest import FILE_KEY, Entry, Manifest
from umi_common.files.pdf import PdfProcess
from umi_common.files.reading import (
    MAX_FILE_BYTES,
    PDF_SECONDS,
    ReadLimits,
    check_name,
    content_of,
    stamp_of,
    unreadable,
)
from umi_common.files.report import Report
from umi_common.files.walk import check_inside, checked_roots, files_below, is_gone, is_outside, source_of
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

BATCH = 1_000
"""Chunks a write, about; an interruption loses at most one."""


def index(
    store: HybridStore,
    paths: Sequence[str | Path],
    *,
    follow_symlinks: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    pdf_seconds: float = PDF_SECONDS,
    on_file: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Report:
    """Bring the store level with files and folders.

    A chunk's source is the file's path from the folder the store is in, where the file lies below it, else the whole
    path; so a project can be moved together with its store. Folders whose name begins with a dot are left out.

    What is wrong with one file stops no other: it is skipped, and the report says why. Of a JSONL file only the bad
    lines are skipped, of a PDF only the bad pages.

    Args:
        paths: Files and folders. Files under these folders that were indexed and are gone are removed.
        follow_symlinks: Whether to read what symbolic links lead to outside of `paths`; False: it is skipped, and
            removed if it was indexed.
        max_file_bytes: Larger files are skipped without being read; so is a PDF whose text has more characters. At
            least 1.
        pdf_seconds: A PDF that takes longer is skipped; seconds above 0, at most a day.
        on_file: Told (files done, files in all) as it goes.
        stop: Asked between files; True ends the work in good order.

    Raises:
        FileUnreadable: If a path does not exist. What is wrong with a file inside a folder is in the report.
        ConfigError: If a limit is out of range.
        StoreError: As the store raises them.
    """
    limits = ReadLimits(max_file_bytes, pdf_seconds)
    roots = checked_roots(paths)
    home = None if store.path is None else store.path.resolve()
    with PdfProcess() as pdf:
        work = _Work(store, Manifest(store), pdf, limits, None if follow_symlinks else roots)
        report = work.report
        files = sorted(set(files_below(roots, home, report, follow_symlinks=follow_symlinks)))
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
            work.remove_vanished(roots, set(files))
        work.manifest.save(settled=True)
        return report


class _Work:
    """Chunks of whole files gathered until a write is worth it."""

    def __init__(
        self,
        store: HybridStore,
        manifest: Manifest,
        pdf: PdfProcess,
        limits: ReadLimits,
        inside: Sequence[Path] | None,
    ) -> None:
        """`inside`: the folders that links must not lead out of; None: they may."""
        self.store, self.manifest, self.report = store, manifest, Report()
        self._pdf, self._limits, self._inside = pdf, limits, inside
        self._base = None if store.path is None else store.path.resolve().parent
        self._chunks: dict[str, Chunk] = {}
        self._entries: dict[str, Entry] = {}
        self._settled = True

    def take(self, path: Path) -> None:
        """Read a file if it may have changed."""
        source = source_of(path, self._base)
        known = self.manifest.entries.get(source, Entry(()))
        try:
            if self._inside is not None:
                check_inside(path, self._inside)  # again: it may have become a link since the folder was listed
            stamp = stamp_of(path.stat())  # before it is read, so a change in between is noticed by the next run
            if known.stamp == stamp:
                self.report.unchanged += 1
                return
            check_name(source, path)
            content = content_of(path, self._limits)
            version = version_of(content)
            if known.version == version:
                self.manifest.entries[source] = replace(known, stamp=stamp)
                self.report.unchanged += 1
                return
            found = chunks_in(path, content, source, self._pdf, self._limits)
        except (InputError, MissingExtra) as error:
            self.report.problems.append(str(error))
        except OSError as error:
            self.report.problems.append(str(unreadable(path, error)))
        except MemoryError:
            self.report.problems.append(f"{path} needs more memory than there is; leave it out")
        else:
            self._gather(path, source, found, stamp, version)

    def _gather(self, path: Path, source: str, found: FileChunks, stamp: str, version: str) -> None:
        """Keep the chunks for the next write."""
        own = self._without_clashes(path, found)
        self._chunks.update(own)
        self.report.problems += found.listed(path)
        # without stamp and version the next run reads the file again, and lists again what it skips
        self._entries[source] = Entry(tuple(own)) if found.skipped else Entry(tuple(own), stamp, version)
        if len(self._chunks) >= BATCH:
            self.write()

    def _without_clashes(self, path: Path, found: FileChunks) -> dict[str, Chunk]:
        """The chunks by id, without those whose id another chunk has: each run would overwrite one with the other."""
        fix = "give every record an id of its own"
        own: dict[str, Chunk] = {}
        for chunk, stored in zip(found.chunks, self.store.get([chunk.id for chunk in found.chunks]), strict=True):
            other = self._chunks.get(chunk.id, stored)
            if chunk.id in own:
                found.skip(f"{path} holds id {chunk.id!r} twice; {fix}")
            elif other is not None and other.metadata.get(FILE_KEY) != chunk.metadata[FILE_KEY]:
                owner = other.metadata.get(FILE_KEY, "elsewhere")
                found.skip(f"{path} holds id {chunk.id!r}, which the store has from {owner}; {fix}")
            else:
                own[chunk.id] = chunk
        return own

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

    def remove_vanished(self, roots: Sequence[Path], found: set[Path]) -> None:
        """Remove files that lay under the roots and are gone, or are reached by links that are not followed.

        `found`: the files of this run, which are not reached by such links.
        """
        base = Path("/") if self._base is None else self._base
        for source, entry in list(self.manifest.entries.items()):
            path = base / source
            if any(path.is_relative_to(root) for root in roots) and (
                is_gone(path) or (path not in found and self._is_outside(path))
            ):
                self._unsettle()
                self.store.delete(entry.ids)
                del self.manifest.entries[source]
                self.report.removed += 1

    def _is_outside(self, path: Path) -> bool:
        return self._inside is not None and is_outside(path, self._inside)
