"""Searches as runs of LangChain. A run is one recorded call; a search opens a child run for each of its stages.

`abatched` searches groups of at most `max_concurrency` queries, each by one call of `search_many`. Then it invokes a
copy of the retriever for each query, so that LangChain opens the usual run. In place of a search, the copy calls
`_replayed`, so the child runs are opened when the search has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
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


def stages(manager: CallbackManager | None) -> OnStage | None:
    """The argument `on_stage` of a search: a function that opens a child run for each stage.

    The outputs of a child run are the stage's milliseconds and `facts`; only the parent run holds the query. None is
    returned if there is no `manager`, or if it has no handlers.
    """
    if manager is None or not manager.handlers:
        return None

    def began(name: str) -> Callable[[Stage], None]:
        run = manager.on_chain_start({"name": f"umi.{name}"}, {}, name=f"umi.{name}")
        return lambda stage: run.on_chain_end(_outputs(stage))

    return began


@asynccontextmanager
async def astages(manager: AsyncCallbackManager | None) -> AsyncIterator[OnStage | None]:
    """Yield the result of `stages` for asynchronous handlers.

    A task awaits the handlers in the order of the stages while the search runs. Leaving the `with` block waits until
    all handlers have been awaited, and raises the first error of a handler.
    """
    if manager is None or not manager.handlers:
        yield None
        return
    events: asyncio.Queue[tuple[list[Any], str, Stage | None] | None] = asyncio.Queue()
    errors: list[Exception] = []

    def began(name: str) -> Callable[[Stage], None]:
        runs: list[Any] = []  # the child run; empty if a handler failed at its start
        events.put_nowait((runs, f"umi.{name}", None))
        return lambda stage: events.put_nowait((runs, name, stage))

    async def report() -> None:
        while (event := await events.get()) is not None:
            runs, name, stage = event
            try:
                if stage is None:
                    runs.append(await manager.on_chain_start({"name": name}, {}, name=name))
                elif runs:
                    await runs[0].on_chain_end(_outputs(stage))
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
    part. `search` is `search` or `get_context` of a `DualRetriever`."""
    on_stage = stages(manager)
    with _calls_below(manager):
        found = search(query, on_stage=on_stage, **options)
    _report_losses(on_stage, found.degraded)
    return found


async def asearched(
    search: Callable[..., Any], manager: AsyncCallbackManager | None, query: str, **options: Any
) -> Any:
    """`searched` for an event loop; `search` is `asearch` or `aget_context`."""
    async with astages(manager) as on_stage:
        with _calls_below(manager):
            found = await _value(search(query, on_stage=on_stage, **options))
        _report_losses(on_stage, found.degraded)
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


def _report_losses(on_stage: OnStage | None, losses: Iterable[Degradation]) -> None:
    """Open and close a child run for each part of the search that failed."""
    if on_stage is None:
        return
    for loss in losses:
        facts = {"reason": loss.reason, "consequence": loss.consequence}
        on_stage(f"without {loss.part}")(Stage(f"without {loss.part}", 0.0, facts))


def _outputs(stage: Stage) -> dict[str, Any]:
    return {"milliseconds": stage.milliseconds, **stage.facts}


def batched(*args: Any, **named: Any) -> list[Any]:
    """See `UmiRetriever.batch`. With `is_async=False` all calls are synchronous, so the coroutine never suspends."""
    try:
        abatched(*args, is_async=False, **named).send(None)
    except StopIteration as end:
        return list(end.value)
    raise AssertionError("a synchronous search returned an awaitable")


async def abatched(
    retriever: UmiRetriever,
    inputs: Sequence[str],
    config: RunnableConfig | list[RunnableConfig] | None,
    options: dict[str, Any],
    *,
    return_exceptions: bool,
    is_async: bool = True,
) -> list[Any]:
    """For each input, its documents or, with `return_exceptions`, its exception; see `UmiRetriever.batch`."""
    refuse_unlisted(inputs, "inputs")  # a string alone would be searched letter by letter
    inputs = list(inputs)
    configs = get_config_list(config, len(inputs))
    limit = configs[0].get("max_concurrency") if configs else None
    at_once = max(len(inputs), 1) if limit is None else limit
    if at_once < 1:
        raise ConfigError(f"max_concurrency {at_once}: expected 1 or more, or None for all inputs at once")
    answers: list[Any] = []
    for start in range(0, len(inputs), at_once):
        part = slice(start, start + at_once)
        found = await _outcomes(retriever, inputs[part], options, is_async=is_async, leave_out_wrong=return_exceptions)
        for query, own, outcome in zip(inputs[part], configs[part], found, strict=True):
            answering = retriever.model_copy()
            answering._found = partial(_replayed, outcome)
            invoke = answering.ainvoke if is_async else answering.invoke
            try:
                answers.append(await _value(invoke(query, own, run_id=own.get("run_id"), **options)))
            except Exception as error:  # noqa: BLE001 - raised below, when the runs of the group have ended
                answers.append(error)
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is not None and not return_exceptions:
            raise failure
    return answers


def _replayed(
    outcome: SearchResult | Exception, query: str, *, on_stage: OnStage | None = None, **options: Any
) -> SearchResult:
    """The outcome of a query of a batch, in place of a search; its stages are reported to `on_stage`. An error is
    raised."""
    if isinstance(outcome, Exception):
        raise outcome
    for stage in outcome.trace if on_stage is not None else ():
        on_stage(stage.name)(stage)  # type: ignore[misc]
    return outcome


async def _outcomes(
    retriever: UmiRetriever, queries: Sequence[str], options: dict[str, Any], *, is_async: bool, leave_out_wrong: bool
) -> list[SearchResult | Exception]:
    """For each query its result or its error. An error of the whole search is that of every query.

    Args:
        leave_out_wrong: Whether each query that cannot be searched gets its own error. False: one such query makes
            `search_many` raise, so its error is that of every query.
    """
    errors: dict[int, Exception] = {}
    for row, query in enumerate(queries if leave_out_wrong else ()):
        try:
            checked_query(end_of(query))
        except InputError as error:
            errors[row] = error
    asked = [end_of(query) for row, query in enumerate(queries) if row not in errors]
    try:
        search_many = retriever.umi.asearch_many if is_async else retriever.umi.search_many
        results = iter(await _value(search_many(asked, **retriever.core_options(options))))
    except Exception as error:  # noqa: BLE001 - each input raises it in its own run
        return [errors.get(row, error) for row in range(len(queries))]
    return [errors[row] if row in errors else next(results) for row in range(len(queries))]


async def _value(value: Any) -> Any:
    return await value if isawaitable(value) else value
