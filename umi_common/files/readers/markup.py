"""Find the headings of Markdown, and the visible text and headings of HTML. Nothing is fetched, no script is run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from umi_common.files.readers.passages import Heading

_FENCED_CODE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_ATX_HEADING = re.compile(r"^[ ]{0,3}(#{1,6})[ \t]+(.+)$", re.MULTILINE)
INVISIBLE = frozenset({"script", "style", "template", "svg", "noscript"})
"""Elements whose content a browser does not show as text."""
BLOCKS = frozenset({"article", "aside", "blockquote", "dd", "div", "dl", "dt", "figure", "footer", "header", "hr"}) | {
    *("li", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"),
    *("address", "caption", "details", "fieldset", "figcaption", "form", "legend", "summary"),
    *("optgroup", "option", "select", "textarea"),
}
"""Elements that begin and end on a line of their own."""
PARAGRAPH_BREAK, LINE_BREAK = "\n\n", "\n"


def markdown_headings(text: str) -> list[Heading]:
    """The headings written with #s (`## Title`), in order, without those inside fenced code."""
    fences = [found.span() for found in _FENCED_CODE.finditer(text)]
    return [
        Heading(found.start(), len(found[1]), _without_closing(found[2]))
        for found in _ATX_HEADING.finditer(text)
        if not any(start <= found.start() < end for start, end in fences)
    ]


def _without_closing(title: str) -> str:
    """The title without closing #s: `Setup ##` becomes Setup, `C#` stays."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.strip() if bare[-1:] in ("", " ", "\t") else title.strip()


class HtmlText(HTMLParser):
    """Collects the visible text of an HTML page. After `read`: `text`, `headings` in order, and `title`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[Heading] = []
        self.title = ""
        self._pieces: list[str] = []
        self._length = 0
        self._invisible: list[str] = []
        """Open elements of INVISIBLE, outermost first."""
        self._open_pre = 0
        """Number of open <pre> elements, whose white space is kept."""
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None
        """Of the open heading: the index of its first character in `text` and of its first piece, and its level."""

    def read(self, markup: str) -> None:
        """Read a whole page.

        A last "<" that no ">" follows is left out with all after it, as in browsers: Python's parser is slow on
        a page with many of them.
        """
        closed = markup.rfind(">") + 1
        self.feed(markup[:closed] + markup[closed:].partition("<")[0])
        self.close()

    @property
    def text(self) -> str:
        """The text read so far."""
        return "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title"
        if tag in INVISIBLE:
            self._invisible.append(tag)
        elif _is_heading(tag):
            self._break(PARAGRAPH_BREAK)
            self._heading = (self._length, len(self._pieces), int(tag[1]))
        elif tag == "br":
            self._break(LINE_BREAK)
        elif tag in BLOCKS:
            self._break(_break_around(tag))
            if tag == "pre":
                self._open_pre += 1
        elif tag in ("td", "th"):
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in self._invisible:  # also closes the elements inside it that were left open
            while self._invisible.pop() != tag:
                continue
        elif _is_heading(tag) and self._heading is not None:
            start, piece, level = self._heading
            title = "".join(self._pieces[piece:]).strip()
            if title:
                self.headings.append(Heading(start, level, title))
            self._heading = None
            self._break(PARAGRAPH_BREAK)
        elif tag in BLOCKS:
            if tag == "pre":
                self._open_pre = max(0, self._open_pre - 1)
            self._break(_break_around(tag))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip a declaration such as `<![if !IE]>`, as browsers do; the inherited method raises an error on some."""
        return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data.strip()
        elif not self._invisible:
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
        """Make the text end in at least these newlines; an empty text stays empty."""
        if self._pieces:
            last = self._pieces[-1]
            present = len(last) - len(last.rstrip("\n"))
            missing = newlines[present:]
            if missing:
                self._pieces.append(missing)
                self._length += len(missing)


def _break_around(block: str) -> str:
    return LINE_BREAK if block in ("li", "option", "tr") else PARAGRAPH_BREAK


def _is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
