"""Cut a text into passages of limited length: at headings, then at blank lines, sentences, lines, words.

A passage is a slice of the text without white space at its ends; passages do not overlap. A section reaches from one
heading to the next; how short sections join is said at `spans`. A table that is too long is cut between its rows. Each
passage that begins in its rows repeats the table's head before the slice. Lists and records are such tables, too: the
head of a list is the line above it, that of a record its first values.
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
"""Largest number of characters of a passage: some 170 words of English."""
SMALL_SHARE = 0.25
"""A section or passage is short if it has less than this share of the largest passage's characters; see `spans`."""
_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\s\d\.)(?<!\s\d\d\.)[\"'”’)\]]*\s+|(?<=[。！？])")
"""A number of one or two digits with a dot does not end a sentence: "7." may be the number of an item in a list or, in
German, a day."""
BREAKS = (re.compile(r"\n[ \t]*\n\s*"), _SENTENCE_END, re.compile(r"\n"), _SENTENCE_END, re.compile(r"\s+"))
"""Patterns after which a text that is too long is cut: blank lines; then, in pieces that are still too long, ends of
sentences, ends of lines, and white space."""
ROW_BREAKS, ITEM_BREAKS = 2, 0
"""Index in BREAKS of the first pattern by which a table is cut: line breaks, then ends of sentences in a long row. An
item of a list may have paragraphs, and is cut like other text."""
TITLE_ROWS_MAX = 5
"""Largest number of rows above the head of a CSV or TSV file, such as a title and a blank line."""
_LEAD_IN = re.compile(r"[^\n]*[\w:?：？][*_`\"'”’)\]]*[ \t]*\n[ \t]*\n\s*")
"""A paragraph of one line that does not end like a statement, such as a question, "Run this:" or a title in bold. At
the end of a passage it is moved to the next passage, which has the text that it belongs to."""
HEAD_SHARE = 0.5
"""A table's head longer than this share of the largest passage is not repeated."""
_WORD = re.compile(r"\w+")

Span = tuple[int, int]
"""(start, end): indices in a text; `end` is the index after the last character."""


class Heading(NamedTuple):
    """A heading in a text."""

    start: int
    """Index of its first character in the text."""
    level: int
    """From 1, the outermost."""
    title: str


class Table(NamedTuple):
    """A table in a text."""

    start: int
    """Index of its first character in the text."""
    rows_start: int
    """Index of the first row after the head; the head holds the names of the columns."""
    end: int
    """Index after its last character."""
    head: str
    """The text that passages of later rows begin with; it ends with a newline, or with the indentation of inner items.
    "": they repeat no head."""
    row_ends: Sequence[int] = ()
    """Index after each row, including the rows of the head, in rising order; (): each line is a row."""
    breaks: int = ROW_BREAKS
    """Index in BREAKS of the first pattern by which a row that is too long is cut."""

    @classmethod
    def of_sheet(cls, text: str, separators: str) -> Table:
        """The table of a whole CSV or TSV file.

        A line break between double quotes does not end a row, unless the file has an odd number of quotes. Of the first
        TITLE_ROWS_MAX + 1 rows, the first with a second field is the head; without one, the first row is. Rows above
        the head are a title, which is not part of the table.

        Args:
            separators: The characters that may separate two fields.
        """
        start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1  # a line may begin with the tab of a blank cell
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
    def of(cls, text: str, start: int, rows_start: int, end: int) -> Table:
        """The table text[start:end]; in the repeated head, a tab or a run of spaces is one space, and runs of dashes
        are shortened."""
        head = re.sub(r"-{4,}", "---", re.sub(r"[ \t]+", " ", text[start:rows_start])).strip()
        return cls(start, rows_start, end, head and head + "\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a file's text, with metadata and time."""

    text: str
    start: int
    """Index in the file's text of the passage's first character, not counting a repeated table head."""
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    event_time: datetime | None = None
    undated: bool = False
    """Whether the file states a time for the passage, but one that cannot be read or may mean several moments."""
    path: Sequence[str] = ()
    """Titles above the passage that are not in its text, outermost first: the file's title, then headings."""


def passages(
    text: str,
    headings: Sequence[Heading] = (),
    tables: Sequence[Table] = (),
    *,
    title: str = "",
    size: int = PASSAGE_CHARACTERS,
) -> Iterator[Passage]:
    """Yield the passages of a text in order. Metadata "section" names the headings above a passage, including those at
    its beginning: "Setup > Linux".

    A passage that begins in the rows of a table repeats the table's head. Metadata "table_head" is then the number of
    characters of this head, which precede the slice of the text.

    Args:
        headings: In the order of the text.
        tables: In the order of the text, without overlap.
        title: Title of the file; "": none. The path of a passage begins with it, unless all words of the title are in
            the headings above the passage or in the passage itself.
        size: Largest number of characters of a passage, > 0.
    """
    path: list[Heading] = []
    following = iter([*headings, Heading(len(text), 1, "")])
    next_heading = next(following)
    tables = [table._replace(head="") if len(table.head) > HEAD_SHARE * size else table for table in tables]
    starts = [heading.start for heading in headings]
    for start, end in spans(text, starts, tables, size=size, levels=[heading.level for heading in headings]):
        # `path` becomes the headings above the passage and those at its beginning.
        while next_heading.start <= start or (
            next_heading.start < end and _only_headings(text, (start, next_heading.start), starts)
        ):
            path = [above for above in path if above.level < next_heading.level] + [next_heading]
            next_heading = next(following)
        section, head = " > ".join(heading.title for heading in path), _head(tables, start)
        metadata = {**({"section": section} if section else {}), **line_metadata(text, start)}
        words = {*_WORD.findall(f"{section} {text[start:end]}".lower())}
        file_title = [] if words.issuperset(_WORD.findall(title.lower())) else [title]
        yield Passage(
            head + text[start:end],
            start,
            {**metadata, HEAD_KEY: len(head)} if head else metadata,
            path=[*file_title, *(heading.title for heading in path if heading.start < start)],
        )


def spans(
    text: str,
    section_starts: Sequence[int] = (),
    tables: Sequence[Table] = (),
    *,
    size: int = PASSAGE_CHARACTERS,
    levels: Sequence[int] = (),
) -> Iterator[Span]:
    """Yield (start, end) of each passage in order, without white space at its ends.

    No passage is empty, and none has more than `size` characters, including a repeated table head. A section is cut
    into pieces, which join as long as they fit into one passage. A whole section joins the passage before it if both
    fit into one, and if the passage is short, or the section is short and the last of its level inside the section in
    which the passage begins. The first piece of a section joins a short passage of headings. Short lead-ins at the end
    of a passage that is full (`_LEAD_IN`) move to the next one.

    Args:
        section_starts: Index at which each section begins, in rising order.
        levels: Level of each section's heading, 1 is the outermost; (): all sections have the same level.
    """
    level_at = {len(text): 0, **dict(zip(section_starts, levels, strict=False))}
    passage: Span | None = None  # the passage to which the next piece may be joined
    first_level = 0  # level of the section in which `passage` begins
    lead_in = 0  # where the lead-ins at the end of `passage` begin; its end, if it has none

    def fits(start: int, end: int) -> bool:
        return len(_head(tables, start)) + end - start <= size

    def is_short(start: int, end: int) -> bool:
        return end - start < SMALL_SHARE * size

    for start, stop in pairwise(sorted({0, *section_starts, len(text)})):
        level, room = level_at.get(start, 0), size
        if passage is not None:
            short, whole = is_short(passage[0], start), fits(passage[0], stop)
            is_last = first_level < level > level_at.get(stop, 0)
            if short and not whole and _only_headings(text, passage, section_starts):
                room -= start - passage[0]  # so that the first piece joins these headings
            elif not (whole and (short or (is_last and is_short(start, stop)))):
                yield from _stripped(text, passage)
                passage = None
        for piece in _pieces_with_tables(text, (start, stop), tables, room):
            if passage is not None and not fits(passage[0], piece[1]):
                moves = passage[0] < lead_in and is_short(lead_in, passage[1]) and fits(lead_in, piece[1])
                end = lead_in if moves else passage[1]
                yield from _stripped(text, (passage[0], end))
                passage = (end, passage[1]) if end < passage[1] else None
            first_level = level if passage is None else first_level
            passage = piece if passage is None else (passage[0], piece[1])
            lead_in = lead_in if _LEAD_IN.fullmatch(text, *piece) else passage[1]
    if passage is not None:
        yield from _stripped(text, passage)


def line_metadata(text: str, start: int) -> dict[str, MetadataValue]:
    """{LINE_KEY: True} if a line begins at `start`, and the line above it has a character other than white space at its
    end; else {}. A context then shows the two lines without a blank line between them."""
    return {LINE_KEY: True} if text[start - 1 : start] == "\n" and text[start - 2 : start - 1].strip() else {}


def _only_headings(text: str, span: Span, section_starts: Sequence[int]) -> bool:
    """Whether a span has at most as many lines with a letter or digit as sections that begin in it."""
    lines = sum(any(map(str.isalnum, line)) for line in text[slice(*span)].splitlines())
    return lines <= bisect_left(section_starts, span[1]) - bisect_left(section_starts, span[0])


def _has_fields(row: str, separators: str) -> bool:
    """Whether a row of a CSV or TSV file has a field after the first that is not empty."""
    unquoted = re.sub(r'"([^"]*)"', lambda quoted: "x" if quoted[1].strip() else "", row)
    return any(rest.strip(f"{separators} \n") for rest in re.split(f"[{separators}]", unquoted, maxsplit=1)[1:])


def _head(tables: Sequence[Table], at: int) -> str:
    """The repeated head of the table whose rows of data contain the index `at`; "": there is no such table."""
    place = bisect_right(tables, at, key=lambda table: table.rows_start) - 1
    return tables[place].head if place >= 0 and at < tables[place].end else ""


def _pieces_with_tables(text: str, section: Span, tables: Sequence[Table], size: int) -> Iterator[Span]:
    """Cut a section into adjacent pieces of at most `size` characters, including a repeated head.

    A table longer than `size` is cut into its head and its rows; the first row stays with the head if both fit.
    """
    at, end = section
    for table in tables[bisect_left(tables, (at,)) : bisect_left(tables, (end,))]:
        stop = min(table.end, end)
        yield from _pieces(text, (at, table.start), size - len(_head(tables, at)), 0)
        if stop - table.start <= size:
            yield table.start, stop
        else:
            ends = table.row_ends[bisect_right(table.row_ends, table.rows_start) : bisect_left(table.row_ends, stop)]
            first_end = ends[0] if ends else text.find("\n", table.rows_start, stop) + 1 or stop
            head_end = first_end if first_end - table.start <= size else min(table.rows_start, stop)
            yield from _pieces(text, (table.start, head_end), size, table.breaks)
            for row in pairwise(sorted({head_end, first_end, *ends[1:], stop})):
                yield from _pieces(text, row, size - len(table.head), table.breaks)
        at = stop
    yield from _pieces(text, (at, end), size - len(_head(tables, at)), 0)


def _pieces(text: str, span: Span, size: int, level: int) -> Iterator[Span]:
    """Cut a span into adjacent pieces of at most `size` characters: after each match of BREAKS[level], pieces that are
    still too long by the next levels, and at last after every `size` characters."""
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
    """The span without white space at its ends; nothing if it has only white space."""
    piece = text[span[0] : span[1]]
    start = span[0] + len(piece) - len(piece.lstrip())
    if piece.strip():
        yield start, start + len(piece.strip())
