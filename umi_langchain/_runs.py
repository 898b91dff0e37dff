"""Report searches to LangChain's callbacks as runs. A run is one recorded call; it may have child runs. A search opens
a child run for each of its stages, and a batch opens one run per input.

`batch` and `abatch` search their inputs in groups of at most `max_concurrency`: a group is one call of `search_many` or
`asearch_many`. Both run the coroutine `_Batch.answers`. In `batch`, callbacks and `search_many` are synchronous, so the
coroutine never suspends, and `batch` runs it without an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackManager, CallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, var_child_runnable_config

from umi_common.errors import ConfigError, InputError
from umi_common.protocols import OnStage
from umi_common.search.request import checked_query, end_of, refuse_unlisted
from umi_common.types import Degradation, SearchResult, Stage

if TYPE_CHECKING:
    from umi_langchain.retriever import UmiRetriever

Configs = RunnableConfig | list[RunnableConfig] | None


@contextmanager
def stages(manager: CallbackManager | None) -> Iterator[OnStage | None]:
    """Yield the argument `on_stage` of a search: a function that opens a child run for each stage.

    The outputs of a child run are the stage's duration in milliseconds and its `facts`. Neither its inputs
    nor its outputs hold the query; only the parent run has it.

    If a callback handler raises, the search goes on, because one search may serve many queries (`search_many`), and the
    handler of one query must not fail the others. The first such error is raised at the end of the `with` block, unless
    the block itself raises.

    Args:
        manager: Opens child runs of the call's run. If it is None or has no handlers, None is yielded.
    """
    if manager is None or not manager.handlers:
        yield None
        return
    errors: list[Exception] = []

    def keeping_error(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    def began(name: str) -> Callable[[Stage], None]:
        run = keeping_error(manager.on_chain_start, {"name": f"umi.{name}"}, {}, name=f"umi.{name}")

        def ended(stage: Stage) -> None:
            if run is not None:
                keeping_error(run.on_chain_end, _outputs(stage))

        return ended

    yield began
    if errors:
        raise errors[0]


@asynccontextmanager
async def astages(manager: AsyncCallbackManager | None) -> AsyncIterator[OnStage | None]:
    """`stages` for asynchronous handlers, with the same treatment of their errors.

    A task awaits the handlers in the order of the stages while the search runs. Leaving the `with` block waits until
    all handlers have been awaited.
    """
    if manager is None or not manager.handlers:
        yield None
        return
    events: asyncio.Queue[Callable[[], Awaitable[None]] | None] = asyncio.Queue()
    errors: list[Exception] = []

    def began(name: str) -> Callable[[Stage], None]:
        started: list[Any] = []

        async def start() -> None:
            started.append(await manager.on_chain_start({"name": f"umi.{name}"}, {}, name=f"umi.{name}"))

        def ended(stage: Stage) -> None:
            async def end() -> None:
                for run in started:  # none if a handler failed at the start
                    await run.on_chain_end(_outputs(stage))

            events.put_nowait(end)

        events.put_nowait(start)
        return ended

    async def report() -> None:
        while (event := await events.get()) is not None:
            try:
                await event()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

    reporter = asyncio.create_task(report())
    try:
        yield began
    finally:
        events.put_nowait(None)
        await reporter
    if errors:
        raise errors[0]


def searched(search: Callable[..., Any], manager: CallbackManager | None, query: str, **options: Any) -> Any:
    """The result of `search(query, **options)`, with a child run for each stage, call of a LangChain model and failed
    part. `search` is `search` or `get_context` of a `DualRetriever`; `manager` is as in `stages`."""
    with stages(manager) as on_stage:
        with _calls_below(manager):
            found = search(query, on_stage=on_stage, **options)
        report_losses(on_stage, found.degraded)
    return found


async def asearched(
    search: Callable[..., Any], manager: AsyncCallbackManager | None, query: str, **options: Any
) -> Any:
    """`searched` for an event loop; `search` is `asearch` or `aget_context`."""
    async with astages(manager) as on_stage:
        with _calls_below(manager):
            found = await search(query, on_stage=on_stage, **options)
        report_losses(on_stage, found.degraded)
    return found


@contextmanager
def _calls_below(manager: BaseCallbackManager | None) -> Iterator[None]:
    """Inside the `with` block, a call of a LangChain model is recorded as a child run of the run of `manager`."""
    config = var_child_runnable_config.get() or {}
    token = var_child_runnable_config.set(config if manager is None else {**config, "callbacks": manager})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def report_losses(on_stage: OnStage | None, losses: Iterable[Degradation]) -> None:
    """Open and close a child run for each part of the search that failed."""
    if on_stage is None:
        return
    for loss in losses:
        facts = {"reason": loss.reason, "consequence": loss.consequence}
        on_stage(f"without {loss.part}")(Stage(f"without {loss.part}", 0.0, facts))


def _outputs(stage: Stage) -> dict[str, Any]:
    return {"milliseconds": stage.milliseconds, **stage.facts}


def batch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **call: Any) -> list[Any]:
    """See `UmiRetriever.batch`."""
    work = _Batch(retriever, is_async=False, **call)
    try:
        work.answers(inputs, config).send(None)
    except StopIteration as end:
        answers: list[Any] = end.value
        return answers
    raise AssertionError("a synchronous callback or search returned an awaitable")


async def abatch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **call: Any) -> list[Any]:
    """See `UmiRetriever.abatch`."""
    return await _Batch(retriever, is_async=True, **call).answers(inputs, config)


@dataclass(frozen=True)
class _Batch:
    retriever: UmiRetriever
    is_async: bool
    """Whether callbacks and searches are asynchronous, as for `abatch`."""
    options: dict[str, Any]
    """The options of the call, such as `k` (see `CallOptions` of the retriever); the same for all inputs."""
    return_exceptions: bool
    """Whether to return the exception of an input in place of its documents; False: the first one is raised."""

    async def answers(self, inputs: Sequence[str], config: Configs) -> list[Any]:
        """For each input, its documents or, with `return_exceptions`, its exception.

        At most `max_concurrency` inputs are searched at a time.
        """
        refuse_unlisted(inputs, "inputs")
        inputs = list(inputs)
        configs = get_config_list(config, len(inputs))
        limit = configs[0].get("max_concurrency") if configs else None
        at_once = max(len(inputs), 1) if limit is None else limit
        if at_once < 1:
            raise ConfigError(f"max_concurrency {at_once}: expected 1 or more, or None for all inputs at once")
        answers = []
        for start in range(0, len(inputs), at_once):
            part = slice(start, start + at_once)
            answers += await self._group_answers(inputs[part], configs[part])
        return answers

    async def _group_answers(self, inputs: Sequence[str], configs: Sequence[RunnableConfig]) -> list[Any]:
        """`answers` for inputs that one call of `search_many` searches.

        1. Start the run of each input. An input whose run cannot start is not searched.
        2. With `return_exceptions`, leave out queries that cannot be searched, because one of them fails the whole call
           of `search_many`. Without it, that error is what `batch` raises.
        3. Search, with child runs for the stages of each query.
        4. Make the documents of each query, and close its child runs before its run ends.
        5. End each run with its documents or its error, and only then raise the first error.
        """
        runs = [await _outcome(self._run(query, config)) for query, config in zip(inputs, configs, strict=True)]
        answers: list[Any] = [run if isinstance(run, Exception) else None for run in runs]
        for row, query in enumerate(inputs):
            if answers[row] is None and self.return_exceptions:
                answers[row] = _query_error(query)
        valid = [row for row, answer in enumerate(answers) if answer is None]
        async with AsyncExitStack() as opened:  # after a cancellation, it closes what `_answer` has not closed
            stacks = [await opened.enter_async_context(AsyncExitStack()) for _ in valid]
            on_stages = [await self._opened(runs[row], stack) for row, stack in zip(valid, stacks, strict=True)]
            found = await _outcome(self._found([inputs[row] for row in valid], on_stages))
            for index, row in enumerate(valid):
                part = found if isinstance(found, Exception) else found[index]
                answers[row] = await _outcome(self._answer(part, on_stages[index], stacks[index]))
        answers = [await _outcome(_ended(run, answer)) for run, answer in zip(runs, answers, strict=True)]
        first = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if first is not None and not self.return_exceptions:
            raise first
        return answers

    async def _opened(self, run: Any, stack: AsyncExitStack) -> OnStage | None:
        """The `on_stage` of one input. Closing `stack` ends the `with` block of `stages`."""
        child = run.get_child()
        return await stack.enter_async_context(astages(child)) if self.is_async else stack.enter_context(stages(child))

    async def _found(self, queries: list[str], on_stages: list[OnStage | None]) -> list[tuple[SearchResult, Any]]:
        """For each query, its result and the options of the search, which `_answer` needs to make the documents.

        The options are read here, so that an error in them is an error of the search and ends every run.
        """
        umi, options = self.retriever.umi, self.retriever.core_options(self.options)
        search_many = umi.asearch_many if self.is_async else umi.search_many
        results = await _value(search_many([end_of(query) for query in queries], on_stages=on_stages, **options))
        return [(result, options) for result in results]

    async def _answer(self, found: Any, on_stage: OnStage | None, stack: AsyncExitStack) -> Any:
        """The documents of one input.

        Args:
            found: The input's item of `_found`, or the error that `_found` raised; it is raised again.
            stack: The stack of `_opened`, which is closed. This raises an error of a handler of the stages.
        """
        async with stack:
            if isinstance(found, Exception):
                raise found
            result, options = found
            report_losses(on_stage, result.degraded)
            return await _value((self.retriever.aanswer if self.is_async else self.retriever.answer)(result, options))

    async def _run(self, query: str, config: RunnableConfig) -> Any:
        """Start the callback run of one input, in the same way as `BaseRetriever.invoke`."""
        retriever = self.retriever
        managers: Any = AsyncCallbackManager if self.is_async else CallbackManager
        manager = managers.configure(
            inheritable_callbacks=config.get("callbacks"),
            inheritable_tags=config.get("tags"),
            local_tags=retriever.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **retriever._get_ls_params()},
            local_metadata=retriever.metadata,
        )
        name = config.get("run_name") or retriever.get_name()
        return await _value(manager.on_retriever_start(None, query, name=name, run_id=config.get("run_id")))


async def _outcome(value: Awaitable[Any]) -> Any:
    try:
        return await value
    except Exception as error:  # noqa: BLE001 - `_group_answers` raises or returns it when all runs have ended
        return error


async def _ended(run: Any, answer: Any) -> Any:
    """Return `answer`, and end the input's run with it, unless the run could not start."""
    if not isinstance(run, Exception):
        failed = isinstance(answer, Exception)
        await _value(run.on_retriever_error(answer) if failed else run.on_retriever_end(answer))
    return answer


async def _value(value: Any) -> Any:
    return await value if isawaitable(value) else value


def _query_error(query: str) -> InputError | None:
    """The error that a search for this query raises; None: the query can be searched."""
    try:
        checked_query(end_of(query))
    except InputError as error:
        return error
    return None
