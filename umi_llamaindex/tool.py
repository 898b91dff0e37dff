"""umi as a tool for agents: the model gives a query and, optionally, a filter and a time range.

LlamaIndex's `RetrieverTool` and `QueryEngineTool` also work with a `UmiRetriever`, but take only a query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from umi_common.context.budget import AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import InputError
from umi_common.frameworks.classes import refuse_other_retriever
from umi_common.frameworks.tools import TOOL_DESCRIPTION, nothing_found, tool_schema, tool_window, wrong_arguments
from umi_common.runtime.losses import with_losses
from umi_common.search.fetch import chunks_beside
from umi_common.search.passages import assemble_for
from umi_common.search.request import checked_limit
from umi_common.types import Chunk, Degradation, SearchResult
from umi_llamaindex._convert import FILE_PATH
from umi_llamaindex.query import UmiQuery
from umi_llamaindex.retriever import UmiRetriever


class UmiTool(AsyncBaseTool):
    """The tool of `create_umi_tool`. The `content` of an output is a context with sources, `raw_output` the nodes."""

    def __init__(
        self,
        retriever: UmiRetriever,
        metadata: ToolMetadata,
        budget: TokenBudget | int | None,
        policy: AssemblyPolicy | None,
    ) -> None:
        self._retriever = retriever
        self._metadata = metadata
        self._packing = budget, policy

    @property
    def metadata(self) -> ToolMetadata:
        """Name, description and schema of the arguments."""
        return self._metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Search. For wrong arguments, the output is an error message for the model."""
        asked = _arguments(args, kwargs)
        try:
            query = self._query(asked)
            result = self._retriever.search(query)
        except (InputError, ValidationError) as error:
            return self._refusal(asked, error)
        return self._output(asked, query, result)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """`call` for an event loop, which is never blocked."""
        asked = _arguments(args, kwargs)
        try:
            query = self._query(asked)
            result = await self._retriever.asearch(query)
        except (InputError, ValidationError) as error:
            return self._refusal(asked, error)
        return await asyncio.to_thread(self._output, asked, query, result)  # counting tokens takes milliseconds

    def _query(self, asked: dict[str, Any]) -> UmiQuery:
        schema = self._metadata.fn_schema
        assert schema is not None, "create_umi_tool sets it"
        fields = schema(**asked).model_dump()
        window = tool_window(fields["start"], fields["end"])
        return UmiQuery(fields["query"], limit=fields["limit"], filters=fields["filter"] or None, time_range=window)

    def _output(self, asked: dict[str, Any], query: UmiQuery, result: SearchResult) -> ToolOutput:
        nodes: list[NodeWithScore] = self._retriever._nodes_with_events(result)
        if nodes:
            text, lost = self._context(result, self._retriever._options(query))
        else:
            own = self._retriever._options(UmiQuery(query.query_str))  # without the filter and the times of the model
            store = self._retriever.umi.store
            text, lost = nothing_found(store, query.filters, own["where"], own["time_range"]), ()
        content = with_losses(text, (*result.degraded, *lost))
        return ToolOutput(tool_name=self._metadata.get_name(), content=content, raw_input=asked, raw_output=nodes)

    def _context(self, result: SearchResult, options: dict[str, Any]) -> tuple[str, tuple[Degradation, ...]]:
        """(the text that the model reads, the parts of the packing that failed); `options` are those of the search."""
        umi = self._retriever.umi
        limits, layout = asked_assembly(umi.config.assembly, *self._packing)
        beside, lost = chunks_beside(umi.store, result.ids, layout, options["where"], options["time_range"])
        named = _with_file_names([*(hit.chunk for hit in result), *chain.from_iterable(beside.values())])
        hits = [replace(hit, chunk=named[hit.chunk.id]) for hit in result]
        around = {id: [named[chunk.id] for chunk in chunks] for id, chunks in beside.items()}
        return assemble_for(result.query, hits, budget=limits, policy=layout, around=around).text, lost

    def _refusal(self, asked: dict[str, Any], error: Exception) -> ToolOutput:
        name = self._metadata.get_name()
        content = wrong_arguments(error) if isinstance(error, ValidationError) else str(error)
        return ToolOutput(tool_name=name, content=content, raw_input=asked, raw_output=[], is_error=True)


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

    Nodes must pass the filters and time ranges of both the model and the retriever. For wrong arguments the model gets
    an error message. If nothing is found with the model's filter, the content names the metadata keys that exist. If a
    part of the search failed, a line after the context names the part; the budget does not count this line. Index nodes
    are shown with their own text, whereas LlamaIndex's `RetrieverTool` resolves them to their objects.

    Args:
        retriever: Searches; its `similarity_top_k`, at most `limit_max`, is the default limit.
        name: Name of the tool for the model.
        description: Tells the model when to use the tool.
        limit_max: Largest limit that the model may give, 1..100.
        budget: Limits in tokens of the content: in total, per source and per chunk. A number limits the total. None:
            the budget of the settings `assembly`.
        policy: Order and format of the content, and how many chunks beside each hit it may show; None: the policy of
            the settings `assembly`.

    Raises:
        ConfigError, InvalidLimit: If an argument is wrong, or the retriever's class overrides a search method.
    """
    refuse_other_retriever(retriever, UmiRetriever)
    asked_assembly(retriever.umi.config.assembly, budget, policy)  # wrong arguments are refused here
    schema = tool_schema("limit", retriever.similarity_top_k, checked_limit(limit_max, "limit_max"))
    metadata = ToolMetadata(description=description, name=name, fn_schema=schema)
    return UmiTool(retriever, metadata, budget, policy)


def _with_file_names(chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    """Id -> the chunk with the first of its `_names` that no chunk of another source has as its source, so that texts
    of different sources are not joined."""
    sources: dict[str | None, set[str | None]] = {}
    for chunk in chunks:
        for name in _names(chunk):
            sources.setdefault(name, set()).add(chunk.source)
    return {
        chunk.id: replace(chunk, source=next((name for name in _names(chunk) if len(sources[name]) == 1), chunk.source))
        for chunk in chunks
    }


def _names(chunk: Chunk) -> list[str | None]:
    """Names for a chunk's source: "FILE" or "FILE, page N", from the metadata that LlamaIndex's readers write; then the
    same with the file's path, and with the source, in brackets. Only the source, if the metadata has no file name."""
    name, page, path = map(chunk.metadata.get, ("file_name", "page_label", FILE_PATH))
    if name is None:
        return [chunk.source]
    shown = str(name) if page is None else f"{name}, page {page}"
    return [shown, *(f"{shown} ({place})" for place in (path, chunk.source) if place is not None)]


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name. The positional argument, else the argument `input`, is the query."""
    if len(args) > 1:
        raise TypeError(f"tool(..., {args[1]!r:.40}): only the query goes without a name; name it: limit=3")
    named = dict(kwargs)
    query = args[0] if args else named.pop("input", None)
    return named if query is None else {**named, "query": query}
