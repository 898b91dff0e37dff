"""Hits to a context that fits: deterministic, no I/O, never over a cap under the counter it is given.

Greedy packing works with estimates; then the finished text is counted, and pieces are taken back, last ones first,
until every cap holds. What is left over goes to one part that is cut to fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umi_common.context.account import stats_of
from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget
from umi_common.context.format import Format, format_of
from umi_common.context.layout import lay_out
from umi_common.context.pack import Packing
from umi_common.context.parts import ContextPart, Dropped, SourceKey
from umi_common.context.pieces import Piece, pieces_of, with_neighbours
from umi_common.context.tokens.counter import Counter, counter_for
from umi_common.context.trim import cut_to_fit
from umi_common.errors import BudgetError
from umi_common.types import Chunk, Hit

TRIM_MIN = 24
"""Tokens; less room than this is left empty rather than filled with the beginning of a chunk."""
ROUNDS = 3
"""How often room that the estimates overlooked is filled."""


def assemble(
    hits: Sequence[Hit],
    *,
    budget: TokenBudget,
    policy: AssemblyPolicy | None = None,
    counter: Any = None,
    around: Mapping[str, Sequence[Chunk]] | None = None,
    vectors: Mapping[str, Any] | None = None,
) -> AssembledContext:
    """The best of the hits that fit the budget, as one text with its sources.

    Args:
        hits: In any order; the score decides, ties fall to the better rank, then the smaller id.
        budget: Caps in tokens: the whole text, the text of one source, the text of one chunk.
        policy: Order, format, neighbours, duplicates; None: `AssemblyPolicy()`.
        counter: What counts tokens, as `counter_for` takes it; None: its default.
        around: For a hit's id, the chunks beside it in its source, in order, itself included; they may join it as far
            as `policy.neighbours` reaches.
        vectors: (dim,) by chunk id, to tell near-duplicates; words tell where there is none.

    Returns:
        At least one part if there is a hit of a wanted kind; cut short if need be.

    Raises:
        BudgetError: If the budget cannot hold a part's frame and one character of any hit.
        InputError: If a score is not finite.
        ConfigError: If the counter is none, or gives no whole numbers.
    """
    policy = AssemblyPolicy() if policy is None else policy
    offered = pieces_of(hits, policy)
    pieces = [piece for piece in offered if policy.kinds is None or piece.kind in policy.kinds]
    press = _Press(budget, policy, counter_for(counter), format_of(policy))
    packing = Packing(budget, policy, press.counter, press.format, vectors)
    candidates = _in_packing_order(with_neighbours(pieces, around or {}, policy), policy, press.counter)
    proof = _packed(packing, press, candidates)
    if not proof.pieces and pieces:
        proof = _forced(packing, press, candidates)
    stats = stats_of(offered, proof.pieces, proof.parts, packing.refused, proof.tokens, budget, policy, press.counter)
    return AssembledContext(proof.text, proof.parts, stats)


@dataclass(frozen=True, slots=True)
class _Proof:
    """A finished text that was counted."""

    pieces: tuple[Piece, ...] = ()
    parts: tuple[ContextPart, ...] = ()
    text: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Press:
    """Prints pieces and counts what came out."""

    budget: TokenBudget
    policy: AssemblyPolicy
    counter: Counter
    format: Format

    def proof(self, pieces: Sequence[Piece]) -> _Proof | None:
        """The finished text of these pieces; None if it breaks a cap."""
        parts = lay_out(pieces, self.policy, self.counter)
        by_source: dict[SourceKey, int] = {}
        for part in parts:
            by_source[part.source_key] = by_source.get(part.source_key, 0) + part.tokens
        if max(by_source.values(), default=0) > self.budget.per_source_max:
            return None
        if any(self.counter.count(piece.text) > self.budget.per_chunk_max for piece in pieces):
            return None
        text = self.format.render(parts)
        tokens = self.counter.measure(text)
        return _Proof(tuple(pieces), parts, text, tokens) if tokens <= self.budget.available else None

    def longest(self, pieces: Sequence[Piece]) -> _Proof:
        """The proof of the longest beginning of `pieces` that holds every cap, by bisection."""
        best = self.proof(pieces)
        if best is not None:
            return best
        best, fits, over = _Proof(), 0, len(pieces)
        while over - fits > 1:
            middle = (fits + over) // 2
            found = self.proof(pieces[:middle])
            if found is None:
                over = middle
            else:
                best, fits = found, middle
        return best


def _in_packing_order(pieces: Sequence[Piece], policy: AssemblyPolicy, counter: Counter) -> list[Piece]:
    if policy.pack == "score":
        return list(pieces)
    return sorted(pieces, key=lambda piece: (-piece.value / max(1, counter.count(piece.chunk.text)), piece.place))


def _packed(packing: Packing, press: _Press, candidates: Sequence[Piece]) -> _Proof:
    """Kinds with tokens of their own first, then all, then one cut; again while the real count leaves room for more."""
    for kind, share in press.budget.kinds.items():
        packing.fill((piece for piece in candidates if piece.kind == kind), share=share)
    packing.fill(candidates)
    proof = _with_one_cut(packing, press, candidates) or press.longest(packing.chosen)
    cut = len(proof.pieces) > len(packing.chosen)
    for _ in range(ROUNDS):
        if not _settled(packing, proof) or not packing.fill(candidates):
            break
        proof = press.longest(packing.chosen)
    return proof if cut else _with_one_cut(packing, press, candidates) or proof


def _settled(packing: Packing, proof: _Proof) -> bool:
    """Make the packing say what the proof says; False if pieces had to be taken back."""
    shown = {piece.chunk.id for piece in proof.pieces}
    returned = [piece for piece in packing.chosen if piece.chunk.id not in shown]
    for piece in returned:
        packing.refused[piece.chunk.id] = Dropped(piece.chunk.id, "total")
    for piece in proof.pieces[len(packing.chosen) :]:
        packing.take(piece)
    packing.settle(proof.pieces, proof.parts, proof.tokens)
    return not returned


def _with_one_cut(packing: Packing, press: _Press, candidates: Sequence[Piece]) -> _Proof | None:
    """What is chosen and the best hit that had no room, cut to what is left, if that is worth reading and holds."""
    for piece in candidates:
        refused = packing.refused.get(piece.chunk.id)
        if piece.beside is not None or refused is None or refused.reason not in ("total", "source"):
            continue
        room = packing.room(piece)
        if room >= TRIM_MIN and packing.says(piece) is None:
            cut = piece.cut(cut_to_fit(piece.chunk.text, room, press.counter.measure))
            return press.proof([*packing.chosen, cut]) if cut.text.strip() else None
    return None


def _forced(packing: Packing, press: _Press, candidates: Sequence[Piece]) -> _Proof:
    """One piece, as much of the best as will go in; where not a character of it will, of the next."""
    budget = press.budget
    for piece in candidates:
        for room in _shrinking(packing.room(piece)):
            cut = piece.cut(cut_to_fit(piece.chunk.text, room, press.counter.measure))
            found = press.proof([cut]) if cut.text.strip() else None
            if found is not None:
                return found
        text = piece.chunk.text
        found = press.proof([piece.cut(len(text) - len(text.lstrip()) + 1)])
        if found is not None:
            return found
    raise BudgetError(
        f"{budget.available} tokens (per source {budget.per_source_max}, per chunk {budget.per_chunk_max}) cannot hold "
        f"a part's frame and one character of any hit, counted by {press.counter.name}; raise the budget, or set "
        "citation='' and a shorter format"
    )


def _shrinking(room: int) -> Iterator[int]:
    while room >= 1:
        yield room
        room = room * 3 // 4
