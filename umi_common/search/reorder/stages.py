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
    start, end = (0, 0) if when is None else when.span  # "last March" and "the first week of May" ask for no order
    outside = request.asked[:start] + request.asked[end:]
    by_time = time_order(outside) if config.when.enabled and config.when.order_boost else None
    if when is None or not when.nothing_else:  # else the query has no words besides those of the period
        yield from _by_words(components, request, pool, order, when, by_time)
    if config.fusion.alike:
        of_period = None if boost is None else boost.lifted(pool)
        yield ReorderStage(alike.COMPARED, partial(alike.reorder_alike, query=request.searched, of_period=of_period))
        terms_of: number_pairs.TermsOf | None = getattr(components.store, "terms_of", None)
        if request.exclusion is not None and terms_of is not None:
            yield ReorderStage(
                excluded.CANDIDATES,
                partial(excluded.reorder_excluded, exclusion=request.exclusion, terms_of=terms_of),
            )
    if by_time is not None:
        yield ReorderStage(
            in_time_order.CANDIDATES,
            partial(in_time_order.reorder_by_time, query=outside, asked=by_time, weight=config.when.order_boost),
        )


def _by_words(
    components: Components,
    request: SearchRequest,
    pool: Pool,
    order: Ints,
    when: When | None,
    by_time: TimeOrder | None,
) -> Iterator[ReorderStage]:
    """The stages that look for the query's words in the texts.

    Args:
        by_time: Whether the query asks for the latest or the first of several texts on one subject; None: for neither.
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
        if by_time is not None and not sought.quoted:  # the text with an older value may repeat the query's words
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

    If the best candidates are copies of each other, they match all tokens of the query equally well, except its numbers
    and names, and the similarity of the vectors of two numbers is noise.
    """
    if not config.enabled:
        return 0.0
    share = order_share(pool.calibration) if config.adaptive else 1.0
    return share * share_of_distinct(pool, order) if config.adaptive and share else share
