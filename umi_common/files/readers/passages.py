"""Cut a text into passages of limited length: at headings, then at blank lines, sentences, lines, words.

Every passage is a slice of its text, and passages do not overlap, so adjacent passages can be joined exactly.
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
"""Characters of the longest passage: some 200 words of English."""
SMALL_SHARE = 0.25
"""A section shorter than this share of the longest passage is joined with the next, so that no passage is only a
heading."""
BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)
"""Where a text that is too long is cut: at the first of these that occurs in it."""

Span = tuple[int, int]


class Heading(NamedTuple):
    """A heading in a text."""

    start: int
    """Index of its first character in the text."""
    level: int
    """1 for the outermost."""
    title: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a file's text, with metadata and time."""

    text: str
    start: int
    """Index of its first character in the file's text."""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    event_time: datetime | None = None


def passages(text: str, headings: Sequence[Heading] = (), *, size: int = PASSAGE_CHARACTERS) -> Iterator[Passage]:
    """The passages of a text in order. Metadata "section" is the path of headings above each: "Setup > Linux".

    Args:
        headings: In the order of the text; a passage holds text after one only, except after a very short section.
        size: Characters of the longest passage, > 0.
    """
    path: list[Heading] = []
    following = iter([*headings, Heading(len(text), 1, "")])
    next_heading = next(following)
    for start, end in spans(text, [heading.start for heading in headings], size=size):
        while next_heading.start <= start:
            path = [above for above in path if above.level < next_heading.level] + [next_heading]
            next_heading = next(following)
        section = " > ".join(heading.title for heading in path)
        yield Passage(text[start:end], start, {"section": section} if section else {})


def spans(text: str, section_starts: Sequence[int] = (), *, size: int = PASSAGE_CHARACTERS) -> Iterator[Span]:
    """(start, end) of each passage, without white space around it; none is empty or longer than `size`."""
    borders = sorted({0, *section_starts, len(text)})
    passage: Span | None = None
    for section in pairwise(borders):
        if passage is not None and (passage[1] - passage[0] >= SMALL_SHARE * size or section[1] - passage[0] > size):
            yield from _stripped(text, passage)
            passage = None
        for piece in _pieces(text, section, size, 0):
            if passage is not None and piece[1] - passage[0] > size:
                yield from _stripped(text, passage)
                passage = None
            passage = piece if passage is None else (passage[0], piece[1])
    if passage is not None:
        yield from _stripped(text, passage)


def _pieces(text: str, span: Span, size: int, level: int) -> Iterator[Span]:
    """The span in adjacent pieces of at most `size` characters, cut at BREAKS[level] or later ones."""
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
    """The span without white space at its ends; nothing if it holds only white space."""
    piece = text[span[0] : span[1]]
    start = span[0] + len(piece) - len(piece.lstrip())
    if piece.strip():
        yield start, start + len(piece.strip())
