"""Fetch the chunks of the best rows, and make hits of them, with their scores and signals.

In: the candidates of a search, each a row of a `Pool`, and their ranking. Out: the chunks by id, and the ranking of the
rows that were fetched.

A write may replace a chunk after it was scored. A store with `get_versions` can then tell that the version that was
scored (`Pool.version`) is gone; it does not keep older versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from umi_common.context.budget import AssemblyPolicy
from umi_common.errors import StoreUnavailable
from umi_common.filters import Filter
from umi_common.pool import Ints, Pool
from umi_common.protocols import Store, chunk_passes
from umi_common.ranking.duplicates import FOLDED, DuplicateFinder, group_of
from umi_common.ranking.fusion import falling_ranks
from umi_common.ranking.references import referring
from umi_common.runtime.calls import Body, Call, CallFailure, CallOutcome, value_of
from umi_common.runtime.losses import log_bug, log_once
from umi_common.search.rank import RankedPool
from umi_common.search.recall import Recalled, ask_chunks
from umi_common.search.request import Search
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk, Degradation, Hit, Signal, TimeRange


def fetch(
    search: Search, recalled: Recalled, ranked: RankedPool, *, wanted: int, before: Collection[str] = ()
) -> Body[tuple[dict[str, Chunk], RankedPool]]:
    """(chunks of the best rows by id, the ranking of these rows); a generator that yields the calls to the store.

    A row is left out if its chunk was removed after it was scored, or now fails the filter or, with `config.duplicates`
    enabled, if its chunk repeats a better one. The next best row is taken instead.

    Args:
        wanted: Largest number of chunks to return; fewer are returned if the rows run out.
        before: The ids of chunks that this search has fetched before, if any.
    """
    pool, order, request, store = recalled.pool, ranked.order, search.request, search.store
    duplicates = search.config.duplicates
    finder = DuplicateFinder(duplicates, pool.vectors) if duplicates.enabled else None
    kept: list[int] = []
    chunks: dict[str, Chunk] = {}
    suppressed = list(ranked.suppressed)
    asked = 0
    with search.trace.stage("fetch") as facts:
        while len(chunks) < wanted and asked < len(order):
            rows = order[asked : asked + wanted - len(chunks)]
            asked += len(rows)
            # All chunks of one call are of one state of the store. The first call also takes newer versions; a later
            # one takes only the versions that were scored, because it may find a later state.
            (outcome,) = yield (_ask_versions(store, pool, rows, exact=bool(chunks or before)),)
            found = _found_or_last_read(store, pool, rows, outcome, search.trace)
            for row, id, stored in zip(rows.tolist(), pool.ids_at(rows), found, strict=True):
                chunk = stored or recalled.chunks_not_in_store.get(id)
                if chunk is None or not request.passes(chunk):
                    continue
                duplicate = None if finder is None else finder.add(row, chunk.text, group_of(chunk))
                if duplicate is None:
                    kept.append(row)
                    chunks[id] = chunk
                else:
                    better, reason = duplicate
                    suppressed.append((row, reason, better))
        if finder is not None:
            facts["folded"] = len(suppressed) - len(ranked.suppressed)
    return chunks, replace(ranked, order=np.array(kept, dtype=np.int64), suppressed=tuple(suppressed))


def _ask_versions(store: Store, pool: Pool, rows: Ints, *, exact: bool) -> Call:
    """The call that gets the chunks of some rows, aligned with them; None for a chunk that was removed.

    Args:
        exact: For a chunk that was replaced after it was scored: True returns None, False the newer version. A store
            without `get_versions` always returns the newer version.
    """
    ids = pool.ids_at(rows)
    get_versions: Callable[..., list[Chunk | None]] | None = getattr(store, "get_versions", None)
    if get_versions is None or not pool.version.any():
        return ask_chunks(store, ids)
    pairs = list(zip(ids, pool.version[rows].tolist(), strict=True))
    return Call.batched(
        ("get versions", id(store), exact), pairs, lambda some: get_versions(*zip(*some, strict=True), exact=exact)
    )


def _found_or_last_read(
    store: Store, pool: Pool, rows: Ints, outcome: CallOutcome, trace: TraceBuilder
) -> Sequence[Chunk | None]:
    """The chunks of `outcome`. If the call failed with StoreUnavailable and the store has `last_read`: the chunks as
    the store last read them, with one degradation in the trace. Any other error is raised."""
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
    """(neighbouring chunks by the id of the hit, degradations). If the store fails: no chunks and one degradation.

    Args:
        ids: Ids of the hits.
        policy: Its `neighbours` is the largest number of chunks on each side of a hit.
        where, window: Filter and time range of the search; only chunks that pass both are returned.
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

    The relevances of these rows are sorted, so that they fall with the rank. If a reranker or MMR changed the order, a
    hit may therefore have the relevance of another row.
    """
    rows = ranked.order[:limit]
    folded: dict[int, list[str]] = {}
    for row, reason, by in ranked.suppressed:
        if by is not None and reason in FOLDED:
            folded.setdefault(by, []).append(pool.ids[row])
    references = referring(pool, ranked.stages["references"]) if "references" in ranked.stages else {}
    known = ranked.relevance
    relevance = [None] * len(rows) if known is None else np.sort(known[rows])[::-1].tolist()
    signals = _signals(pool, rows)
    scores = {name: each[rows].tolist() for name, each in ranked.stages.items()}
    ranks = {name: falling_ranks(each)[rows].tolist() for name, each in ranked.stages.items()}
    return tuple(
        Hit(
            chunks[pool.ids[row]],
            float(ranked.scores[row]),
            at + 1,
            next(signals),
            {name: each[at] for name, each in scores.items()},
            {name: each[at] for name, each in ranks.items()},
            tuple(folded.get(row, ())),
            relevance[at],
            named=bool(pool.named[row]),
            through=pool.ids[references[row]] if row in references else None,
        )
        for at, row in enumerate(rows.tolist())
    )


def _signals(pool: Pool, rows: Ints) -> Iterator[tuple[Signal, ...]]:
    """The signals of each row: of each of the store's arms that answered, for the query and then for its variations;
    then of the extra arms that found the row."""
    arms = ("lexical", pool.lexical, pool.lexical_rank), ("dense", pool.dense, pool.dense_rank)
    own = [
        (arm, variation, ranks[variation, rows].tolist(), scores[variation, rows].tolist())
        for variation in range(pool.variations)
        for arm, scores, ranks in {"text": arms[:1], "vector": arms[1:]}.get(pool.mode, arms)
    ]
    extra = [(arm, falling_ranks(scores)[rows].tolist(), scores[rows].tolist()) for arm, scores in pool.extra.items()]
    for at in range(len(rows)):
        of_arms = [Signal(arm, variation, ranks[at] or None, scores[at]) for arm, variation, ranks, scores in own]
        yield (*of_arms, *(Signal(arm, 0, ranks[at], scores[at]) for arm, ranks, scores in extra if scores[at] > 0))
