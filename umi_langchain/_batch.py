"""Many inputs at once: a run for each, as LangChain's own `batch` would open them, and one search for all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list

from umi_common.errors import InputError
from umi_common.search.request import checked_query
from umi_common.types import SearchResult
from umi_langchain._convert import to_scored_documents
from umi_langchain._trace import astages, stages, tell_losses

if TYPE_CHECKING:
    from umi_langchain.retriever import UmiRetriever

Configs = RunnableConfig | list[RunnableConfig] | None
Answers = dict[int, "list[Document] | Exception"]
"""By place of the input."""


def batch(
    retriever: UmiRetriever, inputs: Sequence[str], config: Configs, options: dict[str, Any], *, return_exceptions: bool
) -> list[Any]:
    """See `UmiRetriever.batch`."""
    runs = [
        CallbackManager.configure(**_listeners(retriever, each)).on_retriever_start(
            None, query, **_named(retriever, each)
        )
        for query, each in zip(inputs, get_config_list(config, len(inputs)), strict=True)
    ]
    answers, asked = _faults(inputs) if return_exceptions else {}, list[int]()
    try:
        asked = [place for place in range(len(inputs)) if place not in answers]
        told = [stages(runs[place]) for place in asked]
        queries = [inputs[place] for place in asked]
        results = retriever.umi.search_many(queries, on_stages=told, **retriever.core_options(options))
        answers |= _documents(retriever, asked, results)
        for on_stage, result in zip(told, results, strict=True):
            tell_losses(on_stage, result)
    except Exception as error:  # noqa: BLE001 - every run must end; it is raised or returned below
        answers |= dict.fromkeys(asked, error)
    for place, run in enumerate(runs):
        answer = answers[place]
        if isinstance(answer, Exception):
            run.on_retriever_error(answer)
        else:
            run.on_retriever_end(answer)
    return _aligned(answers, return_exceptions)


async def abatch(
    retriever: UmiRetriever, inputs: Sequence[str], config: Configs, options: dict[str, Any], *, return_exceptions: bool
) -> list[Any]:
    """See `UmiRetriever.abatch`."""
    runs = [
        await AsyncCallbackManager.configure(**_listeners(retriever, each)).on_retriever_start(
            None, query, **_named(retriever, each)
        )
        for query, each in zip(inputs, get_config_list(config, len(inputs)), strict=True)
    ]
    answers, asked = _faults(inputs) if return_exceptions else {}, list[int]()
    try:
        async with AsyncExitStack() as reports:
            asked = [place for place in range(len(inputs)) if place not in answers]
            told = [await reports.enter_async_context(astages(runs[place])) for place in asked]
            queries = [inputs[place] for place in asked]
            results = await retriever.umi.asearch_many(queries, on_stages=told, **retriever.core_options(options))
            answers |= _documents(retriever, asked, results)
            for on_stage, result in zip(told, results, strict=True):
                tell_losses(on_stage, result)
    except Exception as error:  # noqa: BLE001 - every run must end; it is raised or returned below
        answers |= dict.fromkeys(asked, error)
    for place, run in enumerate(runs):
        answer = answers[place]
        if isinstance(answer, Exception):
            await run.on_retriever_error(answer)
        else:
            await run.on_retriever_end(answer)
    return _aligned(answers, return_exceptions)


def _listeners(retriever: UmiRetriever, config: RunnableConfig) -> dict[str, Any]:
    """What `BaseRetriever.invoke` gives the callback manager."""
    return {
        "inheritable_callbacks": config.get("callbacks"),
        "inheritable_tags": config.get("tags"),
        "local_tags": retriever.tags,
        "inheritable_metadata": {**(config.get("metadata") or {}), **retriever._get_ls_params()},
        "local_metadata": retriever.metadata,
    }


def _named(retriever: UmiRetriever, config: RunnableConfig) -> dict[str, Any]:
    return {"name": config.get("run_name") or retriever.get_name(), "run_id": config.get("run_id")}


def _faults(inputs: Sequence[str]) -> Answers:
    """What is wrong with single inputs, so that the others are searched all the same."""
    faults: Answers = {}
    for place, query in enumerate(inputs):
        try:
            checked_query(query)
        except InputError as error:
            faults[place] = error
    return faults


def _documents(retriever: UmiRetriever, places: Sequence[int], results: Sequence[SearchResult]) -> Answers:
    found = (to_scored_documents(result, retriever.keys) for result in results)
    return dict(zip(places, found, strict=True))


def _aligned(answers: Answers, return_exceptions: bool) -> list[Any]:
    aligned = [answers[place] for place in sorted(answers)]
    for answer in aligned:
        if isinstance(answer, Exception) and not return_exceptions:
            raise answer
    return aligned
