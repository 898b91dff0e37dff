"""The English phrases for a period, and a few German ones ("am 7.5.", "KW 10"): a table of rules, each with an example.

The table is `_PHRASES`, at the end; the parts of its patterns, such as `MONTH`, are defined above it. A rule reads
"late March 2023" in two steps:

    its pattern, {_PART_OF}{MONTH}{_OF_YEAR}    gives the words {"part": "late", "month": "march", "year": "2023"}
    its function, `dates.named_period`          makes a period of these words: the last third of the month

Repetitions in patterns are bounded, so the time to match is linear in the length of the query. Words that are also
names or verbs (May, March, spring, second) need a preposition or a number beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from umi_common.query.time import dates, relative, vocabulary
from umi_common.query.time.spans import SEASONS, CalendarPeriod
from umi_common.query.time.vocabulary import DAY_ORDINALS, MONTHS, NUMBERS, WEEKDAYS, Words, words_of


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and a function from its match and the current time to a period."""

    example: str
    """A phrase that begins with a match of the pattern, perhaps only after "due ", as in "due in two weeks"."""
    pattern: re.Pattern[str]
    resolve: Callable[[re.Match[str], datetime], CalendarPeriod | None]
    """Returns the period of a match; None: its words mean no period. Raises ValueError or OverflowError if the date
    does not exist."""


def time_pattern(pattern: str) -> re.Pattern[str]:
    """A compiled pattern that ignores case. A space in it matches 1 to 3 white-space characters, and ' matches ' and
    \u2019."""
    return re.compile(pattern.replace(" ", r"\s{1,3}").replace("'", "['\u2019]"), re.IGNORECASE)


def whole_words(pattern: str) -> re.Pattern[str]:
    """A `time_pattern` that matches whole words only."""
    return time_pattern(rf"(?<![\w-])(?:{pattern})(?!\w)")


Read = Callable[[Words, datetime], CalendarPeriod | None]
"""Returns the period of the words of a match, given the current time; None: the words mean no period."""


def _rule(example: str, read: Read, pattern: str) -> Rule:
    return Rule(example, whole_words(pattern), lambda match, now: read(words_of(match), now))


def _any(name: str, words: Iterable[str]) -> str:
    """A pattern for one of these words, as the group `name`; longer words are tried first."""
    return rf"(?P<{name}>{'|'.join(sorted(words, key=len, reverse=True))})"


YEAR = r"(?:18|19|20)\d\d"
MONTH = (
    r"(?P<month>jan(?:uary?)?|feb(?:ruary?)?|m[aä]r(?:ch|z)?|apr(?:il)?|ma[yi]|jun[ei]?|jul[yi]?|aug(?:ust)?"
    r"|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\b\.?"
)
"""A month's name or abbreviation, in English or German."""
MONTH_START = r"(?:jan|feb|m[aä]|apr|ju[nl]|aug|sep|o[ck]t|nov|de[cz])"
"""The letters with which the names of months begin, in English or German."""

# Parts of patterns: years and days.
_LONG_MONTH = _any("month", MONTHS)  # "March", not "Mar"
_CLEAR_MONTHS = r"january|february|july|september|october|november|december"  # neither verbs nor first names
_Y = rf"(?P<year>{YEAR})"
_FISCAL = r"(?P<fiscal>(?:fy|fiscal(?: year)?)[\s-]?)?"
# \x27 is the sign '. `time_pattern` replaces each ' by a class, which cannot stand inside of [].
_ANY_DIGITS = rf"{_FISCAL}'?(?P<year>{YEAR}|(?(fiscal)\d\d|(?<=')\d\d(?![^\x27\u2019]{{0,40}}'(?!\w))))"
"""Four digits, two after "FY" (if the group `fiscal` has matched), or two after an apostrophe, "Feb '24", that opens no
quotation as in "of '20 questions'". A fiscal year is read as the calendar year: companies begin theirs in any month."""
_ANY_YEAR = rf"{_ANY_DIGITS}\b(?![-/:.]\d)(?:'s\b)?"  # "2023", "2023's", "'23", "FY23"
_NUMBER = "|".join(NUMBERS[1:])
_RELATIVE_YEAR = rf"(?:(?P<whose>last|this|next) year|(?P<years>an?|\d{{1,2}}|{_NUMBER}) years? ago)\b"
"""A year that names no year by digits: "May two years ago"."""
_OF_YEAR = rf"(?:[\s,/-]{{0,3}}(?:of |in )?(?:{_ANY_YEAR}|(?<=[\s,]){_RELATIVE_YEAR}))"
"""A year after a month, quarter or other part of it: ", 2023", " of last year"."""
_TH = r"(?:st|nd|rd|th)"
_DAY = rf"(?P<day>[0-3]?\d)(?P<ordinal>{_TH})?"  # "5", "5th"
_LAST = rf"(?:the )?(?P<last>[0-3]?\d){_TH}?(?! (?:floor|century))"
"""The last day of several: "9" in "5 to 9 May", "the 9th"."""
_DAY_NAME = r"(?:(?P<weekday_of_date>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs?|ur)?(?:day)?\.?,? )?"
"""The weekday of a date: "Tue, " in "Tue, 7 March 2023"."""
_NOT_AFTER = "".join(rf"(?<!\b{word}\s)" for word in ("on", "of", "by", "from", "since", "until", "before", "after"))
_VERB = rf"(?:{_NOT_AFTER}(?=(?P<verb>(?-i:may|march|mar)\b)(?!\s\d+\W*$)))?"
"""Matches no characters. The group `verb` is set before "may", "march" or "mar" in lower case, which may be a verb: "we
march 5 miles"; not after a preposition ("on may 5"), nor before a number that ends the query ("rent march 5")."""

# Counts, units and names of periods.
_DIGITS = r"(?<!\d[.,/])(?!1/)\d{1,3}(?:(?: or | to |\s?[-\u2013]\s?|/)\d{1,3})?"
"""A number, or the first and last of several: "2-3", "2/3"; not "1/2", which may be a half."""
_NUMBERS = rf"(?:{_DIGITS}|(?:{_NUMBER})(?: (?:or|to) (?:{_NUMBER}))?)"
COUNT = rf"(?P<count>{_NUMBERS}|an?|(?:a )?couple(?: of)?|(?:a )?few|several)"
"""A number of units: "2-3", "three or four", "a few"."""
_EXACT = rf"(?P<count>an?|\d\d?|{_NUMBER})"
"""A number of weeks after which one day can be told: "two", but not "a few"."""
UNIT = rf"{_any('unit', vocabulary.UNITS)}(?P<plural>s)?"
WEEKDAY = _any("weekday", WEEKDAYS)
_ONE_DAY = rf"(?!s|(?:(?:,| and| or| to| through| until) |\s?[-\u2013]\s?)(?:{'|'.join(WEEKDAYS)}))"
"""Stands behind a weekday. It does not match before a second one: "last week Monday to Friday"."""
_NOT_SECOND = "".join(rf"(?<!\b{word}\s)" for word in ("and", "or", "to", "through", "until"))
"""Stands before a weekday. It does not match before the second of two: "Monday to Wednesday two weeks ago"."""
_SEASON = _any("season", SEASONS)
_HOLIDAY = rf"{_any('holiday', vocabulary.HOLIDAYS)}(?: day)?"
_NAME = rf"(?:{_LONG_MONTH}|{_SEASON}|{_HOLIDAY})"
_QUARTER = r"q(?P<quarter>[1-4])"  # "Q1"
_UNIT = r"(?P<unit>week|month|quarter|year|decade|hour)"
"""A unit in the singular, without abbreviations."""
_HALVED = rf"{_any('unit', vocabulary.HALVES)}s?"
_HOURS = _any("hours", vocabulary.HOURS)  # "evening"
_WHICH = _any("which", (word for word in vocabulary.WHICH_OFFSET if " " not in word))  # "last", "next"

# Words before, between and after the names of periods.
_PART = _any("part", vocabulary.PARTS)  # "early", "end"
_PART_OF = rf"(?:the )?{_PART}[\s-]{{1,3}}(?:of |(?:(?<=early\s)|(?<=late\s))in )?(?:the )?"
"""The words before a period that name a part of it: "early in", "mid-", "the end of the"."""
_RECURRENT = rf"(?:{_PART_OF})?(?:{_LONG_MONTH}|{_QUARTER}|{_HOLIDAY})"
"""A period of every year, as the first of two: "May" in "May to July"."""
_IN = r"(?:in|during|since|before|after|until|till|throughout|through|over|around) (?:the )?"
THAN = r"(?:earlier|later|older|newer) than"
_BEFORE_YEAR = rf"(?:{_PART_OF}|{_IN}|(?:by|from|of|between|and|(?:prior |up )?to|as of|for|the year|{THAN}) )"
_NTH = rf"(?P<nth>{'|'.join(DAY_ORDINALS[:5])}|[1-5]{_TH}|last)"
"""Which of a month's weeks or weekdays: "the last Friday of May"."""
_QUARTERS = rf"{'|'.join(DAY_ORDINALS[:4])}|[1-4]{_TH}|(?<!second\s)(?<!third\s)(?<!to\s)last"
"""Which of a year's quarters: "third"; not the "last" of "second to last"."""
_NOT_OF = rf"(?! of (?:(?:the|last|this|next) )?(?:{_NAME}|year|month|quarter)\b)"
"""Stands behind units that end or begin now. It does not match before a longer period: "the last two weeks" of May."""
_TO = r"(?: (?:and|to|until|till|through) |\s?[-\u2013]\s?)"
"""The words or dash between two periods."""
_NO_DAY = rf"(?<!\d\s)(?<!{_TH}\s)(?<!{_TH}\sof\s)(?<!day\s(?:of|in)\s)(?<!week\s(?:of|in)\s)"
"""Stands before a month that belongs to no day or week: not in "5th of May", "the last Friday of May"."""
_UNTIL = rf"{_TO}{_any('until', [*MONTHS, *vocabulary.HOLIDAYS, 'q[1-4]'])}(?! \d\d?\b)"
"""The second of two periods, with the word before it: " to July"."""
_NOUN = r" (?:words|people|steps|times|miles|km|dollars|euros|characters|tokens|lines|items|users|rows|calories)\b"
"""A noun after a number that is then no year: "2000 words"."""
_NOT_AFTER_LABEL = "".join(rf"(?<!\b{word}\s)" for word in vocabulary.LABELS) + r"(?<![§#$€£]\s)"
"""Stands before digits that are a date, and not the number of a section or version."""
_BESIDE_DAY = r"(?=\W*$|\s?[,.;?!]| (?:i|we|you|he|she|they|at|about|with|did|was|were)\b)"
"""The end of the phrase for a day of the month: "on the 5th" matches, "on the 5th floor" does not."""

_PHRASES: dict[Read, dict[str, str]] = {
    dates.named_period: {
        "2023-05-08": r"(?P<year>\d{4})([-/])(?P<month>\d\d?)\2(?P<day>\d\d?)(?:t\d\d:\d\d[\d:.z+-]{0,20})?",
        "2023.05.08": rf"{_Y}\.(?P<month>[01]\d)\.(?P<day>[0-3]\d)(?![.\d])",
        "2023-05": rf"{_Y}-(?P<month>0[1-9]|1[0-2])(?!-\d)",
        "05/2023": rf"(?<![\d/.])(?P<month>0[1-9]|1[0-2])/{_Y}(?![/\d])",
        "Sat, the 7th of May 2023": rf"{_DAY_NAME}(?:the )?{_DAY}(?:\s{{0,3}}|[-/])(?:of )?{MONTH}{_OF_YEAR}?",
        "7. May 2023": rf"{_DAY}\. {MONTH}{_OF_YEAR}",
        "7 May 23": rf"{_DAY}[\s/-]{MONTH}[\s/-](?P<year>\d\d)(?!%|[.,:/-]\d|\s?(?:am|pm)\b| {MONTH_START})",
        "am 7.5.": rf"{vocabulary.BEFORE_DATE} (?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.(?:(?P<year>\d\d)(?![.:]\d))?",
        "07.05.23": rf"(?<![.§#$€£]){_NOT_AFTER_LABEL}(?P<day>[0-3]\d)\.(?P<month>[01]\d)\.(?P<year>\d\d)(?!\.\d)",
        "May 7th, 2023": rf"(?<!\b\d\s)(?<!\b\d\d\s){_DAY_NAME}{_VERB}{MONTH}\s{{0,3}}(?:the )?{_DAY}"
        rf"(?!\d|[.:%]\d|\s?(?:am|pm|%)\b){_OF_YEAR}?",
        "the first of May": rf"(?:on )?the {_any('day', DAY_ORDINALS)} of {_LONG_MONTH}{_OF_YEAR}?",
        "5 to 9 May": rf"{_DAY}\s{{0,3}}(?:-|\u2013|to|and|through|until)\s{{0,3}}{_LAST} (?:of )?{MONTH}{_OF_YEAR}?",
        "May 5-9": rf"{MONTH} {_DAY}\s?(?:-|\u2013|to|through)\s?{_LAST}{_OF_YEAR}?",
        "the last Friday of May": rf"(?:on )?(?:the )?{_NTH} (?:week|{WEEKDAY}) (?:of|in) {_LONG_MONTH}{_OF_YEAR}?",
        "week 10 of 2023": rf"(?:the )?(?:(?:calendar )?week|kw) (?P<week>\d{{1,2}}){_OF_YEAR}",
        "KW 10": r"(?:calendar week|kw|in week) (?P<week>\d{1,2})(?![\w/]|,? (?:of|in|18|19|20))",
        "2023-W10": r"(?P<year>\d{4})-?w(?P<week>\d\d)",
        "late March 2023": rf"(?:{_PART_OF})?{MONTH}{_OF_YEAR}",
        "the end of Q3 2022": rf"(?:{_PART_OF})?(?:{_QUARTER}|h(?P<half>[12])){_OF_YEAR}",
        "third quarter of 2022": rf"(?P<quarter>{_QUARTERS})[\s-]{{1,3}}quarter{_OF_YEAR}",
        "2022-Q4": rf"{_ANY_DIGITS}[\s/-]?{_QUARTER}",
        "4Q22": r"(?P<quarter>[1-4])q(?P<year>\d\d)",
        "early summer of 2021": rf"(?:{_PART_OF})?(?:{_SEASON}|{_HOLIDAY}){_OF_YEAR}",
        "winter 2021/22": rf"{_SEASON} (?:of )?{_Y}(?P<until>[/\u2013-](?:\d\d)?\d\d)",
        "in March": rf"(?:{_IN}|as of |{_PART_OF})(?:{_LONG_MONTH}|{_QUARTER})",
        "July": rf"(?P<month>{_CLEAR_MONTHS}|(?<=of\s)march)(?=\W*$)",
        "from November": rf"(?:from|of) (?P<month>{_CLEAR_MONTHS})(?! \d)",
        "in the summer": rf"(?:(?:in|during|over|since) the |{_PART_OF}){_SEASON}",
        "at Easter": rf"(?:on|at|over|around|during|since|before|after|for|from|between) {_HOLIDAY}",
        "two years ago, at Christmas": rf"(?:(?:in|of) {_ANY_YEAR}|{_RELATIVE_YEAR}),? (?:in|at|on|over) (?:the )?"
        rf"(?:(?:{_DAY} )?{_NAME}|{_QUARTER})",
        "mid-2021": rf"{_BEFORE_YEAR}{_ANY_YEAR}(?!{_NOUN}|%)",
        "2019's": rf"{_ANY_YEAR}(?<='s)",
        "FY22": rf"(?=f){_ANY_YEAR}(?![-.]\d)",
    },
    dates.numeric_date: {
        "5/8/2023": rf"(?<![./])(?<!version\s)(?<!port\s)(?<!release\s)(?P<elsewhere>{vocabulary.BEFORE_DATE} )?"
        rf"(?P<first>\d{{1,2}})(?P<sign>[-./])(?P<second>\d{{1,2}})(?P=sign)(?P<year>{YEAR}|(?<=/)\d\d)(?![/-]|\.\d)",
    },
    dates.from_to: {
        "between May and July": rf"(?:between|from) {_RECURRENT}{_UNTIL}{_OF_YEAR}?",
        "Q1 to Q3 2022": rf"{_NO_DAY}{_RECURRENT}{_UNTIL}{_OF_YEAR}",
    },
    dates.several_years: {
        "2019-2021": rf"{_Y}(?:[-\u2013\u2014]| (?:to|until|through) )(?P<until>{YEAR})(?![-./]\d)",
        "the nineties": r"(?:the|early|mid|late)[\s-]{1,3}"
        rf"(?:{_any('name', vocabulary.DECADES)}|'?(?P<decade>(?:18|19|20)?\d0)'?s)",
        "1980s": r"(?P<decade>(?:18|19|20)\d0)s",
    },
    relative.near_day: {
        "the day before yesterday": r"(?:the )?(?P<day>day (?:before yesterday|after tomorrow))",
        "yesterday evening": rf"(?<!usa\s)(?P<day>yesterday|today|tomorrow)(?:'s)?(?: (?:in the )?{_HOURS})?",
        "last night": rf"(?:(?P<which>this|last) |to(?=night)){_HOURS}",
        "the night before last": r"(?:the )?(?P<hours>night) (?P<day>before last)",
    },
    relative.which_period: {
        "early last year": rf"(?:{_PART_OF}|the )?{_WHICH} {_UNIT}(?! (?:in|at) (?:a|review)\b|s)",
        "by the end of the month": rf"(?:at|by|in|since|until|till|before|after) the {_PART} of the {_UNIT}",
        "last summer": rf"(?:{_PART_OF}|the |on )?{_WHICH} {_NAME}",
        "the week before last": rf"(?:the )?(?:{UNIT}|{WEEKDAY}|{_NAME}) (?P<which>before last|after next)",
        "last Friday": rf"(?:on )?{_WHICH} (?:week'?s )?{WEEKDAY}(?!s)",
    },
    relative.which_weekend: {
        "the past weekend": rf"(?:the |on )?{_WHICH} weekend",
        "over the weekend": r"(?:over|at|on|during|since) the weekend",
    },
    relative.latest_weekday: {
        "on Tuesday morning": rf"(?:on|since|until|till|before|after) {WEEKDAY}(?!s| night live| times)(?: {_HOURS})?",
        "Tuesday's": rf"{WEEKDAY}'s",
    },
    relative.weekdays: {
        "on Monday of last week": rf"(?:on )?{WEEKDAY} (?:of )?{_WHICH} week",
        "last week on Monday": rf"{_WHICH} week,? (?:on )?{WEEKDAY}{_ONE_DAY}",
        "on Monday two weeks ago": rf"{_NOT_SECOND}(?:on )?{WEEKDAY},? {_EXACT} weeks? ago",
        "two weeks ago on Monday": rf"{_EXACT} weeks? ago,? (?:on )?{WEEKDAY}{_ONE_DAY}",
        "between Monday and Friday": rf"between {WEEKDAY} and {_any('until', WEEKDAYS)}(?!s)",
    },
    relative.day_of_month: {
        "on the 5th": rf"(?:on|since|before|after|until) the (?P<day>[0-3]?\d){_TH}{_BESIDE_DAY}",
        "the 5th of last month": rf"(?:on )?the (?P<day>[0-3]?\d){_TH} of {_WHICH} month",
    },
    relative.units_ago: {
        "2-3 weeks ago": rf"(?:(?:today|yesterday) )?{COUNT} {UNIT} (?:ago|(?:back|earlier)(?! (?:than|to|in|into)\b))",
        "two Fridays ago": rf"{COUNT} (?:{WEEKDAY}|{_SEASON}|{_HOLIDAY})(?:e?s)? ago",
        "3 weeks from now": rf"(?:in )?{COUNT} {UNIT} (?P<ahead>from (?:now|today)|hence)",
        "in two weeks": rf"(?<=due\s)(?P<ahead>in) {COUNT} {UNIT}",
        "in two weeks' time": rf"in {COUNT} {UNIT}(?:'s|') (?P<ahead>time)",
    },
    relative.halves_ago: {
        "2.5 years ago": rf"(?P<count>\d\d?)[.,]5 {_HALVED} ago",
        "half an hour ago": rf"(?:(?P<count>one|two|three) and a )?half (?:an? )?{_HALVED} ago",
        "a year and a half ago": rf"(?P<count>an?|one|two|three) {_HALVED} and a half ago",
    },
    relative.running_units: {
        "in the last few months": r"(?:(?:in|over|during|within|for|from|of) )?(?:the|these|my|our) "
        rf"(?P<which>last|past|previous|next|coming) (?:{COUNT} )?{UNIT}(?<=s){_NOT_OF}",
        "last 3 weeks": rf"(?P<which>last|past|previous|next) {COUNT} {UNIT}\b{_NOT_OF}",
        "in the past week": rf"(?:in|over|during|within) the (?P<which>last|past) (?!weekend){UNIT}(?<!s)",
    },
    relative.the_other_day: {"the other day": rf"the other {_any('other', vocabulary.OTHER_DAYS)}"},
    relative.earlier_or_later: {"earlier this week": r"(?P<side>earlier|later) this (?P<unit>week|month|year)"},
}
"""By function that makes the period: the patterns of the phrases that it reads, each with an example as its key."""
RULES = [
    *(_rule(example, read, pattern) for read, patterns in _PHRASES.items() for example, pattern in patterns.items()),
    Rule("by Friday", whole_words(rf"by {WEEKDAY}(?!s)"), relative.deadline),
]
"""If two rules match the same characters of a query, the earlier one is used. If their matches overlap otherwise,
`find._phrases` chooses."""
