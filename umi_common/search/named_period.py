"""Find the period that a query names ("last week"), and which candidates lie in it or state a date in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np

from umi_common.pool import Bools, Pool
from umi_common.query.time.find import When, find_time
from umi_common.query.time.stated import day_is_first, spoken_without_year, states_date_in
from umi_common.ranking.period import PeriodBoost, in_period
from umi_common.runtime.calls import Body, CallFailure
from umi_common.search.components import Search
from umi_common.search.recall import Recalled, ask_chunks
from umi_common.types import TimeRange

READ_OF_EACH_ARM = 50
"""The texts of the candidates up to this rank in an arm are read for dates; five times the default limit of a search.
Reading 100 short texts takes 1 ms, or up to 8 ms if each of them states a date."""
EXPLICIT_FACTOR = 5.0
"""Factor on the boost if the query limits when a chunk was recorded ("what did I say yesterday"). It is not larger,
because the user may mistake the day: a chunk outside the period that matches well must still come before chunks inside
the period that hardly match."""


def period_in_query(search: Search) -> When | None:
    """The period that the query names; None: it names none, `when` is off, or the caller gave a time range."""
    if not search.config.when.enabled or search.request.time_range is not None:
        return None
    with search.trace.stage("when") as facts:
        when = find_time(search.request.asked, search.request.now)
        if when is not None:
            facts.update(kind=when.kind, **bounds_of(when.range))
    return when


def period_boost(search: Search, recalled: Recalled, when: When) -> Body[PeriodBoost]:
    """The boost for the candidates whose time lies in the period, and for those of the best whose text states a date in
    it."""
    config, pool, now = search.config.when, recalled.pool, search.request.now
    factor = config.dated_boost if when.dated else config.boost
    boost = PeriodBoost(
        in_period(pool, when.range, now),
        factor * EXPLICIT_FACTOR if when.kind == "explicit" else factor,
        best_share=config.boost if when.raise_best else 0.0,
        first=when.nothing_else,
    )
    added = frozenset(recalled.added_ids)
    read = pool.ranked_within(READ_OF_EACH_ARM) | np.array([id in added for id in pool.ids], dtype=np.bool_)
    rows = np.flatnonzero(read & ~boost.lifted)
    if not len(rows):
        return boost
    with search.trace.stage("read dates") as facts:
        (outcome,) = yield (ask_chunks(search.store, pool.ids_at(rows)),)
        chunks = () if isinstance(outcome, CallFailure) else zip(rows.tolist(), outcome, strict=True)
        texts = {row: chunk.indexed_text for row, chunk in chunks if chunk is not None}
        lifted, stating = _with_dates_in_texts(boost.lifted, pool, texts, when, now)
        facts.update(read=len(texts), said=stating)
    return replace(boost, lifted=lifted)


def _with_dates_in_texts(
    by_time: Bools, pool: Pool, texts: Mapping[int, str], when: When, now: datetime
) -> tuple[Bools, int]:
    """((n,) `by_time`, and True for the rows whose text states a date in the period; number of such texts).

    If no row is of a period named without a year ("19 May"), the period may mean any year. Rows that state this date in
    any year are then taken; if there are none, the rows whose time lies in the latest earlier year that has any.

    Args:
        by_time: (n,) whether the time of the row lies in the period.
        texts: By row, the texts that are read.
    """
    lifted = by_time.copy()
    stated = partial(states_date_in, period=when.range, now=now, day_first=day_is_first(texts.values()))
    spoken = spoken_without_year(when.phrase) if when.yearless else None
    stating = [row for row, text in texts.items() if stated(text) or (spoken and spoken.search(text))]
    if when.yearless and not stating and not lifted.any():
        stating = [row for row, text in texts.items() if stated(text, any_year=True)]
        earlier = (in_period(pool, day, now) for day in (() if stating else when.earlier_days))
        lifted = next((inside for inside in earlier if inside.any()), lifted)
    lifted[stating] = True
    return lifted, len(stating)


def bounds_of(period: TimeRange) -> dict[str, str | None]:
    """The start and end of a period, in ISO format, as facts for the trace; None: it is open there."""
    moments = {"start": period.start, "end": period.end}
    return {name: None if moment is None else moment.isoformat() for name, moment in moments.items()}
