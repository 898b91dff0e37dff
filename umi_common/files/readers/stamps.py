"""Find the stamps of a text: the dates and times with which the entries of a chat, a diary or a program's log begin.

The other dates of a text decide whether 03/04/24 is in March or April: 03/14/24 in the same text shows that the month
is first. The logs of Spark and Hadoop have the year first: 24/06/11. If no date decides, no stamp has a time, because a
wrong time is worse than none; neither has a stamp with a zone that is not known, such as IST. Times without a zone are
UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from umi_common.times import ZONES, read_time, year_number

_BLANK = r"[^\S\n]"
"""A blank in a line."""
_MIDDLE = r"(?:-\d\d?-|/\d\d?/|\.[ ]?\d\d?\.[ ]?)"
"""The second number of a date, and the signs around it."""
_ZONE_NAMES = rf"(?:{'|'.join(name.upper() for name in ZONES if len(name) > 1)}|(?:[A-Z]|A[CEW]|NZ)[SD]T|MSK|HKT|SGT)"
"""Names of zones: those that `read_time` knows, and others, before which a time is not read."""
STAMP = re.compile(
    rf"""
    ^\u200e?\[?                                                # some messengers put the invisible mark U+200E first
    (?P<date>\d{{4}}{_MIDDLE}\d\d?\.?|\d\d?{_MIDDLE}(?:\d{{4}}|\d\d))     # 2024-06-11, 11.06.24, 11. 6. 2024, 6/11/24
    (?:,?{_BLANK}|T){_BLANK}*
    (?:(?:um|at|à|às|kl[.o]?){_BLANK})?                        # German, English, French, Portuguese, Scandinavian
    (?P<time>(?P<hour>\d\d?)(?:
        :\d\d(?::\d\d)?(?:[.,]\d+)?                            # 19:15, 19:15:02,500
        |\.\d\d(?:\.\d\d)?(?=\]|{_BLANK}-{_BLANK})             # 19.15; in "01/05/2024 12.50 Coffee" it is a price
    ))
    (?:{_BLANK}?(?P<half>[AaPp])\.?{_BLANK}?[Mm]\b\.?)?        # 7:15 p.m.
    (?:{_BLANK}Uhr)?
    (?:(?P<zone>Z|[+-]\d\d:?\d\d)                              # +02:00 directly behind the time
        |{_BLANK}(?P<far_zone>(?:[+-](?:0\d|1[0-4])(?:00|30|45)|(?:UTC|GMT)[+-]\d\d?(?::?\d\d)?|{_ZONE_NAMES})\b))?
    (?P<close>\]?(?:{_BLANK}+-)?)                              # the sign between time and text, "" in a diary
    (?:{_BLANK}+|$)
    (?:(?P<name>[^:\n\[]{{1,40}}):[ ])?                        # see Beginning.name
    """,
    re.MULTILINE | re.VERBOSE,
)
"""Matches the beginning of an entry: `[11.06.24, 19:15] Mira: `."""
LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""The level in a line of a program's log."""
DAYS_PER_YEAR_MIN = 3
"""In a chat whose dates may begin with the year or with the day, the year is first if there are at least this number of
times as many last numbers as first numbers. If there are fewer, but more last than first, the order is unknown."""


class Beginning(NamedTuple):
    """The beginning of an entry or a message."""

    start: int
    """Index of its first character: of the date or, in a chat without times, of the speaker's name."""
    content_start: int
    """Index of the first character after the time: of the name or of the text."""
    name: str | None
    """The text before the first colon of the line. None: this colon is missing or has no space behind it, or the text
    has more than 40 characters, a "[", or a word at its beginning that may be a part of the time, as "am"."""
    is_closed: bool = True
    """Whether a sign, "]" or " -", is between time and text, as mostly in a chat."""
    when: datetime | None = None
    """None: no valid time, or the order of the date or the zone is not known."""


def stamped(text: str) -> list[Beginning]:
    """The beginnings of the entries of a text that begin with a stamp, in order."""
    matches = list(STAMP.finditer(text))
    order, words = _order(matches), _groups_of_words(matches)
    found = []
    for match in matches:
        at = _content_start(match, words)
        name = match["name"] if match.start("name") == at else None
        found.append(Beginning(match.start(), at, name, bool(match["close"]), _time_of(match, at, order)))
    return found


def is_most(flags: Sequence[object]) -> bool:
    """Whether more than half of the flags are true."""
    return sum(map(bool, flags)) > len(flags) / 2


def _groups_of_words(matches: Sequence[re.Match[str]]) -> list[str]:
    """Those of the groups "half" and "far_zone" that are words of the text, as "am" in "08:00 am Bahnhof".

    They are words unless most entries have them. If an hour is above 12, the text uses no am and pm.
    """
    has_24_hours = any(int(match["hour"]) > 12 for match in matches)
    return [
        group
        for group in ("half", "far_zone")
        if (group == "half" and has_24_hours) or not is_most([match[group] for match in matches])
    ]


def _content_start(match: re.Match[str], words: Iterable[str] = ()) -> int:
    """`Beginning.content_start`. A group in `words`, from `_groups_of_words`, begins the text, unless `close` is
    behind it."""
    word = next((group for group in words if match[group]), None)
    if word is not None and not match["close"]:
        return match.start(word)
    return match.end() if match["name"] is None else match.start("name")


def _order(matches: Sequence[re.Match[str]]) -> str | None:
    """The order of year, month and day in dates such as 03/04/24: "dmy", "mdy" or "ymd".

    None if no date decides, or if the dates contradict each other. If all dates can be read as "ymd" and as "dmy", the
    number of different first and last numbers decides, since a log has fewer years than days. In a program's log, whose
    messages begin with a level such as "INFO", the year is first if there are fewer first than last numbers, or one of
    each; in a chat, see DAYS_PER_YEAR_MIN.
    """
    dates = [match["date"] for match in matches]
    triples = [[int(number) for number in re.split("[/-]", date)] for date in dates if re.match(r"\d\d?[/-]", date)]
    if not triples:
        return None
    firsts, seconds, lasts = (set(numbers) for numbers in zip(*triples, strict=True))
    if min(firsts) > 12 and max(lasts) <= 31:
        is_program_log = all(LEVEL.match(match.string, _content_start(match)) for match in matches)
        if len(firsts) >= len(lasts) and not (is_program_log and len(firsts) == 1):
            return "dmy"
        return "ymd" if is_program_log or len(lasts) >= DAYS_PER_YEAR_MIN * len(firsts) else None
    day_is_first, day_is_second = max(firsts) > 12, max(seconds) > 12
    return None if day_is_first == day_is_second else "dmy" if day_is_first else "mdy"


def _time_of(match: re.Match[str], content_start: int, order: str | None) -> datetime | None:
    """The time of a stamp; None: no valid time, or an unknown order.

    A date that begins with four digits begins with the year, a date with dots with the day.

    Args:
        content_start: Index after the time; an am, pm or zone that `match` has behind it is a part of the text.
        order: The result of `_order`; used only if the date does not show its own order.
    """
    date = match["date"]
    order = "ymd" if date[:4].isdigit() else "dmy" if "." in date else order
    if order is None:
        return None
    number = dict(zip(order, map(int, re.findall(r"\d+", date)), strict=True))
    year = year_number(f"{number['y']:02}")  # some programs write 2024 as 0024
    time = match["time"] if ":" in match["time"] else match["time"].replace(".", ":")
    half, zone, far_zone = (
        match[group] if match[group] and match.end(group) <= content_start else ""
        for group in ("half", "zone", "far_zone")
    )
    if half and int(match["hour"]) <= 12:
        time += f" {half}m"
    return read_time(f"{year:04}-{number['m']:02}-{number['d']:02} {time} {zone}{far_zone}")
