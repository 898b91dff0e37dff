"""Choose the stages that reorder the best candidates of one search, in the order in which they run.

In: the request, the candidates and their order so far. Out: a `ReorderStage` for each stage that the settings enable
and the query needs, with all that the stage gets besides the candidates, such as the names in the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from umi_common.errors import EmbedderError
from umi_common.pool import NO_SOURCE, Ints, Pool
from umi_common.query.time.find import When, time_order
from umi_common.ranking.period import PeriodBoost, in_period
from umi_common.search.rank import RankedPool
from umi_common.search.reorder import alike, in_time_order, late_interaction, numbers, phrases, sources, speaker
from umi_common.search.reorder.best import CANDIDATES, Best
from umi_common.search.reorder.lookup import lookup_of, reorder_by_lookup
from umi_common.search.reorder.words import TermsOf, words_in
from umi_common.search.request import Search
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk


class ReorderStage(NamedTuple):
    """A stage that reorders the best candidates of one search."""

    name: str
    """Its name in `Hit.stages` and in the trace."""
    reads: int
    """Number of best candidates whose chunks are fetched for the stage, >= 1. It reads these chunks."""
    reorder: Callable[[Best], RankedPool]
    more: Callable[[Mapping[str, Chunk]], Iterable[int]] | None = None
    """From the chunks fetched so far, by id, to further rows whose chunks the stage needs, whatever their rank. A stage
    with `more` reads the chunks that were fetched for any stage."""

    def apply(self, pool: Pool, ranked: RankedPool, chunks: Mapping[str, Chunk], trace: TraceBuilder) -> RankedPool:
        """The ranking after this stage; unchanged, with a degradation in the trace, if the stage's model fails.

        Args:
            chunks: Chunk of each ranked row, by id.
        """
        rows = np.sort(ranked.order if self.more else ranked.order[: self.reads])
        with trace.stage(self.name) as facts:
            facts["candidates"] = len(rows)
            best = Best(self.name, pool, ranked, rows, [chunks[id] for id in pool.ids_at(rows)], facts)
            try:
                return self.reorder(best)
            except EmbedderError as error:
                trace.degrade(self.name, str(error), f"kept the order without {self.name.replace('_', ' ')}")
                return ranked


def reorder_stages(
    search: Search, pool: Pool, order: Ints, when: When | None, boost: PeriodBoost | None
) -> Iterator[ReorderStage]:
    """The stages that a search runs; none if only one arm is searched.

    Args:
        order: The rows of the pool, best first.
        when: The period that the query names; None: it names none.
        boost: The boost by which `rank` raised the rows of this period; None: it raised none.
    """
    config, request = search.config, search.request
    fusion, late = config.fusion, config.late_interaction
    if request.strategy != "hybrid":
        return
    period = (0, 0) if when is None else when.span
    # "last" in "last week" does not ask for the latest text
    outside = request.asked[: period[0]] + request.asked[period[1] :]
    latest_or_first = time_order(outside) if config.when.enabled and config.when.order_boost else None
    terms_of: TermsOf | None = getattr(search.store, "terms_of", None)
    by_ranks = fusion.method == "rrf"  # its scores differ so little that one further stage would decide the order
    has_sources = config.neighbours.enabled and not by_ranks and (pool.source != NO_SOURCE).any()
    only_period = when is not None and when.nothing_else
    if has_sources and sources.MAY_SPELL.search(request.asked):
        by_names = partial(sources.reorder_by_names, query=request.asked)
        yield ReorderStage("names", CANDIDATES, by_names)
    if fusion.number_pair_weight and terms_of is not None and not only_period:
        pairs = numbers.query_pairs(request.asked, terms_of)
        if pairs is not None:
            by_pairs = partial(numbers.reorder_by_number_pairs, query=pairs, weight=fusion.number_pair_weight)
            yield ReorderStage("number_pairs", numbers.candidates_read(pool, order), by_pairs)
    share = 0.0 if only_period else late_interaction.share_of_weight(late, pool, order)
    if share > 0:
        by_tokens, query = late_interaction.reorder_by_late_interaction, request.searched
        yield ReorderStage("late_interaction", late.pool, partial(by_tokens, query=query, config=late, share=share))
    if fusion.speaker_weight and not only_period and not by_ranks:
        by_speaker = partial(speaker.reorder_by_speaker, query=request.asked, weight=fusion.speaker_weight)
        yield ReorderStage("speaker", CANDIDATES, by_speaker)
    if fusion.lookup_weight and not only_period and not by_ranks:
        sought = lookup_of(request, period, by_time=latest_or_first is not None)
        if read := sought.candidates(pool, order):
            weight = fusion.lookup_weight
            by_lookup = partial(reorder_by_lookup, sought=sought, weight=weight, terms_of=terms_of or words_in)
            yield ReorderStage("lookup", read, by_lookup)
    if fusion.word_run_weight and not only_period and not by_ranks:
        runs = phrases.WordRuns(request.verbatim)
        if runs:
            by_runs = partial(phrases.reorder_by_word_runs, runs=runs, weight=fusion.word_run_weight)
            yield ReorderStage("word_runs", phrases.RUN_CANDIDATES, by_runs)
    if fusion.alike:
        of_period = None if boost is None else boost.lifted
        by_words = partial(alike.reorder_alike, query=request.searched, typed=request.query, of_period=of_period)
        yield ReorderStage("alike", alike.COMPARED, by_words)
    if config.neighbours.enabled:
        first = order[: sources.LEADING_READ]
        if below := sources.rows_below(pool, first):
            more = partial(_later_rows, pool, below, sources.is_heading)
            yield ReorderStage("headings", len(first), sources.reorder_below_headings, more)
        if after := sources.rows_after(pool, first):
            more = partial(_later_rows, pool, after, lambda chunk, *_: sources.asks(chunk))
            by_questions = partial(sources.reorder_answers, query=request.asked, terms_of=terms_of or words_in)
            yield ReorderStage("answers", len(first), by_questions, more)
        in_documents = partial(sources.reorder_in_documents, query=request.asked, terms_of=terms_of or words_in)
        yield ReorderStage("documents", CANDIDATES, in_documents)
    exclusion = request.exclusion or request.negation
    if fusion.alike and exclusion is not None and terms_of is not None:
        only_alike = request.exclusion is None
        exclude = partial(alike.reorder_excluded, exclusion=exclusion, terms_of=terms_of, only_alike=only_alike)
        # not only the first `CANDIDATES`: all of them may hold what is excluded
        yield ReorderStage("excluded", in_time_order.candidates_compared(pool, several=True), exclude)
    if latest_or_first is not None:
        in_order = partial(
            in_time_order.reorder_by_time,
            query=outside,
            asked=latest_or_first,
            weight=config.when.order_boost,
            terms_of=terms_of or words_in,
            phrase="" if when is None else when.phrase,
            of_period=None if when is None else in_period(pool, when.range, request.now),
        )
        several = in_time_order.of_several(outside, latest_or_first)
        read = in_time_order.candidates_compared(
            pool, several, of_messages=in_time_order.MESSAGE_WORD.search(outside) is not None
        )
        yield ReorderStage("time_order", read, in_order)


def _later_rows(
    pool: Pool,
    later: Mapping[int, Sequence[int]],
    leads: Callable[[Chunk, int, int], bool],
    chunks: Mapping[str, Chunk],
) -> Iterator[int]:
    """The later rows of each row whose chunk is fetched and leads to them.

    Args:
        later: From `sources.rows_below` or `rows_after`.
        leads: (chunk, its number of terms, that of the first later chunk) -> whether it leads to its later rows.
        chunks: The chunks fetched so far, by id.
    """
    for row, others in later.items():
        chunk = chunks.get(pool.ids[row])
        if chunk is not None and leads(chunk, int(pool.length[row]), int(pool.length[others[0]])):
            yield from others
