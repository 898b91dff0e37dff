"""One indexing run: selects the parts that are not in the store, records their outcomes, removes stale chunks.

A part is a range of bytes of a file. A chunk is stale if the present version of its file does not have it. For each
file, a run does the following:

1. It compares the file with the checkpoint. An unchanged file is done.
2. It yields the parts that are not in the store. The caller writes their chunks and reports the outcomes.
3. When all parts are in the store, it removes the file's stale chunks, and records the file as settled in the
   checkpoint. The next run skips a settled file that has not changed.

A record is skipped if a chunk of another file has its id. Removing stale chunks may free the id, so a second round
repeats the parts with such records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from umi_common.errors import EmbedderError, FileUnreadable
from umi_common.files.checkpoint import LAST_WRITE, IngestCheckpoint, check_belongs, files_in
from umi_common.files.parts import (
    DEFAULT_LIMITS,
    FilePart,
    PartOutcome,
    chunks_of_part,
    id_twice,
    parts_of,
    remove_chunks,
    version_of,
)
from umi_common.files.readers.chunks import FILE_KEY, RULES_VERSION
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.readers.reading import ReadLimits, check_bytes, check_name, file_errors, stamp_of
from umi_common.files.report import Problem, Report
from umi_common.files.walk import (
    check_inside,
    files_below,
    files_once_named,
    is_empty_folder,
    is_no_file,
    is_outside,
    path_of,
    real_path,
    source_of,
    store_directory,
)
from umi_common.filters import parse_filter
from umi_common.progress import progress_bar
from umi_common.protocols import Store

FILES_AT_ONCE = 200
"""Largest number of files in one filter on the store."""
FAILURES_MAX = 3
"""The run ends if the embedder failed on every part of this number of consecutive batches."""


@dataclass(slots=True)
class _File:
    """A file that is new, or has changed since it was settled."""

    source: str
    parts: list[FilePart]
    stamp: str
    """The value for `KnownFile.stamp` when the file is complete."""
    may_be_stale: bool
    """Whether the store may have stale chunks of the file, which must be removed."""
    left: set[str]
    """Keys of the parts that are not in the store."""
    listed_in: list[str]
    """The list in the report, `new` or `changed`, that will hold the file's source; a list of its own if none does."""
    is_empty: bool
    """Whether no part of the file that was read had a chunk or a problem, and none was in the store before."""
    skipped: bool = False
    """Whether a record or page was skipped. The next run then tries its part again."""
    waiting: bool = False
    """Whether the second round will repeat a part of the file."""


class IngestSession:
    """One indexing run; `run.index` shows its use.

    Within a round, the outcomes may be taken in any order. The end of the `with` block closes the checkpoint, and ends
    the process that reads PDFs.

    Args:
        store: The session removes stale chunks from it; the caller writes new chunks.
        checkpoint: The session closes it, even if this constructor raises an error.
        embedder: Name of the model that embeds the chunks.
        roots: Absolute paths of the files and folders to index.
        base: Folder to which sources are relative; None: sources are absolute paths.
        own_checkpoint: Whether the checkpoint is in the store's directory; False: the caller named its file.

    All other arguments and the errors are those of `run.index`.
    """

    def __init__(
        self,
        store: Store,
        checkpoint: IngestCheckpoint,
        embedder: str,
        roots: Sequence[Path],
        base: Path | None,
        *,
        part_bytes: int,
        show_progress: bool,
        own_checkpoint: bool = False,
        remove_missing: bool = False,
        follow_symlinks: bool = False,
        limits: ReadLimits = DEFAULT_LIMITS,
        on_file: Callable[[int, int], None] | None = None,
    ) -> None:
        self.report, self.pdf = Report(), PdfProcess()
        self._store, self._checkpoint, self._roots, self._base = store, checkpoint, roots, base
        self._part_bytes, self._on_file = part_bytes, on_file
        self._follow_symlinks, self._limits = follow_symlinks, limits
        self._open: dict[str, _File] = {}
        """By source: the files with parts that are not in the store."""
        self._written: list[_File] = []
        """Files whose parts are all in the store, but whose stale chunks are not removed yet."""
        self._to_settle: list[tuple[str, list[str], str]] = []
        """(source, keys of its parts, stamp) of each file that is to be recorded as settled."""
        self._waiting: list[tuple[PartOutcome, _File]] = []
        """For each part that the second round repeats: its outcome in the first round, and its file."""
        self._in_second_round = False
        self._unread: list[tuple[Problem, bool]] = []
        """For each file and part that was not read: (problem, whether the store may have stale chunks of the file)."""
        self._embedder_problems: list[Problem | None] = []
        """For each batch: one of its problems if the embedder failed on every part, else None."""
        try:
            check_bytes("part_bytes", part_bytes)
            self._may_hold_stale = check_belongs(checkpoint, store, embedder, own=own_checkpoint)
            """Whether the store may have stale chunks of files that the checkpoint does not record."""
            if not remove_missing:
                self._check_emptied()
            named = [*roots, *files_once_named(checkpoint.sources_stored(), base, roots)]
            self._path_of_real = files_below(
                named, store_directory(store), self.report, follow_symlinks=follow_symlinks
            )
            """By the path of each file without symbolic links: the path by which it is read."""
            self.report.files = len(self._path_of_real)
            self._files = [(path, _size(path)) for path in sorted(self._path_of_real.values())]
            total = sum(size for _, size in self._files)
            self._bar = progress_bar(total=total, unit="B", unit_scale=True, disable=not show_progress)
        except BaseException:
            checkpoint.close()
            raise

    def _check_emptied(self) -> None:
        for root in filter(is_empty_folder, self._roots):
            if any(path_of(source, self._base).is_relative_to(root) for source in self._checkpoint.sources()):
                raise FileUnreadable(
                    f"{root} is empty, but earlier runs indexed files of it; mount its disk if it is not mounted, or "
                    "remove what was indexed from it with --remove-missing (remove_missing=True)"
                )

    def rounds(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Iterator[list[FilePart]]]:
        """Yield the batches of the first round and, if needed, those of the second.

        Between the rounds, the stale chunks of changed files and all chunks of vanished files are removed. The removal
        frees the id of a skipped record if the other file was renamed, or if the record moved from that file.

        Raises:
            EmbedderError: If the embedder failed on everything in this run.
        """
        yield self._batches(stop)
        _refuse_if_all_failed(self._embedder_problems)
        self._remove_stale()
        if not self.report.stopped:
            self._remove_vanished()
        self._in_second_round = True
        for outcome, file in self._waiting:
            file.waiting = False
            file.left.add(outcome.part.key)
            self._open[file.source] = file
        if (self.report.stale or self.report.removed) and not self.report.stopped:
            yield ([outcome.part] for outcome, _ in self._waiting)
        else:  # no id was freed, so the outcomes of the first round are final
            self.take([outcome for outcome, _ in self._waiting])
        self._remove_stale()
        if not self.report.stopped:
            with suppress(FileUnreadable):  # a file changed during the run; the next run reads it again
                self._present_chunks([file for file in self._open.values() if file.may_be_stale])  # reports equal ids
        self._save_settled()
        self._record_last_write()
        self._report_unread()
        self.report.problems.sort(key=lambda problem: problem.source)
        for sources in (self.report.new, self.report.changed, self.report.empty):
            sources.sort()

    def _batches(self, stop: Callable[[], bool]) -> Iterator[list[FilePart]]:
        """Yield the parts that are not in the store, in batches of about `part_bytes`.

        A file is read just before its parts are yielded. `stop` is called between files and between batches.
        """
        batch: list[FilePart] = []
        batch_bytes = 0
        for number, (path, size) in enumerate(self._files, start=1):
            if stop():
                self.report.stopped = True
                break
            for part in self._examine(path, size):
                batch.append(part)
                batch_bytes += part.size
                if batch_bytes >= self._part_bytes:
                    self._record_begin(batch)
                    yield batch
                    batch, batch_bytes = [], 0
                    if stop():
                        self.report.stopped = True
                        return
            if self._on_file is not None:
                self._on_file(number, len(self._files))
        if batch:
            self._record_begin(batch)
            yield batch

    def take(self, outcomes: Sequence[PartOutcome]) -> None:
        """Record the outcomes of a batch.

        Raises:
            EmbedderError: If the embedder failed on every part of the last FAILURES_MAX batches.
        """
        self._record_last_write()
        good = [outcome for outcome in outcomes if outcome.problem is None and not outcome.skipped]
        self._checkpoint.finish((each.part.key, each.part.source, each.chunk_id) for each in good)
        for outcome in outcomes:
            file = self._open[outcome.part.source]
            if outcome.ids_taken and not self._in_second_round:
                file.waiting = True
                self._waiting.append((outcome, file))
            else:
                self._count(outcome, file)
            if outcome.problem is None:
                file.left.discard(outcome.part.key)
                self._close_if_complete(file)
        self._save_settled()
        problems = [each.problem for each in outcomes if each.problem is not None]
        all_failed = [problem.error for problem in problems] == [EmbedderError.__name__] * len(outcomes)
        self._embedder_problems.append(problems[-1] if problems and all_failed else None)
        if len(self._embedder_problems) >= FAILURES_MAX:
            _refuse_if_all_failed(self._embedder_problems[-FAILURES_MAX:])

    def _record_last_write(self) -> None:
        """Record the store's last write. By it the next run notices that an older copy of the store was restored."""
        last_write = getattr(self._store, LAST_WRITE, None)
        if last_write is not None:
            self._checkpoint.put(LAST_WRITE, last_write)

    def _count(self, outcome: PartOutcome, file: _File) -> None:
        """Add the outcome of a part to the report; its problem, if it was not read, to `_unread`."""
        self._bar.update(outcome.part.size)
        if outcome.problem is None:
            self.report.problems += outcome.skipped + outcome.notes
        else:
            self._unread.append((outcome.problem, file.may_be_stale))
        self.report.chunks += outcome.chunks
        file.is_empty = file.is_empty and not (outcome.chunks or outcome.skipped or outcome.notes)
        file.skipped = file.skipped or bool(outcome.skipped)

    def __enter__(self) -> IngestSession:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._bar.close()
        self.pdf.close()
        self._checkpoint.close()
        if isinstance(error, KeyboardInterrupt):
            done = f"{self.report.finished + self.report.unchanged} of {self.report.files} files are in the store"
            raise KeyboardInterrupt(f"stopped; {done} and can be searched; the same call goes on from here") from error

    def _examine(self, path: Path, size: int) -> list[FilePart]:
        """The parts of a file that are not in the store; [] for an unchanged file, and for one that cannot be read."""
        source = source_of(path, self._base)
        known, parts = None, list[FilePart]()
        try:
            check_name(source, path)
            known = self._checkpoint.file(source)
            if not self._follow_symlinks:
                check_inside(path, self._roots)  # the path may have become a link since its folder was listed
            with file_errors(path):
                stamp = f"{RULES_VERSION}/{stamp_of(path.stat())}"
            unchanged = known is not None and known.settled and known.stamp == stamp
            if not unchanged:
                parts = parts_of(path, source, size=self._part_bytes, limits=self._limits)
        except FileUnreadable as error:
            self._unread.append((Problem.of(source, error), known is not None))
            self._bar.update(size)
            return []
        version, keys = version_of(parts), [part.key for part in parts]
        if not unchanged and known is not None and known.settled and known.version == version:
            unchanged = True  # only its stamp has changed
            self._to_settle.append((source, keys, stamp))
        if unchanged:
            self.report.unchanged += 1
            self._bar.update(size)
            return []
        may_be_stale = self._may_hold_stale if known is None else known.others or known.version != version
        done = self._checkpoint.done(keys)
        todo = [replace(part, fresh=not may_be_stale) for part in parts if part.key not in done]
        listed_in = self.report.new if known is None else self.report.changed if known.version != version else []
        left, is_empty = {part.key for part in todo}, len(todo) == len(parts)
        file = self._open[source] = _File(source, parts, stamp, may_be_stale, left, listed_in, is_empty)
        self.report.parts_skipped += len(parts) - len(todo)
        self._bar.update(sum(part.size for part in parts) - sum(part.size for part in todo))
        if not todo:  # an earlier run stored all parts of the file, but was interrupted before it was settled
            self._record_begin(parts)
            self._close_if_complete(file)
        return todo

    def _record_begin(self, batch: Sequence[FilePart]) -> None:
        sources = dict.fromkeys(part.source for part in batch)
        files = [(source, version_of(self._open[source].parts)) for source in sources]
        self._checkpoint.begin(files, others=self._may_hold_stale)

    def _close_if_complete(self, file: _File) -> None:
        """Settle the file if all its parts are in the store. If it may have stale chunks, they are removed first."""
        if file.left:
            return
        del self._open[file.source]
        if not file.may_be_stale:
            self._settle(file)
            return
        self._written.append(file)
        if len(self._written) >= FILES_AT_ONCE:
            self._remove_stale()

    def _settle(self, file: _File) -> None:
        """Count a file as indexed and, unless a record or page was skipped, add it to `_to_settle`."""
        if file.waiting:
            return
        self.report.indexed += 1
        file.listed_in.append(file.source)
        if file.is_empty:
            self.report.empty.append(file.source)
        if not file.skipped:
            self.report.finished += 1
            self._to_settle.append((file.source, [part.key for part in file.parts], file.stamp))

    def _save_settled(self) -> None:
        self._checkpoint.settle(self._to_settle)
        self._to_settle = []

    def _remove_stale(self) -> None:
        files, self._written = self._written, []
        if not files:
            return
        try:
            keep = self._present_chunks(files)
            self.report.stale += remove_chunks(self._store, [file.source for file in files], keep)
        except FileUnreadable as error:  # a file changed during the run; the next run repeats all these files
            self.report.problems.append(Problem.of("", error))
            return
        for file in files:
            self._settle(file)
        self._save_settled()

    def _present_chunks(self, files: Sequence[_File]) -> dict[tuple[str, str], FilePart]:
        """The chunks of the parts of these files that are in the store: by (source, id), the first part with this id.

        An id that an earlier part of the file has is reported, once for each part: the later chunk was taken for a new
        version of the earlier one and has replaced it.
        """
        parts: dict[tuple[str, str], FilePart] = {}
        for file in files:
            for part in (part for part in file.parts if part.key not in file.left):
                ids = [chunk.id for chunk in chunks_of_part(part, self.pdf).chunks]
                twice = [id for id in ids if parts.setdefault((part.source, id), part) is not part]
                if twice and not file.waiting:  # the chunks of a waiting file are compared after the second round, too
                    message = f"{part.path} {id_twice(twice[0])}"
                    self.report.problems.append(Problem(part.source, FileUnreadable.__name__, message))
                    file.skipped = True
        return parts

    def _remove_vanished(self) -> None:
        """Remove the chunks of files below the roots that no longer exist or are left out now."""
        found = set(self._path_of_real.values())
        gone: list[str] = []
        for source in self._checkpoint.sources():
            path = path_of(source, self._base)
            below = any(path.is_relative_to(root) for root in self._roots)
            if below and (is_no_file(path) or (path not in found and self._is_left_out(path))):
                gone.append(source)
        for start in range(0, len(gone), FILES_AT_ONCE):
            batch = gone[start : start + FILES_AT_ONCE]
            remove_chunks(self._store, batch)
            self._checkpoint.forget(batch)
            self.report.removed += len(batch)
            self.report.gone += batch

    def _report_unread(self) -> None:
        """Add the files and parts that were not read to the report, and tell whether they still have stored chunks."""
        sources = sorted({problem.source for problem, may_be_stale in self._unread if may_be_stale})
        held: set[str] = set()
        for start in range(0, len(sources), FILES_AT_ONCE):
            held |= files_in(self._store, parse_filter({FILE_KEY: {"$in": sources[start : start + FILES_AT_ONCE]}}))
        self.report.outdated = len(held)
        for problem, _ in self._unread:
            still = "; what an earlier run stored of it can still be found" if problem.source in held else ""
            self.report.problems.append(Problem(problem.source, problem.error, f"{problem}{still}"))

    def _is_left_out(self, path: Path) -> bool:
        """Whether an existing file is not read by this path, which leads through a link: the file is read by another
        path, or it is outside of the roots and links are not followed."""
        path_read = self._path_of_real.get(real_path(path), path)
        return path_read != path or (not self._follow_symlinks and is_outside(path, self._roots))


def _refuse_if_all_failed(problems: Sequence[Problem | None]) -> None:
    """Raise EmbedderError if the embedder failed on all of these batches (see `IngestSession._embedder_problems`)."""
    if problems and None not in problems:
        raise EmbedderError(
            f"the embedder failed on everything in the last {len(problems)} batches, last: {problems[-1]}; "
            "finished files are in the store, and the same call goes on from there"
        )


def _size(path: Path) -> int:
    """Size of a file in bytes; 0 if it cannot be accessed, which `_examine` reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
