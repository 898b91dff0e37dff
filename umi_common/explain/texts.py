"""Short forms of untrusted texts for people.

Safe in a terminal, because control characters are replaced: `visible` and `one_line`. Safe in HTML, too: `escaped`. Not
safe by themselves: `snippet` and `place`, whose results the caller passes to one of these functions.
"""

from __future__ import annotations

import re
from html import escape

from umi_common.types import Chunk

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Matches a character that is replaced: control characters except tab and line feed, the line and paragraph separators
(U+2028, U+2029), the characters that embed, override or isolate a direction of text, and the byte order mark (U+FEFF).
The marks U+061C, U+200E and U+200F stay, because Hebrew and Arabic texts use them."""


def visible(text: str) -> str:
    """The text with the characters of `_CONTROL` replaced by their codes, such as ⟨U+202E⟩; "\\r\\n" becomes "\\n"."""
    return _CONTROL.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """The text escaped for HTML, with control characters replaced as by `visible`."""
    return escape(visible(text))


def one_line(text: str) -> str:
    """The text in one line, with control characters replaced as by `visible`."""
    return visible(" ".join(text.split()))


def snippet(text: str, characters: int = 160) -> str:
    """The text in one line. A text longer than `characters` is cut, and " …" is added.

    The cut is after a word, but inside a word if otherwise less than half of `characters` would be left.
    """
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[:characters]
    return (cut.rsplit(" ", 1)[0] if " " in cut[characters // 2 :] else cut) + " …"


def with_count(count: int, noun: str) -> str:
    """A count in words: "1 file", "2 files", "1,200 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def place(chunk: Chunk) -> list[str]:
    """Source, position, page, section and time of a chunk in words; each that is unknown is left out.

    Source and position are also left out if the chunk's id is the source, or begins with it and goes on with neither a
    letter nor a digit, as "notes/house.md#3" does. A position is not shown without its source.
    """
    facts = []
    source = chunk.source
    in_id = source is not None and chunk.id.startswith(source) and not chunk.id[len(source) :][:1].isalnum()
    if source is not None and not in_id:
        facts.append(source)
        if chunk.position is not None:
            facts.append(f"position {chunk.position}")
    if "page" in chunk.metadata:
        last = f"–{chunk.metadata['last_page']}" if "last_page" in chunk.metadata else ""
        facts.append(f"page {chunk.metadata['page']}{last}")
    section = chunk.metadata.get("section")
    if isinstance(section, str):
        facts.append(snippet(section, 60))
    if chunk.event_time is not None:
        facts.append(f"{chunk.event_time:%d %b %Y %H:%M} UTC")
    return facts
