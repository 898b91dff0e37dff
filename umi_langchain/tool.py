"""umi as a tool for agents: the model gives a query, and may narrow the retriever's filter and time range."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from umi_common.context.budget import AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import InputError
from umi_common.frameworks.records import (
    NOTHING_FOUND,
    TOOL_DESCRIPTION,
    refuse_other_retriever,
    tool_schema,
    tool_window,
)
from umi_common.runtime.losses import with_losses
from umi_common.search.fetch import chunks_beside
from umi_common.search.passages import assemble_for
from umi_common.search.request import checked_limit, end_of
from umi_common.types import SearchResult
from umi_langchain._trace import astages, report_losses, stages
from umi_langchain.retriever import UmiRetriever

Reply = tuple[str, list[Document]]


def create_umi_tool(
    retriever: UmiRetriever,
    name: str = "search_memory",
    description: str = TOOL_DESCRIPTION,
    *,
    k_max: int = 20,
    budget: TokenBudget | int | None = None,
    policy: AssemblyPolicy | None = None,
) -> BaseTool:
    """A tool with query, k, filter and time range; its content is a context with sources, its artifact the documents.

    Documents must pass the filter and time range of the model and those of the retriever. For wrong arguments the model
    gets an error message. If a part of the search failed, a line after the context says so; it is not counted in the
    budget.

    Args:
        retriever: Searches; its `k`, but at most `k_max`, is the number of documents if the model names none.
        name: The tool's name for the model.
        description: Tells the model when to call the tool.
        k_max: Largest number of documents that the model may ask for, 1..100.
        budget: Tokens of the content; a number: in all; None: the settings `assembly`.
        policy: Order, format and neighbours of the content; None: the settings `assembly`. Sections (`whole`) get no
            neighbours.
    """
    refuse_other_retriever(retriever, UmiRetriever, "search", "asearch")
    asked_assembly(retriever.umi.config.assembly, budget, policy)  # wrong arguments are refused here
    k_default = min(retriever.k, checked_limit(k_max, "k_max"))

    def reply(found: SearchResult, options: dict[str, Any]) -> Reply:
        limits, layout = asked_assembly(retriever.umi.config.assembly, budget, policy)
        layout = layout if retriever.whole is None else replace(layout, neighbours=0)  # a section holds its neighbours
        around, lost = chunks_beside(retriever.umi.store, found.ids, layout, options["where"], options["time_range"])
        result = retriever.sections(found, options)
        content = NOTHING_FOUND
        if result.hits:
            content = assemble_for(
                found.query, result.hits, found=found, budget=limits, policy=layout, around=around
            ).text
        return with_losses(content, (*result.degraded, *lost)), retriever.documents(result)

    def search(query: str, callbacks: CallbackManager | None = None, k: int = k_default, **more: Any) -> Reply:
        on_stage = stages(callbacks)
        try:
            options = retriever.core_options(_options(k, **more))
            result = retriever.umi.search(end_of(query), on_stage=on_stage, **options)
        except InputError as error:
            raise ToolException(str(error)) from error
        report_losses(on_stage, result.degraded)
        return reply(result, options)

    async def asearch(
        query: str, callbacks: AsyncCallbackManager | None = None, k: int = k_default, **more: Any
    ) -> Reply:
        async with astages(callbacks) as on_stage:
            try:
                options = retriever.core_options(_options(k, **more))
                result = await retriever.umi.asearch(end_of(query), on_stage=on_stage, **options)
            except InputError as error:
                raise ToolException(str(error)) from error
            report_losses(on_stage, result.degraded)
        return await asyncio.to_thread(reply, result, options)  # counting tokens takes milliseconds

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=tool_schema("k", k_default, k_max),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=str,
    )


def _options(
    k: int, filter: dict[str, Any] | None = None, start: str | None = None, end: str | None = None
) -> dict[str, Any]:
    return {"k": k, "filter": filter if filter else None, "time_range": tool_window(start, end)}
