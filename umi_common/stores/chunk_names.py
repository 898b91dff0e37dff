"""Names of chunks. A name is the heading at the beginning of a text, or the value of its line "title: ...".

A text mentions a name if the name's terms stand in it one directly after the other, in their order. `Names` finds the
chunks with a name, and the names that a text mentions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.languages import READ_CHARACTERS

HEADING_CHARACTERS = 120
"""Number of characters at the beginning of a text that are searched for its heading."""
PATH_CHARACTERS = 200
"""Largest length of a line of titles (see PATH_END), in characters. The readers of files, which write these lines, keep
to it: in the indexed text of a short passage, most words would otherwise be those of the line."""
PATH_END = " >\n"
"""End of a line of titles. This is a first line with the title of the page and of the sections that the passage is in,
as in "Guide > Install >". Searches find its words, but it names no chunk, since all passages of a section share it."""
BEGINNING = max(PATH_CHARACTERS + HEADING_CHARACTERS, READ_CHARACTERS)
"""Number of characters at the beginning of a text by which its name and its language are found."""
NAME_WORDS_MAX = 8
"""Largest number of words of a name; a longer heading is taken for a sentence."""
NAME_LETTERS_MIN = 4
"""Smallest number of letters and digits of a name."""

_PATH = re.compile(rf"[^\n]*{PATH_END}")
_HEADING = re.compile(r"[#\s]*([^\n:;!?]{3,80}?)(?:(?<=\w\w)\.\s|(?<=\))\.\s|\n)")
"""The first line, or the first sentence that white space follows; none if it holds one of the signs : ; ! ?."""
_TITLE = re.compile(r"(?:---\n)?(?:\w+: [^\n]*\n)*?\w*title: [\"']?([^\n]{3,80}?)[\"']?\n", re.IGNORECASE)
"""A line "title: ..." after other lines of metadata, as LlamaIndex and Markdown files have them before a text."""
_IN_BRACKETS = re.compile(r"\s*\([^)]*\)")
_WORD = re.compile(r"\w+")

Name = tuple[str, ...]
"""The terms of a name, in order."""


def heading(text: str) -> str | None:
    """The heading that a text begins with, or its title, without the parts in brackets; None if there is neither.

    A line of titles before it is skipped (see PATH_END).

    A heading has at most NAME_WORDS_MAX words, at least NAME_LETTERS_MIN letters or digits, and begins with a capital
    letter, or with a digit if it has several words; in a script without capitals there is none.
    """
    text = text.replace("\r\n", "\n")
    path = _PATH.match(text)
    start = path.end() if path else 0
    beginning = text[start : start + HEADING_CHARACTERS]
    if "." not in beginning and "\n" not in beginning:  # no heading; speech without signs is read four times as fast
        return None
    found = _TITLE.match(beginning) or _HEADING.match(beginning)
    if found is None:
        return None
    named = _IN_BRACKETS.sub("", found.group(1))
    words = _WORD.findall(named)
    if not 1 <= len(words) <= NAME_WORDS_MAX or sum(map(len, words)) < NAME_LETTERS_MIN:
        return None
    first = words[0][0]
    return named if first.isupper() or (first.isdigit() and len(words) > 1) else None


class Names:
    """Finds rows by name, and the names that a text mentions. One thread writes while others read.

    Rows of deleted or replaced chunks ("dead" rows) stay. A reader may also get rows that were added after its
    snapshot. `LexicalIndex.living` removes both.

    Args:
        analyzer: Splits headings into terms; the texts that are searched for mentions use the same analyzer.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._rows: dict[Name, list[int]] = {}
        self.by_row: dict[int, Name] = {}
        """The name of each row that has one, dead rows included."""
        self.by_term: dict[str, list[int]] = {}
        """The rows whose names hold a term, dead rows included."""
        self._lengths: dict[str, tuple[int, ...]] = {}
        """First term of a name -> the lengths of the names that begin with it, longest first."""

    def add(self, rows: Sequence[int], texts: Sequence[str]) -> None:
        """For each texts[i] that has a name, `put` it for rows[i]. Only the first BEGINNING characters are read."""
        for row, text in zip(rows, texts, strict=True):
            text = text[:BEGINNING]
            named = heading(text)
            if named is None:
                continue
            analyzer = self._analyzer.of_language(self._analyzer.language_of(text))
            if name := tuple(analyzer.terms(named)):
                self.put(row, name)

    def put(self, row: int, name: Name) -> None:
        """Give a row a name of at least one term."""
        known = self._lengths.get(name[0], ())
        if len(name) not in known:
            self._lengths[name[0]] = tuple(sorted((*known, len(name)), reverse=True))
        self._rows.setdefault(name, []).append(row)
        self.by_row[row] = name
        for term in set(name):
            self.by_term.setdefault(term, []).append(row)

    def __len__(self) -> int:
        """Number of different names."""
        return len(self._rows)

    def rows(self, name: Name) -> list[int]:
        """The rows of that name, dead ones included."""
        return self._rows.get(name, [])

    def mentioned(self, terms: Sequence[str], living: Callable[[Sequence[int]], list[int]]) -> dict[Name, list[int]]:
        """The names that a text mentions, each with its living rows. A name without a living row is left out.

        If names overlap in the text, the name that begins first counts; of names that begin at one term, the longest.

        Args:
            terms: The terms of the text, in order.
            living: Returns the rows, among those given, that are alive.
        """
        found: dict[Name, list[int]] = {}
        stop, lengths_of = 0, self._lengths
        for at in [at for at, term in enumerate(terms) if term in lengths_of]:
            if at < stop:
                continue
            for length in lengths_of[terms[at]]:
                name = tuple(terms[at : at + length])
                if (rows := self._rows.get(name)) and (rows := living(rows)):
                    found[name] = rows
                    stop = at + length
                    break
        return found
