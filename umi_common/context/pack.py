"""Which pieces go in: greedy, best first; what does not fit is skipped and the next one tried.

Costs are estimates from counts of single texts. `assemble` verifies the finished text with the real counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.dedupe import Seen
from umi_common.context.format import Format
from umi_common.context.layout import part_of
from umi_common.context.parts import ContextPart, Dropped, SourceKey
from umi_common.context.pieces import Piece
from umi_common.context.stitch import Stretch, in_source_order, near, seam
from umi_common.context.tokens import Counter
from umi_common.context.trim import cut_to_fit

PROBE = "x"
"""Stands for a part's text while its frame is measured: tokenizers join the frame's last blank to a word."""
NUMBER = 99
"""Stands for a part's number then."""


class Packing:
    """The pieces chosen so far, and the room that is left under each cap.

    Args:
        vectors: (dim,) by chunk id, to tell near-duplicates; where there is none, words tell.
    """

    def __init__(
        self,
        budget: TokenBudget,
        policy: AssemblyPolicy,
        counter: Counter,
        written: Format,
        vectors: Mapping[str, Any] | None = None,
    ) -> None:
        self.chosen: list[Piece] = []
        self.refused: dict[str, Dropped] = {}
        self._budget, self._policy, self._counter, self._format = budget, policy, counter, written
        self._seen = Seen(cosine=policy.duplicate_cosine, words=policy.duplicate_words, vectors=vectors)
        self._spent = counter.count(written.fixed())
        self._by_source: dict[SourceKey, list[Piece]] = {}
        self._spent_source: dict[SourceKey, int] = {}
        self._cuts: dict[str, int] = {}

    def fill(self, candidates: Iterable[Piece], *, share: int | None = None) -> int:
        """Take the candidates that fit, in their order; `share`: stop short of so many further tokens. How many."""
        before = len(self.chosen)
        limit = self._budget.available if share is None else min(self._budget.available, self._spent + share)
        ids = {piece.chunk.id for piece in self.chosen}
        for piece in candidates:
            if piece.chunk.id not in ids and (piece.beside is None or piece.beside in ids):
                self._consider(piece, limit)
                if len(self.chosen) > len(ids):
                    ids.add(piece.chunk.id)
        return len(self.chosen) - before

    def take(self, piece: Piece) -> None:
        """Add a piece whatever it costs."""
        self.chosen.append(piece)
        self.refused.pop(piece.chunk.id, None)
        self._by_source.setdefault(piece.source, []).append(piece)
        self._seen.add(piece)

    def settle(self, chosen: Sequence[Piece], parts: Sequence[ContextPart], tokens: int) -> None:
        """Replace the estimates by what the finished text of `chosen` really has."""
        self.chosen = list(chosen)
        self._spent = tokens
        self._spent_source = dict.fromkeys(self._spent_source, 0)
        for part in parts:
            self._spent_source[part.source_key] = self._spent_source.get(part.source_key, 0) + part.tokens

    def room(self, piece: Piece) -> int:
        """Tokens of this piece's text that about fit: into the whole, its source and the cap of one chunk."""
        total = self._budget.available - self._spent - self._frame(piece)
        source = self._budget.per_source_max - self._spent_source.get(piece.source, 0)
        return min(total, source, self._budget.per_chunk_max)

    def says(self, piece: Piece) -> Dropped | None:
        """Why this piece need not be shown: a chosen one says the same."""
        twin = self._seen.same_text(piece)
        if twin is not None:
            return Dropped(piece.chunk.id, "same text", twin)
        twin = self._seen.alike(piece)
        return None if twin is None else Dropped(piece.chunk.id, "near-duplicate", twin)

    def _consider(self, piece: Piece, limit: int) -> None:
        refusal = self._refusal(piece, limit) or self.says(piece)
        if refusal is not None:
            self.refused[piece.chunk.id] = refusal
            return
        piece = self._within_chunk_cap(piece)
        addition = self._addition(piece)
        self._spent += self._tokens(addition, piece)
        self._spent_source[piece.source] = self._spent_source.get(piece.source, 0) + self._counter.count(addition.fresh)
        self.take(piece)

    def _refusal(self, piece: Piece, limit: int) -> Dropped | None:
        """Why there is no room for the piece. Cheap bounds first: most candidates of a long list end there."""
        id, total = piece.chunk.id, limit - self._spent
        source = self._budget.per_source_max - self._spent_source.get(piece.source, 0)
        addition = self._addition(piece)
        room = min(total, source)
        if room < self._budget.per_chunk_max and self._counter.surely_exceeds(addition.fresh, room):
            return Dropped(id, "total" if total < source else "source")
        within = self._within_chunk_cap(piece)
        if not within.text:
            return Dropped(id, "chunk")
        if within is not piece:
            addition = self._addition(within)
        if self._counter.count(addition.fresh) > source:
            return Dropped(id, "source")
        return Dropped(id, "total") if self._tokens(addition, piece) > total else None

    def _within_chunk_cap(self, piece: Piece) -> Piece:
        cap, counter, text = self._budget.per_chunk_max, self._counter, piece.chunk.text
        if not counter.surely_exceeds(text, cap) and counter.count(text) <= cap:
            return piece
        end = self._cuts.get(piece.chunk.id)
        if end is None:
            end = self._cuts[piece.chunk.id] = cut_to_fit(text, cap, counter.measure)
        return piece.cut(end)

    def _addition(self, piece: Piece) -> _Addition:
        """What the piece adds to the chosen ones of its source that it touches."""
        fresh, joined = piece.text, False
        for other in self._by_source.get(piece.source, ()):
            if not near(other, piece):
                continue
            first, second = in_source_order([other, piece])
            found = seam(first, second, self._policy.joiner)
            if found is not None:
                joined = True
                shared = max(0, len(first.text) - found.at)
                fresh = fresh[: max(0, len(fresh) - shared)] if first is piece else found.joiner + fresh[shared:]
        return _Addition(fresh, joined)

    def _tokens(self, addition: _Addition, piece: Piece) -> int:
        text = self._counter.count(self._format.evidence(addition.fresh))
        return text if addition.joined else text + self._frame(piece)

    def _frame(self, piece: Piece) -> int:
        """Tokens that a part of its own adds around the piece's text."""
        probe = Stretch((piece,), PROBE, (), 0)
        part = part_of(probe, self._counter, number=NUMBER)
        written = self._format.written(part, first=piece.source not in self._by_source)
        return max(0, self._counter.count(written) - part.tokens)


class _Addition(NamedTuple):
    fresh: str
    """The characters that are not there yet, joiner included."""
    joined: bool
    """Whether they continue a part that is there."""
