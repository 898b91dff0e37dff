"""The bookkeeping of one run, whoever does the work: which parts are to be done, what their outcomes mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from umi_common.errors import EmbedderError, FileUnreadable, UmiError
from umi_common.files import Report as Found
from umi_common.files.reading import ReadLimits, stamp_of, unreadable
from umi_common.files.walk import check_inside, files_below, is_gone, is_outside, source_of
from umi_common.ingest.checkpoint import Checkpoint, Done, check_belongs
from umi_common.ingest.parts import DEFAULT_LIMITS, Part, marked, parts_of, version_of
from umi_common.ingest.report import Problem, Report
from umi_common.ingest.work import Outcome, Sink, of_files, sweep
from umi_common.progress import progress_bar

FILES_AT_ONCE = 200
"""Files that one pass over the store frees of stale chunks."""
FAILURES_MAX = 3
"""Batches in a row that the embedder fails on, every part, before it counts as down."""


@dataclass(slots=True)
class _File:
    """A file of which something is to be done."""

    path: Path
    parts: list[Part]
    stamp: str
    others: bool
    """Whether the store may hold chunks of another version."""
    left: set[str]
    """Keys of the parts that are not in the store."""
    skipped: bool = False
    """Whether a record or a page was skipped: then the next run tries its part again."""


class Session:
    """One run: `batches`, `take` for each, in any order, and `finish`. A context manager: it closes the checkpoint.

    Args:
        store: Where what a file no longer holds is removed.
        embedder: Name of the model.
        roots: Absolute paths.
        base: Folder that sources are named from; None: they are whole paths.
        part_bytes: Size of a range of records, and of a batch.
        follow_symlinks: Whether to read what links lead to outside of the roots.
        limits: Under which files are read.

    Raises:
        ConfigError: If the checkpoint belongs to another store.
        ReindexRequired: If it was made with another embedder.
    """

    def __init__(
        self,
        store: Sink,
        checkpoint: Checkpoint,
        embedder: str,
        roots: Sequence[Path],
        base: Path | None,
        *,
        part_bytes: int,
        show_progress: bool,
        follow_symlinks: bool = False,
        limits: ReadLimits = DEFAULT_LIMITS,
    ) -> None:
        self.report = Report()
        self._store, self._checkpoint, self._roots, self._base = store, checkpoint, roots, base
        self._open: dict[str, _File] = {}
        self._to_sweep: list[_File] = []
        self._part_bytes, self._failures = part_bytes, 0
        self._follow_symlinks, self._limits = follow_symlinks, limits
        try:
            self._others = check_belongs(checkpoint, store, embedder)
            self._files = self._found()
        except BaseException:
            checkpoint.close()
            raise
        self._bar = progress_bar(
            total=sum(size for _, size in self._files), unit="B", unit_scale=True, disable=not show_progress
        )

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[list[Part]]:
        """What is to be done, about `part_bytes` at a time; files are looked at as it goes. Asks `stop` in between."""
        batch: list[Part] = []
        for path, size in self._files:
            if stop():
                self.report.stopped = True
                break
            for part in self._todo(path, size):
                batch.append(part)
                if sum(each.size for each in batch) >= self._part_bytes:
                    yield self._begun(batch)
                    batch = []
                    if stop():
                        self.report.stopped = True
                        return
        if batch:
            yield self._begun(batch)

    def take(self, outcomes: Sequence[Outcome]) -> None:
        """Note what became of a batch.

        Raises:
            EmbedderError: If it failed on everything for the FAILURES_MAX-th time in a row.
        """
        good = [outcome for outcome in outcomes if outcome.problem is None and not outcome.skipped]
        self._checkpoint.finish(Done(each.part.key, each.part.source, each.witness) for each in good)
        for outcome in outcomes:
            self._bar.update(outcome.part.size)
            if outcome.problem is not None:
                self.report.problems.append(outcome.problem)
            else:
                self.report.problems += outcome.skipped
                self.report.chunks += outcome.chunks
                file = self._open[outcome.part.source]
                file.skipped = file.skipped or bool(outcome.skipped)
                file.left.discard(outcome.part.key)
                self._complete(outcome.part.source)
        self._check_embedder(outcomes)

    def finish(self) -> Report:
        """Remove what changed and vanished files have left behind; what the run did."""
        self._sweep()
        if not self.report.stopped:
            self._remove_vanished()
        return self.report

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        self._checkpoint.close()
        if isinstance(error, KeyboardInterrupt):
            done = f"{self.report.finished + self.report.unchanged} of {self.report.files} files are in the store"
            raise KeyboardInterrupt(f"stopped; {done} and can be searched; the same call goes on from here") from error

    def _found(self) -> list[tuple[Path, int]]:
        found = Found()
        home: Path | None = getattr(self._store, "path", None)
        home = None if home is None else home.resolve()
        files = sorted(set(files_below(self._roots, home, found, follow_symlinks=self._follow_symlinks)))
        self.report.left_out = found.left_out
        self.report.problems += [Problem("", FileUnreadable.__name__, problem) for problem in found.problems]
        self.report.files = len(files)
        return [(path, _size(path)) for path in files]

    def _todo(self, path: Path, size: int) -> list[Part]:
        """The parts of a file that are not in the store."""
        source = source_of(path, self._base)
        known = self._checkpoint.file(source)
        try:
            if not self._follow_symlinks:
                check_inside(path, self._roots)  # again: it may have become a link since the folder was listed
            stamp = stamp_of(path.stat())
            if known is not None and known.settled and known.stamp == stamp:
                return self._unchanged(size)
            parts = parts_of(path, source, size=self._part_bytes, limits=self._limits)
        except FileUnreadable as error:
            return self._failed(source, error, size)
        except OSError as error:
            return self._failed(source, unreadable(path, error), size)
        version, keys = version_of(parts), [part.key for part in parts]
        if known is not None and known.settled and known.version == version:
            self._checkpoint.settle(source, keys, stamp)
            return self._unchanged(size)
        others = self._others if known is None else known.others or known.version != version
        done = self._checkpoint.done(keys)
        todo = [part for part in parts if part.key not in done]
        left = {part.key for part in todo}
        self._open[source] = _File(path, parts, stamp, others, left)
        self.report.parts_skipped += len(parts) - len(todo)
        self._bar.update(sum(part.size for part in parts) - sum(part.size for part in todo))
        if not todo:
            self._begun(parts)
            self._complete(source)
        return marked(todo, fresh=not others)

    def _unchanged(self, size: int) -> list[Part]:
        self.report.unchanged += 1
        self._bar.update(size)
        return []

    def _failed(self, source: str, error: UmiError, size: int) -> list[Part]:
        self.report.problems.append(Problem(source, type(error).__name__, str(error)))
        self._bar.update(size)
        return []

    def _begun(self, batch: list[Part]) -> list[Part]:
        sources = dict.fromkeys(part.source for part in batch)
        files = [(source, self._open[source].path, version_of(self._open[source].parts)) for source in sources]
        self._checkpoint.begin(files, others=self._others)
        return batch

    def _complete(self, source: str) -> None:
        """Close a file of which nothing is left to do."""
        if self._open[source].left:
            return
        file = self._open.pop(source)
        if not file.others:
            self._settle(source, file)
            return
        self._to_sweep.append(file)
        if len(self._to_sweep) >= FILES_AT_ONCE:
            self._sweep()

    def _settle(self, source: str, file: _File) -> None:
        if not file.skipped:
            self._checkpoint.settle(source, [part.key for part in file.parts], file.stamp)
            self.report.finished += 1

    def _sweep(self) -> None:
        files, self._to_sweep = self._to_sweep, []
        if not files:
            return
        try:
            self.report.stale += sweep(self._store, [file.parts for file in files])
        except FileUnreadable as error:  # changed meanwhile: the next run sees to all of them
            self._failed("", error, 0)
            return
        for file in files:
            self._settle(file.parts[0].source, file)

    def _remove_vanished(self) -> None:
        found = {path for path, _ in self._files}
        gone = [
            source
            for source, path in self._checkpoint.paths()
            if any(path.is_relative_to(root) for root in self._roots)
            and (is_gone(path) or (path not in found and self._is_outside(path)))
        ]
        for start in range(0, len(gone), FILES_AT_ONCE):
            some = gone[start : start + FILES_AT_ONCE]
            self._store.delete(where=of_files(some))
            self._checkpoint.forget(some)
            self.report.removed += len(some)

    def _is_outside(self, path: Path) -> bool:
        return not self._follow_symlinks and is_outside(path, self._roots)

    def _check_embedder(self, outcomes: Sequence[Outcome]) -> None:
        failed = [each.problem for each in outcomes if each.problem is not None]
        down = len(failed) == len(outcomes) and all(each.error == EmbedderError.__name__ for each in failed)
        self._failures = self._failures + 1 if down else 0
        if self._failures >= FAILURES_MAX:
            raise EmbedderError(
                f"the embedder failed on {FAILURES_MAX} batches in a row, last: {failed[-1]}; "
                "what is finished is in the store, the same call goes on from there"
            )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
