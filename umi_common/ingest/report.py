"""What an ingestion did, and what it could not do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not in the store, or a part, a record or a page of one."""

    source: str
    """The file."""
    error: str
    """Name of the class in `umi_common.errors`."""
    message: str
    """What is wrong, where, and what to do."""

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class Report:
    """What `ingest` did."""

    files: int = 0
    """That the paths hold and umi can read."""
    unchanged: int = 0
    finished: int = 0
    """New or changed, and now in the store from the first chunk to the last."""
    removed: int = 0
    """Files gone from the disk, and so from the store."""
    chunks: int = 0
    """Written or found as they should be, in this run."""
    stale: int = 0
    """Chunks removed because their file has them no more."""
    parts_skipped: int = 0
    """Finished by an earlier run that was interrupted, or the unchanged parts of a file that changed elsewhere."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Files of other kinds, by ending."""
    problems: list[Problem] = field(default_factory=list)
    """What the next run will try again."""
    stopped: bool = False
    """Whether it was asked to stop before the end; the same call goes on from there."""
