"""Read chat logs, such as `[2024-06-11 19:15] Mira: ...` in exports of messengers. Each message is a passage with a
time.

A diary or a program's log is read in the same way: its entries begin with a time, but a name before a colon, as in
"INFO server: started", is no speaker. The text of a message whose time is not known begins with its date.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.times import ZONES, read_time, year_number

_BLANK = r"[^\S\n]"
_MIDDLE = r"(?:-\d\d?-|/\d\d?/|\.[ ]?\d\d?\.[ ]?)"
"""The second number of a date, and the signs around it."""
_ZONE_NAMES = rf"(?:{'|'.join(name.upper() for name in ZONES if len(name) > 1)}|(?:[A-Z]|A[CEW]|NZ)[SD]T|MSK|HKT|SGT)"
"""Names of zones: those that `read_time` knows, and others, before which a time is not read."""
STAMP = re.compile(
    rf"""
    ^\u200e?\[?                                                # some messengers put the invisible mark U+200E first
    (?P<date>\d{{4}}{_MIDDLE}\d\d?\.?|\d\d?{_MIDDLE}(?:\d{{4}}|\d\d))     # 2024-06-11, 11.06.24, 11. 6. 2024, 6/11/24
    (?:,?{_BLANK}|T){_BLANK}*
    (?:(?:um|at|à|às|kl[.o]?){_BLANK})?                        # German, English, French, Portuguese, Scandinavian
    (?P<time>(?P<hour>\d\d?)(?:
        :\d\d(?::\d\d)?(?:[.,]\d+)?                            # 19:15, 19:15:02,500
        |\.\d\d(?:\.\d\d)?(?=\]|{_BLANK}-{_BLANK})             # 19.15; in "01/05/2024 12.50 Coffee" it is a price
    ))
    (?:{_BLANK}?(?P<half>[AaPp])\.?{_BLANK}?[Mm]\b\.?)?        # 7:15 p.m.
    (?:{_BLANK}Uhr)?
    (?:(?P<zone>Z|[+-]\d\d:?\d\d)                              # +02:00 directly behind the time
        |{_BLANK}(?P<far_zone>(?:[+-](?:0\d|1[0-4])(?:00|30|45)|(?:UTC|GMT)[+-]\d\d?(?::?\d\d)?|{_ZONE_NAMES})\b))?
    (?P<close>\]?(?:{_BLANK}+-)?)                              # the sign between time and text, "" in a diary
    (?:{_BLANK}+|$)
    (?:(?P<name>[^:\n\[]{{1,40}}):[ ])?                        # see Beginning.name
    """,
    re.MULTILINE | re.VERBOSE,
)
"""Matches the beginning of an entry: `[11.06.24, 19:15] Mira: `."""
LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b")
"""The level in a line of a program's log."""
DAYS_PER_YEAR_MIN = 3
"""In a chat whose dates may begin with the year or with the day, the year is first if there are at least this number of
times as many last numbers as first numbers. If there are fewer, but more last than first, the order is unknown."""


class Beginning(NamedTuple):
    """The beginning of an entry or a message."""

    start: int
    """Index of its first character: of the date or, in a chat without times, of the speaker's name."""
    content_start: int
    """Index of the first character after the time: of the name or of the text."""
    name: str | None
    """The text before the first colon of the line. None: this colon is missing or has no space behind it, or the text
    has more than 40 characters, a "[", or a word at its beginning that may be a part of the time, as "am"."""
    is_closed: bool = True
    """Whether a sign, "]" or " -", is between time and text, as mostly in a chat."""
    when: datetime | None = None
    """None: no valid time, or the order of the date or the zone is not known."""


def stamped(text: str) -> list[Beginning]:
    """The beginnings of the entries of a text that begin with a stamp, in order."""
    matches = list(STAMP.finditer(text))
    order, words = _order(matches), _groups_of_words(matches)
    found = []
    for match in matches:
        at = _content_start(match, words)
        name = match["name"] if match.start("name") == at else None
        found.append(Beginning(match.start(), at, name, bool(match["close"]), _time_of(match, at, order)))
    return found


def is_most(flags: Sequence[object]) -> bool:
    """Whether more than half of the flags are true."""
    return sum(map(bool, flags)) > len(flags) / 2


def _groups_of_words(matches: Sequence[re.Match[str]]) -> list[str]:
    """Those of the groups "half" and "far_zone" that are words of the text, as "am" in "08:00 am Bahnhof", because
    few entries have them, or because an hour above 12 shows that the text uses no am and pm."""
    has_24_hours = any(int(match["hour"]) > 12 for match in matches)
    return [
        group
        for group in ("half", "far_zone")
        if (group == "half" and has_24_hours) or not is_most([match[group] for match in matches])
    ]


def _content_start(match: re.Match[str], words: Iterable[str] = ()) -> int:
    """`Beginning.content_start`. A group in `words`, from `_groups_of_words`, begins the text, unless `close` is
    behind it."""
    word = next((group for group in words if match[group]), None)
    if word is not None and not match["close"]:
        return match.start(word)
    return match.end() if match["name"] is None else match.start("name")


def _order(matches: Sequence[re.Match[str]]) -> str | None:
    """The order of year, month and day in dates such as 03/04/24: "dmy", "mdy" or "ymd".

    None if no date decides, or if the dates contradict each other. If all dates can be read as "ymd" and as "dmy", the
    number of different first and last numbers decides, since a log has fewer years than days. In a program's log, whose
    messages begin with a level such as "INFO", the year is first if there are fewer first than last numbers, or one of
    each; in a chat, see DAYS_PER_YEAR_MIN.
    """
    dates = [match["date"] for match in matches]
    triples = [[int(number) for number in re.split("[/-]", date)] for date in dates if re.match(r"\d\d?[/-]", date)]
    if not triples:
        return None
    firsts, seconds, lasts = (set(numbers) for numbers in zip(*triples, strict=True))
    if min(firsts) > 12 and max(lasts) <= 31:
        is_program_log = all(LEVEL.match(match.string, _content_start(match)) for match in matches)
        if len(firsts) >= len(lasts) and not (is_program_log and len(firsts) == 1):
            return "dmy"
        return "ymd" if is_program_log or len(lasts) >= DAYS_PER_YEAR_MIN * len(firsts) else None
    day_is_first, day_is_second = max(firsts) > 12, max(seconds) > 12
    return None if day_is_first == day_is_second else "dmy" if day_is_first else "mdy"


def _time_of(match: re.Match[str], content_start: int, order: str | None) -> datetime | None:
    """The time of a stamp; None: no valid time, or an unknown order.

    `order` is that of dates which do not show their own: a date that begins with four digits begins with the year, a
    date with dots with the day. An am, pm or zone behind `content_start` is a part of the text.
    """
    date = match["date"]
    order = "ymd" if date[:4].isdigit() else "dmy" if "." in date else order
    if order is None:
        return None
    number = dict(zip(order, map(int, re.findall(r"\d+", date)), strict=True))
    year = year_number(f"{number['y']:02}")  # some programs write 2024 as 0024
    time = match["time"] if ":" in match["time"] else match["time"].replace(".", ":")
    half, zone, far_zone = (
        match[group] if match[group] and match.end(group) <= content_start else ""
        for group in ("half", "zone", "far_zone")
    )
    if half and int(match["hour"]) <= 12:
        time += f" {half}m"
    return read_time(f"{year:04}-{number['m']:02}-{number['d']:02} {time} {zone}{far_zone}")


SPEAKER = re.compile(r"^(?P<name>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
"""Matches the beginning of a message without a time: `Mira: `."""
CHARACTERS_LOOKED_AT = 20_000
"""Number of characters at the beginning of a text that decide whether it is a chat log."""
LINES_LOOKED_AT = 50
"""Number of non-blank lines at the beginning of a text that decide whether it is a chat log."""
UNDATED_SHARE = 0.9
"""In a chat log without times, at least this share of the lines that are looked at begin a message."""
UNDATED_LINES_MIN = 4
"""Smallest number of lines that begin a message in a chat log without times: prose may have a line "Note: ..."."""
SENTENCES_SHARE = 0.4
"""Largest share of lines that are sentences in a list of records ("Name: Bob", "Phone: 1"); a chat has more."""
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)]*\s*$|^\s*(?:\S+\s+){9}")
"""Matches a line that ends like a sentence, or has white space after nine words. Without the "^", the time would grow
with the square of the line's length."""
NAME_WORDS_MAX = 5
"""Largest number of words in the name of a speaker with one message; a telephone number may have five parts."""


def message_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern with which the messages of a text begin, `STAMP` or `SPEAKER`; None: the text is no chat log.

    In a chat log with times, more than half of the lines that are not indented begin a message; indented lines, as of a
    stack trace, continue one. A text without times is a chat log only if it has two speakers or more, one of whom
    speaks at least twice, and if it is no list of records (`_is_list`).
    """
    lines = [line for line in text[:CHARACTERS_LOOKED_AT].split("\n") if line.strip()][:LINES_LOOKED_AT]
    if is_most([STAMP.match(line) for line in lines if not line[0].isspace()]):
        return STAMP
    speakers = [match["name"] for line in lines if (match := SPEAKER.match(line))]
    is_dialogue = 2 <= len(set(speakers)) < len(speakers)
    has_enough = len(speakers) >= max(UNDATED_LINES_MIN, UNDATED_SHARE * len(lines))
    return SPEAKER if is_dialogue and has_enough and not _is_list(speakers, lines) else None


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

    A line with a time but without a speaker, such as "Mira joined the group", is a message whose passage has no
    "speaker".
    """
    if pattern is STAMP:
        beginnings = stamped(text)
        speakers = _speakers(beginnings)
    else:
        beginnings = [Beginning(match.start(), match.start(), match["name"]) for match in SPEAKER.finditer(text)]
        speakers = {beginning.name for beginning in beginnings}
    borders = [*(beginning.start for beginning in beginnings), len(text)]
    yield from (Passage(text[start:stop], start) for start, stop in spans(text[: borders[0]]))
    for beginning, end in zip(beginnings, borders[1:], strict=True):
        unread_date = pattern is STAMP and beginning.when is None
        keeps_date = unread_date or not text[beginning.content_start : end].strip()  # else it would be empty
        message_start = beginning.start if keeps_date else beginning.content_start
        speaker = {"speaker": beginning.name} if beginning.name in speakers else {}
        for start, stop in spans(text[message_start:end]):
            at = message_start + start
            metadata = {**speaker, **line_metadata(text, at)}
            yield Passage(text[at : message_start + stop], at, metadata, beginning.when, undated=unread_date)


def _speakers(entries: Sequence[Beginning]) -> set[str | None]:
    """The names before a colon that are names of speakers.

    A diary and a program's log have none: most of their entries have no sign between time and text, and half or more
    have no name. In 'Mira created group "Roof: money"' the colon ends no name. So the name of a speaker with one
    message has few words and no quotation mark.
    """
    counts = Counter(entry.name for entry in entries if entry.name and not LEVEL.search(entry.name))
    if not is_most([entry.is_closed for entry in entries]) and counts.total() <= len(entries) / 2:
        return set()
    return {
        name
        for name, count in counts.items()
        if count > 1 or (len(name.split()) <= NAME_WORDS_MAX and not re.search('["“„«]', name))
    }
