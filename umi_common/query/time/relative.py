"""Periods relative to the current time: "yesterday", "last week", "two Fridays ago", "over the past few months"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import (
    COUNT,
    PART,
    UNIT,
    WEEKDAY,
    WEEKDAYS,
    WHICH,
    WHICH_OFFSET,
    counted,
    named_part,
    rule,
    year_number,
)

DAYS_AWAY = {"yesterday": -1, "today": 0, "tomorrow": 1}
HALVES = {"hour": ("minute", 30), "day": ("hour", 12), "year": ("month", 6), "decade": ("year", 5)}
"""For each unit: a smaller unit, and the number of smaller units in half of the larger one."""
HOURS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""First hour of each part of a day, and the hour at which it ends; a night ends at six the next morning."""
HOLIDAYS = {
    "christmas eve": (12, 24, 1),
    "christmas": (12, 24, 3),
    "xmas": (12, 24, 3),
    "boxing day": (12, 26, 1),
    "new year's eve": (12, 31, 1),
    "new year's day": (1, 1, 1),
    "new year's": (1, 1, 1),
    "valentine's day": (2, 14, 1),
    "independence day": (7, 4, 1),
    "halloween": (10, 31, 1),
}
"""(month, day, number of days) of each holiday; month and day are those of its first day."""
WEEKDAY_HOLIDAYS = {
    "mother's day": (5, 8, 6),
    "memorial day": (5, 25, 0),
    "labor day": (9, 1, 0),
    "thanksgiving": (11, 22, 3),
    "black friday": (11, 23, 4),
    "cyber monday": (11, 26, 0),
}
"""(month, day, weekday): the holiday is on that weekday (Monday is 0) of the seven days that begin with this day."""
EASTER_HOLIDAYS = {"good friday": (-2, 1), "easter sunday": (0, 1), "easter monday": (1, 1), "easter": (-2, 4)}
"""(days after Easter Sunday, number of days) of each holiday."""


@rule(r"(?:the )?(?P<over>day (?:before yesterday|after tomorrow))")
def _two_days_away(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return spans.days(now + timedelta(days=-2 if "before" in match["over"].lower() else 2))


@rule(
    rf"(?<!usa\s)(?P<day>{'|'.join(DAYS_AWAY)})(?:'s)?"
    r"(?: (?:in the )?(?P<part>morning|afternoon|evening|night))?"
)
def _day_away(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return _hours(now + timedelta(days=DAYS_AWAY[match["day"].lower()]), match["part"])


@rule(r"(?P<day>this|last) (?P<part>morning|afternoon|evening|night)|tonight")
def _part_of_day(match: re.Match[str], now: datetime) -> CalendarPeriod:
    last = match["day"] is not None and match["day"].lower() == "last"
    return _hours(now - timedelta(days=int(last)), match["part"] or "night")


@rule(
    rf"(?:(?:the )?{PART}[\s-]{{1,3}}(?:of |in )?)?(?:the )?{WHICH} (?P<unit>week|month|quarter|year|decade|hour)"
    r"(?! (?:in|at) (?:a|review)\b|s)"
)
@rule(
    rf"(?:at|by|in|since|until|till|before|after) the {PART} of the(?P<which>) (?P<unit>week|month|quarter|year|decade)"
)
def _unit_away(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return named_part(_unit(now, match["unit"], WHICH_OFFSET[(match["which"] or "this").lower()]), match["part"])


@rule(r"(?:the )?(?P<unit>week|weekend|month|year) (?P<side>before last|after next)")
def _unit_two_away(match: re.Match[str], now: datetime) -> CalendarPeriod:
    offset, unit = -2 if "last" in match["side"].lower() else 2, match["unit"].lower()
    return spans.weekend(now, offset) if unit == "weekend" else _unit(now, unit, offset)


@rule(rf"(?:the |on )?(?:{WHICH}|over the|(?:at|on|during|since) the) weekend")
def _weekend(match: re.Match[str], now: datetime) -> CalendarPeriod:
    which = (match["which"] or "over").lower()
    begun = now.weekday() >= 5
    if which in {"last", "previous"}:
        return spans.weekend(now, -1)
    if which in {"past", "over"}:
        return spans.weekend(now, 0 if begun else -1)
    return spans.weekend(now, 1 if which == "next" else 0)


@rule(rf"(?:on )?{WHICH} (?:week'?s )?{WEEKDAY}(?!s)")
def _which_weekday(match: re.Match[str], now: datetime) -> CalendarPeriod:
    number, which = WEEKDAYS.index(match["weekday"].lower()), WHICH_OFFSET[match["which"].lower()]
    if which == 0:
        return spans.days(spans.week(now).start + timedelta(days=number))
    return spans.weekday(now, number, which)


@rule(
    rf"(?:on|since|until|till|before|after|by) {WEEKDAY}(?!s| (?:night live|times))"
    r"(?: (?P<part>morning|afternoon|evening|night))?"
)
@rule(rf"{WEEKDAY}'s(?P<part>)")
def _latest_weekday(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return _hours(spans.weekday(now, WEEKDAYS.index(match["weekday"].lower()), -1).start, match["part"])


@rule(rf"(?:on )?{WEEKDAY} (?:of )?{WHICH} week")
def _weekday_of_week(match: re.Match[str], now: datetime) -> CalendarPeriod:
    monday = spans.week(now, WHICH_OFFSET[match["which"].lower()]).start
    return spans.days(monday + timedelta(days=WEEKDAYS.index(match["weekday"].lower())))


@rule(rf"{COUNT} {WEEKDAY}s? ago")
def _weekdays_ago(match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    farthest, nearest = counted(match["count"])
    if farthest != nearest or not nearest:
        return None
    return spans.weekday(now, WEEKDAYS.index(match["weekday"].lower()), -nearest)


@rule(rf"{COUNT} fortnights? ago")
def _fortnights_ago(match: re.Match[str], now: datetime) -> CalendarPeriod:
    weeks = 2 * counted(match["count"])[1]
    return replace(spans.around(spans.shifted(now, "week", -weeks), "week"), vague=True)


@rule(rf"{COUNT} weekends? ago")
def _weekends_ago(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return spans.weekend(now, -counted(match["count"])[1])


@rule(r"half an? (?P<unit>hour|day|year|decade) ago")
@rule(r"(?P<whole>an?|one|two|three) (?P<unit>hour|day|year|decade)s? and a half ago")
@rule(r"(?P<whole>one|two|three) and a half (?P<unit>hour|day|year|decade)s ago")
def _halves_ago(match: re.Match[str], now: datetime) -> CalendarPeriod:
    smaller, half = HALVES[match["unit"].lower()]
    whole = match.groupdict().get("whole")
    count = half + (2 * half * counted(whole)[1] if whole else 0)
    return replace(spans.around(spans.shifted(now, smaller, -count), smaller), vague=True)


@rule(rf"{COUNT} {UNIT} (?:ago|(?:back|earlier)(?! (?:than|to|in|into)\b))")
def _units_ago(match: re.Match[str], now: datetime) -> CalendarPeriod:
    farthest, nearest = counted(match["count"])
    unit = match["unit"].lower()
    if farthest == nearest:
        span = spans.around(spans.shifted(now, unit, -nearest), unit)
        return span if unit == "day" else replace(span, vague=True)
    return CalendarPeriod(spans.shifted(now, unit, -farthest), spans.shifted(now, unit, -nearest), vague=True)


@rule(
    rf"(?:(?:in|over|during|within|for|from|of) )?(?:the|these|my|our) "
    rf"(?P<which>last|past|previous|next|coming) (?:{COUNT} )?{UNIT}(?<=s)"
)
@rule(rf"(?P<which>last|past|previous|next) {COUNT} {UNIT}")
@rule(rf"(?:in|over|during|within) the (?P<which>last|past)(?P<count>) {UNIT}(?<!s)")
def _running_units(match: re.Match[str], now: datetime) -> CalendarPeriod:
    one = match["count"] == ""  # "in the past week"
    reach = 1 if one else counted(match["count"] or "few")[0]
    if WHICH_OFFSET[match["which"].lower()] > 0:
        return CalendarPeriod(now, spans.shifted(now, match["unit"].lower(), reach))
    begin = spans.shifted(now, match["unit"].lower(), -reach)
    whole_days = match["unit"].lower() not in {"minute", "hour"}
    return CalendarPeriod(spans.midnight(begin) if whole_days else begin, spans.days(now).end if whole_days else now)


@rule(r"the other (?P<part>day|night|week|month)|earlier this (?P<unit>week|month|year)")
def _the_other_day(match: re.Match[str], now: datetime) -> CalendarPeriod:
    if match["unit"]:
        return CalendarPeriod(_unit(now, match["unit"], 0).start, spans.days(now).end)
    back = {"day": 7, "night": 7, "week": 28, "month": 90}[match["part"].lower()]
    return CalendarPeriod(spans.midnight(now - timedelta(days=back)), spans.midnight(now), vague=True)


@rule(
    rf"(?:(?:{WHICH}|on|at|over|around|during|since|before|after|for) |"
    r"(?=.{4,20}\s(?:(?:19|20)\d\d|(?:last|this|next) year|years? ago)\b))"
    rf"(?P<holiday>{'|'.join((*HOLIDAYS, *WEEKDAY_HOLIDAYS, *EASTER_HOLIDAYS))})(?: day)?"
    r"(?: (?P<year>(?:19|20)\d\d)\b)?"
)
def _holiday(match: re.Match[str], now: datetime) -> CalendarPeriod:
    name = match["holiday"].lower().replace("\u2019", "'")

    def span(year: int) -> CalendarPeriod:
        day = spans.midnight(now).replace(year=year, month=1, day=1)
        if name in EASTER_HOLIDAYS:
            after, count = EASTER_HOLIDAYS[name]
            return spans.days(day.replace(month=3) + timedelta(days=spans.easter(year) - 1 + after), count)
        if name in WEEKDAY_HOLIDAYS:
            month, number, weekday = WEEKDAY_HOLIDAYS[name]
            return spans.weekday(day.replace(month=month, day=number) + timedelta(days=7), weekday, -1)
        month, number, count = HOLIDAYS[name]
        return spans.days(day.replace(month=month, day=number), count)

    if match["year"]:
        return span(year_number(match["year"]))
    coming = match["which"] is not None and WHICH_OFFSET[match["which"].lower()] > 0
    latest = spans.latest(now, span)
    return span(latest.start.year + 1) if coming else latest


def _unit(now: datetime, unit: str, offset: int) -> CalendarPeriod:
    """The week, month, quarter, year, decade or hour `offset` units from the current one."""
    unit = unit.lower()
    return spans.week(now, offset) if unit == "week" else spans.around(spans.shifted(now, unit, offset), unit)


def _hours(day: datetime, part: str | None) -> CalendarPeriod:
    """The part of a day that a key of HOURS names; the whole day if `part` is empty or None."""
    if not part:
        return spans.days(day)
    first, last = (timedelta(hours=hour) for hour in HOURS[part.lower()])
    return CalendarPeriod(spans.midnight(day) + first, spans.midnight(day) + last)
