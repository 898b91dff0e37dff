"""Cut a text into passages of limited length: at headings, then at blank lines, sentences, lines, words.

Every passage is a slice of its text, without white space at its ends, and passages do not overlap. A table that is too
long is cut between its rows, and the passages of its later rows repeat its head before their slice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from umi_common.context.pieces import HEAD_KEY, LINE_KEY
from umi_common.types import MetadataValue

PASSAGE_CHARACTERS = 1_000
"""Characters of the longest passage: some 200 words of English."""
SMALL_SHARE = 0.25
"""A section shorter than this share of the longest passage is joined with the next section if both fit into one
passage. If it holds headings alone, it is joined with the first piece of the next section."""
BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"(?<=[.!?…])(?<!\s\d\.)(?<!\s\d\d\.)[\"'”’)\]]*\s+|(?<=[。！？])"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)
"""Where a text that is too long is cut: at blank lines; pieces that are still too long at ends of sentences, then at
ends of lines, then at white space. The number of a list's entry ("7.") and a day in German end no sentence."""
LINES = 2
"""Index in BREAKS of the level that cuts a table between its rows."""
TITLE_ROWS_MAX = 5
"""Largest number of rows above the head of a sheet, such as a title and a blank line."""
HEAD_SHARE = 0.5
"""A table's head longer than this share of the longest passage is not repeated."""
_WORD = re.compile(r"\w+")

Span = tuple[int, int]


class Heading(NamedTuple):
    """A heading in a text."""

    start: int
    """Index of its first character in the text."""
    level: int
    """1 for the outermost."""
    title: str


class Table(NamedTuple):
    """A table in a text."""

    start: int
    """Index of its first character in the text."""
    rows_start: int
    """Index of its first row, after the head, which holds the names of the columns."""
    end: int
    head: str
    """The head as the passages of later rows repeat it, with a newline at its end; "": they do not repeat it."""
    row_ends: Sequence[int] = ()
    """Index after each row, rising, rows of the head included; (): each line is a row."""

    @classmethod
    def of_sheet(cls, text: str, separators: str) -> Table:
        """A whole CSV or TSV file. Line breaks in double quotes do not end a row, unless the number of quotes is odd.

        The head is the first row with a second field among the first TITLE_ROWS_MAX + 1 rows, else the first row. The
        rows above it are a title.

        Args:
            separators: The characters that may part two fields.
        """
        start = len(text) - len(text.lstrip())
        marks = re.compile("\n" if text.count('"') % 2 else '["\n]')
        quoted, ends = False, list[int]()
        for mark in marks.finditer(text, start):
            if mark[0] == '"':
                quoted = not quoted
            elif not quoted:
                ends.append(mark.end())
        rows = [(start, ends[0] if ends else start), *pairwise(ends[: TITLE_ROWS_MAX + 1])]
        start, end = next((row for row in rows if _has_fields(text[slice(*row)], separators)), rows[0])
        return cls.of(text, start, end, len(text))._replace(row_ends=ends)

    @classmethod
    def of(cls, text: str, start: int, rows: int, end: int) -> Table:
        """A table whose head is text[start:rows]; repeated spaces and dashes in it are shortened."""
        head = re.sub(r"-{4,}", "---", re.sub(r"[ \t]+", " ", text[start:rows])).strip()
        return cls(start, rows, end, head and head + "\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a file's text, with metadata and time."""

    text: str
    start: int
    """Index in the file's text of its first character, or of the first one after a repeated table head."""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    event_time: datetime | None = None
    undated: bool = False
    """Whether the file states a time for it that cannot be read, or may be several moments."""
    path: Sequence[str] = ()
    """Titles above the text that it does not hold, outermost first: that of the file, then headings."""


def passages(
    text: str,
    headings: Sequence[Heading] = (),
    tables: Sequence[Table] = (),
    *,
    title: str = "",
    size: int = PASSAGE_CHARACTERS,
) -> Iterator[Passage]:
    """The passages of a text in order. Metadata "section" is the path of headings above the text: "Setup > Linux".

    A passage that begins amid the rows of a table repeats the table's head; metadata "table_head" is the number of
    characters of its text before the slice of the file.

    Args:
        headings: In the order of the text. A passage holds text of one section, or of very short ones and the next.
        tables: In the order of the text, without overlap.
        title: Of the file; "": it has none. The path of a passage begins with it, unless the headings above and the
            passage hold all its words.
        size: Characters of the longest passage, > 0.
    """
    path: list[Heading] = []
    following = iter([*headings, Heading(len(text), 1, "")])
    next_heading = next(following)
    tables = [table._replace(head="") if len(table.head) > HEAD_SHARE * size else table for table in tables]
    starts = [heading.start for heading in headings]
    for start, end in spans(text, starts, tables, size=size):
        while next_heading.start <= start or (
            next_heading.start < end and _only_headings(text, (start, next_heading.start), starts)
        ):
            path = [above for above in path if above.level < next_heading.level] + [next_heading]
            next_heading = next(following)
        section, head = " > ".join(heading.title for heading in path), _head(tables, start)
        metadata = {**({"section": section} if section else {}), **line_metadata(text, start)}
        file_title = [] if not title or _holds(f"{section} {text[start:end]}", title) else [title]
        yield Passage(
            head + text[start:end],
            start,
            {**metadata, HEAD_KEY: len(head)} if head else metadata,
            path=[*file_title, *(heading.title for heading in path if heading.start < start)],
        )


def spans(
    text: str, section_starts: Sequence[int] = (), tables: Sequence[Table] = (), *, size: int = PASSAGE_CHARACTERS
) -> Iterator[Span]:
    """(start, end) of each passage, without white space at its ends; none is empty, and none has more than `size`
    characters, a repeated table head included."""
    borders = sorted({0, *section_starts, len(text)})
    passage: Span | None = None

    def too_long(end: int) -> bool:
        return passage is not None and len(_head(tables, passage[0])) + end - passage[0] > size

    for section in pairwise(borders):
        room = size
        if passage is not None:
            length = section[0] - passage[0]
            if length < SMALL_SHARE * size and too_long(section[1]) and _only_headings(text, passage, section_starts):
                room -= length  # the section's first piece stands with the headings above it
            elif length >= SMALL_SHARE * size or too_long(section[1]):
                yield from _stripped(text, passage)
                passage = None
        for piece in _pieces_with_tables(text, section, tables, room):
            if passage is not None and too_long(piece[1]):
                yield from _stripped(text, passage)
                passage = None
            passage = piece if passage is None else (passage[0], piece[1])
    if passage is not None:
        yield from _stripped(text, passage)


def line_metadata(text: str, start: int) -> dict[str, MetadataValue]:
    """{LINE_KEY: True} if a line begins at `start` and the line above it is not blank, else {}."""
    return {LINE_KEY: True} if text[start - 1 : start] == "\n" and text[start - 2 : start - 1].strip() else {}


def _only_headings(text: str, span: Span, section_starts: Sequence[int]) -> bool:
    """Whether each line of a span of whole sections is a heading, or has no letter or digit."""
    lines = sum(any(map(str.isalnum, line)) for line in text[slice(*span)].splitlines())
    return lines <= bisect_left(section_starts, span[1]) - bisect_left(section_starts, span[0])


def _holds(text: str, title: str) -> bool:
    """Whether each word of the title stands in the text."""
    return {*_WORD.findall(title.lower())} <= {*_WORD.findall(text.lower())}


def _has_fields(row: str, separators: str) -> bool:
    """Whether a row of a sheet has anything after its first field."""
    unquoted = re.sub(r'"[^"]*"', '"', row)
    return any(rest.strip(f"{separators} \n") for rest in re.split(f"[{separators}]", unquoted, maxsplit=1)[1:])


def _head(tables: Sequence[Table], at: int) -> str:
    """The repeated head of the table that has `at` among its rows; "" if there is none."""
    place = bisect_right(tables, at, key=lambda table: table.rows_start) - 1
    return tables[place].head if place >= 0 and at < tables[place].end else ""


def _pieces_with_tables(text: str, section: Span, tables: Sequence[Table], size: int) -> Iterator[Span]:
    """The section in adjacent pieces. A table that is too long is cut into its head, with the first row if both fit,
    and one piece for each other row."""
    at, end = section
    for table in tables[bisect_left(tables, (at,)) : bisect_left(tables, (end,))]:
        stop = min(table.end, end)
        yield from _pieces(text, (at, table.start), size, 0)
        ends = table.row_ends[bisect_right(table.row_ends, table.rows_start) : bisect_left(table.row_ends, stop)]
        first_row = ends[0] if ends else text.find("\n", table.rows_start, stop) + 1 or stop
        if stop - table.start <= size:
            yield table.start, stop
        else:
            fits, rows = first_row - table.start <= size, min(table.rows_start, stop)
            yield from _pieces(text, (table.start, first_row if fits else rows), size, LINES)
            for row in pairwise([*([] if fits else [rows]), first_row, *ends[1:], stop]):
                yield from _pieces(text, row, size - len(table.head), LINES)
        at = stop
    yield from _pieces(text, (at, end), size, 0)


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
