"""Cut a text into passages of a size: at headings, then blank lines, sentences, lines, words. Pure, no overlap.

Every passage is a slice of its text, so adjacent passages can be joined exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from umi_common.types import MetadataValue

PASSAGE_CHARACTERS = 1_000
"""Largest passage: some 200 words of English."""
SMALL_SHARE = 0.25
"""A section below this share of the size is joined with the next, so that no passage is a heading alone."""
BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)
"""Where a text that is too long is cut, the best place first."""

Span = tuple[int, int]


class Heading(NamedTuple):
    """A heading in a text."""

    start: int
    """Its first character."""
    level: int
    """From 1, the outermost."""
    title: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a file's text, with metadata and time."""

    text: str
    start: int
    """First character in the file's text."""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    event_time: datetime | None = None


def passages(text: str, headings: Sequence[Heading] = (), *, size: int = PASSAGE_CHARACTERS) -> Iterator[Passage]:
    """The passages of a text in order, each with the path of headings it stands under as metadata "section".

    Args:
        headings: In the order of the text; a passage never runs over one, except after a very short section.
        size: Characters of the longest passage, > 0.
    """
    path: list[Heading] = []
    ahead = iter([*headings, Heading(len(text), 1, "")])
    coming = next(ahead)
    for start, end in spans(text, [heading.start for heading in headings], size=size):
        while coming.start <= start:
            path = [above for above in path if above.level < coming.level] + [coming]
            coming = next(ahead)
        section = " > ".join(heading.title for heading in path)
        yield Passage(text[start:end], start, {"section": section} if section else {})


def spans(text: str, section_starts: Sequence[int] = (), *, size: int = PASSAGE_CHARACTERS) -> Iterator[Span]:
    """[start, end) of each passage; neither end is white space; none is empty or longer than `size`."""
    borders = sorted({0, *section_starts, len(text)})
    begun: Span | None = None
    for section in pairwise(borders):
        if begun is not None and (begun[1] - begun[0] >= SMALL_SHARE * size or section[1] - begun[0] > size):
            yield from _stripped(text, begun)
            begun = None
        for piece in _pieces(text, section, size, 0):
            if begun is not None and piece[1] - begun[0] > size:
                yield from _stripped(text, begun)
                begun = None
            begun = piece if begun is None else (begun[0], piece[1])
    if begun is not None:
        yield from _stripped(text, begun)


def _pieces(text: str, span: Span, size: int, level: int) -> Iterator[Span]:
    """The span in pieces of at most `size`, contiguous."""
    start, end = span
    if end - start <= size:
        yield span
    elif level == len(BREAKS):
        yield from ((at, min(at + size, end)) for at in range(start, end, size))
    else:
        cuts = [found.end() for found in BREAKS[level].finditer(text, start, end)]
        for piece in pairwise(sorted({start, *cuts, end})):
            yield from _pieces(text, piece, size, level + 1)


def _stripped(text: str, span: Span) -> Iterator[Span]:
    slice = text[span[0] : span[1]]
    start = span[0] + len(slice) - len(slice.lstrip())
    if slice.strip():
        yield start, start + len(slice.strip())
