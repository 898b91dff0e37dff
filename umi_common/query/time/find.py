"""The time a query means: "last week", "two Fridays ago", "in March 2023", against an injected now.

    prefilter -> rules (dates.py, relative.py) -> ranges (ranges.py) -> dateparser -> kind

A phrase that scopes the record ("what did I say yesterday", "messages from March 2023") is explicit: it may filter.
Every other is fuzzy, because people tell of Friday's events on Saturday: it may only boost. Of several periods the
first that names its year wins, for it holds whatever `now` is. "Recently" and its like name no period.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from umi_common.query.time import dates, relative, spans
from umi_common.query.time.ranges import Found, joined, operated
from umi_common.query.time.scope import Kind, kind_of
from umi_common.query.time.vocabulary import MONTHS, RULES, WEEKDAYS
from umi_common.types import TimeRange, as_utc

__all__ = ["When", "find_time"]

RULE_MODULES = (dates, relative)
"""Importing them fills RULES."""


@dataclass(frozen=True, slots=True)
class When:
    """A period that the query names."""

    range: TimeRange
    kind: Kind
    """"explicit": the period scopes the record, so it may filter. "fuzzy": it is part of what is asked; boost only."""
    phrase: str
    """The words, as the query has them."""
    span: tuple[int, int]
    """Their place in the query, [start, end) in characters."""
    dated: bool = False
    """The phrase names its year, so it means the same at any `now`; worth a larger boost than "last week"."""


SCANNED_CHARS = 1_000
"""A longer query is a pasted text; only its beginning is read for a time."""
_WORD = re.compile(r"[a-z]+|\d+")
_HINTS = frozenset(
    {"yesterday", "today", "tonight", "tomorrow", "ago", "back", "earlier", "other", "last", "past", "previous", "this"}
    | {"current", "next", "coming", "upcoming", "week", "weekend", "quarter", "new"}
    | {"christmas", "xmas", "halloween", "thanksgiving", "valentine"}
    | {*WEEKDAYS, *MONTHS, *(month[:3] for month in MONTHS), "sept", *spans.SEASONS}
)
_NAMES_YEAR = re.compile(r"(?:18|19|20)\d\d|\d/\d{2}\b")
_NUMERIC = re.compile(
    r"(?<![\w./-])(?<!version )(?<!port )(?<!release )(?:\d{1,2}\.\d{1,2}\.(?:19|20)\d\d"
    r"|\d{1,2}/\d{1,2}/(?:(?:19|20)\d\d|\d\d)"
    r"|\d{1,2}-\d{1,2}-(?:19|20)\d\d)(?![\w/-]|\.\d)"
)


def find_time(query: str, now: datetime) -> When | None:
    """The first period that the query names, or None.

    Args:
        query: English. One without time words costs some microseconds, any other a fraction of a millisecond.
        now: What "yesterday" refers to; aware. Days, weeks (from Monday) and months are those of its time zone.

    Raises:
        InvalidTimeRange: If `now` has no time zone.
    """
    as_utc(now, "now")
    query = query[:SCANNED_CHARS]
    if not _may_name_time(query):
        return None
    found = _chosen(query, now)
    if found is None:
        return None
    period = found.period
    if period.start is not None and period.end is not None and period.end <= period.start:
        return None
    phrase = query[found.start : found.end]
    dated = _NAMES_YEAR.search(phrase) is not None
    return When(
        TimeRange(period.start, period.end),
        kind_of(query, found.start, found.end, found.period),
        phrase,
        (found.start, found.end),
        dated,
    )


def _may_name_time(query: str) -> bool:
    """Cheap and generous: a time word, or a digit."""
    words = set(_WORD.findall(query.lower()))
    return not words.isdisjoint(_HINTS) or any(word.isdigit() for word in words)


def _chosen(query: str, now: datetime) -> Found | None:
    """The period to go by: the first that names its year, else the first."""
    periods = list(_periods(query, now)) or list(_numeric_dates(query, now))
    wholes: list[Found] = []
    while periods:
        first, *periods = periods
        whole = joined(query, first, periods[0] if periods else None)
        if whole is first:
            wholes.append(operated(query, first))
        else:
            wholes.append(whole)
            periods = periods[1:]
    dated = (whole for whole in wholes if _NAMES_YEAR.search(query, whole.start, whole.end))
    return next(dated, wholes[0] if wholes else None)


def _numeric_dates(query: str, now: datetime) -> Iterator[Found]:
    """Dates such as 5/8/2023 (month first) and 8.5.2023 (day first), read by dateparser."""
    for match in _NUMERIC.finditer(query):
        import dateparser  # a third of a second, and few queries need it

        order = "DMY" if "." in match[0] else "MDY"
        day = dateparser.parse(match[0], languages=["en"], settings={"DATE_ORDER": order, "STRICT_PARSING": True})
        if day is not None:
            yield Found(match.start(), match.end(), spans.day(now, day.year, day.month, day.day))


def _periods(query: str, now: datetime) -> Iterator[Found]:
    """Periods from left to right; where two overlap, the one that ends later, then the longer."""
    found: list[Found] = []
    for rule in RULES:
        for match in rule.pattern.finditer(query):
            try:
                period = rule.resolve(match, now)
            except (ValueError, OverflowError):  # 31 February, the year 12000
                continue
            if period is not None:
                found.append(Found(match.start(), match.end(), period))
    end = 0
    while remaining := [each for each in found if each.start >= end]:
        first = min(remaining, key=lambda each: (each.start, -each.end))
        rivals = [each for each in remaining if each.start < first.end]
        best = max(rivals, key=lambda each: (each.end, -each.start))
        yield best
        end = best.end
