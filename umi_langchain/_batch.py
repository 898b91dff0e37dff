"""`batch` and `abatch` of the retriever: many queries share a search, and each query has its own run of LangChain.

The inputs are searched in groups of at most `max_concurrency`: a group is one call of `search_many` or `asearch_many`.
Then a copy of the retriever is invoked for each input, so that LangChain opens the usual run; in place of a search, the
copy returns the result that was found (`Found`). The child runs of the stages are therefore opened when the search has
ended, and do not show when a stage ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list

from umi_common.errors import ConfigError, InputError
from umi_common.protocols import OnStage
from umi_common.search.request import checked_query, end_of, refuse_unlisted
from umi_common.types import SearchResult

if TYPE_CHECKING:
    from umi_langchain.retriever import UmiRetriever


def batch(*args: Any, **named: Any) -> list[Any]:
    """See `UmiRetriever.batch`. With `is_async=False` all calls are synchronous, so the coroutine never suspends."""
    try:
        abatch(*args, is_async=False, **named).send(None)
    except StopIteration as end:
        return list(end.value)
    raise AssertionError("a synchronous search returned an awaitable")


async def abatch(
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
            answering._found = Found(outcome)
            invoke = answering.ainvoke if is_async else answering.invoke
            try:
                answers.append(await _value(invoke(query, own, run_id=own.get("run_id"), **options)))
            except Exception as error:  # noqa: BLE001 - raised below, when the runs of the group have ended
                answers.append(error)
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is not None and not return_exceptions:
            raise failure
    return answers


@dataclass(frozen=True)
class Found:
    """The outcome of one query of a batch, which a copy of the retriever searches in place of `UmiRetriever.umi`."""

    outcome: SearchResult | Exception

    def search(self, query: str, *, on_stage: OnStage | None = None, **options: Any) -> SearchResult:
        """The result, whose stages are reported to `on_stage`; raises the outcome if it is an error."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        for stage in self.outcome.trace if on_stage is not None else ():
            on_stage(stage.name)(stage)  # type: ignore[misc]
        return self.outcome

    async def asearch(self, query: str, **options: Any) -> SearchResult:
        """`search` for an event loop."""
        return self.search(query, **options)


async def _outcomes(
    retriever: UmiRetriever, queries: Sequence[str], options: dict[str, Any], *, is_async: bool, leave_out_wrong: bool
) -> list[SearchResult | Exception]:
    """For each query its result or its error. An error of the whole search is that of every query.

    Args:
        leave_out_wrong: Whether each query that cannot be searched gets its own error. False: one such query makes
            `search_many` raise, so its error is that of every query.
    """
    umi = retriever.umi
    errors = [_query_error(query) if leave_out_wrong else None for query in queries]
    asked = [end_of(query) for query, error in zip(queries, errors, strict=True) if error is None]
    try:
        search_many = umi.asearch_many if is_async else umi.search_many
        results = iter(await _value(search_many(asked, **retriever.core_options(options))))
    except Exception as error:  # noqa: BLE001 - each input raises it in its own run
        return [error if own is None else own for own in errors]
    return [next(results) if error is None else error for error in errors]


async def _value(value: Any) -> Any:
    return await value if isawaitable(value) else value


def _query_error(query: str) -> InputError | None:
    """The error that a search for this query, cut by `end_of` if it is too long, raises; None: it can be searched."""
    try:
        checked_query(end_of(query))
    except InputError as error:
        return error
    return None
