"""Choose pieces greedily, best first; a piece that does not fit is skipped.

The tokens of a context are estimated as the sum of the tokens of its parts. `assemble` counts the finished text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from umi_common.context.budget import AssemblyPolicy, ContextPart, Dropped, SourceKey, TokenBudget
from umi_common.context.format import Format
from umi_common.context.pieces import Piece
from umi_common.context.stitch import Stretch, in_source_order, near, part_from, seam
from umi_common.context.tokens.counter import Counter
from umi_common.context.trim import cut_to_fit

SAMPLE_TEXT = "x"
"""A part's text while the tokens around it are counted. Without a text, a tokenizer would count the space before it as
a token; with one, the space belongs to the word's token."""
SAME_TEXT = "same text"
"""Reason why a piece is dropped: another part shows the same text."""
SAMPLE_NUMBER = 99
"""A part's number while the tokens around its text are counted."""


class NewText(NamedTuple):
    """The characters of a piece that the chosen pieces do not show."""

    text: str
    """The characters, after the joiner if the piece continues a part."""
    joined: bool
    """Whether it continues a part."""


class Addition(NamedTuple):
    """A piece, and the tokens that it adds."""

    piece: Piece
    tokens: int
    """Tokens that it adds to the whole text."""
    tokens_of_text: int
    """Tokens that it adds to the text of its source."""


class Packing:
    """The pieces chosen so far, and the tokens left under each cap."""

    def __init__(self, budget: TokenBudget, policy: AssemblyPolicy, counter: Counter, format: Format) -> None:
        self.chosen: list[Piece] = []
        self.refused: dict[str, Dropped] = {}
        self._budget, self._counter, self._format, self._joiner = budget, counter, format, policy.joiner
        self._shown: dict[str, str] = {}
        self._spent = counter.count(format.text_around_parts())
        self._by_source: dict[SourceKey, list[Piece]] = {}
        self._spent_source: dict[SourceKey, int] = {}
        self._cuts: dict[str, int] = {}

    def fill(self, candidates: Iterable[Piece], *, share: int | None = None) -> int:
        """Choose the candidates that fit, in their order; returns how many.

        Args:
            candidates: A neighbour is skipped while its hit is not chosen.
            share: Largest number of tokens that they may add; None: as many as the budget allows.
        """
        before = len(self.chosen)
        limit = self._budget.available if share is None else min(self._budget.available, self._spent + share)
        ids = {piece.chunk.id for piece in self.chosen}
        for piece in candidates:
            allowed = piece.chunk.id not in ids and (piece.neighbour_of is None or piece.neighbour_of in ids)
            if allowed and self._try(piece, limit):
                ids.add(piece.chunk.id)
        return len(self.chosen) - before

    def take(self, piece: Piece) -> None:
        """Choose a piece; its tokens are not counted."""
        self.chosen.append(piece)
        self.refused.pop(piece.chunk.id, None)
        if piece.copy_of is None:
            self._shown.setdefault(piece.key, piece.chunk.id)
        self._by_source.setdefault(piece.source, []).append(piece)

    def replace_estimates(self, chosen: Sequence[Piece], parts: Sequence[ContextPart], tokens: int) -> None:
        """Replace the chosen pieces, and the estimates of their tokens, by those of a finished text."""
        self.chosen, self._shown, self._by_source, self._spent_source = [], {}, {}, {}
        for piece in chosen:
            self.take(piece)
        self._spent = tokens
        for part in parts:
            self._spent_source[part.source_key] = self._spent_source.get(part.source_key, 0) + part.tokens

    def room(self, piece: Piece) -> int:
        """Roughly how many tokens of this piece's text fit under all three caps."""
        first = piece.source not in self._by_source
        total = self._budget.available - self._spent - self._frame(piece, first=first)
        return min(total, self._source_room(piece), self._budget.per_chunk_max)

    def shown_by(self, piece: Piece) -> str | None:
        """The id of the chosen piece with the same text; None if there is none."""
        same = self._shown.get(piece.key)
        return None if same == piece.chunk.id else same

    def _try(self, piece: Piece, limit: int) -> bool:
        """Choose the piece, or record why not; returns whether it was chosen."""
        total, source = limit - self._spent, self._source_room(piece)
        addition = self._addition(piece, total, source)
        if isinstance(addition, Dropped):
            self.refused[piece.chunk.id] = addition
            return False
        self._spent += addition.tokens
        self._spent_source[piece.source] = self._spent_source.get(piece.source, 0) + addition.tokens_of_text
        self.take(addition.piece)
        return True

    def _addition(self, piece: Piece, total: int, source: int) -> Addition | Dropped:
        """The tokens that the piece adds, or why it is refused. Cheap bounds are tried first: they refuse most
        pieces."""
        id, cap, room = piece.chunk.id, self._budget.per_chunk_max, min(total, source)
        same = self.shown_by(piece)
        if same is not None:
            known = piece.source in self._by_source  # then only the id is added to the list of sources
            tokens = self._counter.count(self._format.as_shown(id)) if known else self._frame(piece, first=True)
            copy = Addition(replace(piece, copy_of=same), tokens, 0)
            return copy if tokens <= total and piece.neighbour_of is None else Dropped(id, SAME_TEXT, same)
        of_source = [other for other in self._by_source.get(piece.source, ()) if other.copy_of is None]
        if room < cap and self._counter.surely_exceeds(self._new_text(piece, of_source).text, room):
            return Dropped(id, "total" if total < source else "source")
        piece = self._within_chunk_cap(piece)
        if not piece.text:
            return Dropped(id, "chunk")
        text, joined = self._new_text(piece, of_source)
        frame = 0 if joined else self._frame(piece, first=not of_source)
        tokens, tokens_of_text = self._counter.count(self._format.as_shown(text)) + frame, self._counter.count(text)
        if tokens_of_text > source:
            return Dropped(id, "source")
        return Dropped(id, "total") if tokens > total else Addition(piece, tokens, tokens_of_text)

    def _source_room(self, piece: Piece) -> int:
        return self._budget.per_source_max - self._spent_source.get(piece.source, 0)

    def _within_chunk_cap(self, piece: Piece) -> Piece:
        cap, counter, text = self._budget.per_chunk_max, self._counter, piece.text
        if not counter.surely_exceeds(text, cap) and counter.count(text) <= cap:
            return piece
        end = self._cuts.get(piece.chunk.id)
        if end is None:
            end = self._cuts[piece.chunk.id] = cut_to_fit(text, cap, counter.measure)
        return piece.cut(end)

    def _new_text(self, piece: Piece, of_source: Iterable[Piece]) -> NewText:
        """The characters of a piece that the chosen pieces of its source do not show."""
        text, joined = piece.text, False
        for other in of_source:
            if not near(other, piece):
                continue
            earlier, later = in_source_order([other, piece])
            found = seam(earlier, later, self._joiner)
            if found is None:
                continue
            joined = True
            shared = max(0, len(earlier.text) - found.later_start)
            text = text[: max(0, len(text) - shared)] if earlier is piece else found.joiner + text[shared:]
        return NewText(text, joined)

    def _frame(self, piece: Piece, *, first: bool) -> int:
        """Tokens that the format adds around the piece as a part of its own; `first`: the first part of its source."""
        part = part_from(Stretch((piece,), SAMPLE_TEXT, ()), self._counter, {piece.source: SAMPLE_NUMBER})
        return max(0, self._counter.count(self._format.text_of_part(part, first=first)) - part.tokens)
