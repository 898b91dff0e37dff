"""Find headings, tables, title and dates in Markdown and similar markup; text, headings, tables and title in HTML.

Nothing is fetched from the network, and scripts are not run.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser

from typing_extensions import Self

from umi_common.files.readers.passages import Heading, Table

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
_FRONT_MATTER = re.compile(r"(---|\+\+\+)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
"""Front matter at the beginning of a Markdown file: YAML between lines "---", or TOML between lines "+++"."""
_FRONT_DATE = re.compile(
    r"^(event_time|timestamp|date|created)[ \t]*[:=][ \t]*[\"']?([^\s#\"'][^\n#\"']*)", re.MULTILINE
)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=]([^\n]*)", re.MULTILINE)
_STATED_TITLES: Mapping[str, re.Pattern[str]] = {
    ".org": re.compile(r"^#\+title:([^\n]*)", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(r"^[^%\n]*\\title(?:\[[^]]*\])?{((?:[^{}]|{[^{}]*})*)", re.MULTILINE),
}
"""By file ending: the pattern of the line that states the title, in formats without front matter."""
FRONT_MATTER_CHARACTERS = 20_000
"""Number of characters at the beginning of a file that are searched for its front matter or the line with its title."""
_TAG_BEGINS = re.compile("<[A-Za-z/!?]")
INVISIBLE = frozenset({"script", "style", "template", "svg", "noscript"}) | {
    *("audio", "canvas", "datalist", "iframe", "video"),  # "Your browser does not support the video tag."
}
"""Elements whose content a browser does not show as text."""
BLOCKS = frozenset({"article", "aside", "blockquote", "dd", "div", "dl", "dt", "figure", "footer", "header", "hr"}) | {
    *("li", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"),
    *("address", "caption", "details", "fieldset", "figcaption", "form", "legend", "summary"),
    *("optgroup", "option", "select", "textarea"),
}
"""Elements before and after which the text has a line break."""
_WITHOUT_END = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track"}
)
"""Elements that have no end tag."""
_LISTS = ("ul", "ol", "dl", "table")
"""A start tag inside these elements ends no element around them: in "<li>a<ul><li>b", the second <li> does not end the
first."""
_ENDED_BY = {
    "p": BLOCKS,
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
    **dict.fromkeys(("td", "th"), frozenset({"td", "th", "tr", "tbody", "tfoot"})),
    "tr": frozenset({"tr", "tbody", "tfoot"}),
}
"""Element whose end tag may be missing -> elements whose start tag then ends it: in "<li>a<li>b", the second <li> ends
the first."""
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
"""A declaration in the attribute `style` that hides the element."""
_NAMED = re.compile(r"""["'#=]([\w:.-]+)(?=["'\s>])""")
"""A possible id in an attribute or a script: "why", '#why', id=why."""
_LINK_SIGNS = ("¶", "\uf0c1")
"""Texts of a heading's link to itself, which Sphinx and MkDocs show only under the mouse pointer."""
PARAGRAPH_BREAK, LINE_BREAK = "\n\n", "\n"
"""Newlines between two paragraphs and between two lines in the text of a page."""


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
        found += [Heading(line.start(), level, _without_closing(line[2])) for level, line in levels]
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


def front_matter_dates(text: str) -> dict[str, str]:
    """The dates in a file's front matter (YAML or TOML), as text, by key, in order."""
    return {found[1]: found[2].strip() for found in _FRONT_DATE.finditer(_front_matter(text))}


def stated_title(text: str, ending: str) -> str:
    """The title in the front matter of Markdown, or in the title line of Org and LaTeX; "": none."""
    front = _front_matter(text) if ending in MARKDOWN_ENDINGS else text[:FRONT_MATTER_CHARACTERS]
    pattern = _FRONT_TITLE if ending in MARKDOWN_ENDINGS else _STATED_TITLES.get(ending)
    found = pattern.search(front) if pattern else None
    return "" if found is None else " ".join(found[1].split()).strip(" \"'")


def _front_matter(text: str) -> str:
    found = _FRONT_MATTER.match(text, 0, FRONT_MATTER_CHARACTERS)
    return "" if found is None else found[2]


def _unfenced(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that do not begin inside fenced code."""
    fences = [fence.span() for fence in _FENCED_CODE.finditer(text)]
    starts = [start for start, _ in fences]
    for found in pattern.finditer(text):
        begun = bisect_right(starts, found.start())  # number of fences that begin at or before the match
        if not begun or fences[begun - 1][1] <= found.start():
            yield found


def _without_closing(title: str) -> str:
    """The title without closing #s: `Setup ##` becomes Setup, `C#` stays."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.strip() if bare[-1:] in ("", " ", "\t") else title.strip()


@dataclass(slots=True)
class _OpenTable:
    """A table whose end tag was not read yet. Indices are those of characters in `HtmlText.text`."""

    start: int
    """Index of the table's first character."""
    data_start: int = 0
    """Index of the first row of data. Until one is read: of the last row so far; 0: no row was read yet."""
    data_begun: bool = False
    """Whether a cell of data was read: a <td> outside of <thead>."""
    in_head: bool = False
    """Whether <thead> is open, whose cells may be <td>."""
    cells: int = 0
    """Number of cells in the open row."""
    has_digit: bool = False
    """Whether a cell of the open row has a digit."""
    second_row: int = 0
    """Index of the second row with cells; 0: it was not read yet."""
    columns: int = 0
    """Number of cells in a row, if all rows so far have as many, the first has no digit and each other one has a digit;
    else 0."""

    def end_row(self, next_row: int) -> None:
        """End the open row, if it has cells; `next_row` is the index of the next row."""
        if self.cells and not self.second_row:
            self.columns, self.second_row = (0 if self.has_digit else self.cells), next_row
        elif self.cells and (not self.has_digit or self.cells != self.columns):
            self.columns = 0
        self.cells, self.has_digit = 0, False


class _HiddenElements:
    """Tracks the open elements that a user of the page cannot see. Their text is not read.

    These are the elements of INVISIBLE, and elements with the attribute `hidden` or a style that hides them. Such an
    element does not count as hidden if a user may make it visible: if it is the panel of a tab, or if its id occurs
    elsewhere in the page, as in a button, a link or a script.
    """

    def __init__(self) -> None:
        self.markup = ""
        """The whole page."""
        self._open: list[str] = []
        """Tags of the open elements, outermost first."""
        self._counts = Counter[str]()
        """Number of open elements by tag."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> bool:
        """Read a start tag; returns whether its element is hidden."""
        if self._counts["svg"] and (tag in BLOCKS or _is_heading(tag)):
            self._end("svg")  # browsers end an <svg> at such a tag
        if self._open and tag in _ENDED_BY.get(self._open[0], ()) and not any(map(self._counts.__getitem__, _LISTS)):
            self._end(self._open[0])
        hidden = bool(self._open) or tag in INVISIBLE or self._is_hidden(tag, attributes)
        if hidden and tag not in _WITHOUT_END:
            self._open.append(tag)
            self._counts[tag] += 1
        return hidden

    def end(self, tag: str) -> bool:
        """Read an end tag; returns whether it is hidden, too. A tag that is not hidden ends a visible element."""
        if self._counts[tag]:
            self._end(tag)
            return True
        if tag in BLOCKS:  # it ends a visible element, and all hidden elements inside it
            self._open.clear()
            self._counts.clear()
            return False
        return bool(self._open)

    def _end(self, tag: str) -> None:
        """End the innermost element with this tag, and the elements inside it that are still open."""
        ended = ""
        while ended != tag:
            ended = self._open.pop()
            self._counts[ended] -= 1

    def _is_hidden(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> bool:
        """Whether the attributes hide an element. False for <html> and <body>, which a script makes visible."""
        values = {name: value or "" for name, value in attributes}
        hidden = "hidden" in values and values["hidden"].lower() != "until-found"
        if tag in ("html", "body") or not (hidden or _HIDING_STYLE.search(values.get("style", ""))):
            return False
        return values.get("role") != "tabpanel" and self._names[values.get("id", "")] < 2

    @cached_property
    def _names(self) -> Counter[str]:
        """The number of occurrences of each name that _NAMED finds in the page, an element's own `id` included."""
        return Counter(found[1] for found in _NAMED.finditer(self.markup))


class HtmlText(HTMLParser):
    """Collects the visible text of an HTML page. `read` sets `text`, `title`, and `headings` and `tables` in order.

    The head of a table is its caption and the first rows that have only <th> cells or are in <thead>. Without such
    rows, the first row is the head if all rows have the same number of cells, at least two, and every row except the
    first has a digit. A table without a head is not listed, nor one with a listed table inside.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[Heading] = []
        self._tables: list[tuple[int, int, int]] = []
        """For each table: the indices in `text` of its first character, of its first row of data, and of its end."""
        self._open_tables: list[_OpenTable] = []
        """Outermost first."""
        self.title = ""
        self._pieces: list[str] = []
        """The text read so far, in pieces."""
        self._length = 0
        """Number of characters of the text read so far."""
        self._hidden = _HiddenElements()
        self._open_pre = 0
        """Number of open <pre> elements. White space in them is kept."""
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None
        """Of the open heading: index of its first character in `text`, of its first piece in `_pieces`, level."""

    def read(self, markup: str) -> Self:
        """Read a whole page; returns itself.

        The rest of the page from a tag without ">" on is left out, as in browsers. Python's parser is slow on a page
        with many such tags.
        """
        unclosed = _TAG_BEGINS.search(markup, markup.rfind(">") + 1)
        self._hidden.markup = markup
        self.feed(markup[: unclosed.start()] if unclosed else markup)
        self.close()
        self.title = " ".join(self.title.split())
        return self

    @property
    def text(self) -> str:
        """The text read so far."""
        return "".join(self._pieces)

    @property
    def tables(self) -> list[Table]:
        """The tables with a head that were read so far."""
        text = self.text
        return [Table.of(text, *table) for table in self._tables]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hidden = self._hidden.begin(tag, attrs)
        self._in_title = tag == "title" and not hidden  # the <title> of an <svg> is not the page's
        if hidden:
            return
        if _is_heading(tag):
            self._break(PARAGRAPH_BREAK)
            self._heading = (self._length, len(self._pieces), int(tag[1]))
        elif tag == "br":
            self._break(LINE_BREAK)
        elif tag == "img" and (shown := dict(attrs).get("alt")):
            self.handle_data(f" {shown} ")
        elif tag in BLOCKS:
            self._break(_break_around(tag))
            if tag == "pre":
                self._open_pre += 1
        elif tag in ("td", "th", "button", "label") or (tag == "a" and self._is_note(attrs)):
            self._add(" ")
        if tag == "table":
            self._open_tables.append(_OpenTable(self._length))
        elif self._open_tables:
            self._read_table_tag(self._open_tables[-1], tag)

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if self._hidden.end(tag):
            return
        if _is_heading(tag) and self._heading is not None:
            start, piece, level = self._heading
            title = " ".join("".join(self._pieces[piece:]).split())
            if title:
                self.headings.append(Heading(start, level, title))
            self._heading = None
            self._break(PARAGRAPH_BREAK)
        elif tag in BLOCKS:
            if tag == "pre":
                self._open_pre = max(0, self._open_pre - 1)
            self._break(_break_around(tag))
        if tag == "table" and self._open_tables:
            self._close_table(self._open_tables.pop())
        elif tag == "thead" and self._open_tables:
            self._open_tables[-1].in_head = False

    def _is_note(self, attrs: list[tuple[str, str | None]]) -> bool:
        """Whether a link needs a space before it, because it may be the number of a footnote: "Rome 1", not "Rome1".
        Any link to a place in the page may be one, except after "(", "[" or "/"."""
        return (dict(attrs).get("href") or "").startswith("#") and "".join(self._pieces[-1:])[-1:] not in "([/"

    def _read_table_tag(self, table: _OpenTable, tag: str) -> None:
        """Read a start tag inside a table. The table's head ends before the first row with a cell of data."""
        if tag in ("thead", "tbody"):
            table.in_head = tag == "thead"
        elif tag == "tr":
            table.end_row(self._length)
            if not table.data_begun:
                table.data_start = self._length
        elif tag in ("td", "th"):
            table.cells += 1
            table.data_begun = table.data_begun or (tag == "td" and not table.in_head)

    def _close_table(self, table: _OpenTable) -> None:
        table.end_row(self._length)
        if table.columns > 1 and table.second_row < self._length:
            table.data_start = max(table.data_start, table.second_row)
        has_head = table.data_begun and table.data_start > table.start
        if has_head and (not self._tables or self._tables[-1][0] < table.start):  # no inner table is listed
            self._tables.append((table.start, table.data_start, self._length))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip a declaration such as `<![if !IE]>`, as browsers do; the inherited method raises errors for some."""
        return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._hidden and data not in _LINK_SIGNS:
            if self._open_tables and any(map(str.isdigit, data)):
                self._open_tables[-1].has_digit = True
            self._add(data if self._open_pre else re.sub(r"\s+", " ", data))

    def _add(self, piece: str) -> None:
        """Append text, without leading spaces if the text so far is empty or, outside <pre>, ends in white space."""
        if self._pieces and self._pieces[-1][-1:].isspace() and not self._open_pre:
            piece = piece.lstrip(" ")
        elif not self._pieces:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def _break(self, newlines: str) -> None:
        """Make a text that is not empty end in at least these newlines, without spaces before them."""
        if self._pieces:
            last = self._pieces.pop()
            text = last.rstrip(" ")
            present = len(text) - len(text.rstrip("\n"))
            self._pieces.append(text + newlines[present:])
            self._length += len(self._pieces[-1]) - len(last)


def _break_around(block: str) -> str:
    return LINE_BREAK if block in ("li", "option", "tr") else PARAGRAPH_BREAK


def _is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
