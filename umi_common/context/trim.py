"""Cut a text to its beginning, or to the text around a passage: at a sentence, else at a word, else at a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

SENTENCE_END = re.compile(r"[.!?…](?<!\s\d\.)(?<!\s\d\d\.)[\"'”’»)\]]*(?=\s)|[。！？।؟۔][\"'”’»)\]」』]*|\n")
"""The end of a sentence or of a line. A full stop after one or two digits does not count: "7." is the number of an item
in a list or, in German, a day."""
LEADS_ON = re.compile(r"#{1,6}\s|.*[:：][*_]*$|[ \t|+:-]*---?[ \t|+:-]*$")
"""A line that says nothing without the next: a Markdown heading, a lead-in, the dashes below the head of a table."""
TABLE_DASHES = re.compile(r"[ \t]*\|[ \t|+:-]*-[ \t|+:-]*$", re.MULTILINE)
"""The dashes below the head of a Markdown table."""
LINE_MAX = 200
"""Largest number of characters of such a line and the blank lines behind it."""
ROW_MAX = 1_000
"""A row of a table with this number of characters on either side of a place is cut there like other text."""
WHITE_SPACE = re.compile(r"\s+")
PRECISION = 200
"""A cut text may be shorter than the longest that fits by 1 / PRECISION of its length, which saves counts of tokens."""
LEAST_KEPT = 0.5
"""A cut after a sentence or a word must keep at least this share of the characters that fit."""
LEAD = 1 / 3
"""Share of the text shown around a passage that precedes it; larger if the text ends soon after the passage."""
CHARACTERS_PER_TOKEN = 4
"""First guess of the number of characters of a token."""
ZERO_WIDTH_JOINER = "\u200d"
FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""The regional indicators; two of them are a flag."""
Characters = tuple[int, int]
"""A range of characters of a text: [start, end)."""


def cut_to_fit(text: str, limit: int, size: Callable[[str], int]) -> int:
    """The number of characters at the start of a text to keep within `limit` tokens; 0 if not even one fits.

    The cut is after the last sentence that fits, else after the last word, else after a character. A cut after a
    sentence or word must keep at least the share LEAST_KEPT of the characters that fit.

    Args:
        text: Only its beginning is measured, up to a few times `limit` tokens.
        limit: Largest number of tokens.
        size: Counts the tokens of a text. If a longer text can have fewer tokens than a shorter one, the result still
            fits, but might be longer.
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


def window_to_fit(text: str, limit: int, size: Callable[[str], int], passage: Characters) -> Characters:
    """The characters of a text to show around a passage, at most `limit` tokens.

    If the text up to the end of the passage takes at most the share 1 - LEAD of the tokens, the result begins at the
    start of the text. Otherwise it has text before and after the passage. If the passage itself is too long, the result
    is its beginning; empty if not even one character fits. A passage within a row of a table stands for the row if it
    fits.

    Args:
        text, limit, size: As in `cut_to_fit`.
        passage: The characters of the passage.
    """
    first, last = passage
    row_start = _line(text, first)[0] if _inside_row(text, first) else first
    row_end = _line(text, last)[1] if _inside_row(text, last) else last
    if size(text[row_start:row_end]) <= limit:
        first, last = row_start, row_end
    near = text[max(0, last - limit * CHARACTERS_PER_TOKEN) : last]
    fitting = limit * len(near) / max(1, size(near))  # estimate of the number of characters that fit
    if last <= 2 * fitting and size(text[:last]) <= (1 - LEAD) * limit:
        return 0, max(last, cut_to_fit(text, limit, size))
    share = int(max(LEAD * (fitting - (last - first)), 0))
    lead = max(share, int(fitting - (len(text) - first)))
    while True:
        start = _readable_start(text, max(0, first - lead), first)
        end = start + cut_to_fit(text[start:], limit, size)
        if end < last and size(text[start:last]) <= limit:
            end = last
        # A lead longer than `share` is accepted only if the text is shown to its end.
        if (end >= last and (lead <= share or end == len(text))) or not lead:
            return start, end
        lead //= 2


def _readable_start(text: str, least: int, most: int) -> int:
    """The start of the first sentence, else of the first word, from `least` to `most`; `most` if there is none."""
    if least == 0:
        return 0
    for end_before in (SENTENCE_END, WHITE_SPACE):
        ends = [found.end() for found in end_before.finditer(text, least - 1, most)]
        if (start := next((each for each in ends if not _inside_row(text, each)), None)) is not None:
            return most - len(text[start:most].lstrip())
    return most


def _longest(text: str, limit: int, size: Callable[[str], int]) -> int:
    """The largest n for which `text[:n]` has at most `limit` tokens; it may be too small by 1 / PRECISION of it.

    Bisection takes turns with linear interpolation, which needs fewer counts of tokens; counting is slow.
    """
    fits, tokens = 0, 0
    over = min(len(text), max(1, limit * CHARACTERS_PER_TOKEN))
    while (tokens_over := size(text[:over])) <= limit:
        if over == len(text):
            return over
        fits, tokens, over = over, tokens_over, min(len(text), over * 2)
    interpolate = True
    while over - fits > 1 + fits // PRECISION:
        share = (limit - tokens) / (tokens_over - tokens) if interpolate else 0.5
        end = min(max(fits + 1, fits + int(share * (over - fits))), over - 1)
        found, interpolate = size(text[:end]), not interpolate
        if found <= limit:
            fits, tokens = end, found
        else:
            over, tokens_over = end, found
    return fits


def _readable_end(text: str, most: int) -> int:
    """The end of the last sentence, else word, else character, at or before `most`; `most` if there is none."""
    if most >= len(text):
        return len(text)
    least = most * LEAST_KEPT
    ends = [match.end() for match in SENTENCE_END.finditer(text, 0, most + 1) if least <= match.end() <= most]
    end = next((each for each in reversed(ends) if _ends_well(text, each)), max(ends, default=0))
    if end and not text[:end].isspace():
        return len(text[:end].rstrip())  # without the blank lines after a line
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


def _ends_well(text: str, end: int) -> bool:
    """Whether a text cut at `end` ends neither within a row of a table nor with a line that leads on to the next."""
    last_line = text[max(0, end - LINE_MAX) : end].rstrip().rpartition("\n")[2]
    return not (LEADS_ON.match(last_line) or TABLE_DASHES.match(text, end) or _inside_row(text, end))


def _inside_row(text: str, at: int) -> bool:
    """Whether `at` is within a line with a bar, such as a row of a table; ROW_MAX limits the line."""
    start, end = _line(text, at)
    return at - ROW_MAX < start < at < end < at + ROW_MAX and "|" in text[start:end]


def _line(text: str, at: int) -> Characters:
    """The characters of the line that holds `at`, without its line break; of a longer line more than ROW_MAX."""
    end = text.find("\n", at, at + ROW_MAX)
    return text.rfind("\n", max(0, at - ROW_MAX), at) + 1, len(text) if end < 0 else end


def _inside_character(text: str, at: int) -> bool:
    """Whether a cut at `at` would separate a mark, a joined emoji or half a flag from its character."""
    here, before = text[at], text[at - 1]
    if before == ZERO_WIDTH_JOINER or here == ZERO_WIDTH_JOINER or unicodedata.category(here).startswith("M"):
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff":  # a skin tone
        return True
    return here in FLAG_HALVES and (at - len(text[:at].rstrip(FLAG_HALVES))) % 2 == 1
