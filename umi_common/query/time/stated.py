"""Whether a text states a date in a period; the words in which texts state a day or a month, for a search.

A text may state "12 March 2023", "12-Mar-23", "12MAR23", "12/03/23", "2023-03-12", "20230312", "Mar. 2023", "03/2023",
"Q1 2023", "1Q23", "2023" and, in a period of at most a month, "12 March", or "12/03" at the beginning of a line; in a
period of a day, also "am 12.03." or "on 17/2". "FY24" is read as the calendar year 2024, "1990s" as 1990. The names of
months are read in English, German, French, Spanish, Italian, Portuguese and Dutch ("12 de marzo de 2023"), and dates in
Chinese and Japanese ("2023年3月12日").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import count, product
from typing import NamedTuple

from umi_common import times
from umi_common.query.time.dates import of_year
from umi_common.query.time.grammar import MONTH, MONTH_START, YEAR
from umi_common.query.time.other_languages import MONTH_NAMES
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import BEFORE_DATE, DAY_ORDINALS, DECADES, LABELS, MONTHS, WEEKDAYS, Words
from umi_common.types import TimeRange

CHARACTERS_READ = 100_000
"""Number of characters at the start of a text that are searched for a date: some thirty pages. A longer text is a whole
file, such as a log with a date in each line; a megabyte of it takes 0.3 s."""
LONGEST_DAY, LONGEST_MONTH = timedelta(hours=25), timedelta(days=31, hours=1)
"""Longest day and longest month, each with the hour by which clocks may go back. Dates without a year count only in a
period of at most a month."""
SHORTEST_YEAR, SHORTEST_DECADE = timedelta(days=364), timedelta(days=3_651)
"""Shortest year and decade: 365 days, and the 3,652 days from 1900 on; each less one day, because clocks change."""


def states_date_in(
    text: str, period: TimeRange, now: datetime, *, any_year: bool = False, day_first: bool | None = None
) -> bool:
    """Whether the text states a date, month, quarter, half or year that lies wholly in the period.

    These count, too:

    - a range of years that contains the period, if the period is a year or longer or reaches into the next year;
    - a decade without its century, such as "the nineties", that may lie in the period;
    - a date without a year ("12 March") in the period's year, if the period is at most a month long.

    Args:
        text: Its first CHARACTERS_READ characters are read, in some 50 ms at most.
        period: [start, end).
        now: Only its time zone is used: the one in which a stated day begins.
        any_year: Whether a date with a year is read as if it had none.
        day_first: Whether 5/8/2023 is 5 August; None: it may be 8 May or 5 August.
    """
    sought = _sought(period, now.tzinfo)
    yearless = sought.years if sought.length <= LONGEST_MONTH else ()
    text = _in_english(times.with_plain_letters(text[:CHARACTERS_READ]), sought.other_names)
    if sought.years and sought.length <= LONGEST_DAY:
        text = _DAY_IN_DIGITS.sub(_in_words, text)
    if _names_years(text, sought):
        return True
    lowered = text.lower()
    parts = ("",) if any_year else sought.parts
    if not any(part in lowered for part in parts):
        return False
    return any(
        (period.start is None or period.start <= stated.start) and (period.end is None or stated.end <= period.end)
        for given in _dates_in(text, parts)
        for stated in _periods(given, now, yearless, any_year=any_year, day_first=day_first)
    )


class _Sought(NamedTuple):
    """A period, and the words and digits by which texts state a date in it. The defaults: it has no start or no end."""

    years: range = range(0)
    """The calendar years that have a part of the period."""
    length: timedelta = timedelta(0)
    parts: tuple[str, ...] = ("",)
    """A text that states such a date has one of these strings, in lower case: the last two digits of a year; in a
    period of at most a month also the beginning of a month's name, or the digits of a month beside a slash."""
    other_names: tuple[str, ...] = ()
    """Names of the months in other languages; none if the period is a year or longer: then years alone are sought."""


@lru_cache(maxsize=8)
def _sought(period: TimeRange, zone: tzinfo | None) -> _Sought:
    if period.start is None or period.end is None or not 1 < period.start.year <= period.end.year < 9999:
        return _Sought()
    length, first = period.end - period.start, period.start.astimezone(zone)
    last = period.end.astimezone(zone) - timedelta.resolution
    years = range(first.year, last.year + 1)
    months = {month % 12 + 1 for month in range(12 * first.year + first.month - 1, 12 * last.year + last.month)}
    parts, other_names = [f"{year % 100:02}" for year in years], []
    if length <= LONGEST_MONTH:
        parts += [name for name, month in times.MONTHS.items() if month in months]
        parts += [part for month in months for part in (f"{month:02}/", f"/{month:02}")]
    if length < SHORTEST_YEAR:
        other_names = [name for name, english in MONTH_NAMES.items() if MONTHS.index(english) + 1 in months]
    return _Sought(years, length, tuple(dict.fromkeys(parts)), tuple(other_names))


_OTHER_MONTH = re.compile(
    rf"(?:(?<=\d)(?:er|[.º])?\s(?:de\s)?|\b)(?P<name>{'|'.join(MONTH_NAMES)})\b(?:\sdel?(?=\s\d))?", re.IGNORECASE
)
"""A month in another language with the words between it and the day or the year: "1er mars", "12 de marzo de"."""
_CHINESE_DATE = re.compile(r"(\d{4})年(\d\d?)月(?:(\d\d?)[日号號])?")
_CHINESE_DAY = re.compile(r"(?<!\d)(0?[1-9]|1[0-2])月(\d\d?)[日号號]")
"""Dates in Chinese and Japanese, with and without a year."""
_DAY_IN_DIGITS = re.compile(
    r"(?P<before>\b(?:(?:am|vom|zum|bis|ab|seit|de[mnr])|(?:mo|di|mi|do|fr|sa|so|\w{3,7}tag|mittwoch)[.,]{0,2})\s"
    r"|(?m:^)[-*•|(\[\s]{0,3}(?=\d\d\.\d\d))"
    r"(?P<day>[0-3]?\d)\.(?P<month>0?[1-9]|1[0-2])\.(?!\d)"
    rf"|(?P<word>\b(?:on|by|until|since|{BEFORE_DATE})\s)"
    r"(?P<d>1[3-9]|2\d|3[01])/(?P<m>0?[1-9]|1[0-2])(?!\w|[/%]|[.,]\d)",
    re.IGNORECASE,
)
"""A day before its month, without a year, after a word: "am 2.10.", "Mo. 2.10.", "on 17/2"; or "02.10." where a line
begins. Other such digits are mostly no day: "Python 3.11.", "§ 5.3.", "room 17/2". Only sought for a day."""


def _in_words(date: re.Match[str]) -> str:
    """For "on 17/2": "on 17 february "."""
    month = MONTHS[int(date["month"] or date["m"]) - 1]
    return f"{date['before'] or date['word'] or ''}{date['day'] or date['d']} {month} "


def _in_english(text: str, other_names: Sequence[str]) -> str:
    """A text with its Chinese and Japanese dates and, if it has one of `other_names`, its months in English."""
    if "月" in text:
        text = _CHINESE_DATE.sub(lambda date: f" {'-'.join(part.zfill(2) for part in date.groups() if part)} ", text)
        text = _CHINESE_DAY.sub(lambda date: f" {date[2]} {MONTHS[int(date[1]) - 1]} ", text)
    lowered = text.lower()
    if any(name in lowered for name in other_names):
        text = _OTHER_MONTH.sub(lambda month: f" {MONTH_NAMES[month['name'].lower()]}", text)
    return text


_YEARS = re.compile(
    rf"(?<![\w.,/-])(?P<first>{YEAR})(?:\s?[-–—/]\s?|\s(?:to|until|till|through|bis)\s)"
    rf"(?P<last>{YEAR}|1[3-9]|[2-9]\d)(?![\w%]|[-.,/]\d)"
)
"""A range of years: "1994-2001", "2019/20", "1994 to 2001"; not "2010-12", which is a month."""
_DECADE = re.compile(
    rf"\bthe\s(?:(?:early|mid|late)[\s-])?(?:(?P<name>{'|'.join(DECADES)})|['\u2019]?(?P<digits>[2-9]0)s)\b",
    re.IGNORECASE,
)
"""A decade without its century: "the nineties", "the late '90s"."""


def _names_years(text: str, sought: _Sought) -> bool:
    """Whether a text states a range of years that contains the period, or a decade that may lie in the period.

    False for a period shorter than a year, unless it reaches into the next year: texts write "2022/23" for a winter.
    """
    if len(sought.years) < 2 and sought.length < SHORTEST_YEAR:
        return False
    year, last_year = sought.years[0], sought.years[-1]
    for years in _YEARS.finditer(text):
        first, last = years["first"], years["last"]
        if int(first) <= year and last_year <= int(first[: 4 - len(last)] + last):
            return True
    for decade in _DECADE.finditer(text) if sought.length >= SHORTEST_DECADE else ():
        digits = DECADES.index(decade["name"].lower()) * 10 + 20 if decade["name"] else int(decade["digits"])
        begin = year + (digits - year) % 100  # the first such year in the period
        if begin + 9 <= last_year:
            return True
    return False


_ENDS = r"(?![\w%]|[.,:/-]\d)"
"""The end of digits that are not part of a price, of a time or of a longer number."""
_Y, _DAY = rf"(?P<year>{YEAR})", r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_DAY_FIRST = rf"{_DAY}\.?(?:\s{{1,2}}(?:of\s)?|[-/]){MONTH}"
_OF_YEAR = rf"(?:(?:,?\s{{1,2}}(?:of\s)?|[-/]){_Y}(?!\d)|,?\s{{1,2}}['\u2019](?P<year>\d\d)(?!\w))"
_NO_FRACTION = r"(?=[\s,;:])(?!\s?(?:inch|cup|mile|point|star|of\b))"
"""The end of a day and month at the beginning of a line: "05/16 rent", not "05/16 inch bolts" or "10/12 points"."""
_NO_LABEL = r"(?<!\bn[or]\s)(?<!\bn[or]\.)(?<!\bn[or]\.\s)(?<!\bnumber\s)"
"""The beginning of a month and year: "rent 03/2023", not "invoice no. 03/2023"."""
_FORMS = {
    r"\d{4}": (
        rf"{_Y}[-/.](?P<month>[01]?\d)[-/.](?P<day>[0-3]?\d)(?!\d)",  # 2023-03-14
        rf"{_Y}-(?P<month>[01]\d)(?!\d)",  # 2023-03
        rf"(?P<short>(?:19|20)\d\d)(?P<month>[01]\d)(?P<day>[0-3]\d){_ENDS}",  # 20230314
        rf"{_Y}[\s/-]?(?:q(?P<quarter>[1-4])|h(?P<half>[12]))(?!\w)",  # 2023-Q1, 2023-H1
        rf"{_Y}s?(?![\w%]|[.,]\d)",  # 2023
    ),
    r"\d\d?(?!\d)": (
        rf"(?P<first>[0-3]?\d)(?:/(?P<second>[0-3]?\d)/|-(?P<second>[0-3]?\d)-){_Y}(?!\d)",  # 14/03/2023, 14-03-2023
        rf"(?P<first>[0-3]?\d)/(?P<second>[0-3]?\d)/(?P<short>\d\d){_ENDS}",  # 14/03/23
        rf"(?P<day>[0-3]?\d)\.\s?(?P<month>0?[1-9]|1[0-2])\.\s?{_Y}(?!\d)",  # 14.03.2023
        rf"(?P<month>[01]?\d)\.\s?(?P<day>1[3-9]|[23]\d)\.\s?{_Y}(?!\d)",  # 3.14.2023
        rf"(?<![\d/#]){_NO_LABEL}(?P<month>0[1-9]|1[0-2])[/.]{_Y}(?![\d/]|\.\d)",  # 03/2023
        rf"(?P<day>[0-3]\d)\.(?P<month>[01]\d)\.(?P<short>\d\d){_ENDS}",  # 14.03.23
        rf"(?m:^)(?P<first>[0-3]\d)/(?P<second>[0-3]\d){_NO_FRACTION}",  # 14/03 where a line begins
        rf"{_DAY_FIRST}{_OF_YEAR}",  # 14 March 2023, 14 Mar '23
        rf"{_DAY_FIRST}(?:[\s-](?P<year>\d\d){_ENDS}(?!\s{{1,2}}{MONTH_START}))?",  # 14 Mar 23, 14 March
        rf"(?P<day>[0-3]\d)(?P<month>{'|'.join(times.MONTHS)})(?P<year>(?:20)?\d\d)?(?!\w)",  # 14MAR23, 14MAR
        r"(?P<quarter>[1-4])q(?P<year>\d\d)(?!\w)",  # 1Q23
    ),
    MONTH_START: (
        rf"{MONTH}(?:[\s-]{{1,2}}{_DAY})?{_OF_YEAR}",  # March 14, 2023; March 2023
        rf"(?:(?m:^)|(?!(?-i:ma(?:y|r|rch)\b))){MONTH}\s{{1,2}}{_DAY}{_ENDS}",  # March 14; not "we march 14 miles"
    ),
    "[qhfst]": (
        r"(?:q(?P<quarter>[1-4])|h(?P<half>[12]))[\s/-]{0,2}"
        rf"(?:(?:fy\s?)?{_Y}(?!\d)|(?:fy\s?|['\u2019])(?P<year>\d\d)(?!\w))",  # Q1 FY23, H1 2023
        rf"(?:fy|fiscal\s(?:year\s)?)\s?['\u2019]?(?P<year>{YEAR}|\d\d)(?:[\s/-]q(?P<quarter>[1-4]))?(?!\w)",  # FY23
        rf"(?:(?P<quarter>{'|'.join(DAY_ORDINALS[:4])})[\s-]quarter|(?P<half>first|second)[\s-]half)"
        rf"\s(?:of\s)?{_Y}(?!\w)",  # third quarter of 2023
    ),
}
"""Patterns of dates, by a pattern of their beginning, which is tested first to save time. Of the patterns that match at
one place, the first is used. Groups: the words of `of_year`; "first" and "second", the day and month in either order;
"short", a year in digits that may also be part of a number or an id."""
_ANY_FORM = "|".join(f"(?={begin})(?:{'|'.join(forms)})" for begin, forms in _FORMS.items())
_NUMBERS = count()
_DISTINCT_GROUPS = re.sub(r"(?<=P<)[a-z]+", lambda name: f"{name[0]}{next(_NUMBERS)}", _ANY_FORM)
"""With a number at the end of each group's name, because `re` allows each name only once."""
_STATED = re.compile(rf"(?<![\w.])(?=[\djfmasondqth])(?:{_DISTINCT_GROUPS})", re.IGNORECASE)
_WEEKDAYS = [name[:3] for name in WEEKDAYS]
_BEFORE = re.compile(
    rf"\b(?P<weekday>{'|'.join(_WEEKDAYS)})(?:s|nes|rs?|ur)?(?:day)?\.?,?\s{{1,2}}$"
    rf"|(?P<label>[-/,+#§$€£]|\b(?:{'|'.join(LABELS)}))[.:]?\s{{0,2}}$",
    re.IGNORECASE,
)
"""A weekday before a date, or a label or sign before digits that are a number or an id: "section 14.10.23"."""
CHARACTERS_BEFORE = 12
"""Number of characters before a date that are searched for `_BEFORE`."""


def _dates_in(text: str, parts: Sequence[str]) -> Iterator[Words]:
    """The words of each distinct date in the text that has one of `parts`, and of the weekday or label before it: by
    group of `_FORMS` and `_BEFORE`, in lower case."""
    seen = set()
    for date in _STATED.finditer(text):
        if not any(part in date[0].lower() for part in parts):
            continue
        before = _BEFORE.search(text, max(0, date.start() - CHARACTERS_BEFORE), date.start())
        written = date[0], before[0] if before else ""
        if written not in seen:
            seen.add(written)
            groups = date.groupdict() | (before.groupdict() if before else {})
            yield {name.rstrip("0123456789"): words.lower() for name, words in groups.items() if words}


def _periods(
    given: Words, now: datetime, yearless: Iterable[int], *, any_year: bool, day_first: bool | None
) -> Iterator[CalendarPeriod]:
    """The periods that the words of a date may mean, in one of the years `yearless` if they name no year.

    5/8/2023 is 8 May or 5 August (see `day_first`), 5.8.2023 is 5 August; 05/08 needs a `day_first`, because it may be
    a fraction or a rating. 31 February, digits with a label, and a day without a year that is another weekday than the
    word before it, are no period.
    """
    if "short" in given and "label" in given:
        return
    year = given.get("year") or given.get("short")
    dates = [given]
    if "first" in given:
        first, second = given["first"], given["second"]
        if year is None and day_first is None and max(int(first), int(second)) <= 12:  # "10/10 would go again"
            return
        orders = [day_first] if day_first is not None else [True, False]
        dates = [{"day": first, "month": second} if order else {"month": first, "day": second} for order in orders]
    years = yearless if any_year or year is None else [times.year_number(year)]
    weekday = None if any_year or year else given.get("weekday")
    for number, date in product(years, dates):
        with suppress(ValueError, OverflowError):
            stated = of_year(date, now, number)
            if weekday is None or _WEEKDAYS[stated.start.weekday()] == weekday:
                yield stated


SHOWING = 1 / 3
"""Smallest share of the dates of digits that must show an order: 0.6 of the days of a year do, and some fractions."""
_TWO_NUMBERS = re.compile(
    rf"(?<![\w/.-])(\d\d?)[/-](\d\d?)(?:[/-]{YEAR}(?!\d)|/\d\d(?![\w/])|(?m:(?<=^\d\d/\d\d)){_NO_FRACTION})"
)
"""The day and month of a date of digits, in the order of the text: of "14/03/2023", "14-03-2023" or "14/03/23"."""


def day_is_first(texts: Iterable[str]) -> bool | None:
    """Whether the day stands before the month in the dates of digits, such as 14/03/2023: the number above 12 is the
    day. None: less than the share `SHOWING` of the dates show an order, or they show both."""
    dates = [tuple(map(int, two)) for text in texts for two in _TWO_NUMBERS.findall(text[:CHARACTERS_READ])]
    orders = [first > 12 for first, second in dates if (first > 12) != (second > 12)]
    return orders[0] if len(set(orders)) == 1 and len(orders) >= SHOWING * len(dates) else None


def spoken_without_year(phrase: str) -> re.Pattern[str]:
    """A pattern that finds a phrase such as "in January" in texts, but not in "in January 2019"."""
    words = r"\s{1,3}".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)(?!,?\s{{1,2}}(?:of\s|in\s)?['\u2019]?\d)", re.IGNORECASE)


def written(period: TimeRange, zone: tzinfo | None = timezone.utc) -> str:
    """A search text with the forms of the period in texts, with the names of its month in all languages of
    `MONTH_NAMES`; "" if it is longer than a month. The period begins on a day of the time zone.

    One numeric form of a date is enough: the lexical index gives all numeric forms the same term (`stores.lexical`).
    """
    if period.start is None or period.end is None or period.end - period.start > LONGEST_MONTH:
        return ""
    start, length = period.start.astimezone(zone), period.end - period.start
    month = MONTHS[start.month - 1]
    others = " ".join(name for name, english in MONTH_NAMES.items() if english == month)
    date = f"{start.day} {month} {start:%Y-%m-%d}" if length <= LONGEST_DAY else f"{month} {start:%Y %m}"
    return f"{date} {month[:3]} {others}"
