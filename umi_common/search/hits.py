"""Hits from ranked rows: each chunk with everything that made its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

from umi_common.making import Maker
from umi_common.pool import Floats, Ints, Pool
from umi_common.ranking.arms import ranks_at, ranks_of
from umi_common.search.rank import Ranked
from umi_common.taken import ids_at
from umi_common.types import Chunk, Hit, Signal

_made_hits, _made_signals = Maker(Hit), Maker(Signal)
Number = TypeVar("Number", int, float)


def hits_of(pool: Pool, ranked: Ranked, chunks: Mapping[str, Chunk], limit: int) -> tuple[Hit, ...]:
    """The best `limit` of the ranked rows whose chunks are there, best first."""
    rows, ids = ranked.order, ids_at(pool.ids, ranked.order)
    there = [place for place, id in enumerate(ids) if id in chunks][:limit]
    if len(there) < len(ids):
        rows, ids = rows[there], [ids[place] for place in there]
    stages = _by_row({name: scores[rows].tolist() for name, scores in ranked.stages.items()}, len(rows))
    ranks = _by_row({name: ranks_at(scores, rows) for name, scores in ranked.stages.items()}, len(rows))
    places = range(1, len(rows) + 1)
    shown = map(chunks.__getitem__, ids)
    scores = ranked.scores[rows].tolist()
    return tuple(_made_hits.many(shown, scores, places, _signals(pool, rows), stages, ranks))


def _by_row(columns: Mapping[str, Sequence[Number]], count: int) -> list[dict[str, Number]]:
    """Columns of `count` values as a dict for each row."""
    if not columns:
        return [{} for _ in range(count)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _signals(pool: Pool, rows: Ints) -> Iterator[tuple[Signal, ...]]:
    """What each arm said of each row, arm by arm for the query and then for each of its variations."""
    columns: list[list[Signal]] = []
    for variation in range(pool.variations):
        for arm, scores, ranks in _arms(pool):
            stated = [rank or None for rank in ranks[variation][rows].tolist()]
            stored = scores[variation][rows].tolist()
            columns.append(_made_signals.many(repeat(arm), repeat(variation), stated, stored))
    if not pool.extra:
        return zip(*columns, strict=True)
    further = [_of_extra_arm(arm, scores, rows) for arm, scores in pool.extra.items()]
    return (tuple([signal for signal in own if signal is not None]) for own in zip(*columns, *further, strict=True))


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
