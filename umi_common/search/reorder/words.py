"""Functions that several stages of `reorder` share: the words of a text, and the gains of candidates that hold parts of
the query."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar
from unicodedata import category

import numpy as np

from umi_common.pool import Bools, Floats, Ints
from umi_common.stores.lexical.analyzer import normalised
from umi_common.stores.lexical.languages import all_function_words
from umi_common.stores.lexical.spellings import without_accents

Part = TypeVar("Part")
TermsOf = Callable[[str], Sequence[str]]
"""The store's function from a text to its terms, which are mostly stems: "replaces" -> ["replac"]."""
PARTS_MAX = 16
"""Largest number of a query's parts of one kind (numbers, single letters, phrases, codes) that are looked up, because
the time grows with it; further parts are ignored."""
FIRST_LETTERS = 3
"""Number of first letters that a word shares with its term, as "starts" and "start" do; "dying" and "die" are an
exception. Texts and words without the first letters of a wanted term are not reduced to terms, which takes long."""
ALIKE_CHARACTERS = 1_000
"""Largest number of characters of a text that `earlier_first` reads: in a longer text, a few more words hardly change
g."""
DIGITS = re.compile(r"\d+")
TYPOGRAPHIC_SIGNS = "‘’“”–—…•\N{NO-BREAK SPACE}"
"""Signs that separate words. They are replaced first, because four in five English texts that are not ASCII have no
other characters outside ASCII, and ASCII is split in a tenth of the time."""
TEXTS_KEPT = 128
"""Number of texts whose words are cached: several stages of one search read the same texts."""


class _WordCharacters(dict[int, str]):
    """For `str.translate`: letters, digits and combining marks (the vowel signs of Hindi) stay, all else is a space."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = char if char.isalnum() or category(char) in ("Mn", "Mc") else " "
        return self[code]


_WORD_CHARACTERS = _WordCharacters()


def cased_words(text: str) -> list[str]:
    """The words of a text in order, in the characters that are indexed; see `normalised`."""
    return _plain(text).translate(_WORD_CHARACTERS).split()


@lru_cache(TEXTS_KEPT)
def words_in(text: str) -> tuple[str, ...]:
    """The words of a text in order, in lower case, and Latin letters without accents."""
    text = _plain(text).lower()
    in_plain_letters = without_accents(text)  # at once, if all letters are Latin; it is then mostly ASCII
    words = in_plain_letters.translate(_WORD_CHARACTERS).split()
    if in_plain_letters.isascii() or in_plain_letters != text:
        return tuple(words)
    return tuple([each if each.isascii() else without_accents(each) for each in words])


def _plain(text: str) -> str:
    return text if text.isascii() else normalised(with_plain_signs(text))


def with_plain_signs(text: str) -> str:
    """The text with a space in place of each of `TYPOGRAPHIC_SIGNS`."""
    if not text.isascii():
        for sign in TYPOGRAPHIC_SIGNS:
            text = text.replace(sign, " ")
    return text


@lru_cache(TEXTS_KEPT)
def content_words(text: str, function_words: frozenset[str] | None = None) -> tuple[str, ...]:
    """`words_in` of a text without function words; None: those of all languages."""
    function_words = all_function_words() if function_words is None else function_words
    # They are removed before `words_in`, too: it turns "für", a function word, into "fur", which is none.
    kept = " ".join([word for word in text.split() if bare(word).lower() not in function_words])
    return tuple([word for word in words_in(kept) if word not in function_words])


def spaced(words: Sequence[str]) -> str:
    """Words with one space before, between and after them, so that "art" is not found in "party"."""
    return f" {' '.join(words)} "


def bare(word: str) -> str:
    """A word without the signs at its start and end; signs are all characters but letters, digits and underscores."""
    return word if word.isalnum() else re.sub(r"^\W+|\W+$", "", word)


def near_best(lexical: Floats, rows: Ints, share: float) -> Bools:
    """(k,) whether, for at least one query, the BM25 of a row is at least `share` of the best BM25 of any candidate.

    Args:
        lexical: (V, n) BM25 of n candidates, for each of V queries.
        rows: (k,) candidates.
        share: 0..1.
    """
    best = lexical.max(axis=1, keepdims=True, initial=0.0)
    near: Bools = (lexical[:, rows] >= share * best).any(axis=0)
    return near


def up_to_last(mask: Bools) -> int:
    """Number of entries up to and including the last one that is True; 0 if none is True."""
    return int(mask.nonzero()[0].max(initial=-1)) + 1


def raised(scores: Floats, g: Floats, weight: float) -> Floats:
    """(n,) scores, raised for the candidates that hold some of the P parts of a query. Scores below 0 stay.

    For part p of the query and candidate i:

        h(p, i) = g(p, i) / max_i g(p, i)
        w(p) = the share of candidates that do not hold p; 0 if no candidate holds p
        raised(i) = score(i) * (1 + weight * sum_p w(p) * h(p, i) / max(1, sum_p w(p)))

    Args:
        g: (n, P) how well candidate i holds part p, >= 0; 0: not at all.
    """
    h, w = _h_and_w(g)
    share = (h * w).sum(axis=1) / max(1.0, w.sum())  # `h @ w` rounds equal rows differently
    return np.asarray(scores + np.maximum(scores, 0.0) * weight * share, dtype=np.float64)


def best_added(scores: Floats, g: Floats, keys: Floats | float = 1.0) -> Floats:
    """(n,) the gains of the candidates by parts that count more than all other words of the query: for candidate i,
    max score * sum_p key(p) * w(p) * h(p, i), with w and h as in `raised`.

    Args:
        keys: (P,) key(p), 0..1.
    """
    h, w = _h_and_w(g)
    return np.asarray(scores.max(initial=0.0) * (h * keys * w).sum(axis=1), dtype=np.float64)


def g_of_parts(texts: Sequence[str], parts: Sequence[Part], g: Callable[[str, Part], float]) -> Floats:
    """(n, P) g(text, part) of P parts in n texts."""
    columns = [[g(text, part) if text else 0.0 for text in texts] for part in parts]
    held: Floats = np.array(columns, dtype=np.float64).reshape(len(parts), len(texts)).T
    return held


def held_early(texts: Sequence[str], parts: Sequence[Part], g: Callable[[str, Part], float]) -> Floats:
    """(n, P) `earlier_first` of `g_of_parts`."""
    return earlier_first(g_of_parts(texts, parts, g), texts) if parts else np.zeros((len(texts), 0))


def earlier_first(g: Floats, texts: Sequence[str]) -> Floats:
    """(n, P) g of P parts in n texts, in which a text is not behind a longer one that holds the part no earlier.

    g alone prefers the longer text: in "Return lamp 24 today?" the number is further from the end than in "Return lamp
    24?", at the same offset. So g of a text is raised to the largest g of the texts that hold all its words, and the
    part at the same or a larger offset. A text that holds the part later than they do is not raised, because it may
    only mention it.

    Args:
        g: (n, P) 1 - offset of the part / length of the text, in characters; 0: the text lacks the part.
        texts: The n texts. Those above `ALIKE_CHARACTERS` are not raised and raise none.
    """
    short = [at for at in g.any(axis=1).nonzero()[0].tolist() if len(texts[at]) <= ALIKE_CHARACTERS]
    if len(short) < 2:
        return g
    raised_g: Floats = g.copy()
    held, words = g[short], [frozenset(words_in(texts[at])) for at in short]
    offsets = np.round((1.0 - held) * np.array([[len(texts[at])] for at in short]))
    larger = (held[:, np.newaxis] > 0) & (held > held[:, np.newaxis]) & (offsets >= offsets[:, np.newaxis])  # (s, s, P)
    for one, other in np.argwhere(larger.any(axis=2)).tolist():
        if words[one] <= words[other]:
            own = raised_g[short[one]]  # a view
            np.maximum(own, held[other], out=own, where=larger[one, other])
    return raised_g


def _h_and_w(g: Floats) -> tuple[Floats, Floats]:
    h = g / np.where(g.any(axis=0), g.max(axis=0), 1.0)
    return h, lacking_share(h)


def lacking_share(g: Floats) -> Floats:
    """(P,) for g of P parts in n candidates: the share of candidates that lack the part; 0 if all lack it."""
    return np.asarray(np.where(g.any(axis=0), (g == 0).mean(axis=0), 0.0))
