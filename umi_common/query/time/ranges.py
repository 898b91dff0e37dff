"""Read the words that join two periods ("between A and B") or change one ("since A", "two weeks before A").

In this file, A and B are phrases for periods, such as "May" or "last week".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from umi_common.query.time import spans
from umi_common.query.time.grammar import COUNT, THAN, UNIT, WEEKDAY, time_pattern
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import SINCE, WEEKDAYS, counted, words_of

_WORD = rf"(?P<word>since|before|prior to|after|until|till|up to|by|between|from|{THAN}|{SINCE})"
_WORD_IN_FRONT = time_pattern(rf"(?<!\w)(?<!the\s)(?<!our\s){_WORD} (?:the |on |in )?$")
"""A word that changes A, at the end of the text before A: "until the "."""
_FIRST_WORD = time_pattern(rf"{_WORD}\b")
"""A word that changes A, at the beginning of A's own phrase: "since Friday"."""
_NOT = time_pattern(r"(?<!\w)(?:not|no) $")
"""A negation before a word that changes A: "not before", "no later than"."""
_FROM_START = {"since", *SINCE.split("|"), "not before", "not until", "not till", "not earlier than", "not older than"}
"""Words for the time from the start of A on."""
_FROM_END = {"after", "later than", "newer than"}
"""Words for the time from the end of A on."""
_UNTIL_START = {"before", "prior to", "earlier than", "older than"}
"""Words for the time up to the start of A."""
_UNTIL_END = {"until", "till", "up to", "not after", "not later than", "not newer than"}
"""Words for the time up to the end of A."""
_ON = time_pattern(r" (?:on|onwards?|up)\b")
"""Words after A in "from A on", which means "since A"."""
_JOIN = time_pattern(r"\s{0,3}(?P<word>and|to|until|till|through|-|\u2013) (?:the |in |on )?")
"""The words between A and B: "28 Feb - 3 Mar". "And" joins only after "between" or "from"."""
_OFFSET = time_pattern(
    rf"(?<![\w-])(?:(?:the|last) )?(?:(?:{COUNT} )?{UNIT}(?(count)|(?<!s))|{WEEKDAY})"
    r" (?P<side>before|after)$"
)
"""Words before A that name another period beside it: "two weeks before", "the day after", "the Sunday before"."""
CHARACTERS_IN_FRONT = 24
"""Number of characters before A that are searched for a word that changes A."""
OFFSET_CHARACTERS = 40
"""Number of characters that are searched for a longer phrase before A: "two weeks before", "the week of"."""
_WEEK = time_pattern(
    r"(?:the )?(?P<unit>week(?:end)?) (?P<side>of|starting|beginning|commencing|ending)(?: on)? (?:the )?$"
)
"""Words before a day that name a week or weekend: "the week of 5 May"."""


@dataclass(frozen=True, slots=True)
class FoundPeriod:
    """A period and its words in the query: query[start:end]."""

    start: int
    end: int
    period: CalendarPeriod
    bounds: tuple[datetime | None, datetime | None] | None = None
    """Start and end after a word beside the period has changed them: (start, None) for "since May"; None: unchanged."""


def joined_periods(query: str, first: FoundPeriod, second: FoundPeriod) -> FoundPeriod | None:
    """The period of "between A and B", "from A to B" or "A to B": from the start of A to the end of B.

    A is `first`, and B is `second`, the next period in the query. None if the query does not join them.
    """
    opening, start = _operator(query, first) or ("", first.start)
    adjacent = not query[first.end : second.start].strip()  # then B itself begins with the joining word: "to Friday"
    join = _JOIN.match(query, second.start) if adjacent else _JOIN.fullmatch(query, first.end, second.start)
    if join is None or opening not in {"", "between", "from"} or (join["word"].lower() == "and" and not opening):
        return None
    period, end = first.period, second.period.end
    if (in_year := period.in_year) is not None:  # A lies in the year of B, or in the year before
        period = in_year(end.year)
        period = period if period.start < end else in_year(end.year - 1)
    return FoundPeriod(start, second.end, CalendarPeriod(period.start, end)) if end > period.start else None


def changed_period(query: str, found: FoundPeriod, now: datetime) -> FoundPeriod:
    """The period of "since A", "before A" or "the week before A", where `found` is A; `found` if no such word is there.

    "By A" begins today if the end of A is in the future.
    """
    period = found.period
    week = _WEEK.search(query, max(0, found.start - OFFSET_CHARACTERS), found.start)
    if week is not None and period.end - period.start <= timedelta(hours=25):
        return FoundPeriod(week.start(), found.end, _week(period.start, **words_of(week)))
    word, start = _operator(query, found) or ("", found.start)
    if word in {"before", "after"}:
        offset = _OFFSET.search(query, max(0, start - OFFSET_CHARACTERS), start + len(word))
        if offset is not None:
            return FoundPeriod(offset.start(), found.end, _next_to(period, offset))
    if word == "from" and _ON.match(query, found.end):
        word = "since"
    bounds = {
        **dict.fromkeys(_FROM_START, (period.start, None)),
        **dict.fromkeys(_FROM_END, (period.end, None)),
        **dict.fromkeys(_UNTIL_START, (None, period.start)),
        **dict.fromkeys(_UNTIL_END, (None, period.end)),
        "by": (spans.midnight(now) if period.end > now else None, period.end),
    }.get(word)
    return FoundPeriod(start, found.end, replace(period, in_year=None), bounds) if bounds else found


def _week(day: datetime, unit: str, side: str) -> CalendarPeriod:
    """The week or weekend that the words name beside a day: "of", "starting", "beginning", "commencing" or "ending"."""
    if unit == "weekend":
        return spans.weekend(day)
    return spans.week(day) if side == "of" else spans.days(day - timedelta(days=6 if side == "ending" else 0), 7)


def _operator(query: str, found: FoundPeriod) -> tuple[str, int] | None:
    """The word that changes A, and its index in the query: the first word of A's phrase, else the word before it."""
    match = _FIRST_WORD.match(query, found.start, found.end)
    match = match or _WORD_IN_FRONT.search(query, max(0, found.start - CHARACTERS_IN_FRONT), found.start)
    if match is None:
        return None
    word, start = words_of(match)["word"], match.start()
    negation = _NOT.search(query, max(0, start - CHARACTERS_IN_FRONT), start)
    return (word, start) if negation is None else (f"not {word}", negation.start())


def _next_to(period: CalendarPeriod, match: re.Match[str]) -> CalendarPeriod:
    """The period beside `period` that a match of `_OFFSET` names: "two weeks before", "the Sunday after"."""
    given = words_of(match)
    before = given["side"] == "before"
    edge, sign = (period.start, -1) if before else (period.end, 1)
    day = edge if before else edge - timedelta(days=1)  # `spans.weekday` searches from the next day on
    if "weekday" in given:
        return spans.weekday(day, WEEKDAYS.index(given["weekday"]), sign)
    unit, (_, count) = given["unit"], counted(given.get("count", "one"))
    if unit == "weekend":
        return spans.days(spans.weekday(day, spans.SATURDAY, sign * count).start, 2)
    other = spans.shifted(edge, unit, sign * count)
    return spans.around(other, unit) if "count" in given else CalendarPeriod(min(edge, other), max(edge, other))
