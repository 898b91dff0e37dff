"""The account of an assembly: what is shown, what was said twice, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.context.parts import ContextPart, ContextStats, Dropped
from umi_common.context.pieces import Piece
from umi_common.context.tokens.counter import Counter

REPEATS = ("same text", "near-duplicate")


def stats_of(
    offered: Sequence[Piece],
    shown: Sequence[Piece],
    parts: Sequence[ContextPart],
    refused: Mapping[str, Dropped],
    tokens: int,
    budget: TokenBudget,
    policy: AssemblyPolicy,
    counter: Counter,
) -> ContextStats:
    """Everything that `ContextStats` states; `offered` are the hits of every kind, best first."""
    ids = {piece.chunk.id for piece in shown}
    dropped = tuple(_dropped(piece, refused, policy, ids) for piece in offered if piece.chunk.id not in ids)
    repeated = {drop.id for drop in dropped if drop.reason in REPEATS}
    once = sum(len(piece.text) for piece in shown) - sum(_covered(part) for part in parts)
    twice = sum(len(piece.chunk.text) for piece in offered if piece.chunk.id in repeated)
    characters = sum(len(piece.chunk.text) for piece in offered)
    return ContextStats(
        tokens=tokens,
        budget=budget.available,
        sources=len({part.number for part in parts}),
        duplication_ratio=min(1.0, (once + twice) / characters) if characters else 0.0,
        coverage=_coverage(offered, ids),
        dropped=dropped,
        counter=counter.name,
        approximate=counter.approximate,
    )


def _dropped(piece: Piece, refused: Mapping[str, Dropped], policy: AssemblyPolicy, shown: set[str]) -> Dropped:
    id = piece.chunk.id
    if policy.kinds is not None and piece.kind not in policy.kinds:
        return Dropped(id, "kind")
    reason = refused.get(id)
    # A twin that was taken back when the finished text was counted explains nothing.
    return reason if reason is not None and (reason.by is None or reason.by in shown) else Dropped(id, "total")


def _covered(part: ContextPart) -> int:
    """Characters of the part that some span covers."""
    covered, reach = 0, 0
    for span in sorted(part.spans, key=lambda span: span.at):
        end = span.at + span.end - span.start
        covered += max(0, end - max(reach, span.at))
        reach = max(reach, end)
    return covered


def _coverage(offered: Sequence[Piece], shown: set[str]) -> dict[str, tuple[int, int]]:
    coverage: dict[str, tuple[int, int]] = {}
    for piece in offered:
        inside, all_of_kind = coverage.get(piece.kind, (0, 0))
        coverage[piece.kind] = (inside + (piece.chunk.id in shown), all_of_kind + 1)
    return dict(sorted(coverage.items()))
