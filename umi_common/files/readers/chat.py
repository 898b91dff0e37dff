"""Read chat logs, such as `[2024-06-11 19:15] Mira: ...` in exports of messengers. Each message is a passage with a
time.

A diary or a program's log is read in the same way: its entries begin with a time, but a name before a colon, as in
"INFO server: started", is no speaker.

The other dates of the log decide whether 03/04/24 is in March or April: 03/14/24 in the same log shows that the month
is first. The logs of Spark and Hadoop have the year first: 24/06/11. If no date decides, the messages have no time,
because a wrong time is worse than none; their text then begins with the date. So it is before a zone that is not known,
such as IST. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.times import ZONES, read_time

_BLANK = r"[^\S\n]"
"""A blank in a line."""
_DATE = r"\d{4}(?:-\d\d?-|/\d\d?/|\. ?\d\d?\. ?)\d\d?\.?|\d{1,2}(?:-\d{1,2}-|/\d{1,2}/|\. ?\d{1,2}\. ?)(?:\d{4}|\d\d)"
"""A date: "2024-06-11", "11.06.24", "11. 6. 2024", "6/11/24"."""
_TIME = rf"(?P<time>\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)(?:{_BLANK}?(?P<half>[AaPp])\.?{_BLANK}?[Mm]\b\.?)?"
"""A time of day: "19:15", "19:15:02,500", "7:15 p.m."; `half` is the first letter of am or pm."""
_DOTTED = rf"(?P<dotted>\d\d?\.\d\d(?:\.\d\d)?)(?=\]|{_BLANK}-{_BLANK})"
"""A time of day with dots, only before "]" or " - ": in "01/05/2024 12.50 Coffee" the number is a price."""
_AT = rf"(?:um|at|à|às|kl[.o]?){_BLANK}"
"""A word between date and time in German, English, French, Portuguese and Scandinavian languages."""
_ZONE_NAMES = rf"(?:{'|'.join(name.upper() for name in ZONES if len(name) > 1)}|(?:[A-Z]|A[CEW]|NZ)[SD]T|MSK|HKT|SGT)"
"""Names of zones: those that `read_time` knows, and others, before which a time is not read."""
_OFFSET = r"[+-](?:0\d|1[0-4])(?:00|30|45)|(?:UTC|GMT)[+-]\d\d?(?::?\d\d)?"
_ZONE = rf"(?P<zone>Z|[+-]\d\d:?\d\d)|{_BLANK}(?P<far_zone>{_OFFSET}|{_ZONE_NAMES})\b"
"""A zone: "+02:00" directly behind the time; behind a blank, "+0200", "UTC+2" or "CEST"."""
_STAMP = (
    rf"\u200e?\[?(?P<date>{_DATE})(?:,?{_BLANK}|T){_BLANK}*(?:{_AT})?(?:{_TIME}|{_DOTTED})(?:{_BLANK}Uhr)?(?:{_ZONE})?"
)
"""A date and a time, with or without brackets. Some messengers put the invisible mark U+200E before it."""
DATED = re.compile(
    rf"^{_STAMP}(?P<close>\]?(?:{_BLANK}+-)?)(?:{_BLANK}+|$)(?:(?P<who>[^:\n\[]{{1,40}}): )?", re.MULTILINE
)
"""The beginning of a message with a time: `[11.06.24, 19:15] Mira: `; `who` is None in a line without a colon. `close`
is the sign between the time and the text, "" in a diary."""
UNDATED = re.compile(r"^(?P<who>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
"""The beginning of a message without a time: `Mira: `."""
CHARACTERS_LOOKED_AT = 20_000
"""Number of characters at the beginning of a text that decide whether it is a chat log."""
LINES_LOOKED_AT = 50
"""Number of non-blank lines at the beginning of a text that decide whether it is a chat log."""
DATED_SHARE = 0.5
"""In a chat log with times, more than this share of these lines begin a message; a message may have several lines."""
UNDATED_SHARE = 0.9
"""In a chat log without times, at least this share of these lines begin a message."""
UNDATED_LINES_MIN = 4
"""Smallest number of lines that begin a message in a chat log without times: prose may have a line "Note: ..."."""
SENTENCES_SHARE = 0.4
"""If more than this share of lines are sentences, a text is a chat, not a list of records ("Name: Bob", "Phone: 1")."""
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)]*\s*$|(?:\S+\s+){9}")
"""A line that ends like a sentence, or has ten words."""
USUAL_SHARE = 0.5
"""More than this share of dated entries have a name, if it is a chat, or am and pm or a zone, if they are no words."""
NAME_WORDS_MAX = 5
"""Largest number of words in the name of a speaker with one message; a telephone number may have five parts."""
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""The level in a line of a program's log."""
DAYS_PER_YEAR_MIN = 3
"""In a chat whose dates may begin with the year or with the day, there are at least this number of times as many days
as years; with fewer, the dates decide nothing."""
LAST_CENTURY_FROM = 69
"""The first two-digit year of the 1900s, as in queries and in `strptime`: "69" is 1969, "68" is 2068."""


class _Beginning(NamedTuple):
    """The beginning of a message."""

    start: int
    """Index of its first character: of the date or, in a log without times, of the speaker's name."""
    content_start: int
    """Index of the first character after the time: of the speaker's name or of the text."""
    speaker: str | None
    when: datetime | None = None


def message_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern with which the messages of a text begin, `DATED` or `UNDATED`; None: the text is no chat log.

    A text without times is a chat log only if it has two speakers or more, one of whom speaks at least twice, and if it
    is no list of records (`_is_list`).
    """
    lines = [line for line in text[:CHARACTERS_LOOKED_AT].split("\n") if line.strip()][:LINES_LOOKED_AT]
    if sum(1 for line in lines if DATED.match(line)) > DATED_SHARE * len(lines):
        return DATED
    speakers = [match["who"] for line in lines if (match := UNDATED.match(line))]
    is_dialogue = 2 <= len(set(speakers)) < len(speakers)
    has_enough = len(speakers) >= max(UNDATED_LINES_MIN, UNDATED_SHARE * len(lines))
    return UNDATED if is_dialogue and has_enough and not _is_list(speakers, lines) else None


def _is_list(keys: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether lines "Key: value" are records, not messages: few lines are sentences, and the keys repeat in one order.

    A record may lack any key except the first. Two speakers in strict turns repeat in one order, too, so the sentences
    decide there.
    """
    place_of = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    places = [place_of[key] for key in keys]
    in_order = all(one < following or (following == 0 and one > 0) for one, following in pairwise(places))
    return in_order and sum(1 for line in lines if _SENTENCE.search(line)) <= SENTENCES_SHARE * len(lines)


def messages(text: str, pattern: re.Pattern[str]) -> Iterator[Passage]:
    """Yield one passage for each message, or several for a long message; before them, the text above all messages.

    A dated line without a speaker, such as "Mira joined the group", is a message whose passage has no "speaker".
    """
    beginnings = _dated(text) if pattern is DATED else _undated(text)
    borders = [*(beginning.start for beginning in beginnings), len(text)]
    yield from (Passage(text[start:stop], start) for start, stop in spans(text[: borders[0]]))
    for (date_start, content_start, speaker, when), end in zip(beginnings, borders[1:], strict=True):
        unread_date = pattern is DATED and when is None
        keeps_date = unread_date or not text[content_start:end].strip()
        message_start = date_start if keeps_date else content_start
        message = text[message_start:end]
        for start, stop in spans(message):
            at = message_start + start
            metadata = {**({"speaker": speaker} if speaker else {}), **line_metadata(text, at)}
            yield Passage(message[start:stop], at, metadata, when, undated=unread_date)


def _undated(text: str) -> list[_Beginning]:
    return [_Beginning(match.start(), match.start(), match["who"]) for match in UNDATED.finditer(text)]


def _dated(text: str) -> list[_Beginning]:
    """The beginnings of the dated messages of a text, in order."""
    matches = list(DATED.finditer(text))
    order, words = _order(matches), _groups_of_words(matches)
    starts = [_content_start(match, words) for match in matches]
    names = [match["who"] if match.start("who") == at else None for match, at in zip(matches, starts, strict=True)]
    is_chat = sum(1 for match in matches if match["close"]) > USUAL_SHARE * len(matches)
    speakers = _speakers(names, is_chat=is_chat)
    return [
        _Beginning(match.start(), at, name if name in speakers else None, _time_of(match, at, order))
        for match, at, name in zip(matches, starts, names, strict=True)
    ]


def _groups_of_words(matches: Sequence[re.Match[str]]) -> list[str]:
    """Those of the groups "half" and "far_zone" that are words of the text, as "am" in "08:00 am Bahnhof".

    They are words unless most entries have them. If an hour is above 12, the text uses no am and pm.
    """
    counts = {group: sum(1 for match in matches if match[group]) for group in ("half", "far_zone")}
    if any(_hour(match) > 12 for match in matches):
        counts["half"] = 0
    return [group for group, count in counts.items() if count <= USUAL_SHARE * len(matches)]


def _content_start(match: re.Match[str], words: Sequence[str] = ()) -> int:
    """Index of the first character of a message after its time: the start of the speaker's name or of the text.

    Args:
        words: From `_groups_of_words`. Before "]" or " -" they belong to the time.
    """
    word = next((group for group in words if match[group]), None)
    if word is not None and not match["close"]:
        return match.start(word)
    return match.end() if match["who"] is None else match.start("who")


def _speakers(names: Sequence[str | None], *, is_chat: bool) -> set[str]:
    """The names before a colon that are names of speakers.

    In 'Mira created group "Roof: money"' the colon ends no name. So the name of a speaker with one message has few
    words and no quotation mark.

    Args:
        names: For each entry the text before its colon; None: it has no colon.
        is_chat: Whether most entries have a sign between time and text; if not, most must have a name.
    """
    counts = Counter(name for name in names if name is not None and not _LEVEL.search(name))
    if not is_chat and counts.total() <= USUAL_SHARE * len(names):
        return set()
    return {
        name
        for name, count in counts.items()
        if count > 1 or (len(name.split()) <= NAME_WORDS_MAX and not re.search('["“„«]', name))
    }


def _order(beginnings: Sequence[re.Match[str]]) -> str | None:
    """The order of year, month and day in dates such as 03/04/24: "dmy", "mdy" or "ymd".

    None if no date decides, or if the dates contradict each other.
    """
    dates = [match["date"] for match in beginnings]
    triples = [[int(number) for number in re.split("[/-]", date)] for date in dates if re.match(r"\d\d?[/-]", date)]
    if not triples:
        return None
    firsts, seconds, lasts = (set(numbers) for numbers in zip(*triples, strict=True))
    if min(firsts) > 12 and max(lasts) <= 31:
        return _year_or_day_first(len(firsts), len(lasts), beginnings)
    day_is_first, day_is_second = max(firsts) > 12, max(seconds) > 12
    return None if day_is_first == day_is_second else "dmy" if day_is_first else "mdy"


def _year_or_day_first(firsts: int, lasts: int, beginnings: Sequence[re.Match[str]]) -> str | None:
    """The order of dates that all can be read as "ymd" and as "dmy"; None: unknown.

    A log has fewer years than days. So the year is first if the first numbers have fewer values than the last: in a
    program's log, whose messages begin with a level such as "INFO", also if all dates are equal.

    Args:
        firsts, lasts: Number of different first and last numbers of the dates.
    """
    if all(_LEVEL.match(match.string, _content_start(match)) for match in beginnings):
        return "ymd" if firsts < lasts or firsts == lasts == 1 else "dmy"
    if firsts >= lasts:
        return "dmy"
    return "ymd" if lasts >= DAYS_PER_YEAR_MIN * firsts else None


def _hour(match: re.Match[str]) -> int:
    return int(re.split("[:.]", match["time"] or match["dotted"])[0])


def _time_of(match: re.Match[str], content_start: int, order: str | None) -> datetime | None:
    """The time of a message whose beginning `DATED` matched; None: no valid time, or an unknown order.

    A date that begins with four digits begins with the year, a date with dots with the day.

    Args:
        content_start: Index after the time; what `match` found of am, pm and a zone behind it is text.
        order: The result of `_order`; used only if the date does not show its own order.
    """
    date = match["date"]
    order = "ymd" if date[:4].isdigit() else "dmy" if "." in date else order
    if order is None:
        return None
    number = dict(zip(order, map(int, re.findall(r"\d+", date)), strict=True))
    year = number["y"]
    if year < 100:
        year += 2000 if year < LAST_CENTURY_FROM else 1900
    time = match["time"] or match["dotted"].replace(".", ":")
    half, zone, far_zone = (
        match[group] if match[group] and match.end(group) <= content_start else ""
        for group in ("half", "zone", "far_zone")
    )
    if half and _hour(match) <= 12:
        time += f" {half}m"
    return read_time(f"{year:04}-{number['m']:02}-{number['d']:02} {time} {zone}{far_zone}")
