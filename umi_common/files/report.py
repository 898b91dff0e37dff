"""What `index` did, and what it skipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What `index` did."""

    files: int = 0
    """That the paths hold and umi can read."""
    unchanged: int = 0
    indexed: int = 0
    """New or changed, or with lines or pages that were skipped: those are tried again by every run."""
    removed: int = 0
    """Gone from the disk, and so from the store."""
    chunks: int = 0
    """Of the indexed files."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Files of other kinds, by ending."""
    problems: list[str] = field(default_factory=list)
    """What was skipped, one line each: a file, a line of JSONL or a page of a PDF; why, what to do.

    Of a file's lines and pages the first 100 are listed and the others counted. What the store held of a skipped file
    stays, unless the file is gone or leads out of the folders.
    """
    stopped: bool = False
    """Whether it was asked to stop before the end; the same call goes on from there."""
