"""Chosen pieces to parts: stitched, put in reading order, numbered by source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from umi_common.context.budget import AssemblyPolicy
from umi_common.context.parts import ContextPart, SourceKey
from umi_common.context.pieces import Piece
from umi_common.context.stitch import Stretch, stitched
from umi_common.context.tokens.counter import Counter
from umi_common.types import Hit

NEVER = datetime.max.replace(tzinfo=timezone.utc)


def lay_out(pieces: Iterable[Piece], policy: AssemblyPolicy, counter: Counter) -> tuple[ContextPart, ...]:
    """The parts that these pieces make, in the policy's order; the order of `pieces` does not matter."""
    stretches = stitched(sorted(pieces, key=lambda piece: piece.place), policy.joiner)
    parts: list[ContextPart] = []
    numbers: dict[SourceKey, int] = {}
    for stretch in _ordered(stretches, policy.order):
        number = numbers.setdefault(stretch.pieces[0].source, len(numbers) + 1)
        parts.append(part_of(stretch, counter, number=number))
    return tuple(parts)


def part_of(stretch: Stretch, counter: Counter, *, number: int) -> ContextPart:
    """A stretch as the caller sees it; reason, score and arm are those of its best hit."""
    best = _best(stretch)
    arms = _arms(best.hit)
    return ContextPart(
        ids=tuple(piece.chunk.id for piece in stretch.pieces),
        source=best.chunk.source,
        spans=stretch.spans,
        kind=best.kind,
        text=stretch.text,
        reason=_reason(best, arms),
        score=best.hit.score,
        arm="+".join(arms),
        tokens=counter.count(stretch.text),
        number=number,
        date=_days(stretch.pieces),
        trimmed=any(piece.trimmed for piece in stretch.pieces),
    )


def _arms(hit: Hit) -> dict[str, int]:
    """The best rank in every arm that ranked the hit, best arm first."""
    ranks: dict[str, int] = {}
    for signal in hit.signals:
        if signal.rank is not None:
            ranks[signal.arm] = min(signal.rank, ranks.get(signal.arm, signal.rank))
    return dict(sorted(ranks.items(), key=lambda item: (item[1], item[0])))


def _reason(piece: Piece, arms: dict[str, int]) -> str:
    if piece.beside is not None:
        return f"beside {piece.beside}"
    return ", ".join([f"rank {piece.hit.rank}", *(f"{arm} rank {rank}" for arm, rank in arms.items())])


def _best(stretch: Stretch) -> Piece:
    return min(stretch.pieces, key=lambda piece: (piece.beside is not None, piece.place))


def _place(stretch: Stretch) -> int:
    return _best(stretch).place


def _ordered(stretches: Sequence[Stretch], order: str) -> list[Stretch]:
    """In reading order; `stretches` come source by source, inside a source as it was written."""
    if order == "source":
        first: dict[SourceKey, int] = {}
        for stretch in stretches:
            source = stretch.pieces[0].source
            first[source] = min(_place(stretch), first.get(source, _place(stretch)))
        return sorted(stretches, key=lambda stretch: first[stretch.pieces[0].source])
    if order == "chronological":
        return sorted(stretches, key=_moment)
    by_score = sorted(stretches, key=_place)
    return by_score if order == "score" else [*by_score[0::2], *by_score[1::2][::-1]]


def _moment(stretch: Stretch) -> tuple[datetime, str]:
    moments = [piece.chunk.event_time for piece in stretch.pieces if piece.chunk.event_time is not None]
    return (min(moments, default=NEVER), stretch.pieces[0].chunk.source or "")


def _days(pieces: Sequence[Piece]) -> str:
    days = sorted(p.chunk.event_time.date().isoformat() for p in pieces if p.chunk.event_time is not None)
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
