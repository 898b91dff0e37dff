"""English time words as parts of patterns, and the list of rules.

A rule is a pattern and a function from a match to a period. Repetitions in patterns are bounded, so the time to match
is linear in the length of the query. The function returns None if the words do not mean a time ("may 5 people"). Words
that are also names or verbs (May, March, spring, second) need a preposition or a number beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from umi_common import times
from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
NUMBERS += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
DECADES = ["twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties", "nineties"]
ORDINALS = ["first", "second", "third", "fourth", "fifth"]
DAY_ORDINALS = [*ORDINALS, "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth"]
DAY_ORDINALS += ["fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"]
DAY_ORDINALS += [f"twenty-{name}" for name in DAY_ORDINALS[:9]] + ["thirtieth", "thirty-first"]
VAGUE_COUNTS = {"couple": (3, 1), "few": (5, 2), "several": (8, 3)}
"""(farthest, nearest) number of units: "a few weeks ago" is from five weeks ago to two weeks ago."""

MONTH = (
    r"(?P<month>jan(?:uary?)?|feb(?:ruary?)?|m[aä]r(?:ch|z)?|apr(?:il)?|ma[yi]|jun[ei]?|jul[yi]?|aug(?:ust)?"
    r"|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\b\.?"
)
"""A month's name or abbreviation, in English or German."""
MONTH_START = r"(?:jan|feb|m[aä]|apr|ju[nl]|aug|sep|o[ck]t|nov|de[cz])"
"""The letters with which the names of months begin, in English or German."""
LONG_MONTH = rf"(?P<month>{'|'.join(MONTHS)})"
YEAR = r"'?(?P<year>(?:19|20)\d\d|(?<=')\d\d(?![^\x27\u2019]{0,40}'(?!\w)))\b(?![-/:.]\d)(?:'s\b)?"
"""Four digits, or two after an apostrophe that no closing one follows: "Feb '24", but not "of '20 questions'"."""
FISCAL_YEAR = r"(?:fy|fiscal(?: year)?)[\s-]?'?(?P<year>(?:19|20)?\d\d)"
"""A fiscal year, such as "FY24". It is read as the calendar year, because companies begin their fiscal years in
different months."""
OF_YEAR = rf"(?:\s{{0,3}},?\s{{0,3}}(?:of |in )?{YEAR})"
DAY = r"(?P<day>[0-3]?\d)(?P<ordinal>st|nd|rd|th)?"
COUNT = (
    rf"(?P<count>\d{{1,3}}|an?|{'|'.join(NUMBERS[1:])}"
    r"|(?:a )?couple(?: of)?|(?:a )?few|several)"
)
UNIT = r"(?P<unit>minute|hour|day|week|month|quarter|year|decade)s?"
WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
BEFORE_DATE = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? )?"
"""The weekday of a date: "Tue, " in "Tue, 7 March 2023"."""
SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
WHICH = r"(?P<which>last|past|previous|this|current|next|coming|upcoming)"
PART = r"(?P<part>early|beginning|start|mid|middle|late|end|first half|second half)"
IN = r"(?:in|during|since|before|after|until|till|throughout|through|over|around) (?:the )?"

BEFORE_YEAR = rf"(?=,? (?:of |in )?(?:(?:last|this|next) year|{COUNT} years? ago)\b)"
"""The words that follow a month or season of a year relative to the present: "May last year"."""

PIVOT_YEAR = 69
"""A two-digit year below this number is a year of the 2000s, any other one of the 1900s, as in `strptime`."""
WHICH_OFFSET = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1}
"""Number of units from the current one, by the word for it."""
PARTS = {
    "early": (0.0, 1 / 3),
    "beginning": (0.0, 1 / 3),
    "start": (0.0, 1 / 3),
    "mid": (1 / 3, 2 / 3),
    "middle": (1 / 3, 2 / 3),
    "late": (2 / 3, 1.0),
    "end": (2 / 3, 1.0),
    "first half": (0.0, 0.5),
    "second half": (0.5, 1.0),
}
"""Shares of a period's length, 0..1, at which a part of it begins and ends."""

Resolve = Callable[["re.Match[str]", datetime], "CalendarPeriod | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and a function from its match and the current time to a period."""

    pattern: re.Pattern[str]
    resolve: Resolve


RULES: list[Rule] = []
"""All rules of `dates` and `relative`. Of two rules that match the same words, the earlier one is used."""


def time_pattern(pattern: str) -> re.Pattern[str]:
    """A compiled pattern in which case is ignored, a space matches 1 to 3 white-space characters, and ' matches
    both apostrophes.
    """
    return re.compile(pattern.replace(" ", r"\s{1,3}").replace("'", "['\u2019]"), re.IGNORECASE)


def whole_words(pattern: str) -> re.Pattern[str]:
    """The `time_pattern` of `pattern` that matches whole words only."""
    return time_pattern(rf"(?<![\w-])(?:{pattern})(?!\w)")


def rule(pattern: str) -> Callable[[Resolve], Resolve]:
    """Register the decorated function for a pattern of whole words, as `time_pattern` reads it."""

    def register(resolve: Resolve) -> Resolve:
        RULES.append(Rule(whole_words(pattern), resolve))
        return resolve

    return register


def named_part(period: CalendarPeriod, name: str | None) -> CalendarPeriod:
    """The part of a period that a key of PARTS names, such as its first third for "early"; None: all of it."""
    return spans.part(period, *PARTS[" ".join(name.lower().split())]) if name else period


def month_number(name: str) -> int:
    """1..12 for a name or abbreviation that MONTH matches."""
    return times.MONTHS[name.lower()[:3]]


def year_number(digits: str) -> int:
    """The year of four digits, or of two, by PIVOT_YEAR."""
    year = int(digits)
    if len(digits) > 2:
        return year
    return year + (2000 if year < PIVOT_YEAR else 1900)


def counted(text: str) -> tuple[int, int]:
    """The (farthest, nearest) number that a match of COUNT means: "three" is (3, 3), "a few" is (5, 2)."""
    words = text.lower().split()
    for name, reach in VAGUE_COUNTS.items():
        if name in words:
            return reach
    number = int(words[0]) if words[0].isdigit() else max(1, NUMBERS.index(words[0]) if words[0] in NUMBERS else 1)
    return number, number
