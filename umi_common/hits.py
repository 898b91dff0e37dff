"""Hits from ranked rows: each chunk with everything that made its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from umi_common.pool import Floats, Ints, Pool
from umi_common.ranking.arms import ranks_at, ranks_of
from umi_common.shape import Ranked
from umi_common.types import Chunk, Hit, Signal

Number = TypeVar("Number", int, float)


def hits_of(pool: Pool, ranked: Ranked, chunks: Mapping[str, Chunk], limit: int) -> tuple[Hit, ...]:
    """The best `limit` of the ranked rows whose chunks are there, best first."""
    ids = [pool.ids[row] for row in ranked.order.tolist()]
    rows = ranked.order[[place for place, id in enumerate(ids) if id in chunks][:limit]]
    shown = [chunks[id] for id in ids if id in chunks][:limit]
    stages = _by_row({name: scores[rows].tolist() for name, scores in ranked.stages.items()}, len(rows))
    ranks = _by_row({name: ranks_at(scores, rows).tolist() for name, scores in ranked.stages.items()}, len(rows))
    each_hit = zip(shown, ranked.scores[rows].tolist(), _signals(pool, rows), stages, ranks, strict=True)
    return tuple(
        [
            Hit(chunk, score, place, signals, stage_scores, stage_ranks)
            for place, (chunk, score, signals, stage_scores, stage_ranks) in enumerate(each_hit, 1)
        ]
    )


def _by_row(columns: Mapping[str, Sequence[Number]], count: int) -> list[dict[str, Number]]:
    """Columns of `count` values as a dict for each row."""
    if not columns:
        return [{} for _ in range(count)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _signals(pool: Pool, rows: Ints) -> Iterator[tuple[Signal, ...]]:
    """What each arm said of each row, arm by arm for the query and then for each of its variations."""
    columns = [
        [
            Signal(arm, variation, rank or None, score)
            for rank, score in zip(ranks[variation, rows].tolist(), scores[variation, rows].tolist(), strict=True)
        ]
        for variation in range(pool.variations)
        for arm, scores, ranks in _arms(pool)
    ]
    further = [_of_extra_arm(arm, scores, rows) for arm, scores in pool.extra.items()]
    for own in zip(*columns, *further, strict=True):
        yield tuple([signal for signal in own if signal is not None])


def _arms(pool: Pool) -> Sequence[tuple[str, Floats, Ints]]:
    """Those of the store that answered."""
    arms = ("lexical", pool.lexical, pool.lexical_rank), ("dense", pool.dense, pool.dense_rank)
    return {"text": arms[:1], "vector": arms[1:]}.get(pool.mode, arms)


def _of_extra_arm(arm: str, scores: Floats, rows: Ints) -> list[Signal | None]:
    """None where it did not find the row."""
    ranks = ranks_of(scores)[rows].tolist()
    return [
        Signal(arm, 0, rank, score) if rank else None for rank, score in zip(ranks, scores[rows].tolist(), strict=True)
    ]
