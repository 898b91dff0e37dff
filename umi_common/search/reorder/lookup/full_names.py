"""Find the full names of people as wholes in texts: "phone number of Tara Hale", "Hale, Tara", in a short query also
"tara hale phone".

A name is looked up if few candidates hold it, while other candidates hold its single words. A text may write the last
name first. A middle initial that only the query or only the text has does not count; a text with another initial does
not hold the name. g of a name is 0 for a text that does not hold it, else 1 - offset / length of the text, because a
text mostly names its subject first: the form of Tara Hale names Tara first, that of her deputy last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

import numpy as np

from umi_common.pool import Floats
from umi_common.search.reorder.lookup.codes import LETTERS_OR_DIGITS, with_words_beside
from umi_common.search.reorder.lookup.names import NAME_LENGTH, SIGNS, TEXT_CHARACTERS, whole_name
from umi_common.search.reorder.words import PARTS_MAX, TermsOf, bare, earlier_first, words_in
from umi_common.stores.lexical.languages import all_function_words

ANY_INITIAL = r"[^\W\d_]"
"""Pattern of a middle initial, for a name that has none in the query: "Maria Hollander" is in "Maria S. Hollander"."""
LAST_FIRST = r",\s{1,2}"
"""Pattern of the signs between a last name and a first name: "Hale, Tara"."""
HOLDERS_MAX = 3
"""Largest number of candidates that hold a full name that is looked up. If more candidates hold it, it is their common
subject and distinguishes none of them."""
SHARED_MIN = 3
"""A full name is looked up if each of its words is in at least so many candidates that do not hold the name. If a word
is in fewer, BM25 finds the name by this word."""
SHORT_QUERY_WORDS = 4
"""Largest number of words, function words aside, of a query in which any two adjacent words may be a full name if
capital letters do not mark names."""
CHARACTERS_BESIDE = 30
"""Number of characters before a full name, and half the number from its beginning on, in which a text is read for the
query's other words. Farther words are mostly about another person: "Omar's phone number was changed. Tara Hale ...".
20 is too few for "the doctor of the old family of Tara Hale"; 60 ranks as 30 does."""
NAME_END = re.compile(r"\s*[^\w\s'’.-]+\s*")
"""Signs that end a full name: the words before and after them are not of one name."""
NOT_LOWER_CASE = r"[^\W\d_a-z][\w'’-]{1,40}"
"""A word that does not begin with a lower-case letter of ASCII; `full_names_in` leaves out other lower-case letters. It
has a largest length, because a search in "A-A-A-..." otherwise reads to the end from each letter."""
NEXT_ITEM = rf",?\s{NOT_LOWER_CASE}|,?\s(?:&|and|or|und|oder|et|ou|y|o|e|i|och|og|и)\s{NOT_LOWER_CASE}\b(?!,)"
"""The next item of a list: "Hale, Tara" is no name in "Hale, Tara, Bob" and "Hale, Tara and Bob", but one in "Hale,
Tara and Weber, Tom"."""
REVERSED_NAME = re.compile(rf"\b({NOT_LOWER_CASE},?\s)?({NOT_LOWER_CASE}),\s({NOT_LOWER_CASE})\b(?!{NEXT_ITEM})")
"""A last name and a first name: "Hale, Tara"; not in "call Ann Hale, Bob" or "Bob, Hale, Tara"."""
COURTESY_TITLES = frozenset(
    [
        *("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "madam", "dame"),
        *("herr", "herrn", "frau", "fräulein", "monsieur", "madame", "mademoiselle", "mme", "mlle"),
        *("señor", "señora", "señorita", "sr", "sra", "srta", "signor", "signora", "dott", "senhor", "senhora"),
        *("dhr", "mevrouw", "mevr"),
    ]
)
"""Words before a name that are no part of it: the texts on one person write "Mr Hale" and "Tara Hale"."""
INITIAL = re.compile(r"[^\W\d_a-z]\.")
MIDDLE_INITIAL = re.compile(rf"\b({NOT_LOWER_CASE})\s([^\W\d_a-z])\.\s({NOT_LOWER_CASE})")
POSSESSIVE = re.compile(r"['’]s\b")


def full_names_in(query: str) -> tuple[list[str], list[str]]:
    """(full names, possible names) of a query, at most `PARTS_MAX` of each.

    The full names, in lower case, are adjacent words that begin with a capital letter, without punctuation between
    them, or two words with the last name first: "Hale, Tara". Function words, courtesy titles and words of capitals
    alone ("DNA") are no part of a name.

    Capital letters mark no names if all words of the query could be part of a name ("Tara Hale Phone"), or if the query
    is in lower-case letters. Any two adjacent words may then be a name, if the query has at most `SHORT_QUERY_WORDS`
    words, function words aside. These are the possible names; texts spell them with capitals.
    """
    titles = {title if query.islower() else title.title() for title in COURTESY_TITLES}
    words = [word for word in query.split() if bare(word) not in titles and not INITIAL.fullmatch(word)]
    content = [not all_function_words().issuperset(words_in(word)) for word in words]
    capital = [
        is_content and bare(word)[:1].isupper() and not word.isupper()
        for word, is_content in zip(words, content, strict=True)
    ]
    reversed_names = [each[1:] for each in REVERSED_NAME.findall(query) if not each[0]]
    full = [
        f"{first} {last}".lower() for last, first in reversed_names if not (last[0].islower() or first[0].islower())
    ]
    possible: list[str] = []
    if not (all(capital) or query.islower()):
        # A word that is no part of a name becomes a comma, at which `NAME_END` separates names.
        line = " ".join(word if is_capital else "," for word, is_capital in zip(words, capital, strict=True))
        parts = [POSSESSIVE.sub("", part).strip(" '’.-").lower()[:NAME_LENGTH] for part in NAME_END.split(line)]
        full += [part for part in parts if " " in part]
    elif sum(content) <= SHORT_QUERY_WORDS:
        in_title_case = [word.title() if is_content else "" for word, is_content in zip(words, content, strict=True)]
        pairs = ((first, bare(last)) for first, last in pairwise(in_title_case))
        possible = [f"{first} {last}" for first, last in pairs if first.isalpha() and last.isalpha()]
    return list(dict.fromkeys(full))[:PARTS_MAX], list(dict.fromkeys(possible))[:PARTS_MAX]


def initials_in(query: str) -> dict[str, str]:
    """The middle initials of a query's names, by first and last name in lower case: "Tara S. Hale" -> tara hale: S."""
    return {f"{first} {last}".lower(): initial for first, initial, last in MIDDLE_INITIAL.findall(query)}


def full_names_held(
    texts: Sequence[str],
    full: Sequence[str],
    possible: Sequence[str],
    initials: Mapping[str, str],
    beside: Sequence[str],
    terms_of: TermsOf,
) -> Floats:
    """(n, F) `earlier_first` of g of the names that are looked up, 1 larger in texts that hold the query's other words
    (`beside`) within `CHARACTERS_BESIDE` of the first name: first the full names, then the possible names of
    `full_names_in`. `HOLDERS_MAX` and `SHARED_MIN` decide which names are looked up.

    Args:
        initials: `initials_in` of the query.
        beside, terms_of: As in `codes.with_words_beside`.
    """
    texts = [text[:TEXT_CHARACTERS] for text in texts]
    lower = [text.lower() for text in texts] if full else []  # `_held` tests for parts of the name with `in`
    held = [_held(lower, name, initials, any_case=True) for name in full]
    held += [_held(texts, name, initials, any_case=False) for name in possible]
    g: Floats = np.array(held, dtype=np.float64).reshape(len(held), len(texts)).T
    if not g.any():
        return g
    around = [_around_name(text, own) for text, own in zip(texts, g.max(axis=1, initial=0.0).tolist(), strict=True)]
    return with_words_beside(earlier_first(g, texts), around, beside, terms_of)


def _around_name(text: str, g: float) -> str:
    start = round((1.0 - g) * len(text))
    return text[max(0, start - CHARACTERS_BESIDE) : start + 2 * CHARACTERS_BESIDE]


def _held(texts: Sequence[str], name: str, initials: Mapping[str, str], *, any_case: bool) -> list[float]:
    """g of a full name in each text; 0 in all texts if the name is not looked up."""
    parts = LETTERS_OR_DIGITS.findall(name)
    may_hold = [all(map(text.__contains__, parts)) for text in texts]
    if not any(may_hold):  # true of most names, whose patterns need not be compiled
        return [0.0] * len(texts)
    initial = initials.get(name.lower(), ANY_INITIAL)
    pattern = whole_name(name, rf"{SIGNS}(?:{initial}[\W_]{{1,8}})?", any_case=any_case)
    last_first = whole_name(" ".join(reversed(name.split())), LAST_FIRST, any_case=any_case)
    found = [
        pattern.search(text) or last_first.search(text) if maybe else None
        for text, maybe in zip(texts, may_hold, strict=True)
    ]
    g = [1.0 - match.start() / len(text) if match else 0.0 for text, match in zip(texts, found, strict=True)]
    others = [text for text, own in zip(texts, g, strict=True) if not own]
    in_several = (_is_in_several(word, others, any_case=any_case) for word in name.split())
    if len(texts) - len(others) <= HOLDERS_MAX and all(in_several):
        return g
    return [0.0] * len(texts)


def _is_in_several(word: str, texts: Sequence[str], *, any_case: bool) -> bool:
    parts, pattern = LETTERS_OR_DIGITS.findall(word), whole_name(word, any_case=any_case)
    # Beyond ASCII, a pattern for any case also matches letters that `lower` does not change, such as the long s.
    may_hold = (text for text in texts if not text.isascii() or all(map(text.__contains__, parts)))
    found = (text for text in may_hold if pattern.search(text) is not None)
    return len(list(islice(found, SHARED_MIN))) == SHARED_MIN
