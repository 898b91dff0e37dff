"""An event by which a query names a time: "what did we decide after the meeting with Bob?".

The query does not say when the event was. A search for the event finds its time.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from umi_common.errors import InvalidTimeRange
from umi_common.query.time import spans
from umi_common.query.time.find import SCANNED_CHARS
from umi_common.query.time.grammar import time_pattern
from umi_common.query.time.ranges import FoundPeriod, changed_period
from umi_common.types import TimeRange

BESIDE = timedelta(days=7)
"""Length of the period that "after the meeting" or "before the meeting" means. A longer period has more texts on other
subjects."""
_PAST = time_pattern(
    r"\b(?:did|was|were|had)\b|^\W{0,3}(?:who|what) (?:[a-z]{2,}ed|ate|began|bought|broke|brought|came|fell|found|gave"
    r"|got|grew|hurt|left|lost|made|met|paid|said|sent|took|went|won|wrote)\b"
)
"""Words of a question about the past: "what did we decide", "who called"."""
_EVENT = time_pattern(
    r"(?:\b(?:right|just|shortly|soon) )?\b(?:after|before) "
    r"(?P<event>(?:(?:the|my|our|your|his|her|their|[a-z]+'s|[a-z]{2,}ing|i|we|he|she|they)\b|(?-i:[^\W\d_a-z]\w+)) "
    r"[^?!.,;]{3,80})"
)
"""The event is a noun phrase or a clause of at least two words, of which the first is an article, a possessive, a
pronoun, a word in -ing, or has a capital: "after Emma left", not "after Emma" or "before lunch with Bob"."""
_VERB_IN_FRONT = re.compile(r"\b(?:look\w*|named)\s{1,3}$", re.IGNORECASE)
"""A verb to which "after" belongs: "who looked after the cat?"."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Event:
    """An event by which a query names a time, and the rest of the query."""

    phrase: str
    """The words for the event: "the meeting with Bob"."""
    rest: str
    """The query without the event and the words before it that belong to the time: "what did we decide?"."""
    _query: str
    _span: tuple[int, int]
    """[start, end) of the phrase in the query, in characters."""

    def period_beside(self, moment: datetime) -> TimeRange | None:
        """The period that the query means if the event was at `moment`; None if it lies outside the years 1 to 9999.

        Args:
            moment: A time in the time zone in which the user's days begin.
        """
        with suppress(InvalidTimeRange, OverflowError, ValueError):
            beside = _beside(self._query, self._span, moment)
            # "After the meeting" leaves the day of the meeting as the period and gives bounds, one of them None. "Two
            # weeks after the meeting" gives another period, a week, and no bounds.
            start, end = beside.bounds or (beside.period.start, beside.period.end)
            if start is not None and end is not None and end - start >= BESIDE:
                return TimeRange(start, end)
            before = start is None or start < spans.midnight(moment)
            return TimeRange(moment - BESIDE, moment) if before else TimeRange(moment, moment + BESIDE)
        return None


def event_in(query: str, now: datetime) -> Event | None:
    """The event by which a question about the past names a time; None: it names no event.

    Args:
        query: A query in which `find_time` finds no period; a query of more than SCANNED_CHARS characters names none.
        now: The current time. It has no effect on the event: the words before the event ("two weeks after") are read
            with it only to find where they begin.
    """
    match = _EVENT.search(query) if len(query) <= SCANNED_CHARS else None
    if match is None or _PAST.search(query) is None or _VERB_IN_FRONT.search(query, 0, match.start()):
        return None
    span, start = match.span("event"), match.start()
    with suppress(OverflowError, ValueError):  # "999 decades after"
        start = min(start, _beside(query, span, now).start)
    rest = f"{query[:start].rstrip()}{query[match.end() :]}".lstrip(" ,")
    return Event(match["event"], rest, query, span) if len(_WORD.findall(rest)) > 1 else None


def _beside(query: str, span: tuple[int, int], moment: datetime) -> FoundPeriod:
    """The period that the query means if the event was on the day of `moment`: the period of "two weeks after".

    Args:
        span: The event's place in the query, query[span[0]:span[1]]. The words before it are read.
    """
    return changed_period(query, FoundPeriod(*span, spans.days(moment)), moment)
