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
HOURS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""Parts of a day; a night reaches to six the next morning."""
HOLIDAYS = {
    "christmas eve": (12, 24, 1),
    "christmas": (12, 24, 3),
    "xmas": (12, 24, 3),
    "new year's eve": (12, 31, 1),
    "new year's day": (1, 1, 1),
    "new year's": (1, 1, 1),
    "valentine's day": (2, 14, 1),
    "halloween": (10, 31, 1),
    "thanksgiving": (11, 22, 7),
}
"""Month and day of the first day, and number of days; Thanksgiving is the Thursday among its seven."""
THURSDAY = 3


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


@rule(rf"{COUNT} {UNIT} (?:ago|back|earlier)(?! (?:than|to|in|into)\b)")
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
def _running_units(match: re.Match[str], now: datetime) -> CalendarPeriod:
    reach = counted(match["count"] or "few")[0]
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
    rf"(?:(?:{WHICH}|on|at|over|around|during|since|before|after|for) |(?=.{{7,20}}\s(?:19|20)\d\d\b))"
    rf"(?P<holiday>{'|'.join(HOLIDAYS)})(?: day)?(?: (?P<year>(?:19|20)\d\d)\b)?"
)
def _holiday(match: re.Match[str], now: datetime) -> CalendarPeriod:
    month, number, count = HOLIDAYS[match["holiday"].lower().replace("\u2019", "'")]

    def span(year: int) -> CalendarPeriod:
        whole = spans.days(spans.midnight(now).replace(year=year, month=month, day=number), count)
        return spans.weekday(whole.end, THURSDAY, -1) if count == 7 else whole

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
    if not part:
        return spans.days(day)
    first, last = (timedelta(hours=hour) for hour in HOURS[part.lower()])
    return CalendarPeriod(spans.midnight(day) + first, spans.midnight(day) + last)
