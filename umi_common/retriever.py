"""`DualRetriever`: from a query to hits, and to a context that fits into a prompt.

    time phrases -> recall -> rank -> fetch -> reorder -> assemble

Every search is a generator (`search.pipeline`) that yields the calls it needs, for example of the store or the LLM.
`search` runs it with the synchronous driver of `runtime.calls`, `asearch` with the asynchronous driver. `search_many`
runs several generators in step and joins their calls of one kind into one call (`run_together`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import Never, Self, Unpack

from umi_common.config import UmiConfig, WatchedFile, check_settings
from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget
from umi_common.errors import ConfigError, InputError, ReindexRequired
from umi_common.filters import Where
from umi_common.protocols import Clock, OnStage, Reranker, Rewriter, Store, Strategy
from umi_common.query.rewriting.models import as_rewriter
from umi_common.query.rewriting.rewrite import Rewriting
from umi_common.query.routing import route
from umi_common.ranking.fusion import merge_rrf
from umi_common.runtime.calls import Body, adrive, drive, run_together
from umi_common.runtime.closing import Closing
from umi_common.runtime.workers import Workers
from umi_common.search.extra_arms import Arm, ExtraArms, listed_arms
from umi_common.search.pipeline import context_body, search_body
from umi_common.search.request import (
    Components,
    SearchOptions,
    SearchRequest,
    SharedOptions,
    refuse_unknown_options,
    refuse_unlisted,
)
from umi_common.search.rerank import Reranking, as_reranker
from umi_common.search.trace import log
from umi_common.stores.batch_checks import check_store
from umi_common.stores.search_counts import SearchCounter, SearchMetrics
from umi_common.types import SearchResult, TimeRange, utc_now

__all__ = ["DualRetriever", "Strategy", "Where"]

STORE_STAGES = ("analyzer", "embedder")
"""Sections of `UmiConfig` that only the store uses; a retriever takes their settings from its store."""
QUERIES_AT_ONCE = 64
"""Largest number of queries of one `search_many` that run at the same time; the pool of each takes about 400 KB."""


class ContextOptions(SearchOptions, total=False):
    """Options of `DualRetriever.get_context`."""

    budget: TokenBudget | int | None
    policy: AssemblyPolicy | None
    counter: Any


class DualRetriever(Closing):
    """Hybrid search. If the results of a query are weak, variations of the query by an LLM are searched, too.

    Args:
        store: Holds the chunks.
        rewriter: An LLM: a `Rewriter`, a LangChain or LlamaIndex model, or a function from prompt to reply.
            None: no deep search.
        reranker: A `Reranker`, a cross-encoder or a function (query, texts) -> scores, for the best candidates.
        arms: Further ways to find chunks (`umi_common.search.extra_arms.Arm`), fused with the store's two arms.
        config: All settings; None: those with which the store was opened.
        clock: Returns the present as an aware datetime; for tests and replays.

    Thread-safe. `close()`, or garbage collection, ends its threads; the store stays open.
    """

    def __init__(
        self,
        store: Store,
        *,
        rewriter: Rewriter | Callable[[str], str] | Any | None = None,
        reranker: Reranker | Callable[[str, Sequence[str]], Sequence[float]] | None = None,
        arms: Sequence[Arm] | None = None,
        config: UmiConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_store(store, "of a UmiVectorStore use .retriever(), of a UmiRetriever give .umi.store")
        if clock is not None and not callable(clock):
            raise ConfigError(f"clock is {type(clock).__name__}; expected a function without arguments: lambda: now")
        self.store = store
        further = listed_arms(arms)
        self._arguments: dict[str, Any] = {"rewriter": rewriter, "reranker": reranker, "arms": further, "clock": clock}
        self._rewriter = None if rewriter is None else as_rewriter(rewriter)
        self._clock = utc_now if clock is None else clock
        self._reranker = None if reranker is None else as_reranker(reranker)
        self._arms = ExtraArms(further) if further else None
        self._workers = Workers()
        self._counter = SearchCounter(getattr(store, "search_counter", None))
        self._watched: WatchedFile | None = None
        check_settings(config)
        given = store_settings(store) if config is None else config
        self._components = self._components_for(_with_settings_of(store, given, given.model_fields_set), None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    @property
    def config(self) -> UmiConfig:
        """The settings in force; `analyzer` and `embedder` are those of the store."""
        return _with_settings_of(self.store, self._components.config, ())

    def reconfigure(self, config: UmiConfig | None = None, **changes: Any) -> UmiConfig:
        """Change the settings of later searches, and return the settings; running searches keep the earlier settings.

        Args:
            config: All settings; None: the current settings.
            **changes: Stages or single fields to change in `config`: `reconfigure(fusion={"method": "rrf"})`.

        Raises:
            ReindexRequired: If a change needs a new index. Nothing is changed then.
            ConfigError: If a name or value is wrong, or `embedder` is changed, which only `store.reconfigure` can do.
                Nothing is changed then.
        """
        check_settings(config)
        before = self._components.config
        base = self.config if config is None else config
        new = base.replaced(**changes) if changes else base
        stated = changes.keys() | (set() if config is None else config.model_fields_set)
        changed = [name for name in STORE_STAGES if getattr(new, name) != getattr(before, name)]
        new = _with_settings_of(self.store, new, stated.intersection(changed))
        before.checked_live_change(new)
        log.debug("settings: %s", ", ".join(name for name, stage in new if stage != getattr(before, name)) or "same")
        self._components = self._components_for(new, self._components)
        return new

    def with_config(self, **changes: Any) -> Self:
        """A copy of this retriever with other settings. It shares the store, models and threads, and unless `rewrite`
        is changed the cache of the LLM's replies.

        Arguments and errors are those of `reconfigure`. This retriever does not change.
        """
        self._current_components()  # reads a changed file of `watch` first
        other = copy.copy(self)
        other._watched = None
        other.reconfigure(**changes)
        return other

    def watch(self, path: str | Path, *, seconds: float = 1.0) -> UmiConfig:
        """Use the settings of a TOML file, and read it again whenever it changes; returns the settings.

        No thread watches the file: each search first checks whether the file has changed, unless the last check was
        less than `seconds` ago. If the changed file is wrong, or needs another index, the logger `umi` logs a WARNING
        and the previous settings stay in force. Environment variables override the file, as in `UmiConfig.load`. Copies
        by `with_config` do not watch the file.

        Raises:
            ConfigError, ReindexRequired: If `seconds` is no number, or if the file is missing, wrong or needs another
                index when `watch` is called.
        """
        watched = WatchedFile(path, seconds)
        config = self.reconfigure(UmiConfig.load(path))
        self._watched = watched
        return config

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        deep_search: bool = True,
        time_range: TimeRange | tuple[datetime | None, datetime | None] | None = None,
        where: Where = None,
        now: datetime | None = None,
        history: Sequence[str] = (),
        strategy: Strategy = "hybrid",
        query_vector: Sequence[float] | None = None,
        min_relevance: float | None = None,
        on_stage: OnStage | None = None,
        **unknown: Never,
    ) -> SearchResult:
        """The best chunks for a query, and how each got its score.

        Args:
            query: 1..10,000 UTF-8 bytes; may be "" if `query_vector` is given and the strategy is "vector".
            limit: Largest number of hits in the result, 1..100.
            deep_search: Whether the LLM may be asked; `config.routing` decides for which queries it is.
            time_range: Only chunks whose event_time lies in [start, end); aware datetimes.
            where: Metadata filter, applied before ranking; scores still use the whole store's counts (docs/tenants.md).
            now: The moment to which phrases such as "last week" and the ages of chunks refer; None: the present.
            history: Earlier messages of the conversation, oldest first: for the LLM, and for follow-up questions.
            strategy: All arms ("hybrid"), or one of the store's arms alone ("text", "vector").
            query_vector: (dim,) the query's embedding; None: the store's embedder makes it.
            min_relevance: 0..1; hits of a lower relevance are left out and listed in `suppressed`. None: the setting
                `relevance.minimum`.
            on_stage: Called when a stage begins; the function that it returns is called when the stage ends. For
                tracers.
            **unknown: Any other name raises a TypeError that says which was probably meant: for `k`, `limit`.

        Raises:
            EmptyQuery, QueryTooLong, InvalidLimit, InvalidTimeRange, FilterError: If an argument is wrong.
            ConfigError: If min_relevance is out of range, or the relevance of the hits is not known.
            SearchUnavailable: If no arm of the store can answer. `result.degraded` lists the failures of other parts.
        """
        body = self._search(
            query,
            limit=limit,
            deep_search=deep_search,
            time_range=time_range,
            where=where,
            now=now,
            history=history,
            strategy=strategy,
            query_vector=query_vector,
            min_relevance=min_relevance,
            on_stage=on_stage,
            **unknown,
        )
        return drive(body, self._workers)

    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """`search` for an event loop, without blocking the loop; same arguments, result and errors.

        Searches that wait at the same time share one call of the embedder.
        """
        return await adrive(self._search(query, **options), self._workers, on_loop=options.get("on_stage") is not None)

    def search_many(
        self,
        queries: Sequence[str],
        *,
        on_stages: Sequence[OnStage | None] | None = None,
        **options: Unpack[SharedOptions],
    ) -> list[SearchResult]:
        """The results of `search`, aligned with queries. Up to 64 queries share one embedding call and one recall.

        Args:
            queries: Any number. All are checked before the first search; the LLM is called for several at a time.
            on_stages: For each query an `on_stage` or None; None: nothing is called for any query.
            **options: As in `search`, the same for all queries; `query_vector` is not allowed.

        Raises:
            InputError: As `search`.
            SearchUnavailable: If no arm of the store can answer one of the queries.
        """
        return drive(self._many(queries, on_stages, options), self._workers)

    async def asearch_many(
        self,
        queries: Sequence[str],
        *,
        on_stages: Sequence[OnStage | None] | None = None,
        **options: Unpack[SharedOptions],
    ) -> list[SearchResult]:
        """`search_many` for an event loop; same arguments, results and errors."""
        on_loop = any(each is not None for each in on_stages or ())
        return await adrive(self._many(queries, on_stages, options), self._workers, on_loop=on_loop)

    def get_context(
        self,
        query: str,
        *,
        budget: TokenBudget | int | None = None,
        policy: AssemblyPolicy | None = None,
        counter: Any = None,
        limit: int = 50,
        **options: Any,
    ) -> AssembledContext:
        """The best chunks for a query that fit a token budget, as text for a prompt.

        Args:
            query: 1..10,000 UTF-8 bytes.
            budget: Largest numbers of tokens in all, per source and per chunk; a plain number limits the total. None:
                the settings `assembly`.
            policy: Order, format, neighbours; None: the settings `assembly`.
            counter: Counts tokens: the name of a model or encoding, a tokenizer, or a function; None: the default of
                `counter_for`.
            limit: Largest number of hits from which the context is made, 1..100. If these hits need fewer tokens than
                the budget, the context is smaller than the budget.
            **options: As in `search`.

        Raises:
            BudgetError: If the budget is too small to show one character of any hit.
            UmiError: As `search`.
        """
        body = self._context(query, budget=budget, policy=policy, counter=counter, limit=limit, **options)
        return drive(body, self._workers)

    async def aget_context(self, query: str, **options: Unpack[ContextOptions]) -> AssembledContext:
        """`get_context` for an event loop; same arguments, result and errors."""
        body = self._context(query, **options)
        return await adrive(body, self._workers, on_loop=options.get("on_stage") is not None)

    def needs_deep_search(self, query: str) -> bool:
        """Whether the query has a trigger word such as "who" or "last"; mode "heuristic" then asks the LLM."""
        return route(query).deep

    def rewrite_query(self, query: str, history: Sequence[str] = ()) -> list[str]:
        """The query and the LLM's variations of it; the query alone if there is no LLM or the LLM fails.

        Raises:
            EmptyQuery, QueryTooLong, InputError: If an argument is wrong.
        """
        (request,) = self._checked([query], {"history": history})
        rewriting = self._current_components().rewriting
        return [request.query, *(rewriting.variations(request.query, request.history).variations if rewriting else ())]

    def metrics(self) -> SearchMetrics:
        """Counts of the searches of this retriever and its copies, their times, and how many lost a part."""
        return self._counter.metrics

    merge_rrf = staticmethod(merge_rrf)

    def __copy__(self) -> Self:  # without it, copy.copy would call __reduce__, which makes new threads and caches
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._watched = copy.copy(self._watched)  # each copy checks the file for itself
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)  # as in with_config, store, models and threads are shared, which are thread-safe

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.store, config=self.config, **self._arguments), ()

    def close(self) -> None:
        """End the threads. A later search starts new ones."""
        for part in (self._workers, self._rewriter, self._reranker):
            if part is not None:
                part.close()

    def _components_for(self, config: UmiConfig, previous: Components | None) -> Components:
        """The components for these settings. The LLM's cache, breaker and threads are those of `previous`, unless the
        settings `rewrite` differ; so are the reranker's threads, unless the settings `rerank` differ."""
        rewriting: Rewriting | None = None
        reranking: Reranking | None = None
        if self._rewriter is not None:
            rewriting = Rewriting(
                self._rewriter,
                config.rewrite,
                directory=getattr(self.store, "path", None) if config.rewrite.keep_replies else None,
                writable=not getattr(self.store, "read_only", False),
                previous=None if previous is None else previous.rewriting,
            )
        if self._reranker is not None:
            reranking = Reranking(self._reranker, config.rerank)
            if previous is not None and previous.config.rerank == config.rerank:
                reranking = previous.reranker
        return Components(self.store, config, rewriting, reranking, self._arms, self._counter)

    def _current_components(self) -> Components:
        """The components for a search that starts now. If the watched file has changed, it is read again first."""
        watched = self._watched
        if watched is not None and watched.changed():
            try:
                self.reconfigure(UmiConfig.load(watched.path))
                log.info("settings: %s was read again", watched.path)
            except (ConfigError, ReindexRequired) as error:
                log.warning("settings: %s is not used, the previous settings stay in force: %s", watched.path, error)
        return self._components

    def _search(self, query: str, *, on_stage: OnStage | None = None, **options: Any) -> Body[SearchResult]:
        return search_body(self._current_components(), self._checked([query], options)[0], on_stage)

    def _context(self, query: str, *, limit: int = 50, **options: Any) -> Body[AssembledContext]:
        refuse_unknown_options(options, ContextOptions.__annotations__, TypeError)
        arguments = [options.pop(name, None) for name in ("budget", "policy", "counter", "on_stage")]
        (request,) = self._checked([query], {**options, "limit": limit})
        return context_body(self._current_components(), request, *arguments)

    def _many(
        self, queries: Sequence[str], on_stages: Sequence[OnStage | None] | None, options: SharedOptions
    ) -> Body[list[SearchResult]]:
        refuse_unknown_options(options, SharedOptions.__annotations__, TypeError)
        requests = self._checked(queries, options)
        stage_hooks = [None] * len(requests) if on_stages is None else on_stages
        if len(stage_hooks) != len(requests):
            raise InputError(
                f"on_stages has {len(stage_hooks)} entries; expected one for each of {len(requests)} queries"
            )
        components = self._current_components()
        bodies = [search_body(components, *each) for each in zip(requests, stage_hooks, strict=True)]
        results: list[SearchResult] = []
        for start in range(0, len(bodies), QUERIES_AT_ONCE):
            results += yield from run_together(bodies[start : start + QUERIES_AT_ONCE])
        return results

    def _checked(self, queries: Sequence[str], options: Mapping[str, Any]) -> list[SearchRequest]:
        refuse_unlisted(queries, "queries")
        refuse_unknown_options(options, SearchOptions.__annotations__, TypeError)
        stated = options.get("now")
        now = self._clock() if stated is None else stated
        return [SearchRequest.checked(**{**options, "query": query, "now": now}) for query in queries]


def store_settings(store: Store) -> UmiConfig:
    """The store's settings; the defaults if it has none."""
    known = getattr(store, "config", None)
    return known if isinstance(known, UmiConfig) else UmiConfig()


def _with_settings_of(store: Store, config: UmiConfig, stated: Collection[str]) -> UmiConfig:
    """`config`, with the stages `STORE_STAGES` taken from `store.config`, if the store has settings. Raises if the
    caller set one of these stages, by the names in `stated`, to other settings than the store's."""
    known = getattr(store, "config", None)
    if not isinstance(known, UmiConfig):
        return config
    if "analyzer" in stated:
        known.checked_live_change(config)
    wanted = config.embedder.model_copy(update={"model": known.embedder.model})  # read only when a store is opened
    if "embedder" in stated and wanted != known.embedder:
        raise ConfigError(
            "embedder: these settings belong to the store; open the store with them, or call "
            "store.reconfigure(store.config.replaced(embedder=...))"
        )
    return config.replaced(analyzer=known.analyzer, embedder=known.embedder)
