"""Find names from programs, and acronyms, as wholes in texts: "what does --break of git grep do?", "what is GDPR?".

    a name from a program ("os.path.join", "max_tokens", "close()", "--force", "-x")
    an acronym, beside at most one other word ("what is GDPR?", "what does NPM stand for?")

g of a name is 1 for a text that holds it, and 2 for a text that defines it, else 0. A name of more than `NAME_LENGTH`
characters is not looked up.

A reference begins a line with the name that it describes: an option, a setting, the heading of a function, "def". A
synopsis, an example and other descriptions hold the name elsewhere in a line, often more often. A text defines a name
if one of its lines begins with it, after no other words than placeholders, `KEYWORDS` and, if the name is an option,
further options:

    defines                                    does not define
    "--break"                                  "'git grep' [--break] [--heading]"
    "-C NUM, --context=NUM"                    "see --context"
    "### `fs.exists(path, callback)`"          "if fs.exists(path):"
    "    def get_user(self, name):"            "    return get_user(name)"
    "    notes.txt"                            "-f notes.txt"

A text that defines a name but lacks a rare word of the query is less likely the answer: "gitignore and --no-index" asks
for the text on both. For candidate i, name p, and the words q of the query beside its names:

    d(p, i) = 1 if i defines p, else 0
    r(q)    = the share of candidates that lack q; 0 if all lack it
    s(q, i) = 1 if i holds q, else the share of the candidates of its source that hold q: a chunk in the middle of the
              manual of grep need not say "grep"
    f(i)    = 1 - max_q r(q) * (1 - s(q, i))
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from umi_common.pool import NO_SOURCE, Floats, Ints
from umi_common.search.reorder.lookup.codes import LETTERS_OR_DIGITS
from umi_common.search.reorder.lookup.entries import MEANING
from umi_common.search.reorder.lookup.phrases import holds_all
from umi_common.search.reorder.words import PARTS_MAX, g_of_parts, lacking_share, spaced, words_in
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
ARGUMENTS = re.compile(r"\([^)].*$")
"""The arguments of a call, with the bracket before them."""
ACRONYM = re.compile(r"(?<![\w.-])[A-Z]{2,6}(?=s?(?![\w-]|\.\w))")
"""Two to six capital letters; the s of a plural may follow them."""
KEYWORDS = frozenset(["async", "class", "def", "export", "fn", "func", "function", "pub", "public", "static", "struct"])
"""Words before the name where code defines it, in several programming languages."""
BRACKETS = ("[", "(", "{")
"""First signs of a line that shows how a command is called."""
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
    word = word.strip("'\"`\u2018\u2019\u201c\u201d*,.;:!?[]{}<>").removeprefix("(")
    if word.count("(") < word.count(")"):
        word = word.removesuffix(")")
    return ARGUMENTS.sub("", word)


def acronyms_in(query: str) -> list[re.Pattern[str]]:
    """Patterns of the acronyms of a query with at most one other word, function words aside; [] for a query all in
    capitals. The patterns match only whole words in capitals, with or without a plural s."""
    found = list(dict.fromkeys(ACRONYM.findall(query)))
    others = set(words_in(ACRONYM.sub(" ", query))) - all_function_words() - MEANING if found else ()
    if len(others) > 1 or query.isupper():
        return []
    return [re.compile(rf"(?<![^\W_]){re.escape(letters)}s?(?![^\W_])") for letters in found[:PARTS_MAX]]


def names_held(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) 1 where a text holds a name from a program or an acronym, else 0."""
    return g_of_parts(texts, names, lambda text, name: float(name.search(text, 0, TEXT_CHARACTERS) is not None))


def whole_name(name: str, between: str = SIGNS, *, any_case: bool) -> re.Pattern[str]:
    """A pattern of a whole name; `between`: pattern of the characters between two parts of the name."""
    pattern = between.join(map(re.escape, LETTERS_OR_DIGITS.findall(name)))
    return re.compile(rf"(?<![^\W_])(?<![^\W_]_){pattern}(?!\w)", re.IGNORECASE if any_case else 0)


def names_defined(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) d of N names in n texts, by the formula at the top of this file."""
    return g_of_parts(texts, names, lambda text, name: float(_defines(text[:TEXT_CHARACTERS], name)))


def words_beside_held(texts: Sequence[str], beside: Sequence[str], sources: Ints) -> Floats:
    """(n,) f of n texts, by the formula at the top of this file.

    Args:
        beside: Words of the query; those of its names change nothing, because a text that defines a name holds them.
        sources: (n,) the code of each text's source.
    """
    of_words = (spaced(words_in(text[:TEXT_CHARACTERS])) for text in texts)
    held = np.array([[holds_all(words, [word]) for word in beside] for words in of_words], dtype=np.float64)
    lacked = (1.0 - _with_source(held, sources)) * lacking_share(held)
    return np.asarray(1.0 - lacked.max(axis=1, initial=0.0))


def _with_source(held: Floats, sources: Ints) -> Floats:
    """(n, Q) s of n texts and Q words, by the formula at the top of this file; `held`: 1 where a text holds a word."""
    shares = np.array(held)
    for source in set(sources.tolist()) - {NO_SOURCE}:
        shares[sources == source] = held[sources == source].mean(axis=0)
    return np.maximum(held, shares)


def _defines(text: str, name: re.Pattern[str]) -> bool:
    """Whether a line of a text begins with a name, as the top of this file says."""
    starts = (match.start() for match in name.finditer(text))
    return any(_may_precede(text[text.rfind("\n", 0, at) + 1 : at], text[at]) for at in starts)


def _may_precede(before: str, first_letter: str) -> bool:
    """Whether a line that begins with `before` defines the name behind it, which begins with `first_letter`."""
    known = ("<", "-") if first_letter == "-" else ("<",)
    return not before.lstrip().startswith(BRACKETS) and all(
        word.startswith(known) or word.isupper() or word in KEYWORDS or not any(map(str.isalnum, word))
        for word in before.split()
    )
