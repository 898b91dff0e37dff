"""Read chat logs, such as `[2024-06-11 19:15] Mira: ...` in exports of messengers. Each message is a passage with a
time.

A diary or a program's log is read in the same way: its entries begin with a time and name no speaker.

The other dates of the log decide whether 03/04/24 is in March or April: 03/14/24 in the same log shows that the month
is first. The logs of Spark and Hadoop have the year first: 24/06/11. If no date decides, the messages have no time,
because a wrong time is worse than none; their text then begins with the date. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from itertools import pairwise

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.times import read_time

_DATE = r"\d{4}(?:-\d\d?-|/\d\d?/|\. ?\d\d?\. ?)\d\d?\.?|\d{1,2}(?:-\d{1,2}-|/\d{1,2}/|\. ?\d{1,2}\. ?)(?:\d{4}|\d\d)"
"""A date: "2024-06-11", "11.06.24", "11. 6. 2024", "6/11/24"."""
_TIME = r"(?P<time>\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\b\.?)?"
"""A time of day: "19:15", "19:15:02,500", "7:15 p.m."; `half` is the first letter of am or pm."""
_DOTTED = r"(?P<dotted>\d\d?\.\d\d(?:\.\d\d)?)(?=\]|\s-\s)"
"""A time of day with dots, only before "]" or " - ": in "01/05/2024 12.50 Coffee" the number is a price."""
_AT = r"(?:um|at|à|às|kl[.o]?)\s"
"""A word between date and time in German, English, French, Portuguese and Scandinavian languages."""
_STAMP = rf"\u200e?\[?(?P<date>{_DATE})(?:,?\s|T)\s*(?:{_AT})?(?:{_TIME}|{_DOTTED})(?:\sUhr)?"
"""A date and a time, with or without brackets. Some messengers put the invisible mark U+200E before it."""
DATED = re.compile(rf"^{_STAMP}(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s+-)?\s+(?:(?P<who>[^:\n]{{1,40}}): )?", re.MULTILINE)
"""The beginning of a message with a time: `[11.06.24, 19:15] Mira: `; `who` is None in a line without a speaker."""
UNDATED = re.compile(r"^(?P<who>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
"""The beginning of a message without a time: `Mira: `."""
_LEVEL = re.compile(r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""The level that follows the time in a line of a program's log."""
CHARACTERS_LOOKED_AT = 20_000
"""Number of characters at the beginning of a text that decide whether it is a chat log."""
LINES_LOOKED_AT = 50
"""Number of non-blank lines at the beginning of a text that decide whether it is a chat log."""
DATED_SHARE = 0.5
"""In a chat log with times, more than this share of these lines begin a message; a message may have several lines."""
UNDATED_SHARE = 0.9
"""In a chat log without times, at least this share of these lines begin a message."""
LAST_CENTURY_FROM = 69
"""The first two-digit year of the 1900s, as in queries and in `strptime`: "69" is 1969, "68" is 2068."""
UNDATED_LINES_MIN = 4
"""Smallest number of lines that begin a message in a chat log without times: prose may have a line "Note: ..."."""
SENTENCES_SHARE = 0.4
"""If more than this share of lines are sentences, a text is a chat, not a list of records ("Name: Bob", "Phone: 1")."""
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)]*\s*$|(?:\S+\s+){9}")
"""A line that ends like a sentence, or has ten words."""


def message_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern with which the messages of a text begin, `DATED` or `UNDATED`; None: the text is no chat log.

    A text without times is a chat log only if it has two speakers or more, one of whom speaks at least twice, and if it
    is no list of records (`_is_list`).
    """
    lines = [line for line in text[:CHARACTERS_LOOKED_AT].splitlines() if line.strip()][:LINES_LOOKED_AT]
    if sum(1 for line in lines if DATED.match(line)) > DATED_SHARE * len(lines):
        return DATED
    speakers = [match["who"] for line in lines if (match := UNDATED.match(line))]
    is_dialogue = 2 <= len(set(speakers)) < len(speakers)
    has_enough = len(speakers) >= max(UNDATED_LINES_MIN, UNDATED_SHARE * len(lines))
    return UNDATED if is_dialogue and has_enough and not _is_list(speakers, lines) else None


def _is_list(keys: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether lines "Key: value" are records, not messages: few lines are sentences, and the keys repeat in one order.

    A record may lack any key except the first.
    """
    place_of = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    places = [place_of[key] for key in keys]
    in_order = all(one < following or (following == 0 and one > 0) for one, following in pairwise(places))
    return in_order and sum(1 for line in lines if _SENTENCE.search(line)) <= SENTENCES_SHARE * len(lines)


def messages(text: str, pattern: re.Pattern[str]) -> Iterator[Passage]:
    """Yield one passage for each message, or several for a long message; before them, the text above all messages.

    A dated line without a speaker, such as "Mira joined the group", is a message whose passage has no "speaker".
    """
    beginnings = list(pattern.finditer(text))
    order = _order(beginnings) if pattern is DATED else None
    starts = [match.start() for match in beginnings]
    yield from (Passage(text[start:stop], start) for start, stop in spans(text[: starts[0]]))
    for match, end in zip(beginnings, [*starts[1:], len(text)], strict=True):
        speaker = match["who"]
        when = _time_of(match, order) if pattern is DATED else None
        unread_date = pattern is DATED and when is None  # then the date stays in the text
        message_start = match.start() if unread_date else _content_start(match)
        message = text[message_start:end]
        for start, stop in spans(message):
            at = message_start + start
            metadata = {**({"speaker": speaker} if speaker else {}), **line_metadata(text, at)}
            yield Passage(message[start:stop], at, metadata, when, undated=unread_date)


def _order(beginnings: Sequence[re.Match[str]]) -> str | None:
    """The order of year, month and day in dates such as 03/04/24: "dmy", "mdy" or "ymd".

    None if no date decides, or if the dates contradict each other.
    """
    dates = [match["date"] for match in beginnings]
    triples = [[int(number) for number in re.split("[/-]", date)] for date in dates if re.match(r"\d\d?[/-]", date)]
    if not triples:
        return None
    firsts, seconds, lasts = (set(numbers) for numbers in zip(*triples, strict=True))
    if min(firsts) > 12 and max(lasts) <= 31 and _first_is_year(firsts, lasts, beginnings):
        return "ymd"
    day_is_first, day_is_second = max(firsts) > 12, max(seconds) > 12
    return None if day_is_first == day_is_second else "dmy" if day_is_first else "mdy"


def _first_is_year(firsts: Set[int], lasts: Set[int], beginnings: Sequence[re.Match[str]]) -> bool:
    """Whether the first numbers of dates are years and the last numbers days, where the reverse is possible, too.

    A log has fewer years than days, so the first numbers are years if they have fewer values. If all dates are equal,
    the year is first only in a program's log, whose messages begin with a level such as "INFO".
    """
    if len(firsts) == len(lasts) == 1:
        return all(_LEVEL.match(match.string, _content_start(match)) for match in beginnings)
    return len(firsts) < len(lasts)


def _content_start(match: re.Match[str]) -> int:
    """Index of the first character of a message after its time: the start of the speaker's name or of the text."""
    return match.end() if match["who"] is None else match.start("who")


def _time_of(match: re.Match[str], order: str | None) -> datetime | None:
    """The time of a message whose beginning `DATED` matched; None: no valid time, or an unknown order.

    A date that begins with four digits begins with the year, a date with dots with the day. `order` is that of other
    dates (see `_order`).
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
    half = f"{match['half']}m" if match["half"] else ""
    return read_time(f"{year:04}-{number['m']:02}-{number['d']:02} {time}{half}{match['zone'] or ''}")
