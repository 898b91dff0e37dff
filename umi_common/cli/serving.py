"""`umi mcp`: an MCP server over standard input and output, whose tools search a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field, create_model

from umi_common import __version__
from umi_common.cli.options import DEFAULT_STORE, ConfigOption, opened_retriever, where_of
from umi_common.errors import InputError, UmiError, optional_module
from umi_common.explain import to_text
from umi_common.filters import Scope, asked_filter, matches, parse_filter
from umi_common.filters.tree import comparisons, required, shown
from umi_common.frameworks.records import own_metadata, to_chunk
from umi_common.frameworks.tools import (
    TOOL_DESCRIPTION,
    UNLIKELY,
    Conditions,
    End,
    Query,
    Start,
    ToolArguments,
    nothing_found,
    tool_time,
    tool_window,
)
from umi_common.retriever import DualRetriever
from umi_common.runtime.losses import with_losses
from umi_common.types import Chunk, Hit, utc_now

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.tools import Tool

HITS_MAX = 50
"""Largest number of hits that one call may ask for: the model reads all of them."""
TOKENS_MAX = 20_000
"""Largest number of tokens of a context that one call may ask for."""
HITS_DEFAULT, TOKENS_DEFAULT = 5, 2_000
"""Numbers of hits and of tokens if a call does not state them."""
Tokens = Annotated[int, Field(ge=50, le=TOKENS_MAX, description="Largest number of tokens of the answer.")]
Limit = Annotated[int, Field(ge=1, le=HITS_MAX, description="Largest number of texts to return.")]

FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-w",
        help="KEY=VALUE or a JSON filter, applied to every call; if given several times, all must hold.",
    ),
]
WritableOption = Annotated[
    bool, typer.Option("--writable", help="Offer a tool that adds texts; create the store if there is none.")
]


def mcp(
    store: Annotated[Path, typer.Argument(help="The store's folder.")] = DEFAULT_STORE,
    named: Annotated[
        Path | None, typer.Option("--store", "-s", help="The store's folder, as the other commands take it.")
    ] = None,
    filter: FilterOption = None,
    writable: WritableOption = False,
    config: ConfigOption = None,
) -> None:
    """Serve a store to agents over MCP, on stdin and stdout: tools to search, to pack a context, to explain."""
    if named is not None and store not in (DEFAULT_STORE, named):
        raise typer.BadParameter(f"two stores, {store} and {named}; give one of them")
    optional_module("mcp.server", "mcp", "mcp")
    scope = Scope(parse_filter(where_of(filter, "--filter", exact=True)))
    with opened_retriever(named or store, config, writable=writable) as umi:
        _server(umi, scope, writable=writable).run("stdio")


def _server(umi: DualRetriever, scope: Scope, *, writable: bool) -> MCPServer[Any]:
    """An MCP server with the tools `search`, `context` and `explain`, and `add` if `writable`. They read and write only
    chunks that pass the filter of `scope`."""
    from mcp.server import MCPServer

    def conditions(filter: Conditions, start: str | None, end: str | None) -> dict[str, Any]:
        return {"where": scope.narrow(asked_filter(filter)), "time_range": tool_window(start, end)}

    async def search(
        query: Query, limit: Limit = HITS_DEFAULT, filter: Conditions = None, start: Start = None, end: End = None
    ) -> dict[str, Any]:
        with _errors_for_the_model():
            result = await umi.asearch(query, limit=limit, **conditions(filter, start, end))
            note = UNLIKELY if result.answerable is False else ""
            if not result.hits:
                note = nothing_found(umi.store, filter, scope.where, None)
            return {"hits": list(map(_shown, result)), "note": with_losses(note, result.degraded)}

    async def context(
        query: Query, tokens: Tokens = TOKENS_DEFAULT, filter: Conditions = None, start: Start = None, end: End = None
    ) -> str:
        with _errors_for_the_model():
            asked = conditions(filter, start, end)
            packed = await umi.aget_context(query, budget=tokens, limit=HITS_MAX, **asked)
            text = packed.text or nothing_found(umi.store, filter, scope.where, None)
            return with_losses(text, packed.degraded)

    async def explain(
        query: Query, limit: Limit = HITS_DEFAULT, filter: Conditions = None, start: Start = None, end: End = None
    ) -> str:
        with _errors_for_the_model():
            return to_text(await umi.asearch(query, limit=limit, **conditions(filter, start, end)), full=True)

    tools = [
        _tool(search, TOOL_DESCRIPTION),
        _tool(context, "The stored passages that answer a question best, within a token budget, with sources."),
        _tool(explain, "How a search ranked the stored texts: ranks, scores, and the stages with their durations."),
    ]
    if writable:
        tools.append(_tool(_adding(umi, scope), "Store a text, so that later searches find it; returns its id."))
    return MCPServer("umi", version=__version__, instructions=TOOL_DESCRIPTION, tools=tools)


def _shown(hit: Hit) -> dict[str, Any]:
    chunk = hit.chunk
    return {"id": chunk.id, "text": chunk.text, "relevance": hit.relevance, "metadata": own_metadata(chunk)}


def _tool(function: Any, description: str) -> Tool:
    """The MCP tool of a function. The pydantic model that MCP makes of the function's parameters is replaced by a
    subclass of it and of `ToolArguments`, to add the checks of `ToolArguments`."""
    from mcp.server.mcpserver.tools import Tool

    tool = Tool.from_function(function, description=description)
    own = tool.fn_metadata.arg_model
    arguments: Any = create_model(own.__name__, __base__=(ToolArguments, own))
    tool.fn_metadata.arg_model, tool.parameters = arguments, arguments.model_json_schema()
    return tool


def _adding(umi: DualRetriever, scope: Scope) -> Any:
    """The function of the tool `add`, which stores a text as a chunk (`_scoped_chunk`) and returns its id."""

    async def add(
        text: Annotated[str, Field(description="What to remember, in whole sentences.")],
        source: Annotated[str | None, Field(description="Page, file or conversation that it is from.")] = None,
        time: Annotated[
            str | None, Field(description="When it happened; an ISO date or time. Now, if left out.")
        ] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Further facts to filter by.")] = None,
    ) -> str:
        with _errors_for_the_model():
            tool_time("time", time)  # raises InputError if it is no date or time
            origin = {key: value for key, value in (("source", source), ("timestamp", time)) if value is not None}
            chunk = _scoped_chunk(text, {**(metadata or {}), **origin}, scope)
            await asyncio.to_thread(umi.store.add, [chunk])
            return chunk.id

    return add


def _scoped_chunk(text: str, metadata: dict[str, Any], scope: Scope) -> Chunk:
    """A chunk of the text, the metadata and the values that the filter of `scope` demands, with the current time if the
    metadata has none. Raises InputError if the metadata does not pass the filter."""
    demanded = {each.key: each.value for each in required(scope.where) if each.operator == "$eq"}
    chunk = to_chunk(text, {**demanded, **metadata})
    if scope.where is not None and not matches(scope.where, chunk.metadata):
        keys = ", ".join(sorted({shown(asked.key) for asked in comparisons(scope.where)}))
        raise InputError(
            "the metadata is outside the filter of this server, so the text was not stored; set "
            f"{keys} to another value that the filter allows, or leave out a key for which it demands one value"
        )
    # `to_chunk` makes the id from text and metadata. The current time is no part of them, so that a text that is added
    # again keeps its id.
    return replace(chunk, event_time=utc_now()) if chunk.event_time is None else chunk


@contextmanager
def _errors_for_the_model() -> Iterator[None]:
    """Raise umi's errors as MCP tool errors, whose messages the model reads."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except UmiError as error:
        raise ToolError(str(error)) from error
