"""`UmiRetriever.batch`: searches many inputs by one call of `search_many`.

Each input has a callback run of its own, as in LangChain's `batch`.

`batch` and `abatch` run the same coroutine. In `batch`, callbacks and `search_many` are synchronous, so the coroutine
never suspends, and `batch` runs it to its end without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
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


def batch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **call: Any) -> list[Any]:
    """See `UmiRetriever.batch`."""

    def entered(manager: CallbackManager) -> AbstractAsyncContextManager[OnStage | None]:
        return nullcontext(stages(manager))

    work = _Batch(retriever, CallbackManager, retriever.umi.search_many, entered, retriever.answer, **call)
    try:
        work.answers(inputs, config).send(None)
    except StopIteration as end:
        answers: list[Any] = end.value
        return answers
    raise AssertionError("a synchronous callback or search returned an awaitable")


async def abatch(retriever: UmiRetriever, inputs: Sequence[str], config: Configs, **call: Any) -> list[Any]:
    """See `UmiRetriever.abatch`."""
    work = _Batch(retriever, AsyncCallbackManager, retriever.umi.asearch_many, astages, retriever.aanswer, **call)
    return await work.answers(inputs, config)


@dataclass(frozen=True)
class _Batch:
    """One call of `batch` or `abatch`.

    `manager`, `search_many` and `answer_of` are synchronous for `batch` and asynchronous for `abatch`.
    """

    retriever: UmiRetriever
    manager: type[CallbackManager] | type[AsyncCallbackManager]
    search_many: Callable[..., Any]
    """`search_many` or `asearch_many` of the core."""
    stages_of: Callable[[Any], AbstractAsyncContextManager[OnStage | None]]
    """From the callback manager of an input to the `on_stage` of its search."""
    answer_of: Callable[..., Any]
    """From a result and the options of its search to documents."""
    options: dict[str, Any]
    """`CallOptions`, equal for all inputs."""
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
        """`answers` for inputs that are searched together, by one call of `search_many`."""
        runs = [await self._run(query, config) for query, config in zip(inputs, configs, strict=True)]
        answers: list[Any] = [_query_error(query) if self.return_exceptions else None for query in inputs]
        valid = [row for row, answer in enumerate(answers) if answer is None]
        try:
            async with AsyncExitStack() as opened:
                on_stages = [await opened.enter_async_context(self.stages_of(runs[row].get_child())) for row in valid]
                options = self.retriever.core_options(self.options)
                queries = [end_of(inputs[row]) for row in valid]
                results = await _value(self.search_many(queries, on_stages=on_stages, **options))
                for row, on_stage, result in zip(valid, on_stages, results, strict=True):
                    report_losses(on_stage, result.degraded)
                    answers[row] = await _value(self.answer_of(result, options))
        except Exception as error:  # noqa: BLE001 - every run must be ended; the error is raised or returned below
            for row in valid:
                answers[row] = error
        for run, answer in zip(runs, answers, strict=True):
            failed = isinstance(answer, Exception)
            await _value(run.on_retriever_error(answer) if failed else run.on_retriever_end(answer))
        first = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if first is not None and not self.return_exceptions:
            raise first
        return answers

    async def _run(self, query: str, config: RunnableConfig) -> Any:
        """Start the callback run of one input, in the same way as `BaseRetriever.invoke`."""
        retriever = self.retriever
        manager = self.manager.configure(
            inheritable_callbacks=config.get("callbacks"),
            inheritable_tags=config.get("tags"),
            local_tags=retriever.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **retriever._get_ls_params()},
            local_metadata=retriever.metadata,
        )
        name = config.get("run_name") or retriever.get_name()
        return await _value(manager.on_retriever_start(None, query, name=name, run_id=config.get("run_id")))


async def _value(value: Any) -> Any:
    """`value` or, if it is awaitable, its result."""
    return await value if isawaitable(value) else value


def _query_error(query: str) -> InputError | None:
    """The error that a search for this input raises; None: the input can be searched."""
    try:
        checked_query(end_of(query))
    except InputError as error:
        return error
    return None
