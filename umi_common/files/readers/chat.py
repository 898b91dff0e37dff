"""Chat logs: `[2024-06-11 19:15] Mira: ...` and exports of messengers. One passage a message, with its time.

The other dates of the log decide whether 03/04/24 is in March or April: a number above 12 is a day. If none decides,
the messages have no time, since a wrong time is worse than none. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import pairwise

from umi_common.files.readers.passages import PASSAGE_CHARACTERS, Passage, spans
from umi_common.framework_records import read_time

_DATE = r"\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.](?:\d{4}|\d\d)"
_STAMP = rf"\u200e?\[?(?P<date>{_DATE})(?:,?\s|T)\s*(?P<time>\d\d?:\d\d(?::\d\d)?(?:\.\d+)?\s?(?:[AaPp]\.?[Mm]\.?)?)"
DATED = re.compile(rf"^{_STAMP}(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s+-)?\s+(?:(?P<who>[^:\n]{{1,40}}): )?", re.MULTILINE)
UNDATED = re.compile(r"^(?P<who>[^\W\d_][^:\n/]{0,39}): (?=\S)", re.MULTILINE)
LINES_LOOKED_AT = 50
DATED_SHARE, UNDATED_SHARE = 0.5, 0.9
"""Share of the first lines that begin a message in a chat log; dated messages may continue over several lines."""
UNDATED_LINES_MIN = 4


def message_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern of a message's beginning in this text; None: it is no chat log."""
    lines = [line for line in text[:20_000].splitlines() if line.strip()][:LINES_LOOKED_AT]
    if sum(1 for line in lines if DATED.match(line)) > DATED_SHARE * len(lines):
        return DATED
    found = [match["who"] for line in lines if (match := UNDATED.match(line))]
    talking = len(Counter(found)) >= 2 and max(Counter(found).values()) >= 2
    enough = len(found) >= max(UNDATED_LINES_MIN, UNDATED_SHARE * len(lines))
    return UNDATED if talking and enough else None


def messages(text: str, pattern: re.Pattern[str], *, size: int = PASSAGE_CHARACTERS) -> Iterator[Passage]:
    """One passage a message ("Mira: ..."), long ones in several; lines without a speaker (joins) are left out."""
    begun = list(pattern.finditer(text))
    day_first = _day_first([match["date"] for match in begun]) if pattern is DATED else None
    borders = [match.start() for match in begun] + [len(text)]
    for match, (_, end) in zip(begun, pairwise(borders), strict=True):
        who = match["who"]
        if who is None:
            continue
        said = text[match.start("who") : end]
        when = _moment(match, day_first) if pattern is DATED else None
        for start, stop in spans(said, size=size):
            yield Passage(said[start:stop], match.start("who") + start, {"speaker": who}, when)


def _day_first(dates: Sequence[str]) -> bool | None:
    """Whether days come before months; None: not decidable. With dots the day always comes first."""
    pairs = [tuple(map(int, date.split("/")[:2])) for date in dates if "/" in date]
    days = any(first > 12 for first, _ in pairs)
    months = any(second > 12 for _, second in pairs)
    return None if days == months else days


def _moment(match: re.Match[str], day_first: bool | None) -> datetime | None:
    date, clock = match["date"], re.sub(r"[\s.]*([AaPp])\.?[Mm]\.?$", r" \1M", match["time"]).upper()
    if "-" not in date:
        if "/" in date and day_first is None:
            return None
        first, second, year = map(int, re.split("[/.]", date))
        day, month = (first, second) if "." in date or day_first else (second, first)
        date = f"{year + 2000 if year < 100 else year:04}-{month:02}-{day:02}"
    if clock.endswith("M"):
        clock = _on_24_hours(clock)
    return read_time(f"{date}T{clock.rjust(len(clock) + (clock[1] == ':'), '0')}{match['zone'] or ''}")


def _on_24_hours(clock: str) -> str:
    form = "%I:%M:%S %p" if clock.count(":") == 2 else "%I:%M %p"
    try:
        return datetime.strptime(clock, form).replace(tzinfo=timezone.utc).strftime("%H:%M:%S")
    except ValueError:
        return clock
