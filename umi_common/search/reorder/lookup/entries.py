"""Find entries of a dictionary or a reference, which begin with the word that a query asks for: "what does open do?".

This word is the head of the entry. Other texts use the head more often than its entry does, so BM25 ranks them first.
`entries_held` of the query "explain open and close", whose heads are "open" and "close":

    text                                       open  close
    "open (path): returns a file object."         1      0
    "close() ends the use of a file."             0      1
    "You can open and close a file twice."        0      0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from umi_common.pool import Floats
from umi_common.search.reorder.numbers import ROMAN
from umi_common.search.reorder.words import TermsOf, content_words, words_in

MEANING = frozenset(
    {"abbreviation", "acronym", "define", "definition", "explain", "mean", "meaning", "means", "stand", "stands"}
)
"""Words that ask what another word or an abbreviation means."""
HEADS_MAX = 3
"""Largest number of heads (distinct content words that are not in MEANING) of a query that asks for an entry."""
QUERY_WORDS_MAX = 8
"""Largest number of words of a query that asks for an entry."""
ENTRIES_MAX = 3
"""Largest number of candidates that are taken for entries on one word. A word with which more candidates begin is taken
for a speaker's name or a label, unless the query asks for its meaning."""
ENTRY_WORDS_MIN = 4
"""Smallest number of words of an entry: a heading without a text says nothing about its head."""
ENTRY_CHARACTERS = 100
"""Number of characters at the beginning of a text that are read for its first words."""
ASK_WHO_WHEN_WHERE = frozenset(
    (  # noqa: SIM905 a list would take forty lines
        "who whom whose when where wer wen wem wessen wann wo woher wohin qui quand ou quien quienes cuando donde chi "
        "dove quem quando onde wanneer waar kto kiedy gdzie кто кого когда где куда откуда"
    ).split()
)
"""First words, without accents, of questions that no entry answers if they have several heads: "who works at Acme?"
asks for no text that begins with "Acme", but "who is Acme?" does."""


def heads_in(query: str) -> tuple[list[str], bool]:
    """(heads, asks_meaning): the words of a short query with which an entry may begin, and whether the query asks what
    its only head means.

    ([], False) for a query that asks for no entry. If it asks for the meaning of "open", all texts that begin with
    "open" may be the answer, even if they are more than ENTRIES_MAX. If it has a number, only the number is its head:
    the entry of "rule 5" may begin with "5", and "Henry 8" asks for no text that begins with "Henry". A Roman number
    stands behind another head: "Henry VIII".
    """
    content = content_words(query)
    heads = [word for word in dict.fromkeys(content) if word not in MEANING]
    words = words_in(query)
    asks_other = len(heads) > 1 and not ASK_WHO_WHEN_WHERE.isdisjoint(words[:1])
    if asks_other or len(heads) > HEADS_MAX or len(words) > QUERY_WORDS_MAX:
        return [], False
    asks_meaning = len(heads) == 1 and not MEANING.isdisjoint(content)
    numbers = [word for place, word in enumerate(heads) if word.isdecimal() or (place > 0 and word in ROMAN)]
    return numbers or heads, asks_meaning


def entries_held(texts: Sequence[str], heads: Sequence[str], *, asks_meaning: bool, terms_of: TermsOf) -> Floats:
    """(n, H) 1 where a text begins with one of the H heads and is taken for its entry, else 0.

    A text of fewer than ENTRY_WORDS_MIN words is no entry. No text is an entry if another one, of more words than the
    heads, begins with more heads: "strawberry propagation" asks for "Propagate strawberries in May ...", not for
    "Strawberry is harmless ...", and "port of the database" for "database.port = 4154".
    """
    if not heads:
        return np.zeros((len(texts), 0))
    starts = [text[:ENTRY_CHARACTERS] for text in texts]
    firsts = [_first_word(start, heads) for start in starts]
    held = np.equal.outer(firsts, heads).astype(np.float64)
    if not asks_meaning:
        held *= held.sum(axis=0) <= ENTRIES_MAX
    if len(heads) > 1 and held.any():
        wanted = frozenset(terms_of(" ".join(heads)))
        firsts_of = [words[: len(heads)] if len(words) > len(heads) else () for words in map(words_in, starts)]
        heads_first = np.array([len(wanted.intersection(terms_of(" ".join(words)))) for words in firsts_of])
        held[heads_first < heads_first.max()] = 0.0
    return held


def _first_word(start: str, heads: Sequence[str]) -> str:
    """The first word of a text that may be an entry on one of the heads; "" for other texts."""
    if start.isascii() and not any(map(start.lower().__contains__, heads)):  # faster than `words_in`
        return ""
    words = words_in(start)
    return words[0] if len(words) >= ENTRY_WORDS_MIN else ""
