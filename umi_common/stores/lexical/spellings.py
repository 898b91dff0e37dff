"""Words with accents, and how people type them without: Müller, Muller and Mueller are one name."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from umi_common.stores.lexical import languages
from umi_common.stores.lexical.analyzer import Analyzer

_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"})
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
"""As German, Danish, Norwegian and Swedish names are written where a keyboard lacks the letter."""


def without_accents(word: str) -> str:
    """A word of Latin letters in lower case without accents; other words as they are."""
    if word.isascii() or languages.script_of(word) != languages.LATIN:
        return word
    return "".join(
        char for char in unicodedata.normalize("NFD", word.translate(_LETTERS)) if not unicodedata.combining(char)
    )


def with_umlauts(text: str) -> str:
    """The text with ä, ö and ü for each ae, oe and ue."""
    return text.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü")


class Spellings:
    """The terms of an index that have accents, by their spellings without. One thread adds, others may read.

    Args:
        analyzer: Stems the spellings.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._terms: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        """Whether a term of the index has accents."""
        return bool(self._terms)

    def add(self, terms: Iterable[str]) -> None:
        """Add the terms that have accents."""
        for term in terms:
            if not term.isascii():
                for spelling in self._without(term):
                    self._terms.setdefault(spelling, {})[term] = None

    def others(self, term: str) -> list[str]:
        """The terms with accents that are typed like this one; of a term with accents, its spellings without."""
        return list(self._terms.get(term, ())) if term.isascii() else self._without(term)

    def _without(self, term: str) -> list[str]:
        plain = {without_accents(each) for each in (term, term.translate(_TWO_LETTERS))} - {term}
        stems = {stem for each in plain for stem in self._analyzer.terms_of_piece(each)}
        return sorted(plain | stems)
