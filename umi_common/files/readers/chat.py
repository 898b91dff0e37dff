"""Read chat logs: `[2024-06-11 19:15] Mira: ...`, exports of messengers. Each message is a passage with its time.

A diary and a program's log, whose entries begin with a time and name no speaker, are read in the same way.

The other dates of the log decide whether 03/04/24 is in March or April: a number above 12 is a day or, in front,
a year, as in the logs of Spark and Hadoop. If no date is decisive, the messages have no time, since a wrong time is
worse than none; their text then begins with the date as the log states it. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.times import read_time

# A date and a time, in brackets or not; messengers put the invisible mark U+200E in front.
_DATE = r"\d{4}(?:-\d\d?-|/\d\d?/|\. ?\d\d?\. ?)\d\d?\.?|\d{1,2}(?:-\d{1,2}-|/\d{1,2}/|\. ?\d{1,2}\. ?)(?:\d{4}|\d\d)"
_TIME = r"(?P<time>\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\b\.?)?"
# A time with dots is one only before "]" or " - ": "01/05/2024 12.50 Coffee" is a sum of money.
_DOTTED = r"(?P<dotted>\d\d?\.\d\d(?:\.\d\d)?)(?=\]|\s-\s)"
_STAMP = rf"\u200e?\[?(?P<date>{_DATE})(?:,?\s|T)\s*(?:(?:um|at|à|às|kl[.o]?)\s)?(?:{_TIME}|{_DOTTED})(?:\sUhr)?"
DATED = re.compile(rf"^{_STAMP}(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s+-)?\s+(?:(?P<who>[^:\n]{{1,40}}): )?", re.MULTILINE)
"""The beginning of a message with a time: `[11.06.24, 19:15] Mira: `; `who` is None in a line without a speaker."""
UNDATED = re.compile(r"^(?P<who>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
"""The beginning of a message without a time: `Mira: `."""
_LEVEL = re.compile(r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""What follows the time in a line of a program's log."""
CHARACTERS_LOOKED_AT, LINES_LOOKED_AT = 20_000, 50
"""Number of first characters, and of non-blank lines in them, that decide whether a text is a chat log."""
DATED_SHARE, UNDATED_SHARE = 0.5, 0.9
"""Least share of these lines that begin a message; lower for dated messages, which may have several lines."""
UNDATED_LINES_MIN = 4
"""Fewest lines that begin a message in a log without times; prose, too, may hold a line such as "Note: ..."."""
SENTENCES_SHARE = 0.4
"""Largest share of lines that read as sentences in a list of records such as "Name: Bob", "Phone: 1", "Name: Ann"."""
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)]*\s*$|(?:\S+\s+){9}")
"""A line that ends like a sentence, or has ten words."""


def message_pattern(text: str) -> re.Pattern[str] | None:
    """`DATED` or `UNDATED`, by the beginnings of the first lines; None: the text is no chat log.

    A text without times is a chat log only if it has two speakers or more, of whom one speaks twice. It is a list of
    records, and no chat, if the words before the colons repeat in the same order and few lines are sentences.
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
    """Yield one passage for each message ("Mira: ..."), several for a long one; before them, the text above the first.

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
    """The order of the numbers in the dates with slashes or dashes: "dmy", "mdy" or, as in logs of Spark, "ymd".

    None: no date is decisive, or the dates contradict each other. First numbers above 12, with last ones of at
    most 31, are years if fewer distinct ones occur than last numbers: a log has fewer years than days. In a log of one
    day they are years if each message begins with a level ("INFO").
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
    """Index in the text of the first character after the time of a message."""
    return match.end() if match["who"] is None else match.start("who")


def _time_of(match: re.Match[str], order: str | None) -> datetime | None:
    """The time of a message; None: it is no time, or the order of day and month is not known."""
    date = match["date"]
    order = "ymd" if date[:4].isdigit() else "dmy" if "." in date else order
    if order is None:
        return None
    number = dict(zip(order, map(int, re.findall(r"\d+", date)), strict=True))
    year = number["y"] + 2000 if number["y"] < 100 else number["y"]
    time = match["time"] or match["dotted"].replace(".", ":")
    half = f"{match['half']}m" if match["half"] else ""
    return read_time(f"{year:04}-{number['m']:02}-{number['d']:02} {time}{half}{match['zone'] or ''}")
