"""Where to cut a text so that its beginning fits: after a sentence, else after a word, else after a character."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable

SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s)|[。！？।؟۔][\"'”’»)\]」』]*|\n")
LEAST_KEPT = 0.5
"""A cut after a sentence or a word must keep at least this share of the characters that fit."""
CHARACTERS_PER_TOKEN = 4
"""First guess of the length of a token."""
ZERO_WIDTH_JOINER = "\u200d"
FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""The regional indicators; two of them are a flag."""


def cut_to_fit(text: str, limit: int, size: Callable[[str], int]) -> int:
    """The number of characters of a text to keep so that they have at most `limit` tokens; 0 if not even one fits.

    The cut is after the last sentence that fits, if at least the share LEAST_KEPT of what fits remains; else after a
    word, on the same condition; else after a character.

    Args:
        text: Of any length; only its beginning is measured, up to a few times `limit` tokens.
        limit: Largest number of tokens.
        size: Counts the tokens of a text. If a longer text may have fewer tokens, the result fits but may be short.
    """
    if limit < 1:
        return 0
    most = _longest(text, limit, size)
    while most > 0:
        end = _readable_end(text, most)
        if size(text[:end]) <= limit:
            return end
        most = end // 2
    return 0


def _longest(text: str, limit: int, size: Callable[[str], int]) -> int:
    """The largest n for which `text[:n]` fits, by bisection between a length that fits and one that does not."""
    fits, over = 0, min(len(text), max(1, limit * CHARACTERS_PER_TOKEN))
    while size(text[:over]) <= limit:
        if over == len(text):
            return over
        fits, over = over, min(len(text), over * 2)
    return fits + bisect_right(range(fits + 1, over), limit, key=lambda end: size(text[:end]))


def _readable_end(text: str, most: int) -> int:
    """The end of the last sentence, word or character at or before `most`; `most` where there is none."""
    if most >= len(text):
        return len(text)
    least = most * LEAST_KEPT
    ends = [match.end() for match in SENTENCE_END.finditer(text, 0, most + 1) if match.end() <= most]
    if ends and ends[-1] >= least and not text[: ends[-1]].isspace():
        return ends[-1]
    word = most
    while word > least and not text[word].isspace():
        word -= 1
    while word > least and text[word - 1].isspace():
        word -= 1
    if word > least and text[word].isspace() and not text[:word].isspace():
        return word
    whole = most
    while whole > 0 and _inside_character(text, whole):
        whole -= 1
    return whole if whole > 0 else most


def _inside_character(text: str, at: int) -> bool:
    """Whether a cut at `at` would separate a mark, a joined emoji or half a flag from its character."""
    here, before = text[at], text[at - 1]
    if before == ZERO_WIDTH_JOINER or here == ZERO_WIDTH_JOINER or unicodedata.category(here).startswith("M"):
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff":  # a skin tone
        return True
    return here in FLAG_HALVES and (at - len(text[:at].rstrip(FLAG_HALVES))) % 2 == 1
