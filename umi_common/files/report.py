"""The report of a run: the numbers of files and chunks, and the files that were skipped, with the reasons.

A chunk is a passage of text that is stored and found on its own. A part is the piece of a file that is read and written
at once: a range of lines of a JSONL file, or the whole of any other file.

`files` is the sum of `unchanged`, `indexed`, and the files that this run did not complete because a part of them failed
or the run was stopped. `indexed` includes `finished`. `files` includes neither `removed` nor `left_out`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class Problem(str):
    """A message of one line: the file, part of a file, record or page that was skipped, the reason, and what to do."""

    source: str
    """Source name of the file; "" for a problem with several files or a folder."""
    error: str
    """Name of the error's class, such as "FileUnreadable"; "WorkerDied" if a worker process on Ray died."""

    def __new__(cls, source: str, error: str, message: str) -> Problem:
        problem = super().__new__(cls, message)
        problem.source, problem.error = source, error
        return problem

    @classmethod
    def of(cls, source: str, error: Exception) -> Problem:
        """The problem of which an error tells: its class and message, for the file `source`."""
        return cls(source, type(error).__name__, str(error))

    def __reduce__(self) -> tuple[type[Problem], tuple[str, str, str]]:
        return Problem, (self.source, self.error, str(self))


@dataclass(slots=True)
class Report:
    """Counts and problems of one run of `index` or `ingest_on_ray`."""

    files: int = 0
    """Files below the given paths, of the kinds that umi can read."""
    unchanged: int = 0
    """Files that an earlier run had finished and that did not change; nothing of them was embedded or written."""
    indexed: int = 0
    """New or changed files that were read to the end, including those with skipped records or pages."""
    finished: int = 0
    """Indexed files of which no record or page was skipped, or stored without its time; pages without text do not count
    as skipped. The next run reads the other indexed files again."""
    removed: int = 0
    """Files of earlier runs whose chunks were removed. They no longer exist; or an earlier run read them through a link
    that this run does not follow, or under another path."""
    chunks: int = 0
    """Chunks of the parts that this run read: those written, and those that the store had with the same content."""
    outdated: int = 0
    """Files of which a part failed, but of which an earlier run stored chunks that can still be found."""
    stale: int = 0
    """Chunks removed because the new version of their file lacks them; chunks of `removed` files are not counted."""
    parts_skipped: int = 0
    """Parts of new or changed files that were already in the store: an interrupted run had stored them, or the change
    is in another part."""
    new: list[str] = field(default_factory=list)
    """Sources of the indexed files that no earlier run had begun."""
    changed: list[str] = field(default_factory=list)
    """Sources of the indexed files of which an earlier run had indexed another version, also if umi's rules for reading
    files changed."""
    gone: list[str] = field(default_factory=list)
    """Sources of the `removed` files."""
    empty: list[str] = field(default_factory=list)
    """Sources of the indexed files that hold no text."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of files of kinds that umi does not read, by ending; by name if the file has no ending."""
    problems: list[Problem] = field(default_factory=list)
    """Files, parts, records and pages that were skipped, and content that was left out or stored without its time. The
    next run tries them again, except for content that it would leave out again, such as pages without text.

    For each part, the first 100 records or pages have a problem of their own, and one more problem tells the number of
    the others. Chunks that an earlier run stored of a skipped file stay in the store, unless the file is in `removed`.
    """
    stopped: bool = False
    """Whether the function that the caller gave as `stop` ended the run early; the same call continues from there."""
