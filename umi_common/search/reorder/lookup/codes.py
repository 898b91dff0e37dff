"""Find the codes of a query ("error 502", "UMB-2231", "bug 983434") in texts.

A code is a word of at least two characters, one of them a digit; a digit alone mostly counts something. "4th" is no
code, because a text may write "fourth" or "round 4". A code with at least `IDENTIFIER_DIGITS` digits is an identifier,
such as the number of an order. Identifiers are looked up in a query of any length, short codes only in a query of few
other words: in a longer one, a short code is one detail of several.

For a code p and a text i:

    g(p, i) = 1 - offset of p / length of the text, if the text holds p; else 0

If only some of the texts with a short code also hold the query's other words, g of each code in these texts is 1
larger: "which relay replaces K35?" asks for the text with "replaces", even if K35 stands late in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from umi_common.number_names import DIGITS_OF
from umi_common.pool import Floats
from umi_common.search.reorder.lookup.phrases import TEXT_CHARACTERS, holds_all
from umi_common.search.reorder.numbers import RANGE, ranges_in
from umi_common.search.reorder.words import FIRST_LETTERS, PARTS_MAX, TermsOf, bare, held_early, spaced, words_in
from umi_common.stores.lexical.languages import all_function_words
from umi_common.stores.lexical.numbers_in_text import BASE_UNITS

IDENTIFIER_DIGITS = 5
"""Smallest number of digits of an identifier. A year and most quantities have fewer."""
IN_BASE_UNIT = re.compile(rf"[\d.]+(?:{BASE_UNITS})")
"""A measure as in `in_base_units`, which is no identifier."""
OTHER_WORDS_MAX = 2
"""Largest number of words, other than codes and function words, of a query whose short codes are looked up."""
VERSION = re.compile(r"v?(\d+(?:\.\d+)+)")
"""Numbers with points between them, which may be a version, with or without a v before them."""
LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]+|\d+")
"""A run of letters or a run of digits."""


class Code(NamedTuple):
    """A code of a query, in the forms in which a text may hold it."""

    pattern: re.Pattern[str]
    digits: str
    """The first run of digits in the code, a quick test: few texts without the code hold it. "" if the code has only
    superscript digits, like "m²"."""

    def search(self, text: str) -> re.Match[str] | None:
        """The first match of the code in a text; None: the text does not hold the code."""
        return self.pattern.search(text) if self.digits in text else None


def codes_in(query: str) -> tuple[list[Code], list[Code]]:
    """(short codes, identifiers) of a query, at most `PARTS_MAX` of each. There are no short codes if the query has
    more than `OTHER_WORDS_MAX` other words."""
    if not any(map(str.isdigit, query)):
        return [], []
    words = dict.fromkeys(bare(word).lower() for word in query.split())
    digit_counts = {word: sum(map(str.isdigit, word)) for word in words if len(word) > 1}
    long = (word for word, n in digit_counts.items() if n >= IDENTIFIER_DIGITS)
    identifiers = [word for word in long if not IN_BASE_UNIT.fullmatch(word)]
    short = [word for word, n in digit_counts.items() if n and word not in identifiers and word not in DIGITS_OF]
    others = words.keys() - {"", *short, *identifiers} - all_function_words()
    if len(others) > OTHER_WORDS_MAX:
        short = []
    return list(map(_code, short[:PARTS_MAX])), list(map(_code, identifiers[:PARTS_MAX]))


def _code(code: str) -> Code:
    """The code with its pattern. The pattern finds whole parts of a longer code, too: "1444" finds "INV-2024-1444".

    The parts of a code are its runs of letters and its runs of digits. Between two parts a text may have one sign of
    any kind or none ("E-1042" finds "e1042"); between two runs of digits it must have one ("10.1" does not find "101").
    The code must not touch another letter or digit, nor continue a number ("10.1" does not find "10.1.2"). A version
    is found with and without its v: "v1.4" finds "1.4", and "1.4" finds "v1.4". A range is found in other forms: "5-10"
    finds "5 to 10".
    """
    version = VERSION.fullmatch(code)
    parts = LETTERS_OR_DIGITS.findall(version[1] if version else code)
    pattern = (r"(?:v[\W_]?)?" if version else "") + re.escape(parts[0])
    for before, after in pairwise(parts):
        between_digits = before[-1].isdigit() and after[0].isdigit()
        pattern += (r"[\W_]" if between_digits else r"[\W_]?") + re.escape(after)
    if RANGE.fullmatch(code):
        pattern = f"(?:{'|'.join([pattern, *ranges_in(code)])})"
    whole = re.compile(rf"(?<![^\W_])(?<!\d[.,:]){pattern}(?![^\W_]|[.,:]\d)", re.IGNORECASE)
    return Code(whole, next(filter(str.isdecimal, parts), ""))


def codes_held(texts: Sequence[str], codes: Sequence[Code]) -> Floats:
    """(n, C) `earlier_first` of g of C codes in n texts, by the formula at the top of this file."""
    return held_early(texts, codes, _by_offset)


def _by_offset(text: str, code: Code) -> float:
    match = code.search(text)
    return 0.0 if match is None else 1 - match.start() / len(text)


def with_words_beside(held: Floats, texts: Sequence[str], beside: Sequence[str], terms_of: TermsOf) -> Floats:
    """`held`, g of codes or full names, 1 larger in texts that also hold the query's other words (`beside`), as the top
    of this file says. The text may have other forms of these words, with equal terms: "replacement" for "replaces"."""
    with_code = np.asarray(held.any(axis=1))
    if not (beside and with_code.any()):
        return held
    wanted = frozenset(terms_of(" ".join(beside)))

    def holds_words(text: str) -> bool:
        text = text[:TEXT_CHARACTERS]
        if holds_all(spaced(words_in(text)), beside):
            return True
        lower = text.lower()  # outside ASCII, terms and words may differ in accents in their first letters
        may_hold = not text.isascii() or all(term[:FIRST_LETTERS] in lower for term in wanted)
        return may_hold and wanted <= frozenset(terms_of(text))

    with_words = np.array([coded and holds_words(text) for text, coded in zip(texts, with_code.tolist(), strict=True)])
    if with_words[with_code].all():  # the words distinguish no text with a code from another
        return held
    return np.asarray(held + (held > 0) * with_words[:, np.newaxis])
