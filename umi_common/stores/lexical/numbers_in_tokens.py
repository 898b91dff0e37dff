"""The codes of a token, and common forms of numbers and codes, which are indexed beside the forms in the text.

A piece is a part of a text between white space, and holds tokens: "(src/mail.py:42)" is a piece with the token
src/mail.py:42. The segments of a token are its parts between signs: src, mail, py and 42. Its codes are itself and its
parts that have several segments, here src/mail.py and mail.py. Words that are only linked, as "well-known", are no code
(`codes_of_token`). Forms of numbers that contain spaces are in `numbers_in_text`.

    token                                       further term
    030/555-0199   978-3-16-148410-0            0305550199   9783161484100   (`_is_grouped`)
    0305550199   49305550199                    305550199
    INV-000123                                  123
    d1bd7a1c4e0b9f                              d1bd7a1
    19.1C                                       19.1
    1.2.0                                       1.2
    FY24   Q3/24   3Q24                         2024
    12.3.2023   20230312                        2023-03-12
    09:05:17   09:05:17.250Z                    09:05   9:05
    12/03/2023                                  2023-03-12 and 2023-12-03
    -10   (-10)   temp=-10C                     -10         (`signs`)
    -1,234.50                                   -1234.50
    50%                                         percent
    €20   20€                                   euro
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SEGMENT_BREAK = re.compile(r"[.\-/@:&+#]+")
_CODE_BREAKS = (re.compile(r"(?<=\d)T(?=\d)"), re.compile(r"(?<=[A-Za-z]):(?=\d)"), re.compile("[/@:#]"))
"""Characters that join several codes. The parts of 2026-05-01T09:30, src/mail.py:42 and 10.0.0.15/24 between them are
indexed as codes, too."""
_PROSE_LINKS = frozenset("-/&")
"""Words that are linked by these characters alone are ordinary words and no code: long-term, and/or."""
_SHORT_PART_MAX = 2
"""A hyphenated word with a part of at most this many letters is also indexed as one word: e-mail, wi-fi."""
_WITH_SECONDS = re.compile(r"(\d?\d:\d\d):\d\d(?:\.?\d+)?(?:[zZ]|[+-]\d\d:?\d\d)?")
"""A time of day with seconds; it is also indexed without them. The comma of 09:05:17,250 is gone before."""
_NOT_OF_NUMBER = re.compile(r"[vV](?=\d+\.\d)|0(?=\d:\d\d\Z)")
"""The v before a version number, or the 0 before an hour: v2.10 is also indexed as 2.10, and 09:05 as 9:05."""


def segments_of(token: str) -> list[str]:
    """The parts of a token between signs, without those that are empty or only apostrophes."""
    return [segment for segment in _SEGMENT_BREAK.split(token) if segment.strip("'")]


def codes_of_token(token: str) -> list[str]:
    """The codes among the token, its parts between `_CODE_BREAKS`, times of day without seconds, and all of them
    without `_NOT_OF_NUMBER`."""
    found, parts = [token], [token]
    for separator in _CODE_BREAKS:
        parts = [part for joined in parts for part in separator.split(joined)]
        found += parts
    found += [time[1] for part in found if (time := _WITH_SECONDS.fullmatch(part))]
    found += [part[1:] for part in found if _NOT_OF_NUMBER.match(part)]
    return [code for code in dict.fromkeys(found) if _is_code(code)]


def _is_code(token: str) -> bool:
    """Whether the segments of a token are also indexed joined, as one term. True for AC-12 and os.path, and for e-mail,
    which is often written as one word; False for long-term and and/or."""
    segments = segments_of(token)
    if len(segments) < 2:
        return False
    if not _PROSE_LINKS.issuperset(char for char in token if not char.isalnum()):
        return True
    if not all(segment.isalpha() for segment in segments):
        return True
    return "-" in token and min(map(len, segments)) <= _SHORT_PART_MAX


_DECIMAL_COMMA = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{3})+),(\d\d?)(?![\w,]|\.\d)")
"""A number as in 1.234,50: groups of three digits between periods, then a decimal comma."""


def with_decimal_point(piece: str) -> str:
    """The piece with 1234.50 in place of 1.234,50."""
    return _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", piece)


_GROUPED_CODE = re.compile(
    r"\d{1,3}(?:\.\d{3})+|(?=(?:[./-]?\d){8})(?!(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?\Z)\d+(?:[./-]\d+)+"
)
"""250.000, 978-3-16-148410-0 or 030/555-0199. An IP address is none, unless it may be a number: 10.100.200.250."""
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DATE_LENGTH = 8
"""Largest number of digits of a date."""


def _is_grouped(code: str) -> bool:
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
    """Further terms of a token: digits without signs between them, numbers without leading zeros, the end of phone
    numbers, the beginning of hashes, decimal numbers without their unit, versions without .0, years in full, ISO dates.

    Args:
        terms: The terms of the token, of its parts and of its parts joined.
        segments: The segments of the token.
        codes: The codes of the token, from `codes_of_token`; for a token of one segment, the token alone.
    """
    grouped = ["".join(segments_of(code)) for code in codes if _is_grouped(code)]
    numbers = [term for term in (*terms, *grouped) if term.isdecimal()]
    shorter = [zeros.string[zeros.end() :] for term in numbers if (zeros := _ZEROS.match(term))]
    ends = [number[-_SUBSCRIBER:] for number in numbers if _PHONE.fullmatch(number)]
    hashes = [segment[:_HASH_PREFIX] for segment in map(str.lower, segments) if _HASH.fullmatch(segment)]
    decimals = [found[1] for code in codes if (found := _BEFORE_UNIT.fullmatch(code))]
    versions = [found[1] for code in codes if (found := _ZERO_PARTS.fullmatch(code))]
    years = [f"20{found[1]}" for code in codes if (found := _SHORT_YEAR.fullmatch(code))]
    dates = [date for code in codes for date in _dates(code)]
    return grouped + shorter + ends + hashes + decimals + versions + years + dates


_DATE = re.compile(
    r"(?P<day>\d\d?)(?P<sign>[./-])(?P<month>\d\d?)(?P=sign)(?P<year>(?:19|20)\d\d)"
    r"|(?P<y>(?:19|20)\d\d)(?P<s>[./]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)"
)


def _dates(code: str) -> list[str]:
    """The days that a code may mean, as 2023-03-12; two days for 5/8/2023, because some write the month first."""
    found = _DATE.fullmatch(code)
    if found is None:
        return []
    # The groups are named "year" or "y", by the order of the date.
    year, month, day = (int(found[name] or found[name[0]]) for name in ("year", "month", "day"))
    both = (month, day), *([(day, month)] if found["sign"] == "/" and day != month else [])
    return [f"{year}-{first:02}-{second:02}" for first, second in both if 0 < first <= 12 and 0 < second <= 31]


_NEGATIVE = re.compile(r"(?:\A|[=:(])[-\u2212](\d+(?:[.,]\d+)*)(?![\d-]|[.,]\d)")
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
