"""The report of a run: the numbers of files and chunks, and the files that were skipped, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field


class Problem(str):
    """A message of one line: the file, part, record or page that was skipped, the reason, and what to do."""

    source: str
    """Source name of the file; "" for a problem with several files or a folder."""
    error: str
    """Name of the class in `umi_common.errors`, or "WorkerDied"."""

    def __new__(cls, source: str, error: str, message: str) -> Problem:
        problem = super().__new__(cls, message)
        problem.source, problem.error = source, error
        return problem

    @classmethod
    def of(cls, source: str, error: Exception) -> Problem:
        """The problem with a file that an error describes."""
        return cls(source, type(error).__name__, str(error))

    def __reduce__(self) -> tuple[type[Problem], tuple[str, str, str]]:
        return Problem, (self.source, self.error, str(self))


@dataclass(slots=True)
class Report:
    """Counts and problems of one run of `index` or `ingest_on_ray`."""

    files: int = 0
    """Files below the paths that umi can read."""
    unchanged: int = 0
    """Files that an earlier run had finished and that did not change; nothing of them was embedded or written."""
    indexed: int = 0
    """New or changed files that were read to the end, including those with skipped records or pages."""
    finished: int = 0
    """Indexed files of which nothing was skipped. Other indexed files are read again by the next run."""
    removed: int = 0
    """Files removed from the store because they no longer exist, or because links to them are not followed."""
    chunks: int = 0
    """Chunks of the parts done in this run: written, or found in the store with the same content."""
    outdated: int = 0
    """Files that could not be read completely, but of which an earlier run stored chunks that can still be found."""
    stale: int = 0
    """Chunks removed because their file no longer has them."""
    parts_skipped: int = 0
    """Parts of new or changed files that were already in the store: an interrupted run had stored them, or the change
    is in another part."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of files of kinds that umi does not read, by ending; by name if the file has no ending."""
    problems: list[Problem] = field(default_factory=list)
    """Files, records and pages that were skipped. The next run tries them again, except for pages without text.

    For each file, the first 100 records or pages are listed, and further ones are counted. Chunks that an earlier run
    stored of a skipped file stay in the store, unless the file is gone or is a link out of the folders.
    """
    stopped: bool = False
    """Whether `stop` ended the run early; the same call continues from there."""
