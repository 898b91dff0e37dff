"""Rules for dates, months, quarters, seasons, years and decades by name or number."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from umi_common.query.time import spans
from umi_common.query.time.spans import CalendarPeriod
from umi_common.query.time.vocabulary import (
    BEFORE_DATE,
    BEFORE_YEAR,
    COUNT,
    DAY,
    DAY_ORDINALS,
    DECADES,
    FISCAL_YEAR,
    IN,
    LONG_MONTH,
    MONTH,
    MONTH_START,
    MONTHS,
    OF_YEAR,
    ORDINALS,
    PART,
    SEASON,
    WEEKDAY,
    WEEKDAYS,
    WHICH,
    WHICH_OFFSET,
    YEAR,
    counted,
    month_number,
    named_part,
    rule,
    year_number,
)


def _in_its_year(match: re.Match[str], now: datetime, span: Callable[[int], CalendarPeriod]) -> CalendarPeriod:
    """The period that `span` gives for the year of the phrase; if it names none, the latest period that has begun."""
    return span(year_number(match["year"])) if match["year"] else spans.latest(now, span)


@rule(r"(?P<year>\d{4})-(?P<month>[01]\d)-(?P<day>[0-3]\d)(?:t\d\d:\d\d[\d:.z+-]{0,20})?")
@rule(r"(?P<year>(?:19|20)\d\d)\.(?P<month>[01]\d)\.(?P<day>[0-3]\d)(?![.\d])")
@rule(r"(?P<year>\d{4})/(?P<month>[01]?\d)/(?P<day>[0-3]?\d)")
def _iso_date(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return spans.day(now, int(match["year"]), int(match["month"]), int(match["day"]))


@rule(r"(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?!-\d)")
@rule(r"(?<![\d/.])(?P<month>0[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![/\d])")
def _iso_month(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return spans.month(now, int(match["year"]), int(match["month"]))


@rule(rf"{BEFORE_DATE}(?:the )?{DAY}\s{{0,3}}(?:of )?{MONTH}{OF_YEAR}?")
@rule(rf"{DAY}\. {MONTH}{OF_YEAR}")
@rule(rf"{DAY}-{MONTH}-{YEAR}")
@rule(rf"{DAY}(?: |[/-]){MONTH}(?: |[/-])(?P<year>\d\d)(?!%|[.,:/-]\d|\s?(?:am|pm)\b| {MONTH_START})")
@rule(rf"(?<!\b\d\s)(?<!\b\d\d\s){BEFORE_DATE}{MONTH}\s{{0,3}}(?:the )?{DAY}(?!\d|[.:%]\d|\s?(?:am|pm|%)\b){OF_YEAR}?")
def _date(match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    month, number = month_number(match["month"]), int(match["day"])
    # "you may 3 times", "march 5 miles": a verb in lower case before a bare number
    verb = match["month"] in {"may", "march", "mar"} and match.start("month") < match.start("day")
    if verb and match["ordinal"] is None and match["year"] is None:
        return None
    return _in_its_year(match, now, lambda year: spans.day(now, year, month, number))


@rule(rf"(?:on )?the (?P<nth>{'|'.join(reversed(DAY_ORDINALS))}) of {LONG_MONTH}{OF_YEAR}?")
def _date_in_words(match: re.Match[str], now: datetime) -> CalendarPeriod:
    month, number = month_number(match["month"]), DAY_ORDINALS.index(match["nth"].lower()) + 1
    return _in_its_year(match, now, lambda year: spans.day(now, year, month, number))


@rule(
    rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\s{{0,3}}(?:-|\u2013|to|and|through|until)\s{{0,3}}"
    rf"(?P<last>[0-3]?\d)(?:st|nd|rd|th)? (?:of )?{MONTH}{OF_YEAR}?"
)
@rule(
    rf"{MONTH} (?P<day>[0-3]?\d)(?:st|nd|rd|th)?\s?(?:-|\u2013|to|through)\s?"
    rf"(?P<last>[0-3]?\d)(?:st|nd|rd|th)?{OF_YEAR}?"
)
def _range_of_days(match: re.Match[str], now: datetime) -> CalendarPeriod:
    month = month_number(match["month"])

    def span(year: int) -> CalendarPeriod:
        first, last = (spans.day(now, year, month, int(match[name])) for name in ("day", "last"))
        return CalendarPeriod(first.start, last.end)

    return _in_its_year(match, now, span)


@rule(rf"(?:{PART}[\s-]{{1,3}}(?:of )?)?{MONTH}{OF_YEAR}")
@rule(rf"{PART}(?:[\s-]{{1,3}}| of )(?P<year>){LONG_MONTH}")
@rule(rf"(?:{IN}|as of )(?P<part>)(?P<year>){LONG_MONTH}")
@rule(rf"(?P<part>)(?P<year>){LONG_MONTH}{BEFORE_YEAR}")
def _month(match: re.Match[str], now: datetime) -> CalendarPeriod:
    number = month_number(match["month"])
    return named_part(_in_its_year(match, now, lambda year: spans.month(now, year, number)), match["part"])


@rule(
    rf"(?:between|from) {LONG_MONTH} (?:and|to|until|till|through) "
    rf"(?P<last>{'|'.join(MONTHS)})(?:\s{{0,3}},?\s{{0,3}}{YEAR})?"
)
def _range_of_months(match: re.Match[str], now: datetime) -> CalendarPeriod:
    first, last = month_number(match["month"]), month_number(match["last"])

    def span(year: int) -> CalendarPeriod:
        """The months from `first` of `year` to `last`, which may be in the next year."""
        return spans.months(spans.day(now, year, first, 1).start, count=(last - first) % 12 + 1)

    if match["year"]:
        return span(year_number(match["year"]) - (1 if last < first else 0))
    return spans.latest(now, span)


@rule(rf"{WHICH} {LONG_MONTH}")
def _which_month(match: re.Match[str], now: datetime) -> CalendarPeriod:
    number, which = month_number(match["month"]), WHICH_OFFSET[match["which"].lower()]
    this_year = spans.month(now, now.year, number)
    if which == 0:
        return this_year
    if which > 0:
        return this_year if number > now.month else spans.month(now, now.year + 1, number)
    return this_year if number < now.month else spans.month(now, now.year - 1, number)


@rule(rf"(?:the )?(?P<nth>{'|'.join(ORDINALS)}|last) week (?:of|in) {LONG_MONTH}{OF_YEAR}?")
def _week_of_month(match: re.Match[str], now: datetime) -> CalendarPeriod:
    number, name = month_number(match["month"]), match["nth"].lower()

    def span(year: int) -> CalendarPeriod:
        whole = spans.month(now, year, number)
        if name == "last":
            return spans.days(whole.end - timedelta(days=7), 7)
        start = spans.midnight(now).replace(year=year, month=number, day=1 + 7 * ORDINALS.index(name))
        return spans.days(start, 7)

    return _in_its_year(match, now, span)


@rule(rf"(?:on )?(?:the )?(?P<nth>{'|'.join(ORDINALS)}|last) {WEEKDAY} (?:of|in) {LONG_MONTH}{OF_YEAR}?")
def _weekday_of_month(match: re.Match[str], now: datetime) -> CalendarPeriod:
    weekday, name = WEEKDAYS.index(match["weekday"].lower()), match["nth"].lower()

    def span(year: int) -> CalendarPeriod:
        whole = spans.month(now, year, month_number(match["month"]))
        if name == "last":
            return spans.weekday(whole.end, weekday, -1)
        found = spans.weekday(whole.start - timedelta(days=1), weekday, ORDINALS.index(name) + 1)
        if found.start >= whole.end:
            raise ValueError("the month has no fifth such day")
        return found

    return _in_its_year(match, now, span)


@rule(rf"(?:the )?(?:(?:calendar )?week|kw) (?P<week>\d{{1,2}})(?: of| in|,|/)?\s{{0,3}}{YEAR}")
@rule(r"(?:calendar week|kw|in week) (?P<week>\d{1,2})(?P<year>)(?![\w/]|,? (?:of|in|19|20))")
@rule(r"(?P<year>\d{4})-?w(?P<week>\d\d)")
def _iso_week(match: re.Match[str], now: datetime) -> CalendarPeriod:
    # Week 1 is the one with the year's first Thursday, so its Monday may be in December of the year before.
    def span(year: int) -> CalendarPeriod:
        monday = date.fromisocalendar(year, int(match["week"]), 1)
        return spans.days(spans.midnight(now).replace(year=monday.year, month=monday.month, day=monday.day), 7)

    return _in_its_year(match, now, span)


@rule(
    rf"(?:{PART}[\s-]{{1,3}}(?:of )?|{IN}|(?:by|from|of|between|and|to|as of|for|the year) ){YEAR}"
    r"(?! (?:words|people|steps|times|miles|km|dollars|euros|characters|tokens|lines|items|users|rows|calories)\b|%)"
)
@rule(rf"(?P<part>){YEAR}(?<='s)")
@rule(rf"(?P<part>){FISCAL_YEAR}(?![-.]\d)")
def _year(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return named_part(spans.years(now, year_number(match["year"])), match["part"])


@rule(r"(?P<first>(?:19|20)\d\d)(?:-|\u2013|\u2014| (?:to|until|through) )(?P<last>(?:19|20)\d\d)(?![-./]\d)")
def _range_of_years(match: re.Match[str], now: datetime) -> CalendarPeriod:
    first, last = int(match["first"]), int(match["last"])
    return spans.years(now, first, last - first + 1)


@rule(rf"(?:the|early|mid|late)[\s-]{{1,3}}(?P<name>{'|'.join(DECADES)})(?P<decade>)")
@rule(r"(?:the|early|mid|late)[\s-]{1,3}(?:19|20)?'?(?P<decade>\d0)'?s")
@rule(r"(?P<decade>(?:18|19|20)\d0)s")
def _decade(match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    name = match.groupdict().get("name")
    digits = f"{DECADES.index(name.lower()) + 2}0" if name else re.sub(r"\D", "", match[0])
    if len(digits) == 4:
        return spans.years(now, int(digits), 10)
    # A decade of two digits is one of this century if that has begun, else one of the last century.
    century = 2000 if int(digits) <= now.year % 100 else 1900
    return spans.years(now, century + int(digits), 10)


@rule(rf"q(?P<quarter>[1-4])[\s/-]{{0,3}}(?:of )?{YEAR}")
@rule(rf"q(?P<quarter>[1-4])[\s/-]{{0,3}}(?:of )?{FISCAL_YEAR}")
@rule(rf"{FISCAL_YEAR}[\s/-]?q(?P<quarter>[1-4])")
@rule(r"(?P<year>(?:19|20)\d\d)[\s/-]?q(?P<quarter>[1-4])|(?P<nth>[1-4])q(?P<short>\d\d)")
@rule(rf"(?P<quarter>{'|'.join(ORDINALS[:4])})[\s-]{{1,3}}quarter(?: of)?{OF_YEAR}")
@rule(rf"(?:{PART} (?:of )?|{IN})q(?P<quarter>[1-4])(?:[\s/-]{{0,3}}(?:of )?{YEAR})?")
def _quarter(match: re.Match[str], now: datetime) -> CalendarPeriod:
    if match.groupdict().get("nth"):  # 3Q24
        return spans.quarter(now, year_number(match["short"]), int(match["nth"]))
    name = match["quarter"].lower()
    number = int(name) if name.isdigit() else ORDINALS.index(name) + 1
    whole = _in_its_year(match, now, lambda year: spans.quarter(now, year, number))
    return named_part(whole, match.groupdict().get("part"))


@rule(rf"h(?P<half>[12])[\s/-]{{0,3}}(?:of )?{YEAR}")
@rule(rf"h(?P<half>[12])[\s/-]{{0,3}}(?:of )?{FISCAL_YEAR}")
def _half(match: re.Match[str], now: datetime) -> CalendarPeriod:
    whole = spans.years(now, year_number(match["year"]))
    return named_part(whole, "first half" if match["half"] == "1" else "second half")


@rule(rf"(?:in |during |over )?(?:the )?{SEASON} (?:of )?(?P<year>(?:19|20)\d\d)[/\u2013-](?:(?:19|20)?\d\d)")
@rule(rf"(?:{WHICH} |(?P<loose>(?:in|during|over|since) the ))?{SEASON}(?: (?:of )?{YEAR})?")
@rule(rf"(?P<which>)(?P<loose>)(?P<year>){SEASON}{BEFORE_YEAR}")
def _season(match: re.Match[str], now: datetime) -> CalendarPeriod | None:
    name = match["season"].lower()
    if match["year"]:  # the winter 2022/23 begins in 2022
        year = year_number(match["year"])
        begins = spans.season(now, year, name)
        ends = spans.season(now, year - 1, name)
        ambiguous = name == "winter" and year == now.year and "which" in match.groupdict()
        return ends if ambiguous and begins.start - now > now - ends.end else begins  # the nearer winter
    if match["which"] is None and match["loose"] is None:
        return None  # "spring" alone may mean something else
    begun = spans.latest(now, lambda year: spans.season(now, year, name))
    if match["loose"] is not None:
        return begun
    which = WHICH_OFFSET[match["which"].lower()]
    if which > 0:
        return spans.season(now, begun.start.year + 1, name)
    goes_on = begun.end > now
    if which < 0:
        return _ended_season(now, name, 1)
    return begun if goes_on else spans.season(now, now.year, name)  # "this summer"


@rule(rf"{COUNT} {SEASON}s ago")
def _seasons_ago(match: re.Match[str], now: datetime) -> CalendarPeriod:
    return _ended_season(now, match["season"].lower(), counted(match["count"])[1])


def _ended_season(now: datetime, name: str, count: int) -> CalendarPeriod:
    """The season of this name that has ended, `count` - 1 years before the last such season."""
    begun = spans.latest(now, lambda year: spans.season(now, year, name))
    return spans.season(now, begun.start.year - int(begun.end > now) - count + 1, name)
