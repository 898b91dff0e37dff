"""Which pieces go in: greedy, best first; what does not fit is skipped and the next one tried.

Costs are estimates from counts of single texts. `assemble` verifies the finished text with the real counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.costs import Addition, Costs
from umi_common.context.dedupe import Seen
from umi_common.context.format import Format
from umi_common.context.parts import ContextPart, Dropped, SourceKey
from umi_common.context.pieces import Piece
from umi_common.context.tokens.counter import Counter
from umi_common.context.trim import cut_to_fit


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
        self._budget, self._counter = budget, counter
        self._costs = Costs(counter, written, policy.joiner)
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
            open_to_it = piece.chunk.id not in ids and (piece.beside is None or piece.beside in ids)
            if open_to_it and self._consider(piece, limit):
                ids.add(piece.chunk.id)
        return len(self.chosen) - before

    def take(self, piece: Piece) -> None:
        """Choose a piece whatever it costs; `settle` accounts for it."""
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
        first = piece.source not in self._by_source
        total = self._budget.available - self._spent - self._costs.frame(piece, first=first)
        return min(total, self._source_room(piece), self._budget.per_chunk_max)

    def says(self, piece: Piece) -> Dropped | None:
        """Why this piece need not be shown: a chosen one says the same."""
        twin = self._seen.same_text(piece)
        if twin is not None:
            return Dropped(piece.chunk.id, "same text", twin)
        twin = self._seen.alike(piece)
        return None if twin is None else Dropped(piece.chunk.id, "near-duplicate", twin)

    def _consider(self, piece: Piece, limit: int) -> bool:
        """Take the piece, or note why not; whether it was taken."""
        total, source = limit - self._spent, self._source_room(piece)
        offer = self._offer(piece, total, source)
        if isinstance(offer, Dropped):
            self.refused[piece.chunk.id] = offer
            return False
        self._spent += offer.tokens
        self._spent_source[piece.source] = self._spent_source.get(piece.source, 0) + offer.tokens_of_text
        self.take(offer.piece)
        return True

    def _offer(self, piece: Piece, total: int, source: int) -> Addition | Dropped:
        """What taking the piece would cost, or why it is refused. Cheap bounds first: most of a long list end there."""
        id, cap, room = piece.chunk.id, self._budget.per_chunk_max, min(total, source)
        touching = self._by_source.get(piece.source, ())
        if room < cap and self._counter.surely_exceeds(self._costs.fresh(piece, touching).text, room):
            return Dropped(id, "total" if total < source else "source")
        piece = self._within_chunk_cap(piece)
        if not piece.text:
            return Dropped(id, "chunk")
        addition = self._costs.addition(piece, touching)
        if addition.tokens_of_text > source:
            return Dropped(id, "source")
        if addition.tokens > total:
            return Dropped(id, "total")
        twin = self.says(piece)
        return addition if twin is None else twin

    def _source_room(self, piece: Piece) -> int:
        return self._budget.per_source_max - self._spent_source.get(piece.source, 0)

    def _within_chunk_cap(self, piece: Piece) -> Piece:
        cap, counter, text = self._budget.per_chunk_max, self._counter, piece.chunk.text
        if not counter.surely_exceeds(text, cap) and counter.count(text) <= cap:
            return piece
        end = self._cuts.get(piece.chunk.id)
        if end is None:
            end = self._cuts[piece.chunk.id] = cut_to_fit(text, cap, counter.measure)
        return piece.cut(end)
