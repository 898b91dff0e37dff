"""Candidates for a context: chunks with what they are worth and how much of them is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from umi_common.context.budget import AssemblyPolicy
from umi_common.context.parts import SourceKey
from umi_common.errors import InputError
from umi_common.types import Chunk, Hit

NEIGHBOUR_SHARE = 0.5
"""A neighbour is worth this share of its hit, and this share again for every further step."""
STRONG = 0.5
"""Hits in the upper half of the scores bring their neighbours."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that competes for the budget, from its first character to `end`."""

    chunk: Chunk
    hit: Hit
    """The hit that it is, or that brought it along."""
    value: float
    """0..1 within one assembly: 1 the best hit, 0 the last."""
    place: int
    """From 0 in the order of preference; different for every piece of one assembly."""
    kind: str
    offset: int | None
    """Of the chunk's first character in its source."""
    end: int = -1
    """One past the last character shown; -1: all of it."""

    @property
    def beside(self) -> str | None:
        """The hit that brought it along; None: it is a hit itself."""
        return None if self.hit.chunk.id == self.chunk.id else self.hit.chunk.id

    @property
    def source(self) -> SourceKey:
        """What a source's cap counts together; a chunk without a source is one by itself."""
        return (self.chunk.id,) if self.chunk.source is None else self.chunk.source

    @property
    def text(self) -> str:
        """What is shown of the chunk."""
        return self.chunk.text if self.end < 0 else self.chunk.text[: self.end]

    @property
    def trimmed(self) -> bool:
        return self.end >= 0

    def cut(self, end: int) -> Piece:
        """The same chunk up to `end`."""
        return self if end >= len(self.chunk.text) else replace(self, end=end)


def pieces_of(hits: Sequence[Hit], policy: AssemblyPolicy) -> list[Piece]:
    """One piece a chunk, best first: score falling, then rank, then id rising; of an id given twice, the better.

    Raises:
        InputError: If a score is NaN or infinite.
    """
    best: dict[str, Hit] = {}
    for hit in hits:
        if not math.isfinite(hit.score):
            raise InputError(f"hit {hit.chunk.id!r}: score is {hit.score}; expected a finite number")
        known = best.get(hit.chunk.id)
        if known is None or _falling(hit) < _falling(known):
            best[hit.chunk.id] = hit
    ranked = sorted(best.values(), key=_falling)
    if not ranked:
        return []
    low, high = ranked[-1].score, ranked[0].score
    width = high - low
    values = [(hit.score - low) / width if 0 < width < math.inf else 1.0 for hit in ranked]
    return [_piece(hit.chunk, hit, values[place], place, policy) for place, hit in enumerate(ranked)]


def with_neighbours(
    pieces: Sequence[Piece], around: Mapping[str, Sequence[Chunk]], policy: AssemblyPolicy
) -> list[Piece]:
    """The pieces and, at the places that they are worth, the chunks beside the strong ones that are no hits themselves.

    value(neighbour) = max over strong hits h of value(h) * NEIGHBOUR_SHARE ** steps from h
    """
    if not policy.neighbours:
        return list(pieces)
    best: dict[str, Piece] = {piece.chunk.id: piece for piece in pieces}
    for piece in pieces:
        beside = around.get(piece.chunk.id, ())
        here = next((i for i, chunk in enumerate(beside) if chunk.id == piece.chunk.id), None)
        if here is None or piece.value < STRONG:
            continue
        for steps in range(1, policy.neighbours + 1):
            for i in (here - steps, here + steps):
                if 0 <= i < len(beside):
                    _offer(best, beside[i], piece, steps, policy)
    order = sorted(best.values(), key=lambda p: (-p.value, p.beside is not None, p.place, p.chunk.id))
    return [replace(piece, place=place) for place, piece in enumerate(order)]


def _offer(best: dict[str, Piece], chunk: Chunk, beside: Piece, steps: int, policy: AssemblyPolicy) -> None:
    """Put a neighbour among the best unless it is a hit, or worth more beside another hit."""
    value = beside.value * NEIGHBOUR_SHARE**steps
    known = best.get(chunk.id)
    if known is None or (known.beside is not None and known.value < value):
        best[chunk.id] = _piece(chunk, beside.hit, value, beside.place, policy)


def kind_of(chunk: Chunk, policy: AssemblyPolicy) -> str:
    """Its metadata under the policy's key, where that is a string; else "text"."""
    kind = chunk.metadata.get(policy.kind_key)
    return kind if isinstance(kind, str) and kind else "text"


def _falling(hit: Hit) -> tuple[float, int, str, str]:
    return (-hit.score, hit.rank, hit.chunk.id, hit.chunk.text)


def _piece(chunk: Chunk, hit: Hit, value: float, place: int, policy: AssemblyPolicy) -> Piece:
    return Piece(chunk, hit, value, place, kind_of(chunk, policy), _offset(chunk, policy.offset_keys))


def _offset(chunk: Chunk, keys: Sequence[str]) -> int | None:
    for key in keys:
        offset = chunk.metadata.get(key)
        if type(offset) is int and offset >= 0:
            return offset
    return None
