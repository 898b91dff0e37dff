"""Whether a text states a date in a period; the words in which texts state a day or a month, for a search.

A text may state "12 March 2023", "12-Mar-23", "12MAR23", "12/03/23", "2023-03-12", "20230312", "Mar. 2023", "03/2023",
"Q1 2023", "1Q23", "2023" and, in a period of at most a month, "12 March", or "12/03" at the beginning of a line. "FY24"
is read as the calendar year 2024, "1990s" as 1990. The names of months are read in English, German, French, Spanish,
Italian, Portuguese and Dutch ("12 de marzo de 2023"), and dates in Chinese and Japanese ("2023年3月12日").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import count, product

from umi_common.query.time.dates import of_year
from umi_common.query.time.grammar import MONTH, MONTH_START
from umi_common.query.time.other_languages import MONTH_NAMES
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import DECADES, MONTHS, ORDINALS, WEEKDAYS
from umi_common.times import MONTHS as MONTHS_BY_NAME
from umi_common.times import with_plain_letters, year_number
from umi_common.types import TimeRange

CHARACTERS_READ = 100_000
"""Number of characters at the start of a text that are searched for a date: some thirty pages. A longer text is a whole
file in one chunk, such as a log with a date in each line; a megabyte of it takes 0.3 s."""
SHOWING = 1 / 3
"""Smallest share of the dates of digits that show in which order the candidates write day and month. It is 0.6 of the
dates of a year; fractions, or a line from another list, show an order, too."""
LONGEST_DAY, LONGEST_MONTH = timedelta(hours=25), timedelta(days=31, hours=1)
"""Longest day and longest month, each with the hour by which clocks may go back. Dates without a year count only in a
period of at most a month."""
SHORTEST_YEAR = timedelta(days=364)
"""A period of this length or more counts as a year: 365 days less one, because clocks change."""
MANY_YEARS = timedelta(days=3_660)
"""Longest period for which texts without the digits of its years are skipped at once. Nearly all texts with a date have
the digits of a year of a longer period."""
_YEAR = r"(?:18|19|20)\d\d"
_ENDS = r"(?![\w%]|[.,:/-]\d)"
"""The end of digits that are not part of a price, of a time or of a longer number."""
_Y, _DAY = rf"(?P<year>{_YEAR})", r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
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
        rf"{_Y}[\s/-]?q(?P<quarter>[1-4])(?!\w)",  # 2023-Q1
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
        rf"(?P<day>[0-3]\d)(?P<month>{'|'.join(MONTHS_BY_NAME)})(?P<year>(?:20)?\d\d)?(?!\w)",  # 14MAR23, 14MAR
        r"(?P<quarter>[1-4])q(?P<year>\d\d)(?!\w)",  # 1Q23
    ),
    MONTH_START: (
        rf"{MONTH}(?:[\s-]{{1,2}}{_DAY})?{_OF_YEAR}",  # March 14, 2023; March 2023
        rf"(?:(?m:^)|(?!(?-i:ma(?:y|r|rch)\b))){MONTH}\s{{1,2}}{_DAY}{_ENDS}",  # March 14; not "we march 14 miles"
    ),
    "[qfst]": (
        rf"q(?P<quarter>[1-4])[\s/-]{{0,2}}(?:(?:fy\s?)?{_Y}(?!\d)|(?:fy\s?|['\u2019])(?P<year>\d\d)(?!\w))",  # Q1 FY23
        rf"(?:fy|fiscal\s(?:year\s)?)\s?['\u2019]?(?P<year>{_YEAR}|\d\d)(?:[\s/-]q(?P<quarter>[1-4]))?(?!\w)",  # FY23
        rf"(?P<quarter>{'|'.join(ORDINALS[:4])})[\s-]quarter\s(?:of\s)?{_Y}(?!\w)",  # third quarter of 2023
    ),
}
"""Patterns of dates, by a pattern of their beginning, which is tested first to save time. Of the patterns that match at
one place, the first is used."""
_NUMBERS = count()
_STATED = re.compile(
    r"(?<![\w.])(?=[\djfmasondqt])(?:"
    + re.sub(
        "(?<=P<)([a-z]+)",
        lambda name: f"{name[0]}{next(_NUMBERS)}",
        "|".join(f"(?={begin})(?:{'|'.join(forms)})" for begin, forms in _FORMS.items()),
    )
    + ")",
    re.IGNORECASE,
)
"""One pattern of all `_FORMS`. Each group's name gets a number, because `re` allows each name only once."""
_TWO_NUMBERS = re.compile(
    rf"(?<![\w/.-])(\d\d?)[/-](\d\d?)(?:[/-]{_YEAR}(?!\d)|/\d\d(?![\w/])|(?m:(?<=^\d\d/\d\d)){_NO_FRACTION})"
)
"""The day and month of a date of digits, in the order of the text."""
_WEEKDAYS = [name[:3] for name in WEEKDAYS]
_BEFORE = re.compile(
    rf"\b(?:{'|'.join(_WEEKDAYS)})(?:s|nes|rs?|ur)?(?:day)?\.?,?\s{{1,2}}$"
    r"|(?:[-/,+#§$€£]|\b(?:version|release|build|section|chapter|clause|part|phone|tel|fax|call|account|order|ref|isbn|id|no"
    r"|nr|number))[.:]?\s{0,2}$",
    re.IGNORECASE,
)
"""A weekday before a date, or a label or sign before digits that are a number or an id: "section 14.10.23"."""
_YEARS = re.compile(
    rf"(?<![\w.,/-])(?P<first>{_YEAR})(?:\s?[-–—/]\s?|\s(?:to|until|till|through|bis)\s)"
    rf"(?P<last>{_YEAR}|1[3-9]|[2-9]\d)(?![\w%]|[-.,/]\d)"
)
"""A range of years: "1994-2001", "2019/20", "1994 to 2001"; not "2010-12", which is a month."""
_DECADE = re.compile(
    rf"\bthe\s(?:(?:early|mid|late)[\s-])?(?:(?P<name>{'|'.join(DECADES)})|['\u2019]?(?P<digits>[2-9]0)s)\b",
    re.IGNORECASE,
)
"""A decade without its century: "the nineties", "the late '90s"."""
DECADE = timedelta(days=3_651)
"""Shortest period that may contain a decade: the 3,652 days from 1900 on, less one because clocks change."""
CHARACTERS_BEFORE = 12
"""Number of characters before a date that are searched for `_BEFORE`."""
_OTHER_MONTH = re.compile(
    rf"(?:(?<=\d)(?:er|[.º])?\s(?:de\s)?|\b)(?P<name>{'|'.join(MONTH_NAMES)})\b(?:\sdel?(?=\s\d))?", re.IGNORECASE
)
"""A month in another language with the words between it and the day or the year: "1er mars", "12 de marzo de"."""
_CHINESE_DATE = re.compile(r"(\d{4})年(\d\d?)月(?:(\d\d?)[日号號])?")
_CHINESE_DAY = re.compile(r"(?<!\d)(0?[1-9]|1[0-2])月(\d\d?)[日号號]")
"""Dates in Chinese and Japanese, with and without a year."""


def day_is_first(texts: Iterable[str]) -> bool | None:
    """Whether the day stands before the month in the dates of digits, such as 14/03/2023: the number above 12 is the
    day. None: less than the share `SHOWING` of the dates show an order, or they show both."""
    found = [tuple(map(int, two)) for text in texts for two in _TWO_NUMBERS.findall(text[:CHARACTERS_READ])]
    orders = [first > 12 for first, second in found if (first > 12) != (second > 12)]
    return orders[0] if len(set(orders)) == 1 and len(orders) >= SHOWING * len(found) else None


def states_date_in(
    text: str, period: TimeRange, now: datetime, *, any_year: bool = False, day_first: bool | None = None
) -> bool:
    """Whether the text states a date, month, quarter or year that lies wholly in the period.

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
    text = _in_english(with_plain_letters(text[:CHARACTERS_READ]), period)
    if _names_years_of(text, period):
        return True
    parts, lowered = ("",) if any_year else _parts_of_dates(period), text.lower()
    if not any(part in lowered for part in parts):
        return False
    different = {}
    for match in _STATED.finditer(text):
        if any(part in match[0].lower() for part in parts):
            before = _BEFORE.search(text, max(0, match.start() - CHARACTERS_BEFORE), match.start())
            different[match[0], before[0].lower() if before else ""] = match
    yearless = _possible_years(period)
    start, end = period.start, period.end
    return any(
        (start is None or stated.start >= start) and (end is None or stated.end <= end)
        for (_, before), match in different.items()
        for stated in _periods(match, before, now, yearless, any_year=any_year, day_first=day_first)
    )


def _in_english(text: str, period: TimeRange) -> str:
    """A text with the dates in other languages in a form that `_STATED` reads, if it may state one in the period."""
    if "月" in text:
        text = _CHINESE_DATE.sub(lambda date: f" {'-'.join(part.zfill(2) for part in date.groups() if part)} ", text)
        text = _CHINESE_DAY.sub(lambda date: f" {date[2]} {MONTHS[int(date[1]) - 1]} ", text)
    lowered = text.lower()
    if any(name in lowered for name in _other_names(period)):
        text = _OTHER_MONTH.sub(lambda month: f" {MONTH_NAMES[month['name'].lower()]}", text)
    return text


@lru_cache(maxsize=8)
def _other_names(period: TimeRange) -> tuple[str, ...]:
    """The names of the period's months in other languages; () for a period of a year or longer, whose years alone are
    sought in texts."""
    start, end = period.start, period.end
    if start is None or end is None or end - start >= SHORTEST_YEAR:
        return ()
    first, last = start - timedelta(days=1), end + timedelta(days=1)  # whatever the time zone
    count = 12 * (last.year - first.year) + last.month - first.month + 1
    months = {MONTHS[(first.month - 1 + nth) % 12] for nth in range(count)}
    return tuple(name for name, month in MONTH_NAMES.items() if month in months)


def spoken_without_year(phrase: str) -> re.Pattern[str]:
    """A pattern that finds a phrase such as "in January" in texts, but not in "in January 2019"."""
    words = r"\s{1,3}".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)(?!,?\s{{1,2}}(?:of\s|in\s)?['\u2019]?\d)", re.IGNORECASE)


@lru_cache(maxsize=8)
def _parts_of_dates(period: TimeRange) -> tuple[str, ...]:
    """Strings of which every text that states a date in the period contains at least one, in lower case.

    They are the last two digits of the period's years and, for a period of at most a month, the beginnings of the names
    of its months and their digits beside a slash. ("",): any text may state a date in the period.
    """
    start, end = period.start, period.end
    if start is None or end is None or end - start > MANY_YEARS or not 1 < start.year <= end.year < 9999:
        return ("",)
    days = start - timedelta(days=1), start + (end - start) / 2, end + timedelta(days=1)  # whatever the time zone
    months = {each.month for each in days} if _possible_years(period) else ()
    names = (name for name, number in MONTHS_BY_NAME.items() if number in months)
    digits = (part for number in months for part in (f"{number:02}/", f"/{number:02}"))
    return (*(f"{year % 100:02}" for year in range(days[0].year, days[2].year + 1)), *names, *digits)


def _names_years_of(text: str, period: TimeRange) -> bool:
    """Whether a text states a range of years that contains the period, or a decade that may lie in the period.

    A range is "1994-2001", a decade "the nineties", whose century is open. False for a period shorter than a year,
    unless it reaches into the next year: texts write "2022/23" for a winter.
    """
    start, end = period.start, period.end
    if start is None or end is None:
        return False
    year, last_year = start.year, (end - timedelta(hours=24)).year
    if end - start < SHORTEST_YEAR and year == last_year:
        return False
    for years in _YEARS.finditer(text):
        first, last = years["first"], years["last"]
        if int(first) <= year and last_year <= int(first[: 4 - len(last)] + last):
            return True
    decades = _DECADE.finditer(text) if end - start >= DECADE else ()
    names = (DECADES.index(each["name"].lower()) * 10 + 20 if each["name"] else int(each["digits"]) for each in decades)
    return any(year + (decade - year) % 100 + 9 <= last_year for decade in names)


def _possible_years(period: TimeRange) -> set[int]:
    """The years that a date without a year may have in the period; none if it is longer than a month."""
    if period.start is None or period.end is None or period.end - period.start > LONGEST_MONTH:
        return set()
    return {period.start.year, period.end.year}


def _periods(
    match: re.Match[str], before: str, now: datetime, yearless: set[int], *, any_year: bool, day_first: bool | None
) -> Iterator[CalendarPeriod]:
    """The periods that a match of `_STATED` may mean. `before` is what `_BEFORE` finds before it, in lower case, or "".

    5/8/2023 is 8 May or 5 August (see `day_first`), 5.8.2023 is 5 August; 05/08 needs a `day_first`, because it may be
    a fraction or a rating. 31 February, numbers with a label, and a day without a year that is another weekday than the
    word before it are no period.
    """
    given = {name.rstrip("0123456789"): value.lower() for name, value in match.groupdict().items() if value}
    weekday = before[:3] if before[:3] in _WEEKDAYS else ""
    if "short" in given and before and not weekday:
        return
    year = given.pop("year", given.get("short"))
    dates = [given]
    if "first" in given:
        first, second = given["first"], given["second"]
        if year is None and day_first is None and max(int(first), int(second)) <= 12:  # "10/10 would go again"
            return
        dates = [{"month": first, "day": second}, {"month": second, "day": first}]
        dates = dates if day_first is None else [dates[day_first]]
    for each, date in product(yearless if any_year or year is None else {year_number(year)}, dates):
        with suppress(ValueError, OverflowError):
            stated = of_year(date, now, each)
            if year or any_year or not weekday or _WEEKDAYS[stated.start.weekday()] == weekday:
                yield stated


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
