"""Mark the words of the query in a text: words that the store's analyzer maps to the same terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from umi_common.explain.texts import snippet, visible
from umi_common.types import SearchResult

LEAD_CHARACTERS = 60
"""Largest number of characters that an excerpt shows before the first place where a word of the query occurs."""
FUNCTION_TEXT = (
    "a about an and are as at be but by can did do does for from had has have he how i in is it its me my of on or our "
    "s she so t that the their them there they this to us was we were what when where which who whom whose why will "
    "with you your"
)
"""English words that occur in most texts, and the "s" and "t" of "it's" and "don't".
They are not marked, so that the other words of the query stand out."""

_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_PART = re.compile(r"[^\W_]+")

CharRange = tuple[int, int]
"""[start, end): indices of characters in a text."""


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words of the query and its variations, which are marked in texts.

    Function words are left out, unless the query has no other words.
    """

    terms: frozenset[str]
    """The terms of these words."""
    terms_of: Callable[[str], Sequence[str]]
    """The analyzer: a function from a text to its terms."""

    @classmethod
    def of(cls, result: SearchResult) -> QueryWords:
        """The words of a result's query. If `result.terms_of` is None, the words in lower case are their own terms."""
        terms_of = _lowered if result.terms_of is None else result.terms_of
        text = " ".join((result.query, *result.query_variations))
        # The analyzer stems by the language that it recognises in a text. `spans` analyses each word alone, which may
        # not show the language and then has another term. So the terms of the whole and of each word alone are taken.
        terms = frozenset(terms_of(text)).union(*map(terms_of, _lowered(text)))
        return cls(terms.difference(terms_of(FUNCTION_TEXT)) or terms, terms_of)

    def spans(self, text: str) -> Iterator[CharRange]:
        """Yield the range of each word to mark in `text`, in rising order and without overlap.

        A token is a text without white space. If only the whole token has a term of the query, and none of its words
        alone, the range is from the beginning of its first word to the end of its last.
        """
        for token in _TOKEN.finditer(text):
            found = self.terms.intersection(self.terms_of(token[0]))
            words = list(_pieces(_WORD, token[0])) if found else []
            marks = [
                (start + at, start + to) for start, end in words for at, to in self._in_word(token[0][start:end], found)
            ]
            if words and not marks:
                marks = [(words[0][0], words[-1][1])]
            yield from ((token.start() + start, token.start() + end) for start, end in marks)

    def _in_word(self, word: str, found: frozenset[str]) -> list[CharRange]:
        """Ranges to mark in a word for the terms in `found`: none, if the word has none of them; else the parts that
        have one, such as "wait" in "wait_for"; else the whole word.

        In a word of a script without spaces, the places of the terms: 東京 in 昨日東京で. Such a word is not ASCII, has
        several terms, and has no parts.
        """
        whole, terms = [(0, len(word))], self.terms_of(word)
        if found.isdisjoint(terms):
            return []
        parts = [part for part in _pieces(_PART, word) if not found.isdisjoint(self.terms_of(word[slice(*part)]))]
        if parts == whole and len(terms) > 1 and not word.isascii():
            lowered = word.lower()
            covered = bytearray(len(lowered))
            for term in found:
                for place in re.finditer(f"(?={re.escape(term)})", lowered):
                    covered[place.start() : place.start() + len(term)] = b"x" * len(term)
            parts = [match.span() for match in re.finditer(b"x+", covered)]
        return parts or whole


def _lowered(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _pieces(pattern: re.Pattern[str], token: str) -> Iterator[CharRange]:
    """Ranges of the pattern's matches in a token. Combining marks count as letters; in `re` they do not."""
    if not token.isascii():
        token = "".join("x" if unicodedata.category(char)[0] == "M" else char for char in token)
    return (piece.span() for piece in pattern.finditer(token))


def marked(
    text: str,
    words: QueryWords,
    *,
    around: tuple[str, str] = ("<mark>", "</mark>"),
    written: Callable[[str], str] = escape,
) -> str:
    """The text with the first string of `around` before and the second after each word of the query.

    Control characters are replaced as by `visible`.

    Args:
        written: Function that escapes a piece of the text.
    """
    shown, (before, after) = visible(text), around
    pieces, at = [], 0
    for start, end in words.spans(shown):
        pieces += [written(shown[at:start]), before, written(shown[start:end]), after]
        at = end
    return "".join([*pieces, written(shown[at:])])


def excerpt(text: str, words: QueryWords, characters: int = 320) -> str:
    """About `characters` characters of a text, in one line; "…" marks a cut.

    The excerpt shows the first place where any word of the query occurs. It begins at the start of the text if this
    place is in the first two thirds of the first `characters` characters, or if there is none. Else it begins at a word
    at most LEAD_CHARACTERS before this place. Control characters stay; see `marked`.
    """
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    first = next((start for start, _ in words.spans(line)), 0)
    if first < characters * 2 // 3:
        return snippet(line, characters)
    start = first - LEAD_CHARACTERS
    space = line.find(" ", start, first)
    return "… " + snippet(line[start if space < 0 else space + 1 :], characters)
