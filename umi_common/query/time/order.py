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

TimeOrder = Literal["latest", "first"]


def time_order(query: str) -> TimeOrder | None:
    """Which of several texts on one matter the query asks for: "latest" if it has words for both; None: any."""
    if _LATEST.search(query):
        return "latest"
    return "first" if _FIRST.search(query) else None
