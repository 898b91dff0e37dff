"""Pack hits into a context that stays within a token budget. Deterministic, no I/O.

A cap is a limit of the `TokenBudget`: tokens of the whole text, of one source or of one chunk. The finished text is
within every cap, as counted by the given token counter. The steps:

1. Choose pieces (hits and their neighbours) greedily by estimated tokens: first those of the kinds that have tokens of
   their own, then, unless the policy packs by density, the best hit, which is cut if it does not fit, then all others.
2. Count the finished text. Remove pieces, the last chosen first, until the text is within every cap.
3. Cut one piece that did not fit to the tokens that are left.
4. If tokens are still left, make cut pieces longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from umi_common.context.budget import (
    ASSEMBLY,
    AssembledContext,
    AssemblyPolicy,
    ContextPart,
    ContextStats,
    Dropped,
    TokenBudget,
    asked_assembly,
)
from umi_common.context.format import Format, cited_parts
from umi_common.context.pack import SAME_TEXT, Packing, PassageOf, Rendered
from umi_common.context.pieces import Piece, pieces_of, with_neighbours, with_questions
from umi_common.context.tokens.counter import counter_for
from umi_common.errors import BudgetError
from umi_common.types import Chunk, Hit

TRIM_MIN = 24
"""Smallest number of free tokens that steps 3 and 4 fill with an excerpt; a shorter one would not help a reader."""
ROUNDS = 3
"""Largest number of times that further pieces are chosen because the finished text has fewer tokens than estimated.
Each time the text is counted again, which is slow."""


def assemble(
    hits: Sequence[Hit],
    *,
    budget: TokenBudget | int,
    policy: AssemblyPolicy | None = None,
    counter: Any = None,
    around: Mapping[str, Sequence[Chunk]] | None = None,
    passage_of: PassageOf | None = None,
    layout: Format | None = None,
) -> AssembledContext:
    """The best hits that fit the budget, as one text with its sources.

    Args:
        hits: In any order; they are sorted by falling score, then rising rank, then rising id.
        budget: The caps. A plain number limits the whole text.
        policy: Order, format, neighbours; None: `AssemblyPolicy()`.
        counter: Any token counter that `counter_for` takes; None: the default of `counter_for`.
        around: By the id of a hit: consecutive chunks of the hit's source, the hit included. At most
            `policy.neighbours` chunks on each side of the hit also become candidates.
        passage_of: Returns the passage of a chunk around which the chunk is cut if it is too long, such as the answer
            to a query (`search.passages.assemble_for`). None: such a chunk is cut to its beginning.
        layout: Writes the parts, such as an adapter that adds metadata; None: the format that the policy names.

    Returns:
        The context. It has at least one part if any hit is of a kind in `policy.kinds`: if no such hit fits, one is
        cut.

    Raises:
        BudgetError: If not even one character of a hit fits, with the text that the format adds around it.
        InputError: If a score is not finite.
        ConfigError: If `budget` or `policy` is of another type, `counter` is no token counter, or it does not
            return whole numbers.
    """
    budget, policy = asked_assembly(ASSEMBLY, budget, policy)
    offered = pieces_of(hits, policy)
    pieces = [piece for piece in offered if policy.kinds is None or piece.kind in policy.kinds]
    packing = Packing(budget, policy, counter_for(counter), passage_of, layout)
    candidates = _in_packing_order(with_questions(with_neighbours(pieces, around or {}, policy)), packing)
    best = pieces[0] if pieces and policy.pack == "score" else None
    rendered = _packed(packing, candidates, best)
    if best is not None and rendered.pieces and all(shown.chunk.id != best.chunk.id for shown in rendered.pieces):
        alone = Packing(budget, policy, packing.counter, passage_of, layout)
        with suppress(BudgetError):  # not even one character of the best piece fits
            packing, rendered = alone, _one_hit_alone(alone, [best])
    if not rendered.pieces and pieces:
        rendered = _one_hit_alone(packing, candidates)
    if budget.per_chunk_max is None:
        rendered = _with_longer_cuts(packing, rendered)
    stats = _stats_of(offered, rendered, packing)
    return AssembledContext(rendered.text, rendered.parts, stats)


def _in_packing_order(pieces: Sequence[Piece], packing: Packing) -> list[Piece]:
    """The pieces in the order in which they are tried (`AssemblyPolicy.pack`)."""
    if packing.policy.pack == "score":
        return list(pieces)
    tokens = {piece.chunk.id: max(1, packing.counter.count(piece.chunk.text)) for piece in pieces}
    return sorted(pieces, key=lambda piece: (-piece.value / tokens[piece.chunk.id], piece.preference))


def _packed(packing: Packing, candidates: Sequence[Piece], best: Piece | None) -> Rendered:
    """The text after steps 1 to 3.

    Pieces of the kinds in `TokenBudget.kinds` are chosen first, then `best`, then all others, at last one cut piece.
    While the finished text has fewer tokens than estimated, further pieces are chosen, at most ROUNDS times.

    Args:
        best: It is cut if it does not fit. None: no piece is preferred.
    """
    for kind, share in packing.budget.kinds.items():
        packing.fill((piece for piece in candidates if piece.kind == kind), share=share)
    if best is not None and not packing.fill([best]):
        for room in _shrinking(packing.room(best)):  # `packing.room` is an estimate: try shorter cuts until one fits
            if packing.fill([packing.cut(best, room)]):
                break
    packing.fill(candidates)
    with_cut = _with_one_cut(packing, candidates)
    rendered = with_cut or packing.longest_prefix()
    for _ in range(ROUNDS):
        if not packing.adopt(rendered) or not packing.fill(candidates):
            break
        rendered = packing.longest_prefix()
    return rendered if with_cut else _with_one_cut(packing, candidates) or rendered


def _with_one_cut(packing: Packing, candidates: Sequence[Piece]) -> Rendered | None:
    """The text of the chosen pieces and of the best refused hit, cut to the tokens that are left.

    None if no hit was refused for lack of tokens, if fewer than TRIM_MIN tokens are left, or if the text exceeds a cap.
    """
    for piece in candidates:
        refused = packing.refused.get(piece.chunk.id)
        lacks_tokens = refused is not None and refused.reason in ("total", "source")
        room = packing.room(piece) if lacks_tokens and piece.neighbour_of is None else 0
        if room >= TRIM_MIN and packing.shown_by(piece) is None:
            cut = packing.cut(piece, room)
            return packing.render([*packing.chosen, cut]) if cut.text.strip() else None
    return None


def _with_longer_cuts(packing: Packing, rendered: Rendered) -> Rendered:
    """The text with longer cut pieces, as far as tokens are left; the best piece is extended first.

    Fewer than TRIM_MIN tokens are used only if they show the whole chunk.
    """
    for piece in sorted((each for each in rendered.pieces if each.trimmed), key=lambda each: each.preference):
        for room in _shrinking(packing.budget.available - rendered.tokens):
            tokens = packing.counter.measure(piece.text) + room
            if room < TRIM_MIN and packing.counter.surely_exceeds(piece.chunk.text, tokens):
                break
            longer = packing.cut(piece, tokens)
            if room < TRIM_MIN and longer.trimmed:
                break
            found = packing.render([longer if each is piece else each for each in rendered.pieces])
            if found is not None:
                rendered = found
                break
    return rendered


def _one_hit_alone(packing: Packing, candidates: Sequence[Piece]) -> Rendered:
    """The text of one hit alone: the best hit of which at least one character fits, cut to the tokens available.

    Raises:
        BudgetError: If no character of any hit fits.
    """
    budget = packing.budget
    for piece in candidates:
        for room in _shrinking(packing.room(piece)):
            cut = packing.cut(piece, room)
            found = packing.render([cut]) if cut.text.strip() else None
            if found is not None:
                return found
        text = piece.chunk.text
        found = packing.render([piece.cut(0, len(text) - len(text.lstrip()) + 1)])  # up to its first visible character
        if found is not None:
            return found
    caps = [
        f"{cap} per {what}" for what, cap in (("source", budget.per_source_max), ("chunk", budget.per_chunk_max)) if cap
    ]
    raise BudgetError(
        f"{', '.join([f'{budget.available} tokens', *caps])} cannot hold one character of any hit with the text that "
        f"the format adds, counted by {packing.counter.name}; raise the budget, or set citation='' and a shorter format"
    )


def _shrinking(room: int) -> Iterator[int]:
    """`room`, then three quarters of the previous number, rounded down, while it is at least 1."""
    while room >= 1:
        yield room
        room = room * 3 // 4


def _stats_of(offered: Sequence[Piece], rendered: Rendered, packing: Packing) -> ContextStats:
    """The statistics of an assembly; `offered` are the hits of all kinds, best first."""
    shown = [piece for piece in rendered.pieces if piece.copy_of is None]
    ids = {piece.chunk.id for piece in shown}
    copies = {piece.chunk.id: piece.copy_of for piece in rendered.pieces if piece.copy_of is not None}
    reasons = {**packing.refused, **{id: Dropped(id, SAME_TEXT, other) for id, other in copies.items()}}
    dropped = tuple(_dropped(piece, reasons, packing.policy, ids) for piece in offered if piece.chunk.id not in ids)
    repeated = {drop.id for drop in dropped if drop.reason == SAME_TEXT}
    overlaps = sum(len(piece.text) for piece in shown) - sum(map(_characters_shown, rendered.parts))
    left_out = sum(len(piece.chunk.text) for piece in offered if piece.chunk.id in repeated)
    characters = sum(len(piece.chunk.text) for piece in offered)
    kinds = [piece.kind for piece in offered]
    kinds_shown = [piece.kind for piece in offered if piece.chunk.id in ids]
    return ContextStats(
        tokens=rendered.tokens,
        budget=packing.budget.available,
        sources=len({cited.number for part in rendered.parts for cited in cited_parts(part)}),
        duplication_ratio=min(1.0, (overlaps + left_out) / characters) if characters else 0.0,
        coverage={kind: (kinds_shown.count(kind), kinds.count(kind)) for kind in sorted({*kinds})},
        dropped=dropped,
        counter=packing.counter.name,
        approximate=packing.counter.approximate,
    )


def _dropped(piece: Piece, refused: Mapping[str, Dropped], policy: AssemblyPolicy, shown: set[str]) -> Dropped:
    """The reason why a hit is not shown; `shown` are the ids of the chunks shown."""
    id = piece.chunk.id
    if policy.kinds is not None and piece.kind not in policy.kinds:
        return Dropped(id, "kind")
    reason = refused.get(id)
    # "same text" is the reason only if the other chunk with that text is shown.
    return reason if reason is not None and (reason.by is None or reason.by in shown) else Dropped(id, "total")


def _characters_shown(part: ContextPart) -> int:
    """Number of the part's characters that belong to at least one chunk."""
    covered, reach = 0, 0
    for span in sorted(part.spans, key=lambda span: span.at):
        end = span.at + span.end - span.start
        covered += max(0, end - max(reach, span.at))
        reach = max(reach, end)
    return covered
