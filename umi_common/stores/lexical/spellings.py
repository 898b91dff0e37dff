"""Other spellings of words: without accents, with an umlaut for two letters or two letters for it, one edit away, as
one word or as two.

The queries "Muller" and "Mueller" also find "Müller" (`Spellings`). "Schluesseln" is stemmed as "Schlüsseln", too
(`with_umlauts`). The query "Mulller" finds "Muller", if no text holds "Mulller" (`one_edit_away`); it does not find
"Müller", which differs in two letters.

The compound "Wasserleitung" also finds "Leitung für das Wasser" (`parts_of_compound`), and is found by it
(`compounds_of`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
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

COMPOUNDING = frozenset({"danish", "dutch", "finnish", "german", "hungarian", "norwegian", "swedish"})
"""Languages that write compounds as one word."""
LINKS = ("", "s", "n", "en", "e", "es")
"""Letters between the parts of a compound. Before them, the first part may lack its last letter: "skol|avgift"."""
PART_LETTERS = 4
"""Smallest number of letters of each part into which a compound is split; an s that links the parts counts, too."""
Stems = Callable[[list[str]], list[str]]
"""Returns the stem of each word."""
Held = Callable[[Iterable[str]], Mapping[str, int]]
"""Returns those of some terms that living rows hold, each with the number of rows."""


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


def parts_of_compound(word: str, stems_of: Stems, held: Held) -> list[str]:
    """The terms of the two parts of a compound: "mietvertrag" and "kundig" of "mietvertragskündigung".

    Of several splits, the one whose rarer part is in the most rows; empty if rows hold the parts of no split.
    """
    spellings = dict.fromkeys([word, with_umlauts(word)])
    splits = [(each[:at], each[at:]) for each in spellings for at in range(PART_LETTERS, len(each) - PART_LETTERS + 1)]
    splits += [(head[:-1], tail) for head, tail in splits if head.endswith("s")]
    stems = stems_of([part for split in splits for part in split])
    rows = held(stems)
    found = [two for two in zip(stems[::2], stems[1::2], strict=True) if two[0] != two[1] and rows.keys() >= set(two)]
    return list(max(found, key=lambda two: min(map(rows.__getitem__, two)), default=()))


def compounds_of(words: Sequence[str], stems_of: Stems, held: Held) -> dict[str, list[str]]:
    """By word, the terms of its compounds with the next or previous word, in either order, that rows hold.

    Function words between the two are left out: for "Leitung für das Wasser", "wasserleit" is found by both words.
    """
    content = [word for word in words if word not in languages.all_function_words()]
    found: dict[str, list[str]] = {}
    for one, other in pairwise(content):
        orders = (one, other), (other, one)
        typed = [head + link + tail for first, tail in orders for head in (first, first[:-1]) for link in LINKS]
        for whole in held(stems_of(typed)):
            found.setdefault(one, []).append(whole)
            found.setdefault(other, []).append(whole)
    return found


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
