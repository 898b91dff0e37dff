"""The stages of one search that reorder its best candidates, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from umi_common.config import LateInteractionConfig
from umi_common.pool import Ints, Pool
from umi_common.query.time.find import TimeOrder, When, time_order
from umi_common.ranking.neighbours import order_share, share_of_distinct
from umi_common.ranking.period import PeriodBoost
from umi_common.search.rank import RankedPool
from umi_common.search.recall import Components
from umi_common.search.reorder import alike, excluded, in_time_order, late_interaction, number_pairs, speaker, word_runs
from umi_common.search.reorder.lookup.stage import lookup_of, reorder_by_lookup
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.types import Chunk


class ReorderStage(NamedTuple):
    """A stage that reorders the best candidates of one search."""

    reads: int
    """Number of best candidates whose chunks the stage reads, at least 1."""
    apply: Callable[[Pool, RankedPool, Mapping[str, Chunk], TraceBuilder], RankedPool]
    """The ranking with these candidates in their new order.

    Args: the candidates, their order so far, the chunk of each ranked row by id, and the trace, which gets the stage.
    """


def reorder_stages(
    components: Components,
    request: SearchRequest,
    pool: Pool,
    order: Ints,
    when: When | None,
    boost: PeriodBoost | None,
) -> Iterator[ReorderStage]:
    """The stages that a search runs; none if its strategy is one arm alone.

    Args:
        order: The rows of the pool, best first.
        when: The period that the query names; None: it names none.
        boost: The boost of the rows of this period; None: no row is boosted.
    """
    config = components.config
    if request.strategy != "hybrid":
        return
    start, end = (0, 0) if when is None else when.span
    outside = request.asked[:start] + request.asked[end:]  # in a period, "last" and "first" ask for no order of texts
    latest_or_first = time_order(outside) if config.when.enabled and config.when.order_boost else None
    names_subject = when is None or not when.nothing_else
    if names_subject:
        yield from _by_words(components, request, pool, order, when, latest_or_first)
    if config.fusion.alike:
        of_period = None if boost is None else boost.lifted(pool)
        yield ReorderStage(alike.COMPARED, partial(alike.reorder_alike, query=request.searched, of_period=of_period))
        terms_of: number_pairs.TermsOf | None = getattr(components.store, "terms_of", None)
        if request.exclusion is not None and terms_of is not None:
            yield ReorderStage(
                excluded.CANDIDATES,
                partial(excluded.reorder_excluded, exclusion=request.exclusion, terms_of=terms_of),
            )
    if latest_or_first is not None:
        weight = config.when.order_boost
        yield ReorderStage(
            in_time_order.CANDIDATES,
            partial(in_time_order.reorder_by_time, query=outside, asked=latest_or_first, weight=weight),
        )


def _by_words(
    components: Components,
    request: SearchRequest,
    pool: Pool,
    order: Ints,
    when: When | None,
    latest_or_first: TimeOrder | None,
) -> Iterator[ReorderStage]:
    """The stages that look for the query's words in the texts.

    Args:
        latest_or_first: Which of several texts on one subject the query asks for; None: for neither.
    """
    config, fusion = components.config, components.config.fusion
    terms_of: number_pairs.TermsOf | None = getattr(components.store, "terms_of", None)
    if fusion.number_pair_weight and terms_of is not None:
        pairs = number_pairs.query_pairs(request.asked, terms_of)
        if pairs is not None:
            yield ReorderStage(
                number_pairs.CANDIDATES,
                partial(number_pairs.reorder_by_number_pairs, query=pairs, weight=fusion.number_pair_weight),
            )
    share = _late_interaction_share(config.late_interaction, pool, order)
    if share > 0:
        yield ReorderStage(
            config.late_interaction.pool,
            partial(
                late_interaction.reorder_by_late_interaction,
                query=request.searched,
                config=config.late_interaction,
                share=share,
            ),
        )
    if fusion.method == "rrf":  # its scores differ so little that one of these stages alone would decide the order
        return
    if fusion.speaker_weight:
        yield ReorderStage(
            speaker.CANDIDATES,
            partial(speaker.reorder_by_speaker, query=request.asked, weight=fusion.speaker_weight),
        )
    if fusion.lookup_weight:
        sought = lookup_of(request, (0, 0) if when is None else when.span)
        if latest_or_first is not None and not sought.quoted:  # words do not tell which text is the latest
            sought = sought._replace(phrases=[], content="", keywords=[])
        if read := sought.candidates(pool, order):
            yield ReorderStage(
                read,
                partial(
                    reorder_by_lookup,
                    sought=sought,
                    read=read,
                    weight=fusion.lookup_weight,
                    terms_of=terms_of,
                ),
            )
    if fusion.word_run_weight:
        runs = word_runs.WordRuns(request.verbatim)
        if runs and (read := word_runs.candidates(pool, order)):
            yield ReorderStage(read, partial(word_runs.reorder_by_word_runs, runs=runs, weight=fusion.word_run_weight))


def _late_interaction_share(config: LateInteractionConfig, pool: Pool, order: Ints) -> float:
    """Factor on the weight of late interaction, 0..1; 0: it is off.

    It is smaller if the best candidates are copies that differ in numbers and names alone. They match all other tokens
    of the query equally well, and vectors of numbers do not tell which number is the right one.
    """
    if not config.enabled:
        return 0.0
    if not config.adaptive:
        return 1.0
    share = order_share(pool.calibration)
    return share * share_of_distinct(pool, order) if share else 0.0
