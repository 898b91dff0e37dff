"""umi as a tool for agents: the model may ask and narrow, never widen."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field, create_model

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget
from umi_common.errors import InputError
from umi_common.framework_records import read_time
from umi_common.types import SearchResult, TimeRange
from umi_langchain._convert import to_scored_documents
from umi_langchain.retriever import UmiRetriever

DESCRIPTION = "Search the stored texts and earlier conversations. Ask in plain words for what you need to know."
NOTHING = "Nothing found. Ask in other words, or with fewer conditions."
Reply = tuple[str, list[Document]]


def create_umi_tool(
    retriever: UmiRetriever,
    name: str = "search_memory",
    description: str = DESCRIPTION,
    *,
    k_max: int = 20,
    budget: TokenBudget | None = None,
    policy: AssemblyPolicy | None = None,
) -> BaseTool:
    """A tool with query, k, filter and time range; its content is a context with sources, its artifact the documents.

    A filter or period from the model narrows the retriever's own; wrong ones come back as an error it can read.

    Args:
        retriever: Searches; its `k` is the default.
        name: What the model calls it by.
        description: Tells the model when to.
        k_max: Most documents that the model may ask for, 1..100.
        budget: Tokens of the content; None: `TokenBudget()`.
        policy: Order and format of the content; None: `AssemblyPolicy()`.
    """
    budget = TokenBudget() if budget is None else budget
    k_default = min(retriever.k, k_max)

    def reply(result: SearchResult) -> Reply:
        if not result.hits:
            return NOTHING, []
        content = assemble(result.hits, budget=budget, policy=policy).text
        return content, to_scored_documents(result, retriever.keys)

    def search(query: str, **asked: Any) -> Reply:
        try:
            return reply(retriever.search(query, **_options(**{"k": k_default, **asked})))
        except InputError as error:
            raise ToolException(str(error)) from error

    async def asearch(query: str, **asked: Any) -> Reply:
        try:
            result = await retriever.asearch(query, **_options(**{"k": k_default, **asked}))
        except InputError as error:
            raise ToolException(str(error)) from error
        return await asyncio.to_thread(reply, result)  # counting tokens takes milliseconds

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=_schema(k_default, k_max),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=True,
    )


def _schema(k: int, k_max: int) -> type[BaseModel]:
    when = "ISO date or time, for example 2024-05-01 or 2024-05-01T09:30:00+02:00"
    return create_model(
        "UmiSearch",
        query=(str, Field(description="What to look for, in plain words.")),
        k=(int, Field(default=k, ge=1, le=k_max, description="At most so many texts.")),
        filter=(
            dict[str, Any] | None,
            Field(default=None, description='Conditions on metadata: {"user": "ann"} or {"year": {"$gte": 2023}}.'),
        ),
        start=(str | None, Field(default=None, description=f"Only what happened then or later; {when}.")),
        end=(str | None, Field(default=None, description=f"Only what happened before; {when}.")),
    )


def _options(
    k: int, filter: dict[str, Any] | None = None, start: str | None = None, end: str | None = None
) -> dict[str, Any]:
    window = None if start is None and end is None else TimeRange(_moment("start", start), _moment("end", end))
    return {"k": k, "filter": filter if filter else None, "time_range": window}


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = read_time(text)
    if moment is None:
        raise InputError(f"{name} {text!r:.40} is no ISO date or time; expected for example 2024-05-01")
    return moment
