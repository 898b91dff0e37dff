"""Common forms of tokens that are numbers or codes, indexed beside the forms in the text.

A piece is a part of a text between white space, and holds tokens: "(src/mail.py:42)" is a piece with the token
src/mail.py:42. The segments of a token are its parts between signs: src, mail, py and 42. Its codes are the token
itself, as FY24 or INV-000123, and its parts that also have several segments. It is cut first at a ":" before a number,
then at each "/": src/mail.py, mail.py. "well-known" is no code; see `analyzer._codes`. Forms of numbers that contain
spaces are in `numbers_in_text`.

    token                                       further term
    030/555-0199   978-3-16-148410-0            0305550199   9783161484100   (`is_grouped`)
    0305550199   49305550199                    305550199
    INV-000123                                  123
    d1bd7a1c4e0b9f                              d1bd7a1
    19.1C                                       19.1
    1.2.0                                       1.2
    FY24   Q3/24   3Q24                         2024
    12.3.2023   20230312                        2023-03-12
    12/03/2023                                  2023-03-12 and 2023-12-03
    -10   (-10)   temp=-10C                     -10         (`signs`)
    50%                                         percent
    €20   20€                                   euro
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3})+),(\d\d?)(?![\w,]|\.\d)")
"""A number as in 1.234,50: groups of three digits between periods, then a decimal comma."""


def with_decimal_point(piece: str) -> str:
    """The text with 1234.50 in place of 1.234,50."""
    return _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", piece)


_GROUPED_CODE = re.compile(
    r"\d{1,3}(?:\.\d{3})+|(?=(?:[./-]?\d){8})(?!(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?\Z)\d+(?:[./-]\d+)+"
)
"""250.000, 978-3-16-148410-0 or 030/555-0199, but no IP address, unless its last three parts have three digits."""
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DATE_LENGTH = 8
"""Largest number of digits of a date."""


def is_grouped(code: str) -> bool:
    """Whether a code of digits is also indexed without its periods, slashes and hyphens."""
    return _GROUPED_CODE.fullmatch(code) is not None and not may_be_date(code)


def may_be_date(groups: str) -> bool:
    """Whether the groups have at most as many digits as a date, and one of them may be a year."""
    return _YEAR.search(groups) is not None and sum(map(str.isdigit, groups)) <= _DATE_LENGTH


_ZEROS = re.compile(r"0+(?=[1-9]\d)")
"""Zeros before a number of two digits or more."""
_PHONE = re.compile(r"(?!\d*0{6}\Z)\d{10,15}")
"""Digits that may be a phone number. A number that ends in six zeros is a round number instead."""
_SUBSCRIBER = 9
"""Number of last digits of a phone number that are indexed: they are the same after +49, 0049 or 0."""
_HASH = re.compile(r"(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}")
_HASH_PREFIX = 7
"""Number of digits to which Git shortens a hash."""
_BEFORE_UNIT = re.compile(r"(\d+\.\d+)[^\W\d_]{1,3}")
"""A number with a decimal point and the name of its unit: 19.1C, 3.3V."""
_ZERO_PARTS = re.compile(r"[vV]?(\d+(?:\.\d+)+?)(?:\.0)+")
"""A version that ends with .0."""
_SHORT_YEAR = re.compile(r"(?i:FY'?|Q[1-4]/|[1-4]Q)(\d\d)")
"""A fiscal year or a quarter with two digits of its year."""


def common_terms(terms: Iterable[str], segments: Sequence[str], codes: Sequence[str]) -> list[str]:
    """Further terms of a token: numbers without leading zeros, the end of phone numbers, the beginning of hashes,
    decimal numbers without their unit, versions without .0, years in full, ISO dates.

    Args:
        terms: The terms of the token, of its parts and of its parts joined.
        segments: The segments of the token.
        codes: The codes of the token, as `analyzer._codes` finds them; for a token of one segment, the token alone.
    """
    numbers = [term for term in terms if term.isdecimal()]
    shorter = [zeros.string[zeros.end() :] for term in numbers if (zeros := _ZEROS.match(term))]
    ends = [number[-_SUBSCRIBER:] for number in numbers if _PHONE.fullmatch(number)]
    hashes = [segment[:_HASH_PREFIX] for segment in map(str.lower, segments) if _HASH.fullmatch(segment)]
    decimals = [found[1] for code in codes if (found := _BEFORE_UNIT.fullmatch(code))]
    versions = [found[1] for code in codes if (found := _ZERO_PARTS.fullmatch(code))]
    years = [f"20{found[1]}" for code in codes if (found := _SHORT_YEAR.fullmatch(code))]
    return shorter + ends + hashes + decimals + versions + years + [date for code in codes for date in _dates(code)]


_DATE = re.compile(
    r"(?P<day>\d\d?)(?P<sign>[./-])(?P<month>\d\d?)(?P=sign)(?P<year>(?:19|20)\d\d)"
    r"|(?P<y>(?:19|20)\d\d)(?P<s>[./]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)"
)


def _dates(code: str) -> list[str]:
    """The days that a code may mean, as 2023-03-12; two days for 5/8/2023, because some write the month first."""
    found = _DATE.fullmatch(code)
    if found is None:
        return []
    year, month, day = (int(found[name] or found[name[0]]) for name in ("year", "month", "day"))
    both = (month, day), *([(day, month)] if found["sign"] == "/" and day != month else [])
    return [f"{year}-{first:02}-{second:02}" for first, second in both if 0 < first <= 12 and 0 < second <= 31]


_NEGATIVE = re.compile(r"(?:\A|[=:(])[-\u2212](\d+(?:[.,]\d+)*)(?![\d-])")
"""A number with its minus sign: -10, (-10), temp=-10, -1,234.50."""
_THOUSANDS = re.compile(r",(?=\d{3}\b)")
"""A comma between groups of three digits; any other is a decimal comma."""
_SIGNS = {"%": "percent", "€": "euro", "$": "dollar", "£": "pound"}
_SIGN = re.compile(r"(?<=\d)[%€$£]|[€$£](?=\d)|\A[%€£]\Z")
"""A sign of `_SIGNS` behind a digit, a currency before one, or a sign that is alone in its piece, as in "50 %". A "$"
alone is left out, since it often begins a command."""


def signs(piece: str) -> list[str]:
    """Terms for the signs beside a number: the words for percent and currencies, and the number with its minus sign."""
    negative = _NEGATIVE.search(piece)
    words = [_SIGNS[sign] for sign in _SIGN.findall(piece)]
    return words if negative is None else [*words, "-" + _THOUSANDS.sub("", negative[1]).replace(",", ".")]
