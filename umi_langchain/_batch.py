"""`UmiRetriever.batch`: one `search_many` for many inputs, but a run for each, as LangChain's own `batch` opens them.

`batch` and `abatch` run the same coroutine. With synchronous callbacks and `search_many` the coroutine never suspends,
so `batch` runs it to its end without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list

from umi_common.errors import ConfigError, InputError
from umi_common.protocols import OnStage
from umi_common.search.request import checked_query, end_of, refuse_unlisted
from umi_langchain._trace import astages, report_losses, stages

if TYPE_CHECKING:
    from umi_langchain.retriever import UmiRetriever

Configs = RunnableConfig | list[RunnableConfig] | None


def batch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **how: Any) -> list[Any]:
    """See `UmiRetriever.batch`."""
    coroutine = _batch(
        retriever, inputs, config, CallbackManager, retriever.umi.search_many, _stages, retriever.answer, **how
    )
    try:
        coroutine.send(None)
    except StopIteration as end:
        answers: list[Any] = end.value
        return answers
    raise AssertionError("a synchronous callback or search returned an awaitable")


def abatch(
    retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **how: Any
) -> Coroutine[Any, Any, list[Any]]:
    """See `UmiRetriever.abatch`."""
    return _batch(
        retriever, inputs, config, AsyncCallbackManager, retriever.umi.asearch_many, astages, retriever.aanswer, **how
    )


async def _batch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, *calls: Any, **how: Any) -> list[Any]:
    """The answers of `_together` for at most `max_concurrency` inputs at a time."""
    refuse_unlisted(inputs, "inputs")
    inputs = list(inputs)
    configs = get_config_list(config, len(inputs))
    stated = configs[0].get("max_concurrency") if configs else None
    at_once = max(len(inputs), 1) if stated is None else stated
    if at_once < 1:
        raise ConfigError(f"max_concurrency {at_once}: expected 1 or more, or None for all inputs at once")
    answers = []
    for start in range(0, len(inputs), at_once):
        part = slice(start, start + at_once)
        answers += await _together(retriever, inputs[part], configs[part], *calls, **how)
    return answers


async def _together(
    retriever: UmiRetriever,
    inputs: Sequence[str],
    configs: Sequence[RunnableConfig],
    manager: type[CallbackManager] | type[AsyncCallbackManager],
    search_many: Callable[..., Any],
    stages_of: Callable[[Any], AbstractAsyncContextManager[OnStage | None]],
    answer_of: Callable[..., Any],
    *,
    options: dict[str, Any],
    return_exceptions: bool,
) -> list[Any]:
    """The documents of each input, or its exception if `return_exceptions`."""
    runs = []
    for query, one in zip(inputs, configs, strict=True):
        begun = manager.configure(**_listeners(retriever, one)).on_retriever_start(
            None, query, name=one.get("run_name") or retriever.get_name(), run_id=one.get("run_id")
        )
        runs.append(await _value(begun))
    answers: list[Any] = [_fault(query) if return_exceptions else None for query in inputs]
    asked = [row for row, answer in enumerate(answers) if answer is None]
    try:
        async with AsyncExitStack() as open_stages:
            told = [await open_stages.enter_async_context(stages_of(runs[row].get_child())) for row in asked]
            core_options = retriever.core_options(options)
            results = await _value(search_many([end_of(inputs[row]) for row in asked], on_stages=told, **core_options))
            for row, on_stage, result in zip(asked, told, results, strict=True):
                report_losses(on_stage, result.degraded)
                answers[row] = await _value(answer_of(result, core_options))
    except Exception as error:  # noqa: BLE001 - every run must end; it is raised or returned below
        for row in asked:
            answers[row] = error
    for run, answer in zip(runs, answers, strict=True):
        failed = isinstance(answer, Exception)
        await _value(run.on_retriever_error(answer) if failed else run.on_retriever_end(answer))
    first = next((answer for answer in answers if isinstance(answer, Exception)), None)
    if first is not None and not return_exceptions:
        raise first
    return answers


async def _value(value: Any) -> Any:
    """The value, awaited if it must be."""
    return await value if isawaitable(value) else value


@asynccontextmanager
async def _stages(manager: CallbackManager) -> AsyncIterator[OnStage | None]:
    yield stages(manager)


def _listeners(retriever: UmiRetriever, config: RunnableConfig) -> dict[str, Any]:
    """The arguments that `BaseRetriever.invoke` gives the callback manager."""
    return {
        "inheritable_callbacks": config.get("callbacks"),
        "inheritable_tags": config.get("tags"),
        "local_tags": retriever.tags,
        "inheritable_metadata": {**(config.get("metadata") or {}), **retriever._get_ls_params()},
        "local_metadata": retriever.metadata,
    }


def _fault(query: str) -> InputError | None:
    """The error of an input that cannot be searched; None: it can. The other inputs are then still searched."""
    try:
        checked_query(end_of(query))
    except InputError as error:
        return error
    return None
