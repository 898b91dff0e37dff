"""Words that join two periods or change one: "between A and B", "since A", "two weeks before A"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import COUNT, UNIT, WEEKDAY, WEEKDAYS, counted, time_pattern

_BEFORE = time_pattern(r"(?<!\w)(?P<word>since|before|after|until|till|by|between|from) (?:the |on |in )?$")
_INSIDE = time_pattern(r"(?P<word>since|before|after|until|till|by|between|from)\b")
_JOIN = time_pattern(r"\s{0,3}(?:and|to|until|till|through|-|\u2013) (?:the |in |on )?")
_BESIDE = time_pattern(
    rf"(?:(?:the|last) )?(?:{COUNT} {UNIT}|(?P<whole>day|week|month|year|weekend)|{WEEKDAY})"
    r" (?P<side>before|after)$"
)


@dataclass(frozen=True, slots=True)
class FoundPeriod:
    """A period and its words in the query: query[start:end]."""

    start: int
    end: int
    period: CalendarPeriod


def joined_periods(query: str, first: FoundPeriod, second: FoundPeriod | None) -> FoundPeriod:
    """ "between A and B", "from A to B": one period from the start of A to the end of B."""
    opening = _operator(query, first)
    if second is None or opening is None or opening[0] not in {"between", "from"}:
        return first
    if _JOIN.fullmatch(query[first.end : second.start]) is None and not _begins_with_join(query, first, second):
        return first
    start, end = first.period, second.period
    if start.yearless and end.end is not None:
        start = _in_the_year_before(start, end.end)
    if start.start is None or end.end is None or end.end <= start.start:
        return first
    return FoundPeriod(opening[1], second.end, CalendarPeriod(start.start, end.end))


def _begins_with_join(query: str, first: FoundPeriod, second: FoundPeriod) -> bool:
    return not query[first.end : second.start].strip() and _JOIN.match(query, second.start) is not None


def _in_the_year_before(period: CalendarPeriod, end: datetime) -> CalendarPeriod:
    for year in (end.year, end.year - 1):
        moved = spans.in_year(period, year)
        if moved.start is not None and moved.start < end:
            return moved
    return period


def operated(query: str, found: FoundPeriod) -> FoundPeriod:
    """ "since A", "before A", "the week before A": the period changed by the word in front of it."""
    operator = _operator(query, found)
    if operator is None:
        return found
    word, start = operator
    period = found.period
    if word in {"before", "after"}:
        beside = _BESIDE.search(query, max(0, start - 40), start + len(word))
        if beside is not None:
            return FoundPeriod(beside.start(), found.end, _beside(beside, period))
    if word in {"since", "from"} and period.start is not None and (word == "since" or _is_open(query, found)):
        return FoundPeriod(start, found.end, CalendarPeriod(period.start, None))
    if word in {"before", "until", "till"}:
        edge = period.start if word == "before" else period.end
        return FoundPeriod(start, found.end, CalendarPeriod(None, edge))
    if word == "by":
        return FoundPeriod(start, found.end, CalendarPeriod(None, period.end))
    if word == "after":
        return FoundPeriod(start, found.end, CalendarPeriod(period.end, None))
    return found


def _operator(query: str, found: FoundPeriod) -> tuple[str, int] | None:
    """The word that changes a period, in front of it or as its first word, and the index where it starts."""
    inside = _INSIDE.match(query, found.start, found.end)
    if inside is not None:
        return inside["word"].lower(), found.start
    before = _BEFORE.search(query, max(0, found.start - 16), found.start)
    return None if before is None else (before["word"].lower(), before.start())


def _is_open(query: str, found: FoundPeriod) -> bool:
    return re.match(r" (?:on|onwards?|up)\b", query[found.end : found.end + 12], re.I) is not None


def _beside(match: re.Match[str], period: CalendarPeriod) -> CalendarPeriod:
    """ "two weeks before A", "the Sunday before A": a period next to A."""
    before = match["side"].lower() == "before"
    edge = period.start if before else period.end
    if edge is None:
        return period
    sign = -1 if before else 1
    if match["weekday"]:
        day = edge if before else edge - timedelta(days=1)
        return spans.weekday(day, WEEKDAYS.index(match["weekday"].lower()), sign)
    if match["whole"]:
        unit = match["whole"].lower()
        if unit == "weekend":
            return spans.days(spans.known(spans.weekday(edge, 5, sign).start), 2)
        other = spans.shifted(edge, unit, sign)
        return CalendarPeriod(other, edge) if before else CalendarPeriod(edge, other)
    (_, reach), unit = counted(match["count"]), match["unit"].lower()
    return spans.around(spans.shifted(edge, unit, sign * reach), unit)
