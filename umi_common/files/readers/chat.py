"""Read chat logs, such as `[2024-06-11 19:15] Mira: ...` in exports of messengers. Each message is a passage with a
time.

A diary or a program's log is read in the same way: its entries begin with a time, but a name before a colon, as in
"INFO server: started", is no speaker. The text of a message whose time is not known begins with its date.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from umi_common.files.readers.passages import Passage, line_metadata, spans
from umi_common.files.readers.stamps import LEVEL, STAMP, Beginning, is_most, stamped

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
