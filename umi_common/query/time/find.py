"""Find the period that a query names ("last week", "two Fridays ago", "in March 2023"), relative to the current time.
Also: whether a query asks for the latest or the first of several texts ("current phone", "first report").

A period is found in these steps:

1. A query without a time word or a number names no period; "recently" is no time word.
2. The rules of `grammar` and `other_languages` read the phrases for periods.
3. `ranges` joins two periods ("between A and B"), or changes one ("since A").
4. Of several periods, the first with a year is chosen, because it does not depend on the current time. If none has a
   year, the first is chosen.

The period is "explicit" if the phrase limits when a record was made ("what did I say yesterday", "messages from March
2023"). Every other period is "fuzzy": a record of Saturday may report what happened "on Friday".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from umi_common.errors import InvalidTimeRange
from umi_common.query.time.grammar import MONTH, RULES, YEAR
from umi_common.query.time.other_languages import MONTH_NAMES, NUMBER_NAMES, PERIOD_NAMES, further_rules
from umi_common.query.time.ranges import FoundPeriod, changed_period, joined_periods
from umi_common.query.time.spans import LEAP_YEARS_APART, SEASONS, CalendarPeriod
from umi_common.query.time.stated import LONGEST_DAY, LONGEST_MONTH
from umi_common.query.time.vocabulary import DECADES, HOLIDAYS, HOURS, MONTHS, UNITS, WEEKDAYS
from umi_common.times import with_plain_letters
from umi_common.types import TimeRange, as_utc

TimeKind = Literal["explicit", "fuzzy"]
TimeOrder = Literal["latest", "first"]


@dataclass(frozen=True, slots=True)
class When:
    """A period that the query names."""

    range: TimeRange
    kind: TimeKind
    """"explicit": the query limits records to the period; "fuzzy": it may mean the time of an event in a record. An
    explicit period is a filter if `when.mode` is "filter"; any other only raises scores."""
    phrase: str
    """The words of the query that name the period."""
    span: tuple[int, int]
    """[start, end) of the phrase in the query, in characters."""
    dated: bool = False
    """Whether the phrase names a year. The chunks of the period then get a larger boost than those of "last week"."""
    nothing_else: bool = False
    """Whether the query names no subject besides the period ("what happened last week"). All chunks of the period then
    come before all other chunks."""
    raise_best: bool = False
    """Whether the best chunk of the period comes before all other chunks. True if the query may ask about the past, and
    the period is over, at most a month long, and named without a year: "what did I cook three days ago". A memory has
    few texts of such a period, and the right one may lack the query's words."""
    yearless: bool = False
    """Whether the phrase is a date, month, season or holiday without a year, such as "on 19 May". `range` is then the
    latest such period that has begun."""
    earlier_days: tuple[TimeRange, ...] = ()
    """For a day without a year: the same day in each of the LEAP_YEARS_APART years before `range`, the latest first. ()
    for a month without a year, whose name is mostly part of a text's subject: "live by February"."""


SCANNED_CHARS = 1_000
"""Number of characters at the start of a query that are searched for a period. A longer query is probably pasted
text."""


def find_time(query: str, now: datetime) -> When | None:
    """The period that the query names; None: it names none.

    Takes microseconds for a query without time words, below 1 ms for a sentence, 10 ms for SCANNED_CHARS characters.

    Args:
        query: In English, German, French, Spanish, Italian, Portuguese, Dutch or Chinese.
        now: The time that "yesterday" refers to. Days, weeks (from Monday) and months are those of its time zone.

    Raises:
        InvalidTimeRange: If `now` has no time zone.
    """
    as_utc(now, "now")  # raises if `now` has no time zone
    query = with_plain_letters(query[:SCANNED_CHARS])
    found = _chosen(query, now) if _may_name_time(query) else None
    if found is None:
        return None
    try:
        period = TimeRange(*(found.bounds or (found.period.start, found.period.end)))
    except InvalidTimeRange:  # empty, outside the years 1 to 9999, or in an hour that a change of clocks skips
        return None
    before, phrase, after = query[: found.start], query[found.start : found.end], query[found.end :]
    limits_records = _RECORD_BEFORE.search(before, max(0, len(before) - SCOPE_CHARS)) or _RECORD_AFTER.match(after)
    return When(
        period,
        "explicit" if limits_records and not found.period.vague else "fuzzy",
        phrase,
        (found.start, found.end),
        dated=_NAMES_YEAR.search(phrase) is not None,
        nothing_else=all(map(_NO_SUBJECT.fullmatch, (before, after))),
        raise_best=_raises_best(phrase, f"{before} {after}", period, now),
        yearless=found.period.in_year is not None,
        earlier_days=tuple(_earlier_days(found.period)),
    )


_TIME_WORDS = {
    *(*UNITS, *MONTHS, *WEEKDAYS, *SEASONS, *HOURS, *DECADES),
    *(month[:3] for month in MONTHS),
    *(re.split("[ ']", name)[0] for name in HOLIDAYS),
    *("sept", "yesterday", "today", "tonight", "tomorrow", "ago"),
}
"""Each English phrase for a period has a number or one of these words, perhaps with an "s" at the end."""


def _may_name_time(query: str) -> bool:
    """Whether the query has a time word or a number. A fast test; it is true for every query that names a period."""
    words = re.findall(r"[a-z]+|\d+", query.lower())
    named = any(word.isdigit() or word in _TIME_WORDS or word.rstrip("s") in _TIME_WORDS for word in words)
    return named or bool(further_rules(query))


_NAMES_YEAR = re.compile(
    rf"{YEAR}|(?:fy|fiscal)(?:\s{{1,3}}year)?[\s-]?\d\d|\dq\d\d"
    rf"|(?:\d/|\d\.\d\d?\.|['\u2019]|\d(?:st|nd|rd|th)?(?:\s{{1,3}}|[-/]){MONTH}(?:\s{{1,3}}|[-/]))\d{{2}}\b",
    re.I,
)
"""The year in the words for a period: "2019", "FY24", "5 May 23"."""


def _chosen(query: str, now: datetime) -> FoundPeriod | None:
    """The first period with a year, else the first period; joined and changed by the words beside them (`ranges`)."""
    phrases = list(_phrases(query, now))
    periods = list(phrases)
    for at, (period, following) in enumerate(zip_longest(phrases, phrases[1:])):
        with suppress(ValueError, OverflowError):  # 29 February of another year, a year before 1
            joined = joined_periods(query, period, following) if following else None
            periods[at] = joined or changed_period(query, period, now)
    dated = [period for period in periods if _NAMES_YEAR.search(query, period.start, period.end)]
    return next(iter(dated or periods), None)


def _phrases(query: str, now: datetime) -> Iterator[FoundPeriod]:
    """The periods that the rules find, from left to right. Of overlapping phrases, the one that ends last is used; of
    several that end there, the longest."""
    found: list[FoundPeriod] = []
    for rule in (*RULES, *further_rules(query)):
        for match in rule.pattern.finditer(query):
            with suppress(ValueError, OverflowError):  # 31 February, the year 12000
                period = rule.resolve(match, now)
                if period is not None:
                    found.append(FoundPeriod(match.start(), match.end(), period))
    while found:
        first = min(found, key=lambda each: (each.start, -each.end))
        overlapping = [each for each in found if each.start < first.end]
        best = max(overlapping, key=lambda each: (each.end, -each.start))
        yield best
        found = [each for each in found if each.start >= best.end]


_PREPOSITION = r"(?:in|on|at|of|from|during|since|before|after|until|till|between|by|over|for)"
_RECORD = (
    r"(?:messages?|chats?|conversations?|discussions?|notes?|(?:e-?)?mails?|sessions?|entry|entries|logs?|documents?|files?"
    r"|posts?|transcripts?|threads?|records?|memories|articles?|reports?|letters?|tweets?|commits?|comments?)"
)
_SAYING = (
    r"(?:sa(?:y|id)|tell|told|mention(?:ed)?|discuss(?:ed)?|talk(?:ed)?|spoke|cha(?:t|tted)|ask(?:ed)?|wr(?:ite|ote|itten)"
    r"|noted?|record(?:ed)?|log(?:ged)?|sent|send|posted?|dated|created|saved|published)"
)
_RECORD_BEFORE = re.compile(
    rf"\b(?:{_RECORD}|{_SAYING}(?:\s{{1,3}}(?:me|you|us|him|her|them|it|this|that|about|to|with|of)){{0,3}})"
    rf"(?:\s{{1,3}}(?:{_PREPOSITION}|dated|sent|written|posted|recorded|created|we\s{{1,3}}had|i\s{{1,3}}had)){{0,2}}"
    r"(?:\s{1,3}the)?\s{0,3}$",
    re.I,
)
"""Words directly before a period that limit records to it: "messages from", "what did I say on". Not "what did I say
about the party": the party may have been on the day."""
SCOPE_CHARS = 80
"""Number of characters before a period that are searched for `_RECORD_BEFORE`."""
_RECORD_AFTER = re.compile(rf"(?:['\u2019]s)?\s{{1,3}}{_RECORD}\b", re.I)
"""Words directly after a period that limit records to it: "yesterday's messages"."""
_NO_SUBJECT = re.compile(
    rf"(?:\b(?:{_RECORD}|{_SAYING}|{_PREPOSITION}|i|we|you|me|us|my|our|your|to|with|the|what|which|did|do|does|done|was|were"
    r"|have|had|happen(?:s|ed|ing)?|all|any|anything|show|list|give|please|meetings?|minutes|about|around|back|earlier"
    r"|is|s|are|am|there|going|coming|up|plans|planned|scheduled|due|later"
    r"|habe|haben|hast|ich|du|wir|dir|mir|gesagt|erzählt|qu|est|ce|que|j|ai|as|je|tu|t|dit|raconté|qué|te|dije|conté"
    r"|dijiste|cosa|ho|detto|ti|che|eu|disse|falei|o|wat|zei|heb|gezegd|ik)\b|[我你们说了告诉什么]|\W)*",
    re.I,
)
"""Words around a period that name no subject."""
_PRESENT = re.compile(
    r"\b(?:am|is|are|do|does|will|shall|should|can|may|going to|(?:what|when|where|who|how)['\u2019]s)\b", re.I
)
_PAST = re.compile(r"\b(?:did|was|were|had|said|told|\w{2,}ed)\b", re.I)
"""A query with a word of `_PRESENT` and none of `_PAST` asks about the present or future: "is my appointment on
Friday?"."""
_ANY_DAY = re.compile(
    r"(?:am|vom|zum|le|du|au|el|del|al|il|dal|em|do|dia|na|op|van|an|zu|à|a|met)\s[^\s\d]+",
    re.I,
)
"""In another language, a phrase for a day that may be past or future: "am Freitag", "an Weihnachten"; not "el martes
pasado"."""


def _raises_best(phrase: str, around: str, period: TimeRange, now: datetime) -> bool:
    """`When.raise_best`; `around`: the words around the phrase. "May" in the phrase is a month, in `around` a verb."""
    if _NAMES_YEAR.search(phrase) or phrase.lower() in {*MONTHS, *MONTH_NAMES} or _ANY_DAY.fullmatch(phrase):
        return False
    start, end = period.start, period.end
    if start is None or end is None or end > now or end - start > LONGEST_MONTH:
        return False
    return _PRESENT.search(around) is None or _PAST.search(around) is not None


def _earlier_days(period: CalendarPeriod) -> Iterator[TimeRange]:
    if period.in_year is None or period.end - period.start > LONGEST_DAY:
        return
    for year in range(period.start.year - 1, period.start.year - LEAP_YEARS_APART - 1, -1):
        with suppress(ValueError, InvalidTimeRange):  # 29 February, the year 0
            day = period.in_year(year)
            yield TimeRange(day.start, day.end)


_MOST, _OURS = "(?:plus|m[aá]s|mais|più)", "(?:le|la|les|mon|ma|mes|nos|el|mis?|los|al|del)"
LAST_ELSEWHERE = (
    r"letzte[mnrs]?|zuletzt|neue?ste[mnrs]?|derni(?:er|[eè]re)s?|[uú]ltim[oaie]s?|laatste|nieuwste"
    rf"|{_MOST} r[eé]ci?ent[ei]?s?"
)
"""A pattern of the words for "last" and "latest" in German, French, Spanish, Italian, Portuguese and Dutch."""
_DOUBTFUL_FIRST = r"(?:premi(?:er|ere)s?|primer)"
"""Words that mean "first" only behind an article, a possessive or a number: "premier league", "primer for wood"."""
FIRST_ELSEWHERE = (
    r"erste[mnrs]?|(?:[äa]|ae)lteste[mnrs]?|premières?|primer[oa]s?|primeir[oa]s?|eerste|oudste"
    rf"|{_MOST} (?:ancien(?:ne)?|antigu?[oa]|vecchi[oa]?)s?|il (?:mio )?primo|la (?:mia )?prima(?! del?\b)"
    rf"|(?:i primi|le prime)(?= (?:\d|{NUMBER_NAMES})\b)|{_OURS} (?:(?:\d\d?|{NUMBER_NAMES}) )?{_DOUBTFUL_FIRST}"
)
"""A pattern of the words for "first" and "oldest" in these languages."""
_NO_PERIOD = (
    rf"(?! (?:(?:\d+|{NUMBER_NAMES}) )?(?:(?:{PERIOD_NAMES}|quartal|halbjahr|kwartaal)e?[ns]?"
    r"|hälfte|(?:tri|se)mestr[ei]s?|stunden?|minuten?|heures?|horas?|minut[oe]s?|ore)\b)"
)
"""Stands behind such a word. It does not match before a period: "letzte Woche", "les 3 derniers jours"."""
_LATEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|now|nowadays|these days|at the moment|up[- ]to[- ]date"
    r"|jetzt|aktuell\w*|derzeit|inzwischen|mittlerweile|momentan|letzter stand"
    r"|maintenant|actuel\w*|désormais|ahora|actualmente|hoy en día|adesso|attual\w*|agora|atual\w*|momenteel|nu(?=\W*$)"
    r"|what['\u2019]?s new|last(?! (?:(?:(?:few|two|three|\d+) )?(?:minute|hour|day|week|month|quarter|year|night)"
    r"|weekend|decade|summer|winter|spring|autumn|fall|mon|tues|wednes|thurs|fri|satur|sun|names?)))\b"
    r"|^\W*(?:(?:what|which|where|who|when|how (?:much|many|old|tall|often))(?:['\u2019]s (?:my|our)\b|\b[^,.]*?"
    r"\b(?:am i|are we|do i|do we|(?:is|are|do|does) (?:my|our))\b)|(?:am|is|are|do|does|can)\b[^,.]*\bstill\b)"
    rf"|现在|目前|\b(?:{LAST_ELSEWHERE})\b{_NO_PERIOD}",
    re.IGNORECASE,
)
"""Words that ask for the latest text, or a question in the present tense: "where do I live", "what's our rent", "do I
still eat fish"."""
_FIRST = re.compile(
    r"\b(?:oldest|earliest|originally|initially|(?:my|our) original|first(?! (?:names?|half|floor|aid|class|place))"
    r"|ursprünglich(?:e[nrs]?)?|zuerst|anfangs|au départ|initialement|al principio|inicialmente|originalmente"
    rf"|inizialmente|originariamente|oorspronkelijke?|aanvankelijk|(?:{FIRST_ELSEWHERE})(?=\b{_NO_PERIOD}))\b",
    re.IGNORECASE,
)
_OTHER_MEANING = re.compile(
    r"\bhow long\b.*\blast\b|\bto last\b|\b(?:will|would|can|could|does|do)\b.* last\b\W*$"
    r"|\blast (?:resort|minute|chance|straw|four|five|six|seven|eight|nine|ten|digits?|letters?|known|words?)\b"
    r"|\b(?:before|after|since|until|till) (?:the|my|our) (?:last|latest|first|current)\b"
    r"|\b(?:by|until|till|from|up to|for|just) now\b|\bnow (?:that|and then|playing)\b|\bright now,? (?:i|we)\b"
    r"|(?<!\bwas the )\bfirst thing\b|\bfirst (?:of all|come|glance|sight|line|responders?)\b"
    r"|\bcurrent (?:accounts?|affairs|events)\b|\bmost recent call (?:last|first)\b"
    r"|(?<=\b(?:newest|latest|recent|oldest)) first\b"
    r"|\bat (?:the )?(?:very )?(?:latest|earliest)\b|\bat last\b|\blast but not least\b"
    r"|\bfirst (?:grade|edition|authors?|chapter|section|paragraph|page|row|column|step|prize|degree|person|language)\b"
    r"|\b(?:erste[mnrs]?|premi(?:er|ère)s?|prim(?:ei?r)?[oa]?s?|eerste) (?:hilfe|klasse|stock|bank|group|schritte?"
    r"|weltkrieg|linie|liga|etage|ministre|étage|classe|page|secours|pas|guerre|ministr[oa]|piso|clase|auxilios|pasos?"
    r"|página|lugar|andar|socorros|piano|guerra|hulp|verdieping|wereldoorlog)\b"
    r"|\b(?:letzte[mnrs]?|derni(?:er|ère)s?|[uú]ltim[oa]|laatste) (?:zug|bus|bahn|fähre|train|métro|tren|autobús|treno"
    r"|trein|endes|chance|hora|ora)\b|\b(?:por último|als erstes|fürs erste|en (?:premier|dernier))\b"
    r"|\bcurrent(?= (?:of|in|through|at|to|from|and|or|is|flows?|draw|ratings?|density|consumption|sensors?)\b|\W*$)",
    re.IGNORECASE,
)
"""Phrases with a word of `_LATEST` or `_FIRST` that ask for no order: "at the latest", an electric "current", the first
line of a traceback."""

_ORDER = rf"(?:last|latest|newest|first|oldest|earliest|(?:most )?recent|{LAST_ELSEWHERE}|{FIRST_ELSEWHERE})"
_NUMBER = rf"(?:[1-9]\d?|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|{NUMBER_NAMES})"
_NOT_TEXTS = (
    r"(?! (?:minute|hour|day|night|week|weekend|month|quarter|year|decade|digit|letter|character|word|name|line|page"
    rf"|chapter|section|row|column)s?\b){_NO_PERIOD}(?= [^\W\d]{{3}})"
)
_BEFORE_COUNT = r"(?:(?<=\b(?:the|our|die|les|mes|las|los|mis) )|(?<=\b(?:my|de) )|(?<=\bmeine ))"
COUNT = re.compile(
    rf"\b(?:(?P<before>{_ORDER}) {_NUMBER}|(?:top |{_BEFORE_COUNT}){_NUMBER} (?P<after>{_ORDER}|{_DOUBTFUL_FIRST}))"
    rf"\b{_NOT_TEXTS}",
    re.IGNORECASE,
)
"""A number of texts that a query asks for: "last 3 invoices", "the five most recent invoices"; not "last 3 weeks", nor
"parcel 3 first"."""


def without_count(query: str) -> str:
    """The query without the number of texts that it asks for: "last 3 invoices" -> "last invoices".

    The texts do not hold this number, but may hold it as part of a date.
    """
    return COUNT.sub(lambda found: found["before"] or found["after"], query)


@lru_cache(maxsize=64)
def time_order(query: str) -> TimeOrder | None:
    """Whether the query asks for the latest or the first of several texts on one subject.

    None if it asks for neither, or for both: "from the first to the latest".
    """
    query = _OTHER_MEANING.sub(" ", " ".join(query.split()))
    latest, first = _LATEST.search(query) is not None, _FIRST.search(query) is not None
    if latest == first:
        return None
    return "latest" if latest else "first"
