"""English time words, and what they mean."""

from __future__ import annotations

import re

from umi_common import times
from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod

BEFORE_DATE = "(?:am|vom|zum|den|du|le|au|del?|el|al|il|dal|em|do|dia|op|van)"
"""A pattern of the words before a date in other languages: "am 3. Mai"."""


def _list(words: str) -> list[str]:
    return words.split()


MONTHS = _list("january february march april may june july august september october november december")
WEEKDAYS = _list("monday tuesday wednesday thursday friday saturday sunday")
NUMBERS = _list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
DECADES = _list("twenties thirties forties fifties sixties seventies eighties nineties")
DAY_ORDINALS = _list(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
DAY_ORDINALS += [*(f"twenty-{name}" for name in DAY_ORDINALS[:9]), "thirtieth", "thirty-first"]
ORDINALS = DAY_ORDINALS[:5]
SINCE = "seit|sinds|depuis|desde"
"""Words for "since" in other languages, as a part of patterns."""
VAGUE_COUNTS = {"couple": (3, 1), "few": (5, 2), "several": (8, 3)}
"""(farthest, nearest) number of units: "a few weeks ago" is from five weeks ago to two weeks ago."""
UNITS = {
    **{unit: unit for unit in _list("minute hour day week fortnight weekend month quarter year decade")},
    **{"min": "minute", "hr": "hour", "wk": "week", "mo": "month", "mth": "month", "yr": "year"},
}
"""The unit of each name and abbreviation."""
EASTER = 0
"""In place of a month: the days are counted from Easter Sunday."""
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
"""(month, day, weekday, number of days) of each holiday. It begins on that day, or on that weekday (Monday is 0) of the
seven days from it on."""


DAYS_AWAY = {
    **{"day before yesterday": -2, "before last": -2, "yesterday": -1, "today": 0, "tomorrow": 1},
    **{"day after tomorrow": 2},
}
HALVES = {
    **{"hour": ("minute", 30, "minute"), "day": ("hour", 12, "hour"), "week": ("hour", 84, "week")},
    **{"month": ("day", 15, "week"), "year": ("month", 6, "month"), "decade": ("year", 5, "year")},
}
"""For each unit: a smaller unit, the number of smaller units in half of the larger one, and the length of the period
that "half a year ago" means."""
HOURS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""First hour of each part of a day, and the hour at which it ends; a night ends at six the next morning."""
OTHER_DAYS = {"day": 7, "night": 7, "week": 28, "month": 90}
"""Number of days before today that "the other day" may mean."""
PIVOT_YEAR = 69
"""A two-digit year below this number is a year of the 2000s, any other one of the 1900s, as in `strptime`."""
WHICH_OFFSET = {
    **{"before last": -2, "last": -1, "past": -1, "previous": -1, "this": 0, "current": 0},
    **{"next": 1, "coming": 1, "upcoming": 1, "after next": 2},
}
"""Number of units from the current one, by the word for it."""
PARTS = {
    **dict.fromkeys(("early", "beginning", "start"), (0.0, 1 / 3)),
    **dict.fromkeys(("mid", "middle"), (1 / 3, 2 / 3)),
    **dict.fromkeys(("late", "end"), (2 / 3, 1.0)),
    **{"first half": (0.0, 0.5), "second half": (0.5, 1.0)},
}
"""Shares of a period's length, 0..1, at which a part of it begins and ends."""

Words = dict[str, str]
"""What the groups of a match say, by group."""


def words_of(match: re.Match[str]) -> Words:
    """The text of each group that is not empty, in lower case, with single spaces and full names of units."""
    texts = {name: " ".join(text.lower().replace("\u2019", "'").split()) for name, text in match.groupdict("").items()}
    if "unit" in texts:
        texts["unit"] = UNITS.get(texts["unit"], "")
    return {name: text for name, text in texts.items() if text}


def named_part(period: CalendarPeriod, given: Words) -> CalendarPeriod:
    """The part of a period that the words name, such as its first third for "early"; all of it if they name none."""
    return spans.part(period, *PARTS[given["part"]]) if "part" in given else period


def month_number(name: str) -> int:
    """1..12 for digits, or for a name or abbreviation that MONTH matches."""
    return int(name) if name.isdigit() else times.MONTHS[name.lower()[:3]]


def year_number(digits: str) -> int:
    """The year of four digits, or of two, by PIVOT_YEAR."""
    year = int(digits)
    if len(digits) > 2:
        return year
    return year + (2000 if year < PIVOT_YEAR else 1900)


def counted(text: str) -> tuple[int, int]:
    """The (farthest, nearest) number that a match of COUNT means: "three" is (3, 3), "2-3" is (3, 2), "a few" is
    (5, 2)."""
    words = re.findall(r"[a-z]+|\d+", text.lower())
    for name, reach in VAGUE_COUNTS.items():
        if name in words:
            return reach
    numbers = [
        int(word) if word.isdigit() else NUMBERS.index(word) for word in words if word.isdigit() or word in NUMBERS
    ]
    return (max(numbers), min(numbers)) if numbers else (1, 1)
