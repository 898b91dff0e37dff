"""Periods relative to the current time: "yesterday", "last week", "two Fridays ago", "the past few months".

Each function reads the phrases that `grammar` lists for it. `given` are the texts of the pattern's groups
(`vocabulary.words_of`): "in the last two weeks" gives {"which": "last", "count": "two", "unit": "week", "plural": "s"}.
Weeks begin on Monday.

A period is `vague` if its start and end are estimates: "three weeks ago" may be a few days more or less.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from umi_common.query.time import spans, vocabulary
from umi_common.query.time.dates import of_year
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import WEEKDAYS, WHICH_OFFSET, Words, counted, named_part, words_of

PAST = re.compile(r"\b(?:did|was|were|had|been|said|told)\b", re.IGNORECASE)
"""Words of a question about the past."""


def near_day(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "yesterday", "tomorrow evening" or "last night"."""
    day_word = given.get("day", "yesterday" if given.get("which") == "last" else "today")
    return _hours(now + timedelta(days=vocabulary.DAYS_AWAY[day_word]), given)


def _hours(day: datetime, given: Words) -> CalendarPeriod:
    """The part of a day that the words name; the whole day if they name none."""
    if "hours" not in given:
        return spans.days(day)
    first, last = (timedelta(hours=hour) for hour in vocabulary.HOURS[given["hours"]])
    return CalendarPeriod(spans.midnight(day) + first, spans.midnight(day) + last)


def which_period(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "last week", "early next year", "last summer" or "the week before last"."""
    return named_part(_nth(given, now, WHICH_OFFSET[given.get("which", "this")]), given)


def _nth(given: Words, now: datetime, offset: int) -> CalendarPeriod:
    """The unit, weekday, month, season or holiday that the words name: with offset -1 the last one, with 1 the next.

    With offset 0, a unit is the current one, a weekday is that of this week, and a month, season or holiday is that of
    this year, or of last year if it is just over ("this Christmas" in January; see `spans.of_years`).
    """
    if "weekday" in given:
        number = WEEKDAYS.index(given["weekday"])
        return spans.weekday(now, number, offset) if offset else spans.days(spans.week(now).start + timedelta(number))
    unit = given.get("unit")
    if unit == "week":
        return spans.week(now, offset)
    if unit is not None:
        return spans.around(spans.shifted(now, unit, offset), unit)
    return spans.of_years(now, partial(of_year, given, now), offset)


def which_weekend(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "last weekend". "The past weekend" and "over the weekend" mean the latest that has begun; "the
    coming weekend" means that of this week."""
    which = given.get("which", "past")
    if which == "past":
        return spans.weekend(now, 0 if now.weekday() >= spans.SATURDAY else -1)
    return spans.weekend(now, 0 if which in {"coming", "upcoming"} else WHICH_OFFSET[which])


def latest_weekday(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "on Tuesday" or "Tuesday morning": of the last Tuesday before today."""
    return _hours(_nth(given, now, -1).start, given)


def deadline(match: re.Match[str], now: datetime) -> CalendarPeriod:
    """The day of "by Friday": the next Friday, or the last one if the query asks about the past."""
    return _nth(words_of(match), now, -1 if PAST.search(match.string) else 1)


def weekdays(given: Words, now: datetime) -> CalendarPeriod:
    """The day of "Monday of last week" or "Monday two weeks ago"; or the days of "between Monday and Friday", from the
    latest Monday on (which may be today)."""
    first = WEEKDAYS.index(given["weekday"])
    if "until" not in given:
        offset = WHICH_OFFSET[given["which"]] if "which" in given else -counted(given["count"])[0]
        return spans.days(spans.week(now, offset).start + timedelta(days=first))
    start = spans.weekday(now + timedelta(days=1), first, -1).start
    return CalendarPeriod(start, spans.weekday(start, WEEKDAYS.index(given["until"]), 1).end)


def day_of_month(given: Words, now: datetime) -> CalendarPeriod:
    """The day of "the 5th of last month". For "on the 5th", it is the latest 5th that has begun.

    Raises:
        ValueError: If there is no such day.
    """
    offsets = (WHICH_OFFSET[given["which"]],) if "which" in given else (0, -1, -2)
    for offset in offsets:
        month = spans.shifted(now.replace(day=1), "month", offset)
        with suppress(ValueError):  # 31 June
            day = spans.day(now, month.year, month.month, int(given["day"]))
            if "which" in given or day.start <= now:
                return day
    raise ValueError(f"none of the months that may be meant has a day {given['day']}")


def units_ago(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "two days ago", "2-3 weeks ago", "two Fridays ago" or "3 weeks from now"."""
    unit, sign = given.get("unit"), 1 if "ahead" in given else -1
    first, last = sorted(sign * count for count in counted(given["count"]))
    if unit is None:  # weekdays, seasons and holidays
        start, end = (_nth(given, now, count) for count in (first, last))
        return CalendarPeriod(start.start, end.end, vague=first != last)
    if unit != "weekend" and any(word in given["count"] for word in vocabulary.VAGUE_COUNTS):
        return replace(_between(now, unit, first, last), vague=True)
    start, end = (spans.around(spans.shifted(now, unit, count), unit) for count in (first, last))
    is_exact = first == last and unit in {"day", "weekend"}  # "three weeks ago" may be a few days more or less
    return CalendarPeriod(start.start, end.end, vague=not is_exact)


def _between(now: datetime, unit: str, first: int, last: int) -> CalendarPeriod:
    """From `first` to `last` units after now, negative for the past: exact for minutes and hours, whole days else."""
    start, end = (spans.shifted(now, unit, count) for count in (first, last))
    if unit in {"minute", "hour"}:
        return CalendarPeriod(start, end)
    return CalendarPeriod(spans.midnight(start), spans.days(end).end)


def halves_ago(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "half a year ago", the month six months ago; or of "two and a half years ago", 30 months ago."""
    smaller, half, length = vocabulary.HALVES[given["unit"]]  # for "year": ("month", 6, "month")
    wholes = counted(given["count"])[0] if "count" in given else 0
    return replace(spans.around(spans.shifted(now, smaller, -half * (2 * wholes + 1)), length), vague=True)


def running_units(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "the past two days", as in `_between`: from two days ago to the end of today. "The next two days"
    last from now to this time in two days."""
    farthest, _ = counted(given.get("count", "few" if "plural" in given else "one"))
    if WHICH_OFFSET[given["which"]] > 0:
        return CalendarPeriod(now, spans.shifted(now, given["unit"], farthest))
    return _between(now, given["unit"], -farthest, 0)


def the_other_day(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "the other day": the seven days before today."""
    today = spans.midnight(now)
    return CalendarPeriod(today - timedelta(days=vocabulary.OTHER_DAYS[given["other"]]), today, vague=True)


def earlier_or_later(given: Words, now: datetime) -> CalendarPeriod:
    """The period of "earlier this week", up to the end of today; or of "later this week", from the start of today
    on."""
    whole, today = _nth(given, now, 0), spans.days(now)
    return replace(whole, end=today.end) if given["side"] == "earlier" else replace(whole, start=today.start)
