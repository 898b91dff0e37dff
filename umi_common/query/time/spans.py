"""Periods of the calendar relative to a time, in its time zone. Weeks start on Monday.

Periods are half-open, [start, end). Most begin and end at midnight, local time, so a day on which clocks change has 23
or 25 hours. Functions with an argument for the year take only the time zone from `now`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each season of the northern hemisphere; winter reaches into the next year."""
SATURDAY = 5
"""As in `datetime.weekday`: Monday is 0."""
DAYS_OF = {"day": 1, "week": 7, "weekend": 7, "fortnight": 14}
"""Number of days from the start of a unit to the start of the next."""
MONTHS_OF = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
JUST_OVER = timedelta(days=31)
"""For this time after its end, a period of last year is still called "this": "this Christmas" in January."""
LEAP_YEARS_APART = 8
"""Largest number of years from one 29 February to the next, such as from 1896 to 1904."""


@dataclass(frozen=True, slots=True)
class CalendarPeriod:
    """A period [start, end) in local time."""

    start: datetime
    end: datetime
    in_year: Callable[[int], CalendarPeriod] | None = None
    """For a phrase without a year: a function from a year to the same period of that year, such as May of 2023 in
    "between May and July 2023". None: the phrase names a year."""
    vague: bool = False
    """Whether start and end are estimates ("a few weeks ago")."""


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def days(first: datetime, count: int = 1) -> CalendarPeriod:
    """`count` days from the day of `first` on."""
    start = midnight(first)
    return CalendarPeriod(start, start + timedelta(days=count))


def day(now: datetime, year: int, month: int, number: int) -> CalendarPeriod:
    """The day of one date. Raises ValueError if the date does not exist."""
    return days(now.replace(year=year, month=month, day=number))


def week(now: datetime, offset: int = 0) -> CalendarPeriod:
    monday = midnight(now) - timedelta(days=now.weekday() - 7 * offset)
    return days(monday, 7)


def weekend(now: datetime, offset: int = 0) -> CalendarPeriod:
    return days(week(now, offset).start + timedelta(days=SATURDAY), 2)


def months(now: datetime, year: int, first: int, count: int = 1) -> CalendarPeriod:
    """`count` calendar months from the month `first` (1..12) of a year on."""
    start = midnight(now).replace(year=year, month=first, day=1)
    return CalendarPeriod(start, _month_start(start, count))


def years(now: datetime, first: int, count: int = 1) -> CalendarPeriod:
    """`count` calendar years from `first` on."""
    start = midnight(now).replace(month=1, day=1, year=first)
    return CalendarPeriod(start, start.replace(year=first + count))


def easter(year: int) -> int:
    """Easter Sunday in the Gregorian calendar, as a day of March: 32 is 1 April.

    Source: Gauss, as corrected by Lichtenberg 1997.
    """
    century = year // 100
    shift = 15 + (3 * century + 3) // 4 - (8 * century + 13) // 25
    golden = year % 19
    moon = (19 * golden + shift) % 30
    moon = 21 + moon - (moon + golden // 11) // 29
    first_sunday = 7 - (year + year // 4 + 2 - (3 * century + 3) // 4) % 7
    return moon + 7 - (moon - first_sunday) % 7


def weekday(now: datetime, number: int, offset: int) -> CalendarPeriod:
    """The `offset`-th such weekday after today (Monday is 0); -1 is the last before today; never 0."""
    ahead = (number - now.weekday()) % 7  # 0: today is this weekday
    weeks = offset - 1 if offset > 0 and ahead else offset
    return days(now + timedelta(days=ahead + 7 * weeks))


def latest(now: datetime, span_of_year: Callable[[int], CalendarPeriod]) -> CalendarPeriod:
    """The latest period of `span_of_year` that has begun by `now`, in the last LEAP_YEARS_APART + 1 years.

    Raises:
        ValueError: If there is none, because `span_of_year` raises it for these years or gives a later period.
    """
    for year in range(now.year, now.year - LEAP_YEARS_APART - 1, -1):
        with suppress(ValueError):  # 29 February
            found = span_of_year(year)
            if found.start <= now:
                return CalendarPeriod(found.start, found.end, in_year=span_of_year)
    raise ValueError("no year has this date")


def nearest_on(now: datetime, span_of_year: Callable[[int], CalendarPeriod], number: int) -> CalendarPeriod | None:
    """The day of `span_of_year` nearest to `now` that falls on this weekday (Monday is 0); None: there is none.

    The LEAP_YEARS_APART + 1 years up to next year are searched.
    """
    found: list[CalendarPeriod] = []
    for year in range(now.year + 1, now.year - LEAP_YEARS_APART, -1):
        with suppress(ValueError):  # 29 February
            found.append(replace(span_of_year(year), in_year=span_of_year))
    fitting = (each for each in found if each.start.weekday() == number)
    return min(fitting, key=lambda each: abs(now - each.start), default=None)


def of_years(now: datetime, span_of_year: Callable[[int], CalendarPeriod], offset: int) -> CalendarPeriod:
    """A period of `span_of_year`: with offset -1 the last that is over, with 1 the next that has not begun.

    With offset 0, it is this year's; or last year's, if that has not ended ("this winter" in February) or ended at most
    JUST_OVER ago.
    """
    year = now.year
    if offset == 0:
        before = span_of_year(year - 1)
        return before if before.end > now - JUST_OVER else span_of_year(year)
    if offset < 0:
        while span_of_year(year).end > now:
            year -= 1
        return span_of_year(year + offset + 1)  # the period of `year` has offset -1
    while span_of_year(year).start <= now:
        year += 1
    return span_of_year(year + offset - 1)  # the period of `year` has offset 1


def part(period: CalendarPeriod, first: float, last: float) -> CalendarPeriod:
    """The part of a period from share `first` to share `last` of its length (0..1), rounded to whole days. Half a year
    is six months."""
    in_year = period.in_year
    return CalendarPeriod(
        _moment_at(period, first),
        _moment_at(period, last),
        None if in_year is None else lambda year: part(in_year(year), first, last),
    )


def _moment_at(period: CalendarPeriod, share: float) -> datetime:
    days = (period.end - period.start).days
    if share == 0.5 and days in (365, 366):
        return _month_start(period.start, 6)
    return period.start + timedelta(days=round(days * share))


def shifted(moment: datetime, unit: str, count: int) -> datetime:
    """The moment `count` units later; the last day of the month if the month has no such day: 31 May gives 30 June."""
    if unit in {"minute", "hour"}:
        return _elapsed(moment, timedelta(**{f"{unit}s": count}))
    if unit in DAYS_OF:
        return moment + timedelta(days=DAYS_OF[unit] * count)
    first = _month_start(moment, MONTHS_OF[unit] * count)
    last_day = (_month_start(first, 1) - timedelta(days=1)).day
    return moment.replace(year=first.year, month=first.month, day=min(moment.day, last_day))


def around(moment: datetime, unit: str) -> CalendarPeriod:
    """The period that "N units ago" means, where `moment` is N units ago.

    For minutes, hours and weeks, it is one unit with the moment in its middle; for fortnights, such a week. For other
    units, it is the calendar's unit that contains the moment; for weekends, that of the same week.
    """
    if unit in {"minute", "hour"}:
        half = timedelta(**{f"{unit}s": 1}) / 2
        return CalendarPeriod(_elapsed(moment, -half), _elapsed(moment, half))
    if unit == "day":
        return days(moment)
    if unit == "weekend":
        return weekend(moment)
    if unit in {"week", "fortnight"}:
        return days(moment - timedelta(days=3), 7)
    if unit == "decade":
        return years(moment, moment.year - moment.year % 10, 10)
    count = MONTHS_OF[unit]
    return months(moment, moment.year, (moment.month - 1) // count * count + 1, count)


def _elapsed(moment: datetime, time: timedelta) -> datetime:
    """The moment at which `time` has elapsed, even if clocks change in between."""
    return (moment.astimezone(timezone.utc) + time).astimezone(moment.tzinfo)


def _month_start(moment: datetime, offset: int) -> datetime:
    year, number = divmod(moment.year * 12 + moment.month - 1 + offset, 12)
    return midnight(moment).replace(year=year, month=number + 1, day=1)
