"""English time words and their meanings."""

from __future__ import annotations

import re

from umi_common import times
from umi_common.number_names import BELOW_100, ORDINALS
from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod

BEFORE_DATE = r"(?:am|vom|zum|de[mn]|du|le|au|del?|el|al|il|dal|em|do(?= \S+ de )|dia|op|van)"
"""A pattern of the words before a date in other languages: "am 3. Mai", "do 3 de maio"; not "did we do 3 April"."""


def _list(words: str) -> list[str]:
    return words.split()


LABELS = _list(
    "version release build section article chapter clause part phone tel fax call account order ref isbn id no nr "
    "number"
)
"""Words before digits that are a number or an id, and no date: "section 14.10.23"."""


MONTHS = _list("january february march april may june july august september october november december")
WEEKDAYS = _list("monday tuesday wednesday thursday friday saturday sunday")
NUMBERS = list(BELOW_100)[:21]
"""From "zero" to "twenty"."""
DECADES = _list("twenties thirties forties fifties sixties seventies eighties nineties")
_FIRST_TO_20TH = list(ORDINALS)[:20]
DAY_ORDINALS = [*_FIRST_TO_20TH, *(f"twenty-{name}" for name in _FIRST_TO_20TH[:9]), "thirtieth", "thirty-first"]
SINCE = "seit|sinds|depuis|desde"
"""A pattern of the words for "since" in other languages."""
VAGUE_COUNTS = {"couple": (3, 1), "few": (5, 2), "several": (8, 3)}
"""(farthest, nearest) number of units: "a few weeks ago" is from five weeks ago to two weeks ago."""
UNITS = {
    **{unit: unit for unit in _list("minute hour day week fortnight weekend month quarter year decade")},
    **{"min": "minute", "hr": "hour", "wk": "week", "mo": "month", "mth": "month", "yr": "year"},
}
"""The unit of each name and abbreviation."""
EASTER = 0
"""In place of a month in HOLIDAYS: the day is the number of days after Easter Sunday."""
HOLIDAYS = {
    **{"christmas eve": (12, 24, None, 1), "christmas": (12, 24, None, 3), "xmas": (12, 24, None, 3)},
    **{"boxing day": (12, 26, None, 1), "new year's eve": (12, 31, None, 1), "new year's": (1, 1, None, 1)},
    **{"new year": (1, 1, None, 1)},
    **{"valentine's": (2, 14, None, 1), "independence day": (7, 4, None, 1), "halloween": (10, 31, None, 1)},
    **{"mother's day": (5, 8, 6, 1), "memorial day": (5, 25, 0, 1), "labor day": (9, 1, 0, 1)},
    **{"thanksgiving": (11, 22, 3, 1), "black friday": (11, 23, 4, 1), "cyber monday": (11, 26, 0, 1)},
    **{"good friday": (EASTER, -2, None, 1), "easter sunday": (EASTER, 0, None, 1)},
    **{"easter monday": (EASTER, 1, None, 1), "easter": (EASTER, -2, None, 4), "pentecost": (EASTER, 49, None, 2)},
}
"""(month, day, weekday, number of days) of each holiday. Without a weekday, it begins on that day. With one (Monday is
0), it begins on the first such weekday from that day on."""
DAYS_AWAY = {
    **{"day before yesterday": -2, "before last": -2, "yesterday": -1, "today": 0, "tomorrow": 1},
    **{"day after tomorrow": 2},
}
HALVES = {
    **{"hour": ("minute", 30, "minute"), "day": ("hour", 12, "hour"), "week": ("hour", 84, "week")},
    **{"month": ("day", 15, "week"), "year": ("month", 6, "month"), "decade": ("year", 5, "year")},
}
"""For each unit: (a smaller unit, how many of it make half of the unit, the length of the period that "half a ... ago"
means)."""
HOURS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""The hours at which each part of a day begins and ends; a night ends at six the next morning."""
OTHER_DAYS = {"day": 7, "night": 7, "week": 28, "month": 90}
"""Number of days before today that "the other day", "the other week" and so on may mean."""
WHICH_OFFSET = {
    **{"before last": -2, "last": -1, "past": -1, "previous": -1, "this": 0, "current": 0},
    **{"next": 1, "coming": 1, "upcoming": 1, "after next": 2},
}
"""Number of units after the current one, by word: "last week" is -1."""
PARTS = {
    **dict.fromkeys(("early", "beginning", "start"), (0.0, 1 / 3)),
    **dict.fromkeys(("mid", "middle"), (1 / 3, 2 / 3)),
    **dict.fromkeys(("late", "end"), (2 / 3, 1.0)),
    **{"first half": (0.0, 0.5), "second half": (0.5, 1.0)},
}
"""The shares of a period's length, 0..1, at which a part of it begins and ends."""

Words = dict[str, str]
"""The texts of the groups of a match, by the group's name (see `words_of`)."""


def words_of(match: re.Match[str]) -> Words:
    """The texts of the groups that are not empty, by name; in lower case, with single spaces and full names of
    units."""
    texts = {name: " ".join(text.lower().replace("\u2019", "'").split()) for name, text in match.groupdict("").items()}
    if "unit" in texts:
        texts["unit"] = UNITS.get(texts["unit"], "")
    return {name: text for name, text in texts.items() if text}


def named_part(period: CalendarPeriod, given: Words) -> CalendarPeriod:
    """The part of a period that the words name, such as its first third for "early"; the whole if they name none."""
    return spans.part(period, *PARTS[given["part"]]) if "part" in given else period


def month_number(name: str) -> int:
    """1..12 for digits, or for a name or abbreviation that MONTH matches."""
    return int(name) if name.isdigit() else times.MONTHS[name.lower()[:3]]


def counted(text: str) -> tuple[int, int]:
    """The (farthest, nearest) number that a match of `grammar.COUNT` means.

    "three" is (3, 3), "2-3" is (3, 2), "a few" is (5, 2), "a" is (1, 1).
    """
    words = re.findall(r"[a-z]+|\d+", text.lower())
    for name, reach in VAGUE_COUNTS.items():
        if name in words:
            return reach
    numbers = [int(word) for word in words if word.isdigit()]
    numbers += [NUMBERS.index(word) for word in words if word in NUMBERS]
    return max(numbers, default=1), min(numbers, default=1)
