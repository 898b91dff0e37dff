"""What a piece would add to a context, in tokens, estimated from counts of single texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from umi_common.context.format import Format
from umi_common.context.layout import part_of
from umi_common.context.pieces import Piece
from umi_common.context.stitch import Stretch, in_source_order, near, seam
from umi_common.context.tokens.counter import Counter

PROBE = "x"
"""Stands for a part's text while its frame is counted: tokenizers join the frame's last blank to a word."""
NUMBER = 99
"""Stands for a part's number then."""


class Fresh(NamedTuple):
    """The part of a piece that is not there yet."""

    text: str
    """With the joiner, where it continues a part."""
    joined: bool
    """Whether it continues a part."""


class Addition(NamedTuple):
    """What a piece adds."""

    piece: Piece
    tokens: int
    """To the whole."""
    tokens_of_text: int
    """To its source."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Estimates under one counter and format."""

    counter: Counter
    format: Format
    joiner: str

    def addition(self, piece: Piece, touching: Iterable[Piece]) -> Addition:
        """The cost of a piece beside the chosen ones of its source."""
        chosen = list(touching)
        text, joined = self.fresh(piece, chosen)
        tokens = self.counter.count(self.format.evidence(text))
        frame = 0 if joined else self.frame(piece, first=not chosen)
        return Addition(piece, tokens + frame, self.counter.count(text))

    def fresh(self, piece: Piece, touching: Iterable[Piece]) -> Fresh:
        """What of a piece the chosen ones of its source do not show."""
        text, joined = piece.text, False
        for other in touching:
            if not near(other, piece):
                continue
            earlier, later = in_source_order([other, piece])
            found = seam(earlier, later, self.joiner)
            if found is None:
                continue
            joined = True
            shared = max(0, len(earlier.text) - found.at)
            text = text[: max(0, len(text) - shared)] if earlier is piece else found.joiner + text[shared:]
        return Fresh(text, joined)

    def frame(self, piece: Piece, *, first: bool) -> int:
        """What a part of its own adds around the piece's text; `first`: the first part of its source."""
        part = part_of(Stretch((piece,), PROBE, (), 0), self.counter, number=NUMBER)
        return max(0, self.counter.count(self.format.written(part, first=first)) - part.tokens)
