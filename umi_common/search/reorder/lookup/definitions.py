"""Find the texts that define a name from a program or an acronym: "what does --break of git grep do?".

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
from umi_common.search.reorder.lookup.entries import MEANING
from umi_common.search.reorder.lookup.names import TEXT_CHARACTERS
from umi_common.search.reorder.lookup.phrases import holds_all
from umi_common.search.reorder.words import lacking_share, spaced, words_in

KEYWORDS = frozenset(["async", "class", "def", "export", "fn", "func", "function", "pub", "public", "static", "struct"])
"""Words before the name where code defines it, in several programming languages."""
BRACKETS = ("[", "(", "{")
"""First signs of a line that shows how a command is called."""


def names_defined(texts: Sequence[str], names: Sequence[re.Pattern[str]]) -> Floats:
    """(n, N) d of N names in n texts, by the formula at the top of this file."""
    texts = [text[:TEXT_CHARACTERS] for text in texts]
    return np.array([[float(_defines(text, name)) for name in names] for text in texts])


def words_beside_held(texts: Sequence[str], beside: Sequence[str], sources: Ints) -> Floats:
    """(n,) f of n texts, by the formula at the top of this file.

    Args:
        beside: Words of the query; those of its names change nothing, because a text that defines a name holds them.
        sources: (n,) the code of each text's source.
    """
    beside = [word for word in beside if word not in MEANING]
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
