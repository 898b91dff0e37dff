"""Read a value as a moment: a datetime, seconds since 1970, or a date as people and programs write it."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np

from umi_common.errors import InvalidChunk
from umi_common.types import as_utc

EPOCH_SECONDS = range(10**8, 10**10)
"""Numbers that are read as seconds since 1970: times from 1973 to 2286. A smaller number may be an offset into a
recording."""
EPOCH_UNITS = (1, 10**3, 10**6, 10**9)
"""The units in which a number may count time, per second: seconds, milli-, micro- and nanoseconds."""
ZONES = {
    **{"": 0, "z": 0, "ut": 0, "utc": 0, "gmt": 0, "wet": 0, "west": 1, "cet": 1, "cest": 2, "mez": 1, "mesz": 2},
    **{"eet": 2, "eest": 3, "est": -5, "edt": -4, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
}
"""Hours east of Greenwich. CST, IST and BST are left out: each names several zones."""
MONTHS = {
    **{"jan": 1, "feb": 2, "mar": 3, "mär": 3, "apr": 4, "may": 5, "mai": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9},
    **{"oct": 10, "okt": 10, "nov": 11, "dec": 12, "dez": 12},
}
"""Number of a month by its first three letters in English or German."""
PIVOT_YEAR = 69
"""A two-digit year below this number is in the 2000s, any other in the 1900s, as in `strptime`."""
PLAIN_LETTERS = {"ſ": "s", "ı": "i", "İ": "i", "\N{KELVIN SIGN}": "k"}
"""Other letters that match an ASCII letter in a regular expression that ignores case -> this ASCII letter."""
_NAME = rf"(?P<name>{'|'.join(MONTHS)})[a-zä]*\.?"
_DATES = [
    re.compile(rf"(?:(?:mon?|tue?|di|wed|mi|thu|do|fri?|sat?|sun?|so)[a-z]*[.,]{{0,2}} )?{written}", re.IGNORECASE)
    for written in (
        r"(?P<year>\d{4})([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d)",
        r"(?P<year>\d{4})-(?P<month>\d\d)(?![-\d])",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?=(?:\d\d){0,3}(?!\d))",
        r"(?P<year>\d{4})-?W(?P<week>\d\d)(?:-?(?P<weekday>[1-7]))?(?!\d)",
        r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})(?!\d)",
        r"(?P<first>\d\d?)([-/])(?P<second>\d\d?)\2(?P<year>\d{4})(?!\d)",
        rf"(?P<day>\d\d?)(?:\.|st|nd|rd|th)?[ -]?{_NAME},?[ -](?P<year>\d{{4}})(?!\d)",
        rf"{_NAME} (?P<day>\d\d?)(?:st|nd|rd|th)?,? (?P<year>\d{{4}})(?!\d)",
    )
]
"""Patterns of dates. A weekday may precede each date."""
_YEAR_LAST = re.compile(r"([a-z]{3} \d\d?) (?!(?:19|20)\d\d )([\d:]+)((?: [\w+-]+)?) (\d{4})", re.IGNORECASE)
"""Times as C, Git and Unix write them: "Nov 18 10:15:00 2026", "Nov 18 10:15:00 UTC 2026"; not "Nov 18 2026 0915"."""
_CLOCK_AND_ZONE = re.compile(
    r"(?:(?:T|[ ,]+(?:at |um )?)?(?P<hour>\d\d?)"
    r"(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: Uhr)?)? *(?P<zone>.*)",
    re.IGNORECASE,
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?)(?::?(\d\d)(?-i: [A-Z]{3,5})?)?", re.IGNORECASE)


def read_time(value: object, what: str = "time") -> datetime | None:
    """`value` as a moment in UTC; None if it does not state exactly one moment.

    A number, or a text of digits, counts seconds, milli-, micro- or nanoseconds since 1970. A text may be ISO 8601,
    also in its compact form and with week numbers; "18.11.2026"; "2026/11/18"; "11/18/2026" or "18/11/2026", if one of
    day and month is above 12; "Nov 18, 2026" or "18 November 2026", in English or German. It may hold a weekday, a
    clock time and a zone: an offset, "UTC", "CET", "Europe/Berlin". A text without a zone is in UTC. A month or a week
    is read as its first day.

    Raises:
        InvalidChunk: If `value` is a datetime without a zone; the message begins with `what`.
    """
    if isinstance(value, datetime):
        return as_utc(value, what, InvalidChunk)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    try:
        if isinstance(value, (str, np.datetime64)):
            return _text_time(" ".join(str(value).split()))  # other kinds of space, too, as before "AM"
        if isinstance(value, (int, float, Decimal, np.integer, np.floating)):
            return _epoch_time(float(value))
    except (ValueError, LookupError, OverflowError, OSError):
        return None  # for example for 31 February, an unknown zone, or a moment before the year 1
    return None


def year_number(digits: str) -> int:
    """The year of four digits, or of two by PIVOT_YEAR."""
    year = int(digits)
    century = 0 if len(digits) > 2 else 2000 if year < PIVOT_YEAR else 1900
    return century + year


def with_plain_letters(text: str) -> str:
    """The text with ASCII letters in place of `PLAIN_LETTERS`; its length does not change.

    A word that a pattern finds, ignoring case, is then in the tables, which hold only ASCII letters.
    """
    for letter, plain in PLAIN_LETTERS.items():
        text = text.replace(letter, plain)
    return text


def _epoch_time(number: float) -> datetime | None:
    for unit in EPOCH_UNITS:
        if EPOCH_SECONDS.start <= number / unit < EPOCH_SECONDS.stop:
            return datetime.fromtimestamp(number / unit, timezone.utc)
    return None


def _text_time(text: str) -> datetime | None:
    """The moment that a text states; None: the text has no known form. Raises if its date or zone does not exist."""
    if re.fullmatch(r"\d{9,13}(\.\d+)?|\d{15,}", text):  # 14 digits: 20261118101500
        return _epoch_time(float(text))
    if text.startswith("D:"):  # as in PDFs: D:20261118101500+01'00', D:20261118091500Z00'00'
        text = text[2:].replace("'", "").replace("Z0000", "Z")
    text = _YEAR_LAST.sub(r"\1, \4 \2\3", text)
    for pattern in _DATES:
        if found := pattern.match(text):
            rest = _CLOCK_AND_ZONE.fullmatch(text, found.end())
            return None if rest is None else _moment(_day(found.groupdict()), rest)
    return None


def _day(written: dict[str, str | None]) -> date:
    """The date of the groups of a match of `_DATES`; for a month or a week its first day."""
    given = {name: int(value) for name, value in written.items() if value and value.isdigit()}
    if "week" in given:
        return date.fromisocalendar(given["year"], given["week"], given.get("weekday", 1))
    month, day = given.get("month", 0), given.get("day", 1)
    if "first" in given:
        month, day = sorted((given["first"], given["second"]))
        if month < day <= 12:
            raise ValueError("either number may be the day")
    if name := written.get("name"):
        month = MONTHS[name.lower()]
    return date(given["year"], month, day)


def _moment(day: date, rest: re.Match[str]) -> datetime:
    hour, minute, second = (int(rest[name] or 0) for name in ("hour", "minute", "second"))
    if rest["half"]:
        hour = hour % 12 + 12 * (rest["half"] in "pP")
    microsecond = int((rest["fraction"] or "")[:6].ljust(6, "0"))
    zone = _zone(rest["zone"].strip())
    return datetime(day.year, day.month, day.day, hour, minute, second, microsecond, zone).astimezone(timezone.utc)


def _zone(written: str) -> tzinfo:
    """The zone of "+0100", "+0100 CET", "GMT+0100 (Central European Standard Time)", "[Europe/Berlin]"; "": UTC."""
    written = re.sub(r"(?<=\S) ?[\[(].*", "", written)
    if found := _OFFSET.fullmatch(written):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    name = written.strip("[]()")
    return ZoneInfo(name) if "/" in name else timezone(timedelta(hours=ZONES[name.lower()]))
