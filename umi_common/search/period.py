"""The period that a query names, and the candidates whose text states a date in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np

from umi_common.config import UmiConfig
from umi_common.pool import NOT_RANKED
from umi_common.query.time.find import When, find_time
from umi_common.query.time.said import says
from umi_common.ranking.period import PeriodBoost
from umi_common.runtime.calls import Body, CallFailure
from umi_common.search.recall import Components, Recalled, ask_chunks
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder

READ_OF_EACH_ARM = 50
"""Best candidates of each arm whose texts are read for dates: five times the usual limit. Reading 100 short texts takes
a millisecond, or up to eight if each states a year."""


def named_period(config: UmiConfig, request: SearchRequest, trace: TraceBuilder) -> When | None:
    """The period that the query names; None: none, or the caller gave a time range."""
    if not config.when.enabled or request.time_range is not None:
        return None
    with trace.stage("when") as facts:
        when = find_time(request.query, request.now)
        if when is not None:
            facts.update(kind=when.kind, start=_iso(when.range.start), end=_iso(when.range.end))
    return when


def period_boost(
    components: Components, request: SearchRequest, recalled: Recalled, when: When, trace: TraceBuilder
) -> Body[PeriodBoost]:
    """The boost for a period: of chunks whose time lies in it, and of those among the best whose text states it."""
    boost = PeriodBoost(when.range, when.dated, request.now, components.config.when)
    pool = recalled.pool
    ranks = np.concatenate([pool.lexical_rank, pool.dense_rank])
    best = ((ranks != NOT_RANKED) & (ranks <= READ_OF_EACH_ARM)).any(axis=0)
    rows = np.flatnonzero(best & ~boost.inside(pool))
    if not len(rows):
        return boost
    with trace.stage("read dates") as facts:
        (outcome,) = yield (ask_chunks(components.store, pool.ids_at(rows)),)
        chunks = [] if isinstance(outcome, CallFailure) else outcome
        said = [
            row
            for row, chunk in zip(rows.tolist(), chunks, strict=False)
            if chunk is not None and says(chunk.text, when.range, request.now)
        ]
        facts.update(read=len(rows), said=len(said))
    return replace(boost, said=np.array(said, dtype=np.int64))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
