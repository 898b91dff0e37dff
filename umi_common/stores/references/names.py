"""Names of chunks: the heading that a text begins with, as terms, and the texts that mention it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from umi_common.stores.lexical.analyzer import Analyzer

LETTERS_READ = 120
"""Letters at the beginning of a text in which its heading is sought."""
WORDS_MAX = 8
"""Words of the longest name; a longer heading is a sentence."""
LETTERS_MIN = 4
"""Letters and digits of the shortest name."""
CHUNKS_OF_A_NAME = 3
"""Chunks that may share a name; a heading of more chunks ("Overview") names none of them."""

_HEADING = re.compile(r"[#\s]*([^\n:;!?]{3,80}?)(?:(?<=\w\w)\.\s|(?<=\))\.\s|\n)")
"""A first line, or a first sentence without a colon or a question mark: what ends before the text goes on."""
_IN_BRACKETS = re.compile(r"\s*\([^)]*\)")
_WORD = re.compile(r"\w+")

Name = tuple[str, ...]
"""The terms of a name, in order."""


def heading(text: str) -> str | None:
    """The heading that a text begins with, without what it adds in brackets; None if it begins with none.

    A heading has at most WORDS_MAX words, at least LETTERS_MIN letters or digits, and begins with a capital letter, or
    with a digit if it has several words.
    """
    found = _HEADING.match(text[:LETTERS_READ])
    if found is None:
        return None
    named = _IN_BRACKETS.sub("", found.group(1))
    words = _WORD.findall(named)
    if not 1 <= len(words) <= WORDS_MAX or sum(map(len, words)) < LETTERS_MIN:
        return None
    first = words[0][0]
    return named if first.isupper() or (first.isdigit() and len(words) > 1) else None


class Names:
    """Rows by name. One writer; readers may see the rows of a later write, so they check that a row may be found.

    Args:
        analyzer: Makes terms of headings, as of the texts that mention them.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._rows: dict[Name, list[int]] = {}
        self._names: dict[int, Name] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        """By the first term of a name: the lengths of the names that begin with it, longest first."""

    def add(self, rows: Sequence[int], texts: Sequence[str]) -> None:
        """Add the names of texts[i] as rows[i]; only the first LETTERS_READ letters of a text are read."""
        for row, text in zip(rows, texts, strict=True):
            named = heading(text)
            name = () if named is None else tuple(self._analyzer.terms(named))
            if not name:
                continue
            known = self._lengths.get(name[0], ())
            if len(name) not in known:
                self._lengths[name[0]] = tuple(sorted((*known, len(name)), reverse=True))
            self._rows.setdefault(name, []).append(row)
            self._names[row] = name

    def rows(self, name: Name) -> list[int]:
        """The rows of that name, dead ones included."""
        return self._rows.get(name, [])

    def name(self, row: int) -> Name | None:
        """The name of a row; None: it has none."""
        return self._names.get(row)

    def mentioned(self, terms: Sequence[str], living: Callable[[Sequence[int]], list[int]]) -> dict[Name, list[int]]:
        """The names that occur in a text with these terms, and their living rows; of overlapping names the first, then
        the longest. A name without a living row does not count.
        """
        found: dict[Name, list[int]] = {}
        stop, lengths_of = 0, self._lengths
        for at in [at for at, term in enumerate(terms) if term in lengths_of]:
            if at < stop:
                continue
            for length in lengths_of[terms[at]]:
                name = tuple(terms[at : at + length])
                if rows := living(self.rows(name)):
                    found[name] = rows
                    stop = at + length
                    break
        return found
