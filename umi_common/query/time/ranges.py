"""Read the words that join two periods ("between A and B") or change one ("since A", "the week before A").

In this file, A and B are phrases for periods, such as "May" or "last week". Words such as "between" or "the week
before" give a new period. Words such as "since" leave A as the period and give bounds; None is an open side. Examples,
asked on 18 May 2023, where A is "10 May 2023", a Wednesday; the last day of a period belongs to it:

    phrase                   period               bounds, or (a remark)
    between A and 12 May     10 to 12 May
    from A to 3 March        10 May to 3 March    (the first 3 March after A)
    the week before A        3 to 9 May           (the week that ends where A starts)
    two weeks before A       23 to 29 April       (the week around the day that is two weeks before A)
    the two weeks before A   26 April to 9 May
    two days after A         12 May
    a couple of days after A 11 to 13 May         (one to three days)
    the Sunday before A      7 May
    the week of A            8 to 14 May          (from Monday)
    since A, not before A    10 May               from the start of 10 May, None
    not until A              10 May               from the start of 10 May, None
    after A                  10 May               from the end of 10 May, None
    before A                 10 May               None, to the start of 10 May
    until A, not after A     10 May               None, to the end of 10 May
    by A                     10 May               None, to the end of 10 May
    by 30 May 2023           30 May               from the start of today (18 May), to the end of 30 May
    since the Sunday before A    7 May            from the start of 7 May, None
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from umi_common.query.time import spans
from umi_common.query.time.grammar import COUNT, THAN, UNIT, WEEKDAY, time_pattern
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.stated import LONGEST_DAY
from umi_common.query.time.vocabulary import SINCE, WEEKDAYS, counted, words_of

_WORD = rf"(?P<word>since|before|prior to|after|until|till|up to|by|between|from|{THAN}|{SINCE})"
_WORD_IN_FRONT = time_pattern(
    rf"(?<!\w)(?<!the\s)(?<!our\s){_WORD} (?:(?:the|on|in|de[mnr]?|la|el|het|(?<=desde\s)[ao]) |l')?$"
)
"""A word that changes A, at the end of the text before A: "until the ", "seit dem "; not a noun, as in "the after"."""
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
    rf"(?<![\w-])(?:(?P<all>the|last) )?(?:(?:{COUNT} )?{UNIT}(?(count)|(?<!s))|{WEEKDAY})"
    r" (?P<side>before|after)$"
)
"""Words before A that name another period beside it: "two weeks before", "the day after", "the Sunday before".

A unit in the plural needs a count: "weeks before" names no period."""
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
    """The (start, end) that count in place of those of `period`: (1 May, None) for "since May". None: those of `period`
    count."""


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
    # `in_year` is None if a phrase names a year. If A names none, it lies in the year of B, or in the year before: the
    # December of "December to March 2022" is that of 2021. If only A names one, B is the first after A.
    if (in_year := period.in_year) is not None:
        period = in_year(end.year)
        period = period if period.start < end else in_year(end.year - 1)
    elif (in_year := second.period.in_year) is not None:
        end = in_year(period.start.year).end
        end = end if end > period.start else in_year(period.start.year + 1).end
    return FoundPeriod(start, second.end, CalendarPeriod(period.start, end)) if end > period.start else None


def changed_period(query: str, found: FoundPeriod, now: datetime) -> FoundPeriod:
    """The period A, which is `found`, changed by the words beside it, as in the table at the top of this file; `found`
    itself if none of these words is there.

    Words for another period, such as "the week before", give this period. Words such as "since" or "before" give
    `bounds`; the period is then A.
    """
    period = found.period
    week = _WEEK.search(query, max(0, found.start - OFFSET_CHARACTERS), found.start)
    if week is not None and period.end - period.start <= LONGEST_DAY:
        return FoundPeriod(week.start(), found.end, _week(period.start, **words_of(week)))
    word, start = _operator(query, found) or ("", found.start)
    if word in {"before", "after"}:
        offset = _OFFSET.search(query, max(0, start - OFFSET_CHARACTERS), start + len(word))
        if offset is not None:
            beside = FoundPeriod(offset.start(), found.end, _next_to(period, offset))
            return changed_period(query, beside, now)  # "since the Sunday before A"
    if word == "from" and _ON.match(query, found.end):
        word = "since"
    bounds = {
        **dict.fromkeys(_FROM_START, (period.start, None)),
        **dict.fromkeys(_FROM_END, (period.end, None)),
        **dict.fromkeys(_UNTIL_START, (None, period.start)),
        **dict.fromkeys(_UNTIL_END, (None, period.end)),
        "by": (spans.midnight(now) if period.end > now else None, period.end),
    }.get(word)
    if bounds is None:
        return found
    return FoundPeriod(start, found.end, replace(period, in_year=None), bounds)  # its bounds hold in this year only


def _week(day: datetime, unit: str, side: str) -> CalendarPeriod:
    """The week of, starting on (also "beginning", "commencing") or ending on `day`, as `side` says. For the unit
    "weekend", `side` has no effect: it is the weekend of the week, from Monday, that contains `day`."""
    if unit == "weekend":
        return spans.weekend(day)
    return spans.week(day) if side == "of" else spans.days(day - timedelta(days=6 if side == "ending" else 0), 7)


def _operator(query: str, found: FoundPeriod) -> tuple[str, int] | None:
    """(word, start) of the word that changes or joins A: the first word of A's phrase, else the word before A.

    A negation before the word belongs to it: "no later than A" gives "not later than", and the start of "no". "Between"
    and "from" are such words, too; they have an effect only in `joined_periods` and in "from A on".
    """
    match = _FIRST_WORD.match(query, found.start, found.end)
    match = match or _WORD_IN_FRONT.search(query, max(0, found.start - CHARACTERS_IN_FRONT), found.start)
    if match is None:
        return None
    word, start = words_of(match)["word"], match.start()
    negation = _NOT.search(query, max(0, start - CHARACTERS_IN_FRONT), start)
    return (word, start) if negation is None else (f"not {word}", negation.start())


def _next_to(period: CalendarPeriod, match: re.Match[str]) -> CalendarPeriod:
    """The period before or after `period` that a match of `_OFFSET` names.

    With a count ("two weeks before"), it is the unit around the moment that is so many units away; of a vague count,
    all units from the nearest to the farthest. Without a count ("the week before"), and with an article ("the two weeks
    before"), it is the time that ends where `period` starts, or starts where it ends. A weekday is the nearest one
    outside of `period` ("the Sunday before"), a weekend the nearest or, with a count, the count-th.
    """
    given = words_of(match)
    before = given["side"] == "before"
    edge, sign = (period.start, -1) if before else (period.end, 1)
    # `spans.weekday` never returns `day` itself: it searches from the day after it on, or from the day before it back.
    day = edge if before else edge - timedelta(days=1)
    if "weekday" in given:
        return spans.weekday(day, WEEKDAYS.index(given["weekday"]), sign)
    unit, (farthest, nearest) = given["unit"], counted(given.get("count", "one"))
    if unit == "weekend":
        return spans.days(spans.weekday(day, spans.SATURDAY, sign * nearest).start, 2)
    if "count" in given and "all" not in given:  # "two days after 10 May" counts from 10 May on, not from its end
        start = edge if unit in {"minute", "hour"} else day
        one, other = (spans.around(spans.shifted(start, unit, sign * count), unit) for count in (nearest, farthest))
        return CalendarPeriod(min(one.start, other.start), max(one.end, other.end))
    end = spans.shifted(edge, unit, sign * farthest)
    return CalendarPeriod(min(edge, end), max(edge, end))
