"""Make untrusted texts safe to show: control characters are replaced by their code, HTML is escaped."""

from __future__ import annotations

import re
from html import escape

from umi_common.types import Chunk, SearchResult

SNIPPET_CHARACTERS = 160
"""Default length of a snippet, in characters."""
SECTION_CHARACTERS = 60
"""Longer metadata "section" of a chunk is cut to this many characters."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Terminal escapes, other control characters, and characters that change the direction of the text after them."""


def visible(text: str) -> str:
    """The text with control characters and direction overrides replaced by their code, such as ⟨U+202E⟩."""
    return _CONTROL.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """The text escaped for HTML, with control characters replaced as by `visible`."""
    return escape(visible(text))


def one_line(text: str) -> str:
    """The text in one line, with control characters replaced as by `visible`."""
    return visible(" ".join(text.split()))


def snippet(text: str, characters: int = SNIPPET_CHARACTERS) -> str:
    """The text in one line; if it is longer than `characters`, cut after a word and followed by an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[:characters]
    return (cut.rsplit(" ", 1)[0] if " " in cut[characters // 2 :] else cut) + " …"


def hit_count(result: SearchResult) -> str:
    """The number of hits in words: "1 hit", "3 hits"."""
    return "1 hit" if len(result) == 1 else f"{len(result)} hits"


def place(chunk: Chunk) -> list[str]:
    """The known facts about the place of a chunk: source, position, page, section and time.

    Source and position are left out if the chunk's id begins with the source, such as `notes/house.md#3`.
    """
    facts = []
    source = chunk.source
    in_id = source is not None and chunk.id.startswith(source) and not chunk.id[len(source) :][:1].isalnum()
    if source is not None and not in_id:
        facts.append(source)
        facts += [] if chunk.position is None else [f"position {chunk.position}"]
    if "page" in chunk.metadata:
        facts.append(f"page {chunk.metadata['page']}")
    section = chunk.metadata.get("section")
    if isinstance(section, str):
        facts.append(snippet(section, SECTION_CHARACTERS))
    if chunk.event_time is not None:
        facts.append(f"{chunk.event_time:%d %b %Y %H:%M} UTC")
    return facts
