"""Headings of Markdown, and HTML as text with its headings. Nothing is fetched, no script is run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from umi_common.files.readers.passages import Heading

_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_ATX = re.compile(r"^[ ]{0,3}(#{1,6})[ \t]+(.+)$", re.MULTILINE)
UNSEEN = frozenset({"script", "style", "template", "svg", "noscript"})
BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "article aside blockquote dd div dl dt figure footer header hr li main nav ol p pre section table tr ul",
    )
)
PARAGRAPH, LINE = "\n\n", "\n"


def markdown_headings(text: str) -> list[Heading]:
    """ATX headings (`## Title`) outside of code fences."""
    fences = [found.span() for found in _FENCE.finditer(text)]
    return [
        Heading(found.start(), len(found[1]), _without_closing(found[2]))
        for found in _ATX.finditer(text)
        if not any(start <= found.start() < end for start, end in fences)
    ]


def _without_closing(title: str) -> str:
    """The title without closing #s: `Setup ##` becomes Setup, `C#` stays."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.strip() if bare[-1:] in ("", " ", "\t") else title.strip()


class HtmlText(HTMLParser):
    """The visible text of an HTML page: `text`, `headings` and `title`, after `read`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[Heading] = []
        self.title = ""
        self._pieces: list[str] = []
        self._length = 0
        self._unseen: list[str] = []
        self._verbatim = 0
        self._in_title = False
        self._heading: tuple[int, int, int] | None = None
        """First character, first piece, level."""

    def read(self, markup: str) -> None:
        """Read a whole page. An unclosed tag ends it, as in browsers; Python's parser is slow with many of them."""
        closed = markup.rfind(">") + 1
        self.feed(markup[:closed] + markup[closed:].partition("<")[0])
        self.close()

    @property
    def text(self) -> str:
        """The text read so far."""
        return "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title"
        if tag in UNSEEN:
            self._unseen.append(tag)
        elif _is_heading(tag):
            self._break(PARAGRAPH)
            self._heading = (self._length, len(self._pieces), int(tag[1]))
        elif tag == "br":
            self._break(LINE)
        elif tag in BLOCKS:
            self._break(LINE if tag in ("li", "tr") else PARAGRAPH)
            self._verbatim += tag == "pre"
        elif tag in ("td", "th"):
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in UNSEEN and tag in self._unseen:
            while self._unseen.pop() != tag:
                pass
        elif _is_heading(tag) and self._heading is not None:
            start, piece, level = self._heading
            title = "".join(self._pieces[piece:]).strip()
            if title:
                self.headings.append(Heading(start, level, title))
            self._heading = None
            self._break(PARAGRAPH)
        elif tag in BLOCKS:
            self._verbatim -= tag == "pre" and self._verbatim > 0
            self._break(LINE if tag in ("li", "tr") else PARAGRAPH)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip `<![if !IE]>` and similar declarations, as browsers do; Python's parser raises an error on some."""
        return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data.strip()
        elif not self._unseen:
            self._add(data if self._verbatim else re.sub(r"\s+", " ", data))

    def _add(self, piece: str) -> None:
        if self._pieces and self._pieces[-1][-1:].isspace() and not self._verbatim:
            piece = piece.lstrip(" ")
        elif not self._pieces:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def _break(self, wanted: str) -> None:
        if self._pieces:
            last = self._pieces[-1]
            there = len(last) - len(last.rstrip("\n"))
            missing = wanted[: max(0, len(wanted) - there)]
            if missing:
                self._pieces.append(missing)
                self._length += len(missing)


def _is_heading(tag: str) -> bool:
    return len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"
