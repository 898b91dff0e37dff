"""Find headings, tables, lists, title and front matter in Markdown and similar markup.

Front matter is fields at the beginning of a file, in YAML between lines "---" or in TOML between lines "+++".
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, time
from itertools import pairwise
from typing import Any

import yaml

from umi_common.errors import InvalidChunk
from umi_common.files.readers.passages import ITEM_BREAKS, Heading, Table
from umi_common.types import Chunk, MetadataValue

_FENCED_CODE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
MARKDOWN_ENDINGS = (".md", ".markdown", ".mdx", ".qmd", ".rmd")
"""Endings of Markdown files, including the notebooks of Quarto and R."""
_LATEX_LEVELS = {"part": 1, "chapter": 2, "section": 3, "subsection": 4, "subsubsection": 5}
_MARKED_HEADINGS = {
    **dict.fromkeys(MARKDOWN_ENDINGS, re.compile(r"^[ ]{0,3}(#{1,6})[ \t]+(.+)$", re.MULTILINE)),
    ".org": re.compile(r"^(\*+)[ \t]+(.+)$", re.MULTILINE),
    ".adoc": re.compile(r"^(={1,6})[ \t]+(.+)$", re.MULTILINE),
    ".tex": re.compile(
        rf"^[ \t]*\\({'|'.join(_LATEX_LEVELS)})\*?(?:\[[^]\n]*\])?{{([^\n]+?)}}[ \t]*(?:[%\\].*)?$", re.MULTILINE
    ),
}
"""By file ending: the pattern of a heading after a mark such as "##", whose length is the heading's level. In LaTeX the
mark is a command, whose level is in _LATEX_LEVELS."""
_CLOSING = re.compile(r"(?:^|(?<=[ \t]))#+$")
"""The closing marks of a heading: "##" in "Setup ##", but not "#" in "C#"."""
_UNDERLINED_HEADING = re.compile(r"^(?![-*+] )(\S.*)\n(([-=~^\"'`*+#.:_])\3{2,})[ \t]*$", re.MULTILINE)
"""A heading above a line of one repeated character. Group 1 is the heading, group 2 the line, group 3 the character."""
_UNDERLINES = {".rst": "", **dict.fromkeys(MARKDOWN_ENDINGS, "=-")}
"""By ending: the characters that underline headings, outermost level first; "": any character, at the level that
`_underlined_headings` says, because files differ."""
_UNDER_HEAD = re.compile(r"^[ \t>]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$", re.MULTILINE)
"""The line of dashes under the head of a table: "|---|---|", in Org "|---+---|", perhaps after the ">" of a quotation.
A line that underlines a heading matches, too, but has no "|"."""
_ROWS = re.compile(r"(?:\n[^\n|]*\|[^\n]*)*")
"""The rows of a table: adjacent lines with a "|"."""
_GAP = r"(?: {2,}|\t)"
_ALIGNED = re.compile(rf"(?:^ *\S+(?: \S+)*(?:{_GAP}\S+(?: \S+)*){{2,}}[ \t]*(?:\n|\Z)){{5,}}", re.MULTILINE)
"""Five or more adjacent lines of three or more fields, which two spaces or a tab divide."""
_MARK = r"(?:[-*+•]|\d{1,3}[.)])[ \t]+\S"
"""The beginning of an item of a list: "- Oil" or "3. Oil"."""
_LIST = re.compile(rf"^{_MARK}.*(?:\n(?:(?:[ \t]*\n)*(?:[ \t]+\S|{_MARK})|(?![#|`~>\s])).*)*", re.MULTILINE)
"""A list: the line of an item without indentation, then its other items and all lines that are a part of an item."""
_ITEM, _INNER_ITEM = (re.compile(rf"^({indent}){_MARK}", re.MULTILINE) for indent in ("", "[ \t]+"))
"""The beginning of an item without and with indentation, which is group 1."""
LEAD_IN_CHARACTERS = 500
"""Largest number of characters from the beginning of the paragraph above a list to the list."""
_STATED_TITLES: Mapping[str, re.Pattern[str]] = {
    ".org": re.compile(r"^#\+title:([^\n]*)", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(r"^[^%\n]*\\title(?:\[[^]]*\])?{((?:[^{}]|{[^{}]*})*)", re.MULTILINE),
}
"""By file ending: the pattern of the line that states the title."""
TITLE_WITHIN = 20_000
"""Number of characters at the beginning of a file that are searched for the line with its title."""


def headings(text: str, ending: str) -> list[Heading]:
    """The headings of a text in order, outside of fenced code; none for endings without a format for headings.

    A heading follows a mark (`## Title` in Markdown, `** Title` in Org, `== Title` in AsciiDoc) or a command (LaTeX).
    In Markdown and reStructuredText, a heading may also be above a line of one repeated character, at least as long as
    the heading. In reStructuredText, an equal line may be above the heading, too.
    """
    found = [] if ending not in _UNDERLINES else _underlined_headings(text, _UNDERLINES[ending])
    if marked := _MARKED_HEADINGS.get(ending):
        lines = _unfenced(marked, text)
        levels = ((_LATEX_LEVELS.get(line[1], len(line[1])), line) for line in lines)
        found += [Heading(line.start(), level, _CLOSING.sub("", line[2].rstrip()).strip()) for level, line in levels]
    return sorted(found)


def _underlined_headings(text: str, signs: str) -> list[Heading]:
    """The headings above a line of one repeated character.

    Args:
        signs: The characters that such a line may have, outermost level first. "": any character. A kind of heading is
            then a character with or without a line above; the kind that occurs first has level 1, the next level 2.
    """
    levels, found = {(sign, False): level for level, sign in enumerate(signs, 1)}, list[Heading]()
    # reStructuredText (`signs` "") has no fences; a line of ~ or ` underlines a heading there.
    for line in _unfenced(_UNDERLINED_HEADING, text) if signs else _UNDERLINED_HEADING.finditer(text):
        title, start = line[1].rstrip(), line.start()
        if len(title) <= len(line[2]) and any(map(str.isalnum, title)) and (not signs or line[3] in signs):
            overline = not signs and text.endswith(f"{line[2]}\n", 0, start)
            level = levels.setdefault((line[3], overline), len(levels) + 1)
            found.append(Heading(start - len(f"{line[2]}\n") if overline else start, level, title))
    return found


def markdown_tables(text: str) -> list[Table]:
    """The tables with a head, a line of dashes and rows, in order, outside of fenced code."""
    tables: list[Table] = []
    for dashes in _unfenced(_UNDER_HEAD, text):
        start = text.rfind("\n", 0, max(0, dashes.start() - 1)) + 1
        begins = not tables or start >= tables[-1].end
        if begins and "|" in dashes[0] and "|" in text[start : dashes.start()]:
            rows = _ROWS.match(text, dashes.end())
            if rows and rows[0]:
                tables.append(Table.of(text, start, dashes.end() + 1, rows.end()))
    return tables


def tables_and_lists(text: str) -> list[Table]:
    """The tables of a text, Markdown's and aligned ones, and, as tables, its lists, without overlap, in order.

    An item with inner items is a table whose head is the item's first line: "- Finance". A list without inner items is
    a table whose head is the paragraph above, if that ends with a colon: "To restore the database:".
    """
    tables = sorted([*markdown_tables(text), *_aligned_tables(text)])
    starts = [table.start for table in tables]
    for found in _unfenced(_LIST, text):
        lists = [*_items_with_items(text, *found.span())] or [*_introduced_list(text, *found.span())]
        if lists and bisect_right(starts, lists[-1].end) == bisect_right(starts, lists[0].start):
            tables += lists
    return sorted(tables)


def _aligned_tables(text: str) -> Iterator[Table]:
    """Yield the tables that have no bars, but aligned columns, below a head: "Article  Shelf  Price".

    A first line with a digit, with the end of a sentence, or behind a sign such as "*" is no head.
    """
    for block in _unfenced(_ALIGNED, text):
        head, *rows = block[0].splitlines(keepends=True)
        fields = {len(re.split(_GAP + " *", row.strip())) for row in (head, *rows)}
        is_list = "|" in block[0] or _ITEM.search(block[0])  # or a table of Markdown
        if len(fields) == 1 and not is_list and not re.match(r" *[-*+•] |.*[\d.!?]", head):
            yield Table.of(text, block.start(), block.start() + len(head), block.end())


def _items_with_items(text: str, start: int, end: int) -> Iterator[Table]:
    """Yield a table for each item of a list that has inner items; its head ends with their indentation."""
    starts = [item.start() for item in _ITEM.finditer(text, start, end)]
    for item, stop in pairwise([*starts, end]):
        if inner := [*_INNER_ITEM.finditer(text, item, stop)]:
            ends = [each.start() for each in inner]
            table = Table.of(text, item, ends[0], stop)
            yield table._replace(head=table.head + inner[0][1], row_ends=[*ends, stop], breaks=ITEM_BREAKS)


def _introduced_list(text: str, start: int, end: int) -> Iterator[Table]:
    """Yield the table of a list and the paragraph above it, if that ends with a colon."""
    first = max(0, start - LEAD_IN_CHARACTERS)
    above = text[first:start].rstrip()
    lead_in = above[above.rfind("\n\n") + 1 :].lstrip()
    is_whole = first == 0 or "\n\n" in above
    if is_whole and lead_in.rstrip("*_ ").endswith((":", "：")):
        ends = [item.start() for item in _ITEM.finditer(text, start, end)]
        table = Table.of(text, first + len(above) - len(lead_in), start, end)
        yield table._replace(row_ends=[*ends, end], breaks=ITEM_BREAKS)


def stated_title(text: str, ending: str) -> str:
    """The title in the title line of Org and LaTeX; "": none."""
    pattern = _STATED_TITLES.get(ending)
    found = pattern.search(text, 0, TITLE_WITHIN) if pattern else None
    return "" if found is None else " ".join(found[1].split()).strip(" \"'")


def _unfenced(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that do not begin inside fenced code."""
    fences = [fence.span() for fence in _FENCED_CODE.finditer(text)]
    starts = [start for start, _ in fences]
    for found in pattern.finditer(text):
        begun = bisect_right(starts, found.start())  # number of fences that begin at or before the match
        if not begun or fences[begun - 1][1] <= found.start():
            yield found


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FRONT_MATTER_CHARACTERS = 20_000
"""Number of characters at the beginning of a file that are searched for its front matter."""
NESTED_MAX = 20
"""Largest depth of nested brackets in front matter that is read."""
DATE_KEYS = ("date", "created", "timestamp", "event_time")
"""Fields that state the time of a file."""
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(rf"^(title|{'|'.join(DATE_KEYS)})[ \t]*[:=][ \t]*[\"']?([^\s#\"'][^\n#\"']*)", re.MULTILINE)
"""A title or a date in front matter that is neither YAML nor TOML, such as a template with "date: {{date}}"."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """Reads truth values and numbers as YAML 1.2 does; a date, 012, 12:30, yes and no are texts."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Refuse aliases ("*a"), which can make values of gigabytes of a few characters."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        """Refuse deeply nested brackets, of which a thousand take PyYAML a second."""
        if self.flow_level == NESTED_MAX:
            raise yaml.YAMLError("nested too deeply")
        super().fetch_flow_collection_start(kind)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in {
    "null": r"(?:~|null|)$",
    "bool": r"(?:true|True|false|False)$",
    "int": r"[-+]?(?:0|[1-9]\d{0,17})$",
    "float": r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?$",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), None)
_Loader.add_constructor(None, lambda _loader, _node: None)  # an own tag, such as "!r Sys.Date()", gives no field


def front_matter(text: str) -> tuple[dict[str, MetadataValue], int]:
    """The fields in front matter at the beginning of a text, and the index in the text at which it ends.

    A field is a text, a number, a truth value, or a list of these; a date is a text as in ISO 8601. Empty and nested
    fields are left out. ({}, 0): there is no front matter, such as between two rules. Of front matter that cannot be
    read, the fields are the title and the dates that have a line of their own.
    """
    found = _FRONT_MATTER.match(text, 0, FRONT_MATTER_CHARACTERS)
    if found is None:
        return {}, 0
    try:
        read: Any = tomllib.loads(found[2]) if found[1] == "+++" else yaml.load(found[2], _Loader)
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError):
        read = {line[1]: line[2].strip() for line in _LINE.finditer(found[2])}
    fields = dict[str, MetadataValue]()
    for key, value in read.items() if isinstance(read, dict) else ():
        items = value if isinstance(value, list) else [value]
        if value not in ("", []) and all(isinstance(item, (str, int, float, date, time)) for item in items):
            with suppress(InvalidChunk):  # the key is no text, or a number or text is none that a chunk can hold
                fields |= Chunk("front matter", "-", metadata={key: value}).metadata
    return fields, found.end() if fields else 0
