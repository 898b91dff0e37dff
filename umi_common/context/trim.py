"""Where to cut a text so that its beginning fits: after a sentence, else after a word, else after a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s)|[。！？।؟۔][\"'”’»)\]」』]*|\n")
LEAST_KEPT = 0.5
"""A cut after a sentence or a word must keep at least this share of the characters that fit."""
CHARACTERS_PER_TOKEN = 4
"""First guess of the length of a token."""
ZERO_WIDTH_JOINER = "\u200d"
PROBES_MAX = 24
"""Largest number of texts that are measured after the first guess."""


def cut_to_fit(text: str, limit: int, size: Callable[[str], int]) -> int:
    """Where to cut a text so that about as much as possible has `size` <= `limit`; 0 if not even one character fits.

    The cut is after a sentence or else a word, if that keeps the share LEAST_KEPT of it, else after a character.

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
        most = end // 2 if end > 1 else 0
    return 0


def _longest(text: str, limit: int, size: Callable[[str], int]) -> int:
    """About the largest n that fits, by interpolation (regula falsi) between a length that fits and one that does
    not.
    """
    fits, fits_size = 0, 0
    over = min(len(text), max(1, limit * CHARACTERS_PER_TOKEN))
    over_size = size(text[:over])
    while over_size <= limit:
        if over == len(text):
            return over
        fits, fits_size = over, over_size
        over = min(len(text), over * 2)
        over_size = size(text[:over])
    for probe in range(PROBES_MAX):
        if over - fits <= 1:
            break
        share = (limit - fits_size) / max(1, over_size - fits_size)
        # Every third step halves the interval, and so does one where `fits` has exactly `limit` tokens: interpolation
        # alone may take many small steps.
        middle = fits + int((over - fits) * (0.5 if probe % 3 == 2 or fits_size == limit else share))
        middle = min(max(middle, fits + 1), over - 1)
        measured = size(text[:middle])
        if measured <= limit:
            fits, fits_size = middle, measured
        else:
            over, over_size = middle, measured
    return fits


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
    return _is_flag_half(here) and _flag_halves_before(text, at) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_flag_half(text[start - 1]):
        start -= 1
    return at - start
