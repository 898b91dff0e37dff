"""Periods by name or number: days, weeks, months, quarters, seasons, holidays, years and decades.

`Words` are the groups of a match of a pattern in `grammar` that have text, by name: of "the last Friday of May last
year", {"nth": "last", "weekday": "friday", "month": "may", "whose": "last"}.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial

from umi_common.query.time import spans, vocabulary
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import (
    WEEKDAYS,
    WHICH_OFFSET,
    Words,
    counted,
    month_number,
    named_part,
)
from umi_common.times import year_number


def of_year(given: Words, now: datetime, year: int) -> CalendarPeriod:
    """The part of a year that the words name: a day, week, month, quarter, half, season or holiday; else the year.

    Raises:
        ValueError: If the year has no such day or week.
    """
    if "holiday" in given:
        return _holiday(given["holiday"], now, year)
    if "season" in given:
        return spans.months(now, year, spans.SEASONS[given["season"]], 3)
    if "quarter" in given:
        quarter = 4 if given["quarter"] == "last" else _number(given["quarter"])
        return spans.months(now, year, 3 * quarter - 2, 3)
    if "half" in given:
        return spans.part(spans.years(now, year), *((0, 0.5) if given["half"] in ("1", "first") else (0.5, 1)))
    if "week" in given:  # week 1 has the year's first Thursday, so its Monday may be in the year before
        monday = date.fromisocalendar(year, int(given["week"]), 1)
        return spans.days(now.replace(year=monday.year, month=monday.month, day=monday.day), 7)
    if "month" not in given:
        return spans.years(now, year)
    number = month_number(given["month"])
    month = spans.months(now, year, number)
    if "nth" in given:
        return _nth_in(month, given)
    if "day" not in given:
        return month
    first, last = (spans.day(now, year, number, _number(given.get(name, given["day"]))) for name in ("day", "last"))
    return CalendarPeriod(first.start, last.end)


def _nth_in(month: CalendarPeriod, given: Words) -> CalendarPeriod:
    """The n-th or last week or weekday of a month. The month's first week begins on its first day, and its last week
    ends on its last day."""
    last = given["nth"] == "last"
    count = 0 if last else _number(given["nth"])
    if "weekday" in given:
        edge = month.end if last else month.start - timedelta(days=1)
        found = spans.weekday(edge, WEEKDAYS.index(given["weekday"]), -1 if last else count)
    else:
        found = spans.days(month.end - timedelta(days=7) if last else month.start + timedelta(days=7 * count - 7), 7)
    if found.start >= month.end:
        raise ValueError(f"the month has no {given['nth']} such week or day")
    return found


def _holiday(name: str, now: datetime, year: int) -> CalendarPeriod:
    """The `count` days of a holiday. They begin on a date or, with a weekday, on the first such weekday from it on."""
    month, day, weekday, count = vocabulary.HOLIDAYS[name]
    if month == vocabulary.EASTER:
        month, day = 3, day + spans.easter(year)
    first = spans.midnight(now).replace(year=year, month=month, day=1) + timedelta(days=day - 1)
    if weekday is not None:
        first += timedelta(days=(weekday - first.weekday()) % 7)
    return spans.days(first, count)


def _number(text: str) -> int:
    """5 for "5", "5th" or "fifth"."""
    return vocabulary.DAY_ORDINALS.index(text) + 1 if text in vocabulary.DAY_ORDINALS else int(text.rstrip("stndrh"))


def year_of(given: Words, now: datetime) -> int | None:
    """The year of "2023", "'23", "last year" or "two years ago"; None: the words name no year."""
    if "year" in given:
        return year_number(given["year"])
    if "years" in given:
        return now.year - counted(given["years"])[0]
    return now.year + WHICH_OFFSET[given["whose"]] if "whose" in given else None


def named_period(given: Words, now: datetime) -> CalendarPeriod | None:
    """The part of the year that the words name; without a year, the latest such period that has begun.

    None if "may" or "march" may be a verb (group "verb": the word is in lower case).
    """
    if "verb" in given and not given.keys() & {"ordinal", "year", "years", "whose"}:
        return None
    span = partial(of_year, given, now)
    year = year_of(given, now)
    if year is None:
        whole = spans.latest(now, span)
        if "weekday_of_date" in given:
            weekday = [name[:3] for name in WEEKDAYS].index(given["weekday_of_date"])
            whole = spans.nearest_on(now, span, weekday) or whole
        return named_part(whole, given)
    whole = span(year)
    if given.get("season") == "winter" and year == now.year and "until" not in given:  # the nearer winter
        before = span(year - 1)
        whole = before if whole.start - now > now - before.end else whole
    return named_part(whole, given)


def from_to(given: Words, now: datetime) -> CalendarPeriod:
    """The period from one month, quarter or holiday to another (group "until"). A year in the words is that of the
    second: "November to March 2023" begins in 2022."""
    until = given["until"]
    kind = "holiday" if until in vocabulary.HOLIDAYS else "month" if until in vocabulary.MONTHS else "quarter"
    end = {kind: until.removeprefix("q")}

    def span(year: int) -> CalendarPeriod:
        first, last = named_part(of_year(given, now, year), given), of_year(end, now, year)
        return CalendarPeriod(first.start, (last if first.start <= last.start else of_year(end, now, year + 1)).end)

    year = year_of(given, now)
    if year is None:
        return spans.latest(now, span)
    return span(year) if span(year).end <= spans.years(now, year).end else span(year - 1)


def numeric_date(given: Words, now: datetime) -> CalendarPeriod | None:
    """The day of a date in digits; None if there is no such day.

    The month is first in 5/8/2023 (8 May). The day is first with dots (8.5.2023) or after a word of another language
    ("du 8/5/2023"), which is the group "elsewhere". If this order gives no valid date, the other order is used.
    """
    first, second, year = int(given["first"]), int(given["second"]), year_number(given["year"])
    orders = [(first, second), (second, first)]
    for month, number in reversed(orders) if given["sign"] == "." or "elsewhere" in given else orders:
        with suppress(ValueError):
            return spans.day(now, year, month, number)
    return None


def several_years(given: Words, now: datetime) -> CalendarPeriod:
    """The years of "2019-2021" or of a decade. A decade of two digits is in this century if it has begun."""
    if "until" in given:
        first = int(given["year"])
        return spans.years(now, first, int(given["until"]) - first + 1)
    digits = f"{vocabulary.DECADES.index(given['name']) + 2}0" if "name" in given else given["decade"]
    century = 0 if len(digits) == 4 else 2000 if int(digits) <= now.year % 100 else 1900
    return spans.years(now, century + int(digits), 10)
