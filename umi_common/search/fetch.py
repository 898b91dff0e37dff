"""Fetch the chunks of the best rows, and make hits of them: each chunk with everything that made its score."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TypeVar

import numpy as np

from umi_common.context.budget import AssemblyPolicy
from umi_common.errors import StoreUnavailable
from umi_common.filters import Filter
from umi_common.pool import Floats, Ints, Pool
from umi_common.protocols import Store, chunk_passes
from umi_common.ranking.duplicates import FOLDED, DuplicateFinder, group_of
from umi_common.ranking.fusion import falling_ranks
from umi_common.ranking.references import referring
from umi_common.runtime.calls import Body, Call, CallFailure, CallOutcome, value_of
from umi_common.runtime.losses import log_bug, log_once
from umi_common.search.rank import RankedPool
from umi_common.search.recall import Components, Recalled, ask_chunks
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk, Degradation, Hit, Signal, TimeRange

Number = TypeVar("Number", int, float)


def fetch(
    components: Components,
    request: SearchRequest,
    recalled: Recalled,
    ranked: RankedPool,
    trace: TraceBuilder,
    *,
    wanted: int,
) -> Body[tuple[dict[str, Chunk], RankedPool]]:
    """The chunks of the best rows by id, and the order of these rows.

    A row is left out if its chunk was removed after it was scored, if the chunk now fails the filter, or if it
    repeats a better one and duplicates are left out. The next best row is taken instead.

    Args:
        wanted: Largest number of chunks to return; fewer are returned if the rows run out.
    """
    pool, order = recalled.pool, ranked.order
    duplicates = components.config.duplicates
    finder = DuplicateFinder(duplicates) if duplicates.enabled else None
    row_of: dict[str, int] = {}
    chunks: dict[str, Chunk] = {}
    suppressed = list(ranked.suppressed)
    asked = 0
    with trace.stage("fetch") as facts:
        while len(chunks) < wanted and asked < len(order):
            rows = order[asked : asked + wanted - len(chunks)]
            asked += len(rows)
            # Later rounds take the scored versions only: a newer version may come from a write after the first round,
            # and then the hits would mix two states of the store.
            (outcome,) = yield (_ask_versions(components.store, pool, rows, exact=bool(chunks)),)
            found = _found_or_last_read(components.store, pool, rows, outcome, trace)
            for row, id, stored in zip(rows.tolist(), pool.ids_at(rows), found, strict=True):
                chunk = stored or recalled.chunks_not_in_store.get(id)
                if chunk is None or not request.passes(chunk):
                    continue
                row_of[id] = row
                duplicate = finder and finder.add(id, chunk.text, pool.vectors[row], group_of(chunk))
                if duplicate:
                    suppressed.append((row, duplicate.reason, row_of[duplicate.id]))
                else:
                    chunks[id] = chunk
        if finder is not None:
            facts["folded"] = len(row_of) - len(chunks)
    kept = np.array([row_of[id] for id in chunks], dtype=np.int64)
    return chunks, replace(ranked, order=kept, suppressed=tuple(suppressed))


def _ask_versions(store: Store, pool: Pool, rows: Ints, *, exact: bool) -> Call:
    """The chunks of some rows, aligned; from a store that keeps versions, the versions that were scored.

    Args:
        exact: For a chunk that was replaced after it was scored, True gives None, False the newer version.
    """
    ids = pool.ids_at(rows)
    get_versions: Callable[..., list[Chunk | None]] | None = getattr(store, "get_versions", None)
    if get_versions is None or not pool.version.any():
        return ask_chunks(store, ids)
    pairs = list(zip(ids, pool.version[rows].tolist(), strict=True))
    return Call.batched(
        ("get versions", id(store), exact),
        pairs,
        lambda some: get_versions(*zip(*some, strict=True), exact=exact),
        operator.getitem,
    )


def _found_or_last_read(
    store: Store, pool: Pool, rows: Ints, outcome: CallOutcome, trace: TraceBuilder
) -> Sequence[Chunk | None]:
    """The chunks of `outcome`. On StoreUnavailable, of a store with `last_read`: the chunks as they were last read, and
    a degradation in the trace. Other errors are raised."""
    last_read: Callable[[Sequence[str]], list[Chunk | None]] | None = getattr(store, "last_read", None)
    if last_read is None or not isinstance(outcome, CallFailure) or not isinstance(outcome.error, StoreUnavailable):
        chunks: Sequence[Chunk | None] = value_of(outcome)
        return chunks
    part = str(pool.facts.get("dense_engine", "store"))
    if not any(loss.part == part for loss in trace.degraded):
        trace.degrade(part, str(outcome.error), "showed the texts as they were last read")
    return last_read(pool.ids_at(rows))


def chunks_beside(
    store: Store, ids: Sequence[str], policy: AssemblyPolicy, where: Filter | None, window: TimeRange | None
) -> tuple[dict[str, list[Chunk]], tuple[Degradation, ...]]:
    """(neighbouring chunks by the id of the hit, degradations): at most `policy.neighbours` on each side.

    Args:
        store: If its `neighbours` raises, there are none, and a degradation says so.
        ids: Of the hits.
        policy: Assembly policy of the context.
        where, window: Filter and time range of the search; all chunks pass both.
    """
    if not policy.neighbours or not ids:
        return {}, ()
    try:
        found = store.neighbours(ids, reach=policy.neighbours, where=where)
    except Exception as error:  # noqa: BLE001 - the context is packed without neighbours
        log_bug("neighbours", error)
        lost = (Degradation("neighbours", type(error).__name__, "packed without the chunks beside hits"),)
        log_once(lost)
        return {}, lost
    return {id: [chunk for chunk in beside if chunk_passes(chunk, where, window)] for id, beside in found.items()}, ()


def to_hits(pool: Pool, ranked: RankedPool, chunks: Mapping[str, Chunk], limit: int) -> tuple[Hit, ...]:
    """Hits for the best `limit` rows, best first.

    A reranker or MMR may have changed the order. The relevances are then sorted, so that they fall with the rank: a hit
    may have the relevance of another row.
    """
    rows = ranked.order[:limit]
    ids = pool.ids_at(rows)
    scores = ranked.scores[rows].tolist()
    stages = _by_row({name: after[rows].tolist() for name, after in ranked.stages.items()}, len(rows))
    ranks = _by_row({name: falling_ranks(after)[rows].tolist() for name, after in ranked.stages.items()}, len(rows))
    folded: dict[int, list[str]] = {}
    for row, reason, by in ranked.suppressed:
        if by is not None and reason in FOLDED:
            folded.setdefault(by, []).append(pool.ids[row])
    references = referring(pool, ranked.stages["references"]) if "references" in ranked.stages else {}
    known = ranked.relevance
    relevance = [None] * len(rows) if known is None else np.sort(known[rows])[::-1].tolist()
    each = zip(ids, rows.tolist(), scores, _signals(pool, rows), stages, ranks, relevance, strict=True)
    return tuple(
        Hit(
            chunks[id],
            score,
            rank,
            signals,
            after,
            rank_after,
            tuple(folded.get(row, ())),
            relevant,
            named=bool(pool.named[row]),
            through=pool.ids[references[row]] if row in references else None,
        )
        for rank, (id, row, score, signals, after, rank_after, relevant) in enumerate(each, start=1)
    )


def _by_row(columns: Mapping[str, Sequence[Number]], count: int) -> list[dict[str, Number]]:
    """For each of `count` rows a dict of its values by column."""
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


def _signals(pool: Pool, rows: Ints) -> Iterator[tuple[Signal, ...]]:
    """For each row the signals of every arm: for the query, then for each of its variations."""
    columns: list[list[Signal]] = []
    for variation in range(pool.variations):
        for arm, scores, ranks in _answering_arms(pool):
            stated = [rank or None for rank in ranks[variation][rows].tolist()]
            columns.append(list(map(Signal, repeat(arm), repeat(variation), stated, scores[variation][rows].tolist())))
    extra = [_of_extra_arm(arm, scores, rows) for arm, scores in pool.extra.items()]
    return (tuple(signal for signal in each if signal is not None) for each in zip(*columns, *extra, strict=True))


def _answering_arms(pool: Pool) -> Sequence[tuple[str, Floats, Ints]]:
    """The store's arms that answered."""
    arms = ("lexical", pool.lexical, pool.lexical_rank), ("dense", pool.dense, pool.dense_rank)
    return {"text": arms[:1], "vector": arms[1:]}.get(pool.mode, arms)


def _of_extra_arm(arm: str, scores: Floats, rows: Ints) -> list[Signal | None]:
    """The extra arm's signal for each row; None where it did not find the row."""
    pairs = zip(falling_ranks(scores)[rows].tolist(), scores[rows].tolist(), strict=True)
    return [Signal(arm, 0, rank, score) if score > 0 else None for rank, score in pairs]
