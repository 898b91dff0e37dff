"""umi as a tool for agents: the model gives a query and, if it wants, a filter and a time range.

LlamaIndex's `RetrieverTool` and `QueryEngineTool` work with a `UmiRetriever`, too, but take only a query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from umi_common.context.assemble import assemble
from umi_common.context.budget import AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import InputError
from umi_common.framework_records import NOTHING_FOUND, TOOL_DESCRIPTION, checked_retriever, tool_schema, tool_window
from umi_common.runtime.losses import with_losses
from umi_common.search.request import checked_limit
from umi_common.types import Hit, SearchResult
from umi_llamaindex.query import UmiQuery
from umi_llamaindex.retriever import UmiRetriever


class UmiTool(AsyncBaseTool):
    """Made by `create_umi_tool`. The output's `content` is a context with sources, its `raw_output` the nodes."""

    def __init__(self, retriever: UmiRetriever, metadata: ToolMetadata, write: Callable[[SearchResult], str]) -> None:
        self._retriever = retriever
        self._metadata = metadata
        self._write = write

    @property
    def metadata(self) -> ToolMetadata:
        """Name, description and schema."""
        return self._metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Search; wrong arguments are returned as an error message for the model."""
        asked = _arguments(args, kwargs)
        try:
            result = self._retriever.search(self._query(asked))
        except (InputError, ValidationError) as error:
            return self._refusal(asked, error)
        return self._output(asked, result)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """`call` for an event loop; never blocks it."""
        asked = _arguments(args, kwargs)
        try:
            result = await self._retriever.asearch(self._query(asked))
        except (InputError, ValidationError) as error:
            return self._refusal(asked, error)
        return await asyncio.to_thread(self._output, asked, result)  # counting tokens takes milliseconds

    def _query(self, asked: dict[str, Any]) -> UmiQuery:
        schema = self._metadata.fn_schema
        assert schema is not None, "create_umi_tool sets it"
        fields = schema(**asked).model_dump()
        window = tool_window(fields["start"], fields["end"])
        return UmiQuery(fields["query"], limit=fields["limit"], filters=fields["filter"] or None, time_range=window)

    def _output(self, asked: dict[str, Any], result: SearchResult) -> ToolOutput:
        nodes: list[NodeWithScore] = self._retriever.nodes(result)
        content = with_losses(self._write(result) if nodes else NOTHING_FOUND, result.degraded)
        return ToolOutput(tool_name=self._metadata.get_name(), content=content, raw_input=asked, raw_output=nodes)

    def _refusal(self, asked: dict[str, Any], error: Exception) -> ToolOutput:
        name = self._metadata.get_name()
        return ToolOutput(tool_name=name, content=str(error), raw_input=asked, raw_output=[], is_error=True)


def create_umi_tool(
    retriever: UmiRetriever,
    name: str = "search_memory",
    description: str = TOOL_DESCRIPTION,
    *,
    limit_max: int = 20,
    budget: TokenBudget | int | None = None,
    policy: AssemblyPolicy | None = None,
) -> UmiTool:
    """A tool whose arguments are query, limit, filter, and start and end of a time range.

    Filter and time range apply in addition to the retriever's own. If a part of the search failed, a line after the
    context says so; it is not counted in the budget.

    Args:
        retriever: Searches; its `similarity_top_k` is the default limit.
        name: Name of the tool for the model.
        description: Tells the model when to use the tool.
        limit_max: Largest limit that the model may give, 1..100.
        budget: Tokens of the content; a number: in all; None: the settings `assembly`.
        policy: Order and format of the content; None: the settings `assembly`.
    """
    checked_retriever(retriever, UmiRetriever)
    budget, policy = asked_assembly(retriever.umi.config.assembly, budget, policy)
    schema = tool_schema("limit", retriever.similarity_top_k, checked_limit(limit_max, "limit_max"))
    metadata = ToolMetadata(description=description, name=name, fn_schema=schema)

    def write(result: SearchResult) -> str:
        return assemble(list(map(_with_file_name, result.hits)), budget=budget, policy=policy).text

    return UmiTool(retriever, metadata, write)


def _with_file_name(hit: Hit) -> Hit:
    """The hit with "FILE" or "FILE, page N" as its source, if a reader wrote these into the metadata."""
    name, page = (hit.chunk.metadata.get(key) for key in ("file_name", "page_label"))
    if name is None:
        return hit
    source = str(name) if page is None else f"{name}, page {page}"
    return replace(hit, chunk=replace(hit.chunk, source=source))


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name; a positional one, or `input`, is the query."""
    named = dict(kwargs)
    query = args[0] if args else named.pop("input", None)
    return named if query is None else {"query": query, **named}
