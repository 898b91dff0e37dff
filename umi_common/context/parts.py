"""What a caller gets: the text, its parts with their sources, and an account of what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

SourceKey = str | tuple[str]


class Span(NamedTuple):
    """A stretch of one chunk's text and where it stands: `part.text[at : at + end - start] == chunk.text[start:end]`.

    Spans of chunks that overlap in their source overlap in the part. What no span covers is a joiner.
    """

    id: str
    """The chunk."""
    start: int
    """First character shown, into the chunk's text."""
    end: int
    """One past the last."""
    at: int
    """Where it begins in the part's text."""
    in_source: tuple[int, int] | None = None
    """The same characters as [start, end) of the source, where the chunk knows its offset there."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One stretch of evidence: a chunk, or chunks of one source that follow each other."""

    ids: tuple[str, ...]
    """Chunks in it, in the order of the source."""
    source: str | None
    spans: tuple[Span, ...]
    """One for each id."""
    kind: str
    text: str
    """The evidence alone, as it stands in the source; a format may escape it and adds number and source."""
    reason: str
    """Why it is here, for the best of its chunks."""
    score: float
    """Of the best of its hits."""
    arm: str
    """Arms that ranked that hit, the best rank first, joined by "+"; "" where the hit does not say."""
    tokens: int
    """Of `text`."""
    number: int = 0
    """Its citation, from 1: parts of one source share it."""
    date: str = ""
    """Day, or first and last day, of its chunks; "" where they have no time."""
    trimmed: bool = False
    """Whether its last chunk was cut short."""

    @property
    def source_key(self) -> SourceKey:
        """What a source's cap counts together: its source, or its only chunk where it has none."""
        return (self.ids[0],) if self.source is None else self.source


@dataclass(frozen=True, slots=True)
class Dropped:
    """A hit that is not in the context."""

    id: str
    reason: str
    """"same text", "near-duplicate", "kind" (not asked for), or the cap without room: "total", "source", "chunk"."""
    by: str | None = None
    """The id of the chunk that says the same."""


@dataclass(frozen=True, slots=True)
class ContextStats:
    """The account of one assembly."""

    tokens: int
    """Of the whole text."""
    budget: int
    """Tokens it was allowed: max_total less the reserves."""
    sources: int
    """Different sources among the parts; chunks without one count each."""
    duplication_ratio: float
    """Characters not repeated because they are there already, as a share of all that was offered, 0..1."""
    coverage: Mapping[str, tuple[int, int]]
    """By kind: (hits shown, hits offered)."""
    dropped: tuple[Dropped, ...]
    """Best first."""
    counter: str
    """What counted the tokens."""
    approximate: bool
    """Whether it only estimates them."""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """Evidence that fits its budget. `str(context)` is the text; iterating gives the parts."""

    text: str
    parts: tuple[ContextPart, ...]
    """In the order in which they are shown."""
    stats: ContextStats = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def __iter__(self) -> Iterator[ContextPart]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def ids(self) -> list[str]:
        """Every chunk shown, part by part."""
        return [id for part in self.parts for id in part.ids]
