"""Read chat logs: `[2024-06-11 19:15] Mira: ...`, exports of messengers. Each message is a passage with its time.

A diary or a program's log is read in the same way: its entries begin with a time and name no speaker.

The other dates of the log decide whether 03/04/24 is in March or April: a number above 12 is a day or, if it comes
first, perhaps a year, as in the logs of Spark and Hadoop. If no date is decisive, the messages have no time, since a
wrong time is worse than none; their text then begins with the date as the log states it. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.times import read_time

# A date and a time, in brackets or not; messengers put the invisible mark U+200E in front of it.
_DATE = r"\d{4}(?:-\d\d?-|/\d\d?/|\. ?\d\d?\. ?)\d\d?\.?|\d{1,2}(?:-\d{1,2}-|/\d{1,2}/|\. ?\d{1,2}\. ?)(?:\d{4}|\d\d)"
_TIME = r"(?P<time>\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\b\.?)?"
# Numbers with dots are a time only before "]" or " - ": in "01/05/2024 12.50 Coffee" they are a sum of money.
_DOTTED = r"(?P<dotted>\d\d?\.\d\d(?:\.\d\d)?)(?=\]|\s-\s)"
_STAMP = rf"\u200e?\[?(?P<date>{_DATE})(?:,?\s|T)\s*(?:(?:um|at|à|às|kl[.o]?)\s)?(?:{_TIME}|{_DOTTED})(?:\sUhr)?"
DATED = re.compile(rf"^{_STAMP}(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s+-)?\s+(?:(?P<who>[^:\n]{{1,40}}): )?", re.MULTILINE)
"""The beginning of a message with a time: `[11.06.24, 19:15] Mira: `; `who` is None in a line without a speaker."""
UNDATED = re.compile(r"^(?P<who>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
"""The beginning of a message without a time: `Mira: `."""
_LEVEL = re.compile(r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""The level that follows the time in a line of a program's log."""
CHARACTERS_LOOKED_AT, LINES_LOOKED_AT = 20_000, 50
"""Whether a text is a chat log is decided by at most so many characters at its beginning, and so many non-blank lines
of these characters."""
DATED_SHARE, UNDATED_SHARE = 0.5, 0.9
"""Share of these lines that begin a message in a chat log: more than the first if messages have times, at least the
second if they have none. Dated messages may have several lines, so the first is lower."""
LAST_CENTURY_FROM = 70
"""The first two-digit year of the 1900s: "70" is 1970, "69" is 2069."""
UNDATED_LINES_MIN = 4
"""Fewest lines that begin a message in a chat log without times; prose, too, may hold a line such as "Note: ..."."""
SENTENCES_SHARE = 0.4
"""Largest share of lines that are sentences in a list of records such as "Name: Bob", "Phone: 1", "Name: Ann"."""
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)]*\s*$|(?:\S+\s+){9}")
"""A line that ends like a sentence, or has ten words."""


def message_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern with which the messages of a text begin, `DATED` or `UNDATED`; None: the text is no chat log.

    A text without times is a chat log only if it has two speakers or more, one of whom speaks at least twice. It is a
    list of records, and no chat, if the words before the colons repeat in the same order and few lines are sentences.
    """
    lines = [line for line in text[:CHARACTERS_LOOKED_AT].splitlines() if line.strip()][:LINES_LOOKED_AT]
    if sum(1 for line in lines if DATED.match(line)) > DATED_SHARE * len(lines):
        return DATED
    speakers = [match["who"] for line in lines if (match := UNDATED.match(line))]
    is_dialogue = 2 <= len(set(speakers)) < len(speakers)
    has_enough = len(speakers) >= max(UNDATED_LINES_MIN, UNDATED_SHARE * len(lines))
    return UNDATED if is_dialogue and has_enough and not _is_list(speakers, lines) else None


def _is_list(keys: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether lines "Key: value" are records, of which some may lack a key, and not messages."""
    order = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    in_order = all(order[one] < order[next_] or order[next_] == 0 < order[one] for one, next_ in pairwise(keys))
    return in_order and sum(1 for line in lines if _SENTENCE.search(line)) <= SENTENCES_SHARE * len(lines)


def messages(text: str, pattern: re.Pattern[str]) -> Iterator[Passage]:
    """Yield one passage for each message ("Mira: ..."), several for a long one; first, the text above all messages.

    A dated line without a speaker, such as "Mira joined the group", is a message whose passage has no "speaker".
    """
    beginnings = list(pattern.finditer(text))
    order = _order(beginnings) if pattern is DATED else None
    first, *ends = [*(match.start() for match in beginnings), len(text)]
    yield from (Passage(text[start:stop], start) for start, stop in spans(text[:first]))
    for match, end in zip(beginnings, ends, strict=True):
        speaker = match["who"]
        when = _time_of(match, order) if pattern is DATED else None
        undated = pattern is DATED and when is None
        message_start = match.start() if undated else _content_start(match)
        message = text[message_start:end]
        for start, stop in spans(message):
            at = message_start + start
            metadata = {**({"speaker": speaker} if speaker else {}), **line_metadata(text, at)}
            yield Passage(message[start:stop], at, metadata, when, undated)


def _order(beginnings: Sequence[re.Match[str]]) -> str | None:
    """The order of year, month and day in dates such as 03/04/24: "dmy", "mdy" or, as in logs of Spark, "ymd".

    None: no date is decisive, or the dates contradict each other. If all first numbers are above 12 and no last number
    is above 31, the first numbers are years if fewer distinct values occur among them than among the last numbers,
    since a log has fewer years than days. If all last numbers are equal, the first numbers are years only if there is
    one of them and each message begins with a level ("INFO").
    """
    dates = [match["date"] for match in beginnings]
    triples = [[int(number) for number in re.split("[/-]", date)] for date in dates if re.match(r"\d\d?[/-]", date)]
    if not triples:
        return None
    firsts, seconds, lasts = (set(numbers) for numbers in zip(*triples, strict=True))
    if min(firsts) > 12 and max(lasts) <= 31:
        is_log = len(lasts) == 1 and all(_LEVEL.match(match.string, _content_start(match)) for match in beginnings)
        if len(firsts) < len(lasts) + is_log:
            return "ymd"
    day_is_first, day_is_second = max(firsts) > 12, max(seconds) > 12
    return None if day_is_first == day_is_second else "dmy" if day_is_first else "mdy"


def _content_start(match: re.Match[str]) -> int:
    """Index in the text of the first character of a message after its time: where the speaker or the text begins."""
    return match.end() if match["who"] is None else match.start("who")


def _time_of(match: re.Match[str], order: str | None) -> datetime | None:
    """The time of a message whose beginning `DATED` matched.

    Args:
        order: From `_order`, for a date with slashes or dashes whose year is not written in four digits in front.

    Returns:
        None: The numbers are no date and time, or the order of day and month is not known.
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
