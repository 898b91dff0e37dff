"""Make untrusted texts safe to show: control characters are replaced by their codes, HTML is escaped."""

from __future__ import annotations

import re
from html import escape

from umi_common.types import Chunk, SearchResult

SNIPPET_CHARACTERS = 160
"""Default length of a snippet, in characters."""
SECTION_CHARACTERS = 60
"""Largest number of characters of the metadata "section" of a chunk; a longer value is cut."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Matches a control character, such as a terminal escape, or a character that changes the direction of text."""


def visible(text: str) -> str:
    """The text with control characters and changes of direction replaced by their codes, such as ⟨U+202E⟩."""
    return _CONTROL.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """The text escaped for HTML, with control characters replaced as by `visible`."""
    return escape(visible(text))


def one_line(text: str) -> str:
    """The text in one line, with control characters replaced as by `visible`."""
    return visible(" ".join(text.split()))


def snippet(text: str, characters: int = SNIPPET_CHARACTERS) -> str:
    """The text in one line. A text longer than `characters` is cut after a word, and "…" is added."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[:characters]
    return (cut.rsplit(" ", 1)[0] if " " in cut[characters // 2 :] else cut) + " …"


def hit_count(result: SearchResult) -> str:
    """The number of hits in words: "1 hit", "3 hits"."""
    return "1 hit" if len(result) == 1 else f"{len(result)} hits"


def place(chunk: Chunk) -> list[str]:
    """Source, position, page, section and time of a chunk in words, as far as they are known.

    Source and position are left out if the chunk's id begins with the source, as "notes/house.md#3" does.
    """
    facts = []
    source = chunk.source
    in_id = source is not None and chunk.id.startswith(source) and not chunk.id[len(source) :][:1].isalnum()
    if source is not None and not in_id:
        facts.append(source)
        if chunk.position is not None:
            facts.append(f"position {chunk.position}")
    if "page" in chunk.metadata:
        facts.append(f"page {chunk.metadata['page']}")
    section = chunk.metadata.get("section")
    if isinstance(section, str):
        facts.append(snippet(section, SECTION_CHARACTERS))
    if chunk.event_time is not None:
        facts.append(f"{chunk.event_time:%d %b %Y %H:%M} UTC")
    return facts
