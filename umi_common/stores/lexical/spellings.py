"""Other spellings of words: without accents, with an umlaut for two letters or two letters for it, one edit away.

The queries "Muller" and "Mueller" also find "Müller" (`Spellings`). "Schluesseln" is stemmed as "Schlüsseln", too
(`with_umlauts`). The query "Mulller" finds "Muller", if no text holds "Mulller" (`one_edit_away`); it does not find
"Müller", which differs in two letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from string import ascii_lowercase

from umi_common.stores.lexical import languages

_ACCENTED = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")
"""A Latin letter that is not ASCII."""
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"})
"""Letter that Unicode does not decompose into a letter and an accent -> letters in ASCII."""
_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
"""Letter -> two letters, as German, Danish, Norwegian and Swedish names are typed if the keyboard lacks the letter."""

_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü", "Ae": "Ä", "Oe": "Ö", "Ue": "Ü"}
_TWO_LETTERS_OF_UMLAUT = re.compile("|".join(_UMLAUTS))


def without_accents(word: str) -> str:
    """A lower-case word without its accents. A word in another script than Latin is unchanged."""
    if word.isascii() or languages.script_of(word) != languages.LATIN:
        return word
    return "".join(
        char for char in unicodedata.normalize("NFD", word.translate(_LETTERS)) if not unicodedata.combining(char)
    )


def with_umlauts(text: str) -> str:
    """The text with ä, ö and ü for ae, oe and ue, and Ä for Ae: a guess, which makes "neü" of "neue"."""
    return _TWO_LETTERS_OF_UMLAUT.sub(lambda two: _UMLAUTS[two[0]], text)


def one_edit_away(word: str) -> Iterator[str]:
    """All strings with the same first letter that differ by one ASCII letter (inserted, deleted or replaced) or by two
    adjacent letters that are swapped. Some come several times, and the word itself is among them."""
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield before + after[1:2] + after[0] + after[2:]
        for letter in ascii_lowercase:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]


class Spellings:
    """Finds the spellings with and without accents of a term of an index. One writer at a time; readers may read
    meanwhile.

    Args:
        stems: Returns the terms of a word: `Analyzer.terms_of_piece`.
    """

    def __init__(self, stems: Callable[[str], Sequence[str]]) -> None:
        self._stems = stems
        self._read = 0
        """Number of terms that `update` has read."""
        self._terms: dict[str, dict[str, None]] = {}
        """Spelling without accents -> the terms that have accents, as keys, because a dict keeps their order."""

    def __bool__(self) -> bool:
        """Whether a term of the index has accents."""
        return bool(self._terms)

    def update(self, terms: dict[str, int]) -> None:
        """Add the terms that have accents. `terms` only grows between calls; only its new terms are read."""
        new = list(islice(reversed(terms), len(terms) - self._read))[::-1]  # the last terms, in order
        for term in new:
            if not term.isascii() and _ACCENTED.search(term):
                for spelling in self._plain_spellings(term):
                    self._terms.setdefault(spelling, {})[term] = None
        self._read = len(terms)

    def others(self, term: str) -> list[str]:
        """For a term in ASCII, the accented terms of the index: müller for muller and mueller. For any other term, its
        spellings without accents."""
        return list(self._terms.get(term, ())) if term.isascii() else self._plain_spellings(term)

    def _plain_spellings(self, term: str) -> list[str]:
        plain = {without_accents(each) for each in (term, term.translate(_TWO_LETTERS))} - {term}
        stems = {stem for each in plain for stem in self._stems(each)}
        return sorted(plain | stems)
