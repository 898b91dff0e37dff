"""Dual retrieval: the line from a query to hits, and on to a context that fits the prompt.

    understand -> recall -> fuse -> shape -> assemble

The body is a generator that asks for outside work (`drivers`), so `search` and `asearch` are the same code.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any, Literal

from umi_common.config import UmiConfig
from umi_common.context.assemble import assemble
from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget
from umi_common.drivers import Body, Call, Failure, adrive, drive
from umi_common.filters import Filter
from umi_common.line import Parts, search_body
from umi_common.protocols import Clock, Reranker, Rewriter, Store
from umi_common.query import routing
from umi_common.query.rewrite import Rewriting, as_rewriter
from umi_common.ranking.fusion import merge_rrf
from umi_common.request import Request
from umi_common.types import Chunk, SearchResult, TimeRange

THREADS_MAX = min(4, (os.cpu_count() or 1) + 1)
"""Blocking calls of one retriever at a time; more wait their turn. Few, because they compete with an event loop for the
interpreter; the LLM has threads of its own."""

Where = Filter | Mapping[str, Any] | None
Strategy = Literal["hybrid", "text", "vector"]


class DualRetriever:
    """A fast hybrid search always; where it helps, an LLM's variations of the query fused in.

    Args:
        store: Where the chunks are.
        rewriter: An LLM: a `Rewriter`, a LangChain or LlamaIndex model, or a function from prompt to reply.
            None: no deep search, everything else works.
        reranker: A `Reranker` or a function (query, texts) -> scores, applied to the best candidates.
        config: Every setting; see `UmiConfig`.
        clock: Gives the present as an aware datetime; for tests and replays.

    Thread-safe. Call `close()`, or leave it to the garbage collector, to end its threads; the store stays open.
    """

    def __init__(
        self,
        store: Store,
        *,
        rewriter: Rewriter | Callable[[str], str] | Any | None = None,
        reranker: Reranker | Callable[[str, Sequence[str]], Sequence[float]] | None = None,
        config: UmiConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self._rewriter = None if rewriter is None else as_rewriter(rewriter)
        self._clock = _utc_now if clock is None else clock
        self._reranker = reranker
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._parts = self._assembled(UmiConfig() if config is None else config, None)

    @property
    def config(self) -> UmiConfig:
        """The settings in force."""
        return self._parts.config

    def reconfigure(self, config: UmiConfig | None = None, **changes: Any) -> UmiConfig:
        """Swap settings for the searches that start from now on; those under way keep theirs.

        Args:
            config: All settings; None: the present ones.
            **changes: Single stages or fields on top: `reconfigure(fusion={"method": "rrf"})`.

        Raises:
            ReindexRequired: If a change needs a new index; nothing is changed then.
            ConfigError: If a name or value is wrong; nothing is changed then.
        """
        base = self.config if config is None else config
        new = base.replaced(**changes) if changes else base
        self.config.check_live_change(new)
        self._parts = self._assembled(new, self._parts.rewriting)
        return new

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        deep_search: bool = True,
        time_range: TimeRange | tuple[datetime, datetime] | None = None,
        where: Where = None,
        now: datetime | None = None,
        history: Sequence[str] = (),
        strategy: Strategy = "hybrid",
        query_vector: Sequence[float] | None = None,
    ) -> SearchResult:
        """The best chunks for a query, and how they came about.

        Args:
            query: 1..10,000 UTF-8 bytes.
            limit: At most so many hits, 1..100.
            deep_search: Whether the LLM may be asked; when it is, `config.routing` decides.
            time_range: Only chunks whose event_time lies in [start, end); aware datetimes.
            where: Metadata filter, applied before ranking.
            now: What "last week" and ages refer to; None: the clock.
            history: Earlier turns of the conversation, oldest first; only the LLM sees them.
            strategy: Both arms, or one alone.
            query_vector: (dim,) the query's embedding where the caller has it.

        Raises:
            EmptyQuery, QueryTooLong, InvalidLimit, InvalidTimeRange, FilterError: The call was wrong.
            SearchUnavailable: If no arm can answer. Every lesser failure is in `result.degraded`.
        """
        return drive(
            self._search(query, limit, deep_search, time_range, where, now, history, strategy, query_vector),
            self._threads(),
        )

    async def asearch(
        self,
        query: str,
        *,
        limit: int = 10,
        deep_search: bool = True,
        time_range: TimeRange | tuple[datetime, datetime] | None = None,
        where: Where = None,
        now: datetime | None = None,
        history: Sequence[str] = (),
        strategy: Strategy = "hybrid",
        query_vector: Sequence[float] | None = None,
    ) -> SearchResult:
        """`search` for an event loop, which it never blocks; same arguments, result and errors."""
        return await adrive(
            self._search(query, limit, deep_search, time_range, where, now, history, strategy, query_vector),
            self._threads(),
        )

    def get_context(
        self,
        query: str,
        *,
        budget: TokenBudget | None = None,
        policy: AssemblyPolicy | None = None,
        counter: Any = None,
        limit: int = 50,
        **options: Any,
    ) -> AssembledContext:
        """The best evidence for a query that fits a token budget, ready for a prompt.

        Args:
            query: 1..10,000 UTF-8 bytes.
            budget: Tokens in all, per source and per chunk; None: `TokenBudget()`.
            policy: Order, format, neighbours; None: `AssemblyPolicy()`.
            counter: What counts tokens: a model or encoding name, a tokenizer, a function; None: the default chain.
            limit: Hits that compete for the budget, 1..100.
            **options: As in `search`.

        Raises:
            BudgetError: If the budget cannot hold even a header. Otherwise as `search`.
        """
        return drive(self._context(query, budget, policy, counter, limit, options), self._threads())

    async def aget_context(
        self,
        query: str,
        *,
        budget: TokenBudget | None = None,
        policy: AssemblyPolicy | None = None,
        counter: Any = None,
        limit: int = 50,
        **options: Any,
    ) -> AssembledContext:
        """`get_context` for an event loop; same arguments, result and errors."""
        return await adrive(self._context(query, budget, policy, counter, limit, options), self._threads())

    def needs_deep_search(self, query: str) -> bool:
        """Whether the ADRs' trigger words occur in the query (mode "heuristic")."""
        return routing.needs_deep_search(query)

    def rewrite_query(self, query: str, history: Sequence[str] = ()) -> list[str]:
        """The query and the LLM's variations of it; the query alone where there is no LLM or it fails."""
        rewriting = self._parts.rewriting
        if rewriting is None:
            return [query]
        return [query, *rewriting.variations(query, history=history).variations]

    merge_rrf = staticmethod(merge_rrf)

    def close(self) -> None:
        """End the threads; a later search starts new ones."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> DualRetriever:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _assembled(self, config: UmiConfig, previous: Rewriting | None) -> Parts:
        rewriting = None if self._rewriter is None else Rewriting(self._rewriter, config.rewrite, previous=previous)
        return Parts(self.store, config, rewriting, self._reranker)

    def _search(
        self,
        query: str,
        limit: int,
        deep_search: bool = True,
        time_range: object = None,
        where: Where = None,
        now: datetime | None = None,
        history: Sequence[str] = (),
        strategy: Strategy = "hybrid",
        query_vector: object = None,
    ) -> Body[SearchResult]:
        request = Request.checked(
            query=query,
            limit=limit,
            deep_search=deep_search,
            time_range=time_range,
            where=where,
            now=self._clock() if now is None else now,
            history=history,
            strategy=strategy,
            query_vector=query_vector,
        )
        return search_body(self._parts, request)

    def _context(
        self,
        query: str,
        budget: TokenBudget | None,
        policy: AssemblyPolicy | None,
        counter: Any,
        limit: int,
        options: dict[str, Any],
    ) -> Body[AssembledContext]:
        policy = AssemblyPolicy() if policy is None else policy
        result = yield from self._search(query, limit, **options)
        around: dict[str, list[Chunk]] = {}
        if policy.neighbours and result.hits:
            store, reach = self.store, policy.neighbours
            (found,) = yield (Call(lambda: store.neighbours(result.ids, reach=reach)),)
            around = {} if isinstance(found, Failure) else found
        return assemble(
            result.hits,
            budget=TokenBudget() if budget is None else budget,
            policy=policy,
            counter=counter,
            around=around,
        )

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="umi")
                weakref.finalize(self, self._executor.shutdown, wait=False)
            return self._executor


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)
