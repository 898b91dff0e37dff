"""Chunks of one source that follow each other become one text, in which an overlap stands once.

Where chunks carry their character offset in the source, and the texts agree with it, the seam is exact. Otherwise
chunks at consecutive positions are joined, and a verbatim overlap, as splitters make it, is found by comparing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from umi_common.context.parts import SourceKey, Span
from umi_common.context.pieces import Piece

OVERLAP_MIN = 20
"""Characters; a shorter coincidence between the end of a chunk and the start of the next is no splitter's overlap."""
OVERLAP_MAX = 4_000
"""Characters; keeps comparing linear on hostile texts."""
GAP_MAX = 2
"""Characters, white space as a rule, that a splitter strips between two chunks."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Pieces that read as one text."""

    pieces: tuple[Piece, ...]
    """In the order of the source."""
    text: str
    spans: tuple[Span, ...]
    saved: int
    """Characters that stand once instead of twice."""


@dataclass(frozen=True, slots=True)
class Seam:
    """How a piece continues another: its text begins at `at` in the other's text, or behind it after `joiner`."""

    at: int
    joiner: str = ""


def near(one: Piece, other: Piece) -> bool:
    """Whether two pieces of one source can touch: a quick look before `seam`."""
    if one.offset is not None and other.offset is not None:
        ends = min(one.offset + len(one.text), other.offset + len(other.text))
        return max(one.offset, other.offset) - ends <= GAP_MAX
    return (
        one.chunk.position is not None
        and other.chunk.position is not None
        and abs(one.chunk.position - other.chunk.position) == 1
    )


def seam(first: Piece, second: Piece, joiner: str) -> Seam | None:
    """How `second` continues `first`, both of one source, `first` earlier; None: they do not touch."""
    if first.kind != second.kind or first.chunk.source is None or first.chunk.source != second.chunk.source:
        return None
    text = first.text
    if first.offset is not None and second.offset is not None:
        at = second.offset - first.offset
        gap = at - len(text)
        if gap > GAP_MAX:
            return None
        if gap > 0:
            # As many characters as were stripped, so that offsets keep meaning the same places.
            return None if first.trimmed else Seam(at, " " if gap == 1 else "\n" * gap)
        if at >= 0 and _agree(text[at:], second.text):
            return Seam(at)
    if first.trimmed or first.chunk.position is None or second.chunk.position != first.chunk.position + 1:
        return None
    overlap = _overlap(text, second.text)
    return Seam(len(text) - overlap) if overlap else Seam(len(text) + len(joiner), joiner)


def stitched(pieces: Iterable[Piece], joiner: str) -> list[Stretch]:
    """Pieces as stretches, sources in the order of their first piece, inside a source as it was written."""
    by_source: dict[SourceKey, list[Piece]] = {}
    for piece in pieces:
        by_source.setdefault(piece.source, []).append(piece)
    stretches: list[Stretch] = []
    for group in by_source.values():
        run: _Run | None = None
        for piece in in_source_order(group):
            if run is None or not run.takes(piece, joiner):
                if run is not None:
                    stretches.append(run.stretch())
                run = _Run(piece)
        if run is not None:
            stretches.append(run.stretch())
    return stretches


def in_source_order(pieces: Sequence[Piece]) -> list[Piece]:
    """By character offset where all have one, else by position; a chunk before those that it contains."""
    if all(piece.offset is not None for piece in pieces):
        return sorted(pieces, key=lambda p: (p.offset or 0, -len(p.text), p.chunk.id))
    return sorted(pieces, key=lambda p: (p.chunk.position is None, p.chunk.position or 0, p.chunk.id))


class _Run:
    """A stretch in the making. `tail` is the piece that reaches to the end of the text."""

    def __init__(self, first: Piece) -> None:
        self.text = ""
        self.pieces: list[Piece] = []
        self.spans: list[Span] = []
        self.saved = 0
        self._put(first, 0)

    def takes(self, piece: Piece, joiner: str) -> bool:
        """Add the piece if it continues the tail; whether it did."""
        found = seam(self.tail, piece, joiner)
        if found is None:
            return False
        self.text += found.joiner
        self._put(piece, self.tail_at + found.at)
        return True

    def stretch(self) -> Stretch:
        return Stretch(tuple(self.pieces), self.text, tuple(self.spans), self.saved)

    def _put(self, piece: Piece, at: int) -> None:
        shown = piece.text
        overlap = len(self.text) - at
        in_source = None if piece.offset is None else (piece.offset, piece.offset + len(shown))
        self.pieces.append(piece)
        self.spans.append(Span(piece.chunk.id, 0, len(shown), at, in_source))
        self.saved += min(overlap, len(shown))
        if len(shown) >= overlap:
            self.text += shown[overlap:]
            self.tail, self.tail_at = piece, at


def _agree(tail: str, text: str) -> bool:
    """Whether two texts are the same as far as both go."""
    return text.startswith(tail) if len(tail) <= len(text) else tail.startswith(text)


def _overlap(first: str, second: str) -> int:
    """Length of the longest end of `first` that begins `second`; 0 below OVERLAP_MIN."""
    if len(second) < OVERLAP_MIN:
        return 0
    start = second[:OVERLAP_MIN]
    at = first.find(start, max(0, len(first) - min(len(second), OVERLAP_MAX)))
    while at >= 0:
        if second.startswith(first[at:]):
            return len(first) - at
        at = first.find(start, at + 1)
    return 0
