"""Find names from programs, and acronyms, as wholes in texts.

    a name from a program ("os.path.join", "max_tokens", "close()", "--force", "-x")
    an acronym, beside at most one other word ("what is GDPR?", "what does NPM stand for?")

g of a name is 1 for a text that holds it, else 0. A name of more than `NAME_LENGTH` characters is not looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from umi_common.pool import Floats
from umi_common.search.reorder.lookup.codes import LETTERS_OR_DIGITS
from umi_common.search.reorder.lookup.entries import MEANING
from umi_common.search.reorder.words import PARTS_MAX, words_in
from umi_common.stores.lexical.languages import all_function_words

OPTION = re.compile(r"(-[A-Za-z]|--[A-Za-z][\w-]*)(?:=.*)?")
"""An option of a command, with or without its value."""
PROGRAM_NAME = re.compile(
    r"_*[A-Za-z]\w+(?:(?:\.|::|->)_*[A-Za-z]\w+)+(?:\(\))?"
    r"|[A-Za-z]+\d*(?:_[A-Za-z\d]+)+(?:\(\))?"
    r"|[a-z]{2,}(?:[A-Z][a-z]+)+(?:\(\))?"
    r"|[A-Za-z]\w{2,}\(\)"
)
"""A name from a program, such as os.path.join, max_tokens, maxTokens, or close()."""
ACRONYM = re.compile(r"(?<![\w.-])[A-Z]{2,6}(?=s?(?![\w-]|\.\w))")
"""Two to six capital letters; the s of a plural may follow them."""
TEXT_CHARACTERS = 20_000
"""Number of characters at the beginning of a text that are searched for names. Reading so many takes some 0.2 ms for
each name."""
NAME_LENGTH = 100
"""Largest number of characters of a name that is looked up."""
SIGNS = r"[\W_]{0,8}"
"""Pattern of the signs that may stand between two parts of a name: "cache.ttl" is in "cache:\n  ttl"."""


def program_names_in(query: str) -> list[re.Pattern[str]]:
    """Patterns of the query's command options, calls, and program names of several parts; "-x" and "-X" are two
    options."""
    words = [_without_signs(word) for word in query.split() if len(word) <= NAME_LENGTH]
    options = [
        re.compile(rf"(?<![\w-]){re.escape(found[1])}(?![\w-])") for found in map(OPTION.fullmatch, words) if found
    ]
    names = [word.removesuffix("()") for word in words if PROGRAM_NAME.fullmatch(word)]
    return list(dict.fromkeys([*options, *(whole_name(name.lower(), any_case=True) for name in names)]))[:PARTS_MAX]


def _without_signs(word: str) -> str:
    """A word without the punctuation and brackets around it, and without arguments of a call."""
    word = word.strip("'\"`,.;:!?").removeprefix("(")
    if word.count("(") < word.count(")"):
        word = word.removesuffix(")")
    return re.sub(r"\([^)].*$", "", word)


def acronyms_in(query: str) -> list[re.Pattern[str]]:
    """Patterns of the acronyms of a query with at most one other word, function words aside; [] for a query all in
    capitals. The patterns match only whole words in capitals, with or without a plural s."""
    found = list(dict.fromkeys(ACRONYM.findall(query)))
    others = set(words_in(ACRONYM.sub(" ", query))) - all_function_words() - MEANING
    if len(others) > 1 or query.isupper():
        return []
    return [re.compile(rf"(?<![^\W_]){re.escape(letters)}s?(?![^\W_])") for letters in found[:PARTS_MAX]]


def names_held(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) 1 where a text holds a name from a program or an acronym, else 0."""
    return np.array([[float(name.search(text, 0, TEXT_CHARACTERS) is not None) for name in names] for text in texts])


def whole_name(name: str, between: str = SIGNS, *, any_case: bool) -> re.Pattern[str]:
    """A pattern of a whole name; `between`: pattern of the characters between two parts of the name."""
    pattern = between.join(map(re.escape, LETTERS_OR_DIGITS.findall(name)))
    return re.compile(rf"(?<![^\W_])(?<![^\W_]_){pattern}(?!\w)", re.IGNORECASE if any_case else 0)
