"""Words of a query that ask for the latest or the first of several texts: "current phone", "first report"."""

from __future__ import annotations

import re
from typing import Literal

_LATEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|now|nowadays|these days|at the moment|up[- ]to[- ]date"
    r"|what['\u2019]?s new|last(?! (?:weeks?|months?|quarters?|years?|nights?|weekends?|decades?|summer|winter|spring"
    r"|autumn|fall|mon|tues|wednes|thurs|fri|satur|sun|few|two|three|\d|names?)))\b",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:oldest|earliest|originally|initially|first(?! (?:names?|half|floor|aid|class|place)))\b", re.IGNORECASE
)
_OTHER_MEANING = re.compile(
    r"\bhow long\b.*\blast\b|\bto last\b|\b(?:will|would|can|could|does|do)\b.* last\b\W*$"
    r"|\blast (?:resort|minute|chance|straw|four|five|six|seven|eight|nine|ten|digits?|letters?|known|words?)\b"
    r"|\b(?:by|until|till|from|up to|for|just) now\b|\bnow (?:that|and then|playing)\b|\bright now,? (?:i|we)\b"
    r"|\bfirst (?:thing|of all|come|glance|sight|line|responders?)\b|\bcurrent (?:accounts?|affairs|events)\b",
    re.IGNORECASE,
)

TimeOrder = Literal["latest", "first"]


def time_order(query: str) -> TimeOrder | None:
    """Which of several texts on one matter the query asks for; None: any, or both ("from the first to the latest")."""
    query = _OTHER_MEANING.sub(" ", query)
    latest, first = _LATEST.search(query), _FIRST.search(query)
    if latest and first:
        return None
    return "latest" if latest else "first" if first else None
