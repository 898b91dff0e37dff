"""Read text, headings, tables and title of an HTML page. Nothing is fetched from the network; scripts are not run.

`HtmlText` collects the text, `_HiddenElements` tracks what a user cannot see, `_OpenTable` finds the head of a table:

    <h1>Roof</h1> <p hidden>Draft.</p> <ul><li>Tiles<li>Slate</ul>    "Roof\\n\\nTiles\\nSlate\\n\\n"
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import dropwhile

from typing_extensions import Self

from umi_common.files.readers.passages import Heading, Table
from umi_common.runtime.forks import cached_property

_TAG_BEGINS, _SPACE = re.compile("<[A-Za-z/!?]"), re.compile(r"\s+")


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


INVISIBLE = _tags("script style template svg noscript audio canvas datalist iframe video")
"""Elements whose content a browser does not show as text."""
BLOCKS = _tags(
    "address article aside blockquote caption center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form header hgroup hr legend li main menu nav ol optgroup option p pre search section select summary table "
    "textarea tr ul"
)
"""Elements before and after which the text has a line break."""
_HEADINGS = _tags("h1 h2 h3 h4 h5 h6")
_WITHOUT_END = _tags("area base br col embed hr img input link meta source track")
"""Elements that have no end tag."""
_ENDED_BY = {
    "p": _HEADINGS | BLOCKS - _tags("caption legend optgroup option select textarea tr"),
    "li": _tags("li"),
    **dict.fromkeys(("dt", "dd"), _tags("dt dd")),
    **dict.fromkeys(("td", "th"), _tags("td th tr tbody tfoot")),
    "tr": _tags("tr tbody tfoot"),
    **dict.fromkeys(("thead", "tbody", "tfoot"), _tags("tbody tfoot")),
    "option": _tags("option optgroup"),
    "optgroup": _tags("optgroup"),
}
"""For `_HiddenElements`: element whose end tag may be missing -> elements whose start tag then ends it: in
"<li>a<li>b", the second <li> ends the first."""
_HOLD_BLOCKS, _HOLD_TEXT = BLOCKS - _tags("p") | _tags("button td th"), _HEADINGS | _tags("p")
"""Visible elements whose end tag also ends all hidden elements inside: </div> in "<div><b hidden>a</div>b". No element
of _HOLD_TEXT is open around a hidden block, because the block ends it."""
_LISTS = ("ul", "ol", "dl", "table")
"""A start tag inside one of these elements ends no element around the list or table: in "<li>a<ul><li>b", the second
<li> does not end the first."""
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
"""A declaration in the attribute `style` that hides the element."""
_REDIRECT = re.compile(r"\s*0+(?:\.0*)?\s*[;,]\s*(?:url\s*=\s*)?['\"]?[^\s'\"]", re.IGNORECASE)
"""The `content` of a <meta http-equiv="refresh"> that opens another page at once: "0; url=new.html"."""
_NAMED = re.compile(r"""["'#=]([\w:.-]+)(?=["'\s>])""")
"""A possible id in an attribute or a script: "why", '#why', id=why."""
_LINK_SIGNS = ("¶", "\uf0c1")
"""Texts of a heading's link to itself, which Sphinx and MkDocs show only under the mouse pointer."""
REDIRECT_CHARACTERS = 500
"""Largest length of the text of a page that only leads to another page. A longer text, as of a saved page that leads to
a login, is read."""
PARAGRAPH_BREAK, LINE_BREAK = "\n\n", "\n"
"""Newlines between two paragraphs and between two lines in the text of a page."""


class HtmlText(HTMLParser):
    """Collects the visible text of an HTML page. After `read` it has `text`, `title`, `redirects`, and in order
    `headings` and `tables`: those with a head, see `_OpenTable`, and without a listed table inside."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[Heading] = []
        self._tables: list[tuple[int, int, int]] = []
        """For each table: the indices in `text` of its first character, of its first row of data, and of its end."""
        self._open_tables: list[_OpenTable] = []
        """Outermost first."""
        self._titles: list[str] = []
        """The text of each <title> read so far."""
        self._refreshes = False
        """Whether browsers open another page at once in place of this one."""
        self._pieces, self._length = [""], 0
        """The text read so far, in pieces, and its number of characters."""
        self._hidden = _HiddenElements()
        self._open_pre = 0
        """Number of open <pre> elements. White space in them is kept."""
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None
        """Of the open heading: index of its first character in `text`, of its first piece in `_pieces`, level."""

    def read(self, markup: str) -> Self:
        """Read a whole page up to a tag without ">", as browsers do; returns itself.

        Without this limit, Python's parser is slow on a page with many such tags.
        """
        unclosed = _TAG_BEGINS.search(markup, markup.rfind(">") + 1)
        self._hidden.markup = markup
        self.feed(markup[: unclosed.start()] if unclosed else markup)
        self.close()
        return self

    @property
    def text(self) -> str:
        """The text read so far."""
        return "".join(self._pieces)

    @property
    def title(self) -> str:
        """The first title that was read; "": none."""
        return " ".join("".join(self._titles[:1]).split())

    @property
    def redirects(self) -> bool:
        """Whether the page only leads to another page, so that nobody reads its text: "Redirecting to roof.html"."""
        return self._refreshes and len(self.text) <= REDIRECT_CHARACTERS

    @property
    def tables(self) -> list[Table]:
        """The tables that are listed so far."""
        return [Table.of(text, *table) for text in [self.text] for table in self._tables]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hidden = self._hidden.begin(tag, attrs)
        self._in_title = tag == "title" and not hidden  # the <title> of an <svg> is not the page's
        if hidden:
            return
        if tag in _HEADINGS:
            self._end_heading()
            self._break(PARAGRAPH_BREAK)
            self._heading = (self._length, len(self._pieces), int(tag[1]))
        elif tag == "title":
            self._titles.append("")
        elif tag == "br":
            self._break(LINE_BREAK)
        elif tag == "meta" and (dict(attrs).get("http-equiv") or "").lower() == "refresh":
            self._refreshes = self._refreshes or bool(_REDIRECT.match(dict(attrs).get("content") or ""))
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
            self._open_tables[-1].begin(tag, self._length)

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if self._hidden.end(tag):
            return
        if tag in _HEADINGS:
            self._end_heading()
        elif tag == "pre":
            self._open_pre = max(0, self._open_pre - 1)
        if tag in BLOCKS or tag in _HEADINGS:
            self._break(_break_around(tag))
        if tag == "table" and self._open_tables:
            table = self._open_tables.pop()
            data_start = table.data_start()
            holds_listed = bool(self._tables) and self._tables[-1][0] >= table.start
            if data_start is not None and not holds_listed:
                self._tables.append((table.start, data_start, self._length))
        elif tag == "thead" and self._open_tables:
            self._open_tables[-1].in_head = False

    def _end_heading(self) -> None:
        """Add the open heading to `headings`, unless it is empty."""
        if self._heading is not None:
            start, piece, level = self._heading
            if title := " ".join("".join(self._pieces[piece:]).split()):
                self.headings.append(Heading(start, level, title))
            self._heading = None

    def _is_note(self, attrs: list[tuple[str, str | None]]) -> bool:
        """Whether a link needs a space before it, because it may be the number of a footnote: "Rome 1", not "Rome1".
        Any link to a place in the page may be one, except after "(", "[" or "/"."""
        return (dict(attrs).get("href") or "").startswith("#") and self._pieces[-1][-1:] not in "([/"

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip a declaration such as `<![if !IE]>`, as browsers do; the inherited method raises errors for some."""
        return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._titles[-1] += data
        elif not self._hidden and data not in _LINK_SIGNS:
            if self._open_tables and any(map(str.isdigit, data)):
                self._open_tables[-1].rows[-1].has_digit = True
            if self.lasttag == "sup" and data[:1].isdigit() and self._pieces[-1][-1:].isdigit():
                data = f" {data}"  # "10 6", not "106"
            self._add(data if self._open_pre else _SPACE.sub(" ", data))

    def _add(self, piece: str) -> None:
        """Append text, without leading spaces if the text so far is empty or, outside <pre>, ends in white space."""
        if self._pieces[-1][-1:].isspace() and not self._open_pre:
            piece = piece.lstrip(" ")
        elif not self._length:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def _break(self, newlines: str) -> None:
        """Make a text that is not empty end in at least these newlines, without spaces before them."""
        if self._length:
            last = self._pieces.pop()
            text = last.rstrip(" ")
            present = len(text) - len(text.rstrip("\n"))
            self._pieces.append(text + newlines[present:])
            self._length += len(self._pieces[-1]) - len(last)


def _break_around(block: str) -> str:
    return LINE_BREAK if block in ("li", "option", "tr") else PARAGRAPH_BREAK


class _HiddenElements:
    """Tracks the open elements that a user of the page cannot see. Their text is not read.

    These are the elements of INVISIBLE, and elements with the attribute `hidden` or a style that hides them. An element
    with `hidden` or such a style does not count as hidden if a user may make it visible: if it is the panel of a tab,
    or if its id occurs elsewhere in the page, as in a button, a link or a script.
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
        if self._counts["svg"] and tag in BLOCKS | _HEADINGS:
            self._end("svg")  # browsers end an <svg> at such a tag
        if self._open and tag in _ENDED_BY.get(self._open[0], ()) and not any(self._counts[each] for each in _LISTS):
            self._end(self._open[0])
        hidden = bool(self._open) or tag in INVISIBLE or self._is_hidden(tag, attributes)
        if hidden and tag not in _WITHOUT_END:
            self._open.append(tag)
            self._counts[tag] += 1
        return hidden

    def end(self, tag: str) -> bool:
        """Read an end tag; returns whether it ends a hidden element or is inside one. Else it ends a visible one."""
        if self._counts[tag]:
            self._end(tag)
            return True
        if tag in _HOLD_BLOCKS or (tag in _HOLD_TEXT and BLOCKS.isdisjoint(self._open)):
            self._open.clear()
            self._counts.clear()
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


class _OpenTable:
    """A table whose end tag was not read yet. Indices are those of characters in `HtmlText.text`.

    Its head is its caption and the first rows that have only <th> cells or are in <thead>. Without such rows, the first
    row is the head if it has no digit, every other row has one, and all have the same number of cells, at least two.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        """Index of the table's first character."""
        self.in_head = False
        """Whether <thead> is open, whose cells may be <td>."""
        self.rows = [_Row(0)]
        """The rows, the open one last. The first one is what comes before the first <tr>."""

    def begin(self, tag: str, at: int) -> None:
        """Read a start tag inside the table, at this index."""
        if tag in ("td", "th"):
            row = self.rows[-1]
            row.cells += 1
            row.has_data = row.has_data or (tag == "td" and not self.in_head)
        elif tag == "tr":
            self.rows.append(_Row(at))
        elif tag in ("thead", "tbody"):
            self.in_head = tag == "thead"

    def data_start(self) -> int | None:
        """Index of the first character after the head; None: the table has no head, or only a head."""
        rows = [row for row in self.rows if row.cells]
        data = list(dropwhile(lambda row: not row.has_data, rows))
        if len(data) == len(rows) > 1:  # no row has only <th> cells
            first, *others = rows
            alike = all(row.cells == first.cells and row.has_digit for row in others)
            data = others if alike and first.cells > 1 and not first.has_digit else data
        return data[0].start if data and data[0].start > self.start else None


@dataclass(slots=True, eq=False)
class _Row:
    start: int
    cells: int = 0
    has_digit: bool = False
    has_data: bool = False
    """Whether a cell of the row is a <td> outside of <thead>."""
