"""Numbers and codes that are written in several ways, each also indexed in one common way.

IBAN DE04 2589 5385                       de0425895385
14 630,99   14.630,99                     14630.99
+49 30 555 0199   030/555-0199            305550199
INV-000123                                123
6:06 pm   6 pm                            18:06   18:00
commit d1bd7a1c4e0b9f                     d1bd7a1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_HINT = re.compile(r"\d(?:\)? \(?\d| ?[apAP]\.?[mM])")
"""What every find of the next two patterns contains; other texts, most of them, are not searched for these."""
_GROUPS = re.compile(
    r"(?<![\w.,:/-])(?:[A-Z]{2}\d\d(?: [A-Z\d]{4})+(?: [A-Z\d]{1,3})?|\+?\(?\d+\)?(?:[ -]\(?\d+\)?)+(?:[.,]\d\d?)?)"
    r"(?!\w|[.,:/-]\w)"
)
"""An IBAN, or digits in groups with spaces, "-" or brackets between them."""
_TWELVE_HOURS = re.compile(r"(?<![\w.,:/-])(1[0-2]|0?[1-9])(?:[:.]([0-5]\d))? ?([ap])\.?m\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\d{1,3}(?: \d{3})+(?:[.,]\d\d?)?")
"""Groups that are an amount: 14 630,99."""
_DIGITS = range(9, 25)
"""Digits of other groups that are one number. A date has fewer, a line of a table may have more."""
_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3})+),(\d\d?)(?![\w,]|\.\d)")
"""A number as in 1.234,50: groups of three digits between periods, then a decimal comma."""
_GROUPED_CODE = re.compile(
    r"\d{1,3}(?:\.\d{3})+|(?=(?:[./-]?\d){9})(?!(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?\Z)\d+(?:[./-]\d+)+"
)
"""250.000, 978-3-16-148410-0 and 030/555-0199; a date has fewer digits, and an IP address is no number."""
_PHONE = re.compile(r"\d{10,15}")
_SUBSCRIBER = 9
"""Last digits of a phone number: they are the same with and without +49, 0049 or 0."""
_ZEROS = re.compile(r"0+(?=[1-9]\d)")
"""Zeros before a number of two digits or more."""
_HASH = re.compile(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}")
_HASH_PREFIX = 7
"""Digits to which Git shortens a hash."""


def with_common_forms(text: str) -> str:
    """The text with each number in groups, and each time of twelve hours, followed by its common form."""
    if _HINT.search(text) is None:
        return text
    return _TWELVE_HOURS.sub(_and_24_hours, _GROUPS.sub(_and_joined, text))


def with_decimal_point(piece: str) -> str:
    """1234.50 in place of 1.234,50."""
    return _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", piece)


def is_grouped(code: str) -> bool:
    """Whether a code of digits is also indexed without its periods and hyphens."""
    return _GROUPED_CODE.fullmatch(code) is not None


def common_terms(terms: Iterable[str], segments: Sequence[str]) -> list[str]:
    """Further terms: numbers without leading zeros, the end of phone numbers, the beginning of hashes.

    Args:
        terms: Of one token.
        segments: Its parts between links.
    """
    numbers = [term for term in terms if term.isdecimal()]
    shorter = [zeros.string[zeros.end() :] for term in numbers if (zeros := _ZEROS.match(term))]
    ends = [number[-_SUBSCRIBER:] for number in numbers if _PHONE.fullmatch(number)]
    hashes = [segment[:_HASH_PREFIX] for segment in map(str.lower, segments) if _HASH.fullmatch(segment)]
    return shorter + ends + hashes


def _and_joined(groups: re.Match[str]) -> str:
    """The groups of one number and, behind them, the number; other groups as they are."""
    joined = re.sub(r"[ ()+-]", "", groups[0])
    if _AMOUNT.fullmatch(groups[0]):
        return f"{groups[0]} {joined.replace(',', '.')}"
    return f"{groups[0]} {joined}" if " " in groups[0] and len(joined) in _DIGITS else groups[0]


def _and_24_hours(time: re.Match[str]) -> str:
    hour = int(time[1]) % 12 + (12 if time[3] in "pP" else 0)
    return f"{time[0]} {hour}:{time[2] or '00'}"
