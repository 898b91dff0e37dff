"""Find the headings and tables of Markdown and similar markup, and those of HTML with its visible text. Nothing is
fetched, no script is run."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

from umi_common.errors import FileUnreadable
from umi_common.files.readers.passages import Heading, Table

_FENCED_CODE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
MARKDOWN_ENDINGS = (".md", ".markdown", ".mdx", ".qmd", ".rmd")
"""Endings of Markdown, that of notebooks of Quarto and R included."""
_LATEX_LEVELS = {"part": 1, "chapter": 2, "section": 3, "subsection": 4, "subsubsection": 5}
_MARKED_HEADINGS = {
    **dict.fromkeys(MARKDOWN_ENDINGS, re.compile(r"^[ ]{0,3}(#{1,6})[ \t]+(.+)$", re.MULTILINE)),
    ".org": re.compile(r"^(\*+)[ \t]+(.+)$", re.MULTILINE),
    ".adoc": re.compile(r"^(={1,6})[ \t]+(.+)$", re.MULTILINE),
    ".tex": re.compile(
        rf"^[ \t]*\\({'|'.join(_LATEX_LEVELS)})\*?(?:\[[^]\n]*\])?{{([^\n]+?)}}[ \t]*(?:[%\\].*)?$", re.MULTILINE
    ),
}
"""By file ending: the pattern of a heading that follows a mark, such as "##"; a longer mark is a lower level. In LaTeX
the mark is a command, with its level in _LATEX_LEVELS."""
_UNDERLINED_HEADING = re.compile(r"^(?![-*+] )(\S.*)\n(([-=~^\"'`*+#.:_])\3{2,})[ \t]*$", re.MULTILINE)
_UNDERLINES = {".rst": "", **dict.fromkeys(MARKDOWN_ENDINGS, "=-")}
"""By ending: the signs that underline headings, highest level first; "": each file has its own order."""
_UNDER_HEAD = re.compile(r"^[ \t>]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$", re.MULTILINE)
"""The line of dashes under the head of a table, in Org "|---+---|", after ">" in a quotation. Lines that underline a
heading match, too, and have no "|"."""
_ROWS = re.compile(r"(?:\n[^\n|]*\|[^\n]*)*")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_FRONT_DATE = re.compile(
    r"^(event_time|timestamp|date|created)[ \t]*[:=][ \t]*[\"']?([^\s#\"'][^\n#\"']*)", re.MULTILINE
)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=]([^\n]*)", re.MULTILINE)
_STATED_TITLES: Mapping[str, re.Pattern[str]] = {
    ".org": re.compile(r"^#\+title:([^\n]*)", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(r"^[^%\n]*\\title(?:\[[^]]*\])?{((?:[^{}]|{[^{}]*})*)", re.MULTILINE),
}
"""By file ending: the pattern of the line that states the title of a file without front matter."""
FRONT_MATTER_CHARACTERS = 20_000
"""Longest front matter that is read, in characters of the file."""
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
"""Elements that begin and end on a line of their own."""
_WITHOUT_END = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track"}
)
_LISTS = ("ul", "ol", "dl", "table")
_ENDED_BY = {
    "p": BLOCKS,
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
    **dict.fromkeys(("td", "th"), frozenset({"td", "th", "tr", "tbody", "tfoot"})),
    "tr": frozenset({"tr", "tbody", "tfoot"}),
}
"""Elements whose end tag may be left out, and the elements whose beginning then ends them."""
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_NAMED = re.compile(r"""["'#=]([\w:.-]+)(?=["'\s>])""")
"""A name as an attribute or a script has it: "why", '#why', id=why."""
_LINK_SIGNS = ("¶", "\uf0c1")
"""Texts of a link beside a heading to itself, which Sphinx and MkDocs show only below the pointer."""
PARAGRAPH_BREAK, LINE_BREAK = "\n\n", "\n"


def headings(text: str, ending: str) -> list[Heading]:
    """The headings of a text in order, without those inside fenced code; none if files of this ending have no marks.

    They follow a mark (`## Title` in Markdown, `** Title` in Org, `== Title` in AsciiDoc) or a command (LaTeX) or, in
    Markdown and reStructuredText, stand above a line of one sign that is at least as long. In reStructuredText the same
    line may stand above them, too.
    """
    found = [] if ending not in _UNDERLINES else _underlined_headings(text, _UNDERLINES[ending])
    if marked := _MARKED_HEADINGS.get(ending):
        lines = _unfenced(marked, text)
        levels = ((_LATEX_LEVELS.get(line[1], len(line[1])), line) for line in lines)
        found += [Heading(line.start(), level, _without_closing(line[2])) for level, line in levels]
    return sorted(found)


def _underlined_headings(text: str, signs: str) -> list[Heading]:
    """The headings above a line of one sign; with `signs` "", levels are in the order in which their lines occur."""
    levels, found = {sign: level for level, sign in enumerate(signs, 1)}, list[Heading]()
    # reStructuredText has no fences; there a line of ~ or ` underlines a heading.
    for line in _unfenced(_UNDERLINED_HEADING, text) if signs else _UNDERLINED_HEADING.finditer(text):
        title, start = line[1].rstrip(), line.start()
        if len(title) <= len(line[2]) and any(map(str.isalnum, title)) and (not signs or line[3] in signs):
            overline = not signs and text.endswith(f"{line[2]}\n", 0, start)
            level = levels.setdefault(line[3] * (1 + overline), len(levels) + 1)
            found.append(Heading(start - (len(line[2]) + 1) * overline, level, title))
    return found


def markdown_tables(text: str) -> list[Table]:
    """The tables with a head, a line of dashes and rows, in order, without those inside fenced code."""
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
    """The value of each date key in a file's front matter (YAML or TOML) that has one, in order."""
    return {found[1]: found[2].strip() for found in _FRONT_DATE.finditer(_front_matter(text))}


def stated_title(text: str, ending: str) -> str:
    """The title that a file states: Markdown in its front matter, Org and LaTeX in a line of their own; "": none."""
    front = _front_matter(text) if ending in MARKDOWN_ENDINGS else text[:FRONT_MATTER_CHARACTERS]
    pattern = _FRONT_TITLE if ending in MARKDOWN_ENDINGS else _STATED_TITLES.get(ending)
    found = pattern.search(front) if pattern else None
    return "" if found is None else " ".join(found[1].split()).strip(" \"'")


def _front_matter(text: str) -> str:
    found = _FRONT_MATTER.match(text, 0, FRONT_MATTER_CHARACTERS)
    return "" if found is None else found[2]


def _unfenced(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern outside fenced code."""
    fences = [found.span() for found in _FENCED_CODE.finditer(text)]
    for found in pattern.finditer(text):
        place = bisect_right(fences, (found.start(), len(text))) - 1
        if place < 0 or fences[place][1] <= found.start():
            yield found


def _without_closing(title: str) -> str:
    """The title without closing #s: `Setup ##` becomes Setup, `C#` stays."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.strip() if bare[-1:] in ("", " ", "\t") else title.strip()


@dataclass(slots=True)
class _OpenTable:
    """A table of a page; its end was not read yet."""

    start: int
    rows: int = 0
    """Index in `text` of the last row read that may be the first row of data; 0: no row was read yet."""
    data_begun: bool = False
    """Whether a cell that is not of the head was read."""
    in_head: bool = False
    """Whether <thead> is open, whose cells may be <td>."""
    cells: int = 0
    """Number of cells of the row that is open."""
    has_digit: bool = False
    """Whether a cell of the open row holds a digit."""
    second_row: int = 0
    """Index in `text` of the second row; 0: it was not read yet."""
    columns: int = 0
    """Number of cells of each row, if a row without a digit is followed by rows with one; else 0."""

    def end_row(self, next_row: int) -> None:
        """End the row that is open, if it has cells; `next_row` is the index of the next one in `text`."""
        if self.cells and not self.second_row:
            self.columns, self.second_row = (0 if self.has_digit else self.cells), next_row
        elif self.cells and (not self.has_digit or self.cells != self.columns):
            self.columns = 0
        self.cells, self.has_digit = 0, False


class _HiddenElements:
    """The open elements of a page that its reader does not see, and cannot open.

    These are the elements of INVISIBLE and those with the attribute `hidden` or a style that hides them. A hidden
    element is read if it is the panel of a tab, or if another place of the page (a button, a link, a script) names its
    id: that can show it.
    """

    def __init__(self) -> None:
        self.markup = ""
        """The page."""
        self._open: list[str] = []
        """Outermost first."""
        self._counts = Counter[str]()
        """Number of open elements by tag."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> bool:
        """Read a start tag; returns whether its element is hidden."""
        if self._counts["svg"] and (tag in BLOCKS or _is_heading(tag)):
            self._end("svg")  # browsers, too, end an open <svg> there
        if self._open and tag in _ENDED_BY.get(self._open[0], ()) and not any(map(self._counts.__getitem__, _LISTS)):
            self._end(self._open[0])
        hidden = bool(self._open) or tag in INVISIBLE or self._is_hidden(tag, attributes)
        if hidden and tag not in _WITHOUT_END:
            self._open.append(tag)
            self._counts[tag] += 1
        return hidden

    def end(self, tag: str) -> bool:
        """Read an end tag; returns whether it is to be ignored, because it does not end a visible element."""
        if self._counts[tag]:
            self._end(tag)
        elif self._open and tag in BLOCKS:  # it ends a visible element around the hidden ones
            self._open.clear()
            self._counts.clear()
            return False
        else:
            return bool(self._open)
        return True

    def _end(self, tag: str) -> None:
        """End the innermost element of this tag, and those inside it that were left open."""
        ended = ""
        while ended != tag:
            ended = self._open.pop()
            self._counts[ended] -= 1

    def _is_hidden(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> bool:
        """Whether the attributes hide an element. <html> and <body> are shown by the page's script."""
        values = {name: value or "" for name, value in attributes}
        hidden = "hidden" in values and values["hidden"].lower() != "until-found"
        if tag in ("html", "body") or not (hidden or _HIDING_STYLE.search(values.get("style", ""))):
            return False
        return values.get("role") != "tabpanel" and self._names[values.get("id", "")] < 2

    @cached_property
    def _names(self) -> Counter[str]:
        """Number of times that the page has each name as _NAMED finds it; the attribute `id` of the element counts."""
        return Counter(found[1] for found in _NAMED.finditer(self.markup))


class HtmlText(HTMLParser):
    """Collects the visible text of an HTML page. After `read`: `text`, `headings` and `tables` in order, and `title`.

    The head of a table is its caption and its first rows, as long as they have <th> cells alone or are in <thead>. The
    first row of <td> is the head if each row has as many cells and each but the first has a digit. Of nested tables
    only the inner ones with a head are listed; without such, the outer one.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[Heading] = []
        self._tables: list[tuple[int, int, int]] = []
        self._open_tables: list[_OpenTable] = []
        self.title = ""
        self._pieces: list[str] = []
        self._length = 0
        self._hidden = _HiddenElements()
        self._open_pre = 0
        """Number of open <pre> elements, whose white space is kept."""
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None
        """Of the open heading: the index of its first character in `text` and of its first piece, and its level."""

    def read(self, markup: str) -> None:
        """Read a whole page.

        A last tag without its ">" is left out with all after it, as in browsers: Python's parser is slow on a page
        with many of them.
        """
        unclosed = _TAG_BEGINS.search(markup, markup.rfind(">") + 1)
        self._hidden.markup = markup
        self.feed(markup[: unclosed.start()] if unclosed else markup)
        self.close()
        self.title = " ".join(self.title.split())

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
        self._in_title = tag == "title" and not hidden  # an icon, drawn by <svg>, has a title of its own
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
        """Whether a link may be the number of a footnote, which runs into the word before it: "Rome" with note 1."""
        return (dict(attrs).get("href") or "").startswith("#") and "".join(self._pieces[-1:])[-1:] not in "([/"

    def _read_table_tag(self, table: _OpenTable, tag: str) -> None:
        """Read a start tag inside a table; its head ends before the first row with a cell of data."""
        if tag in ("thead", "tbody"):
            table.in_head = tag == "thead"
        elif tag == "tr":
            table.end_row(self._length)
            if not table.data_begun:
                table.rows = self._length
        elif tag in ("td", "th"):
            table.cells += 1
            table.data_begun = table.data_begun or (tag == "td" and not table.in_head)

    def _close_table(self, table: _OpenTable) -> None:
        table.end_row(self._length)
        if table.columns > 1 and table.second_row < self._length:
            table.rows = max(table.rows, table.second_row)
        has_head = table.data_begun and table.rows > table.start
        if has_head and (not self._tables or self._tables[-1][0] < table.start):  # only if no inner table is listed
            self._tables.append((table.start, table.rows, self._length))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip a declaration such as `<![if !IE]>`, as browsers do; the inherited method raises an error on some."""
        return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._hidden and data not in _LINK_SIGNS:
            if self._open_tables and any(map(str.isdigit, data)):
                self._open_tables[-1].has_digit = True
            self._add(data if self._open_pre else re.sub(r"\s+", " ", data))

    def _add(self, piece: str) -> None:
        """Append text, without spaces at its start where the text so far is empty or ends in white space."""
        if self._pieces and self._pieces[-1][-1:].isspace() and not self._open_pre:
            piece = piece.lstrip(" ")
        elif not self._pieces:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def _break(self, newlines: str) -> None:
        """Make the text end in at least these newlines, without spaces before them; an empty text stays empty."""
        if self._pieces:
            last = self._pieces.pop()
            text = last.rstrip(" ")
            present = len(text) - len(text.rstrip("\n"))
            self._pieces.append(text + newlines[present:])
            self._length += len(self._pieces[-1]) - len(last)


def read_page(path: Path, markup: str) -> HtmlText:
    """The text of an HTML page; `path` is for messages.

    Raises:
        FileUnreadable: If it is no HTML.
    """
    page = HtmlText()
    try:
        page.read(markup)
    except AssertionError as error:  # Python's parser raises it over some declarations
        raise FileUnreadable(f"{path} is no HTML that can be read ({error}); leave it out") from error
    return page


def _break_around(block: str) -> str:
    return LINE_BREAK if block in ("li", "option", "tr") else PARAGRAPH_BREAK


def _is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
