"""umi as a tool for agents. The filter and the time range that a model gives apply in addition to the retriever's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from umi_common.context.budget import AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.errors import InputError
from umi_common.frameworks.options import refuse_other_retriever
from umi_common.frameworks.tools import TOOL_DESCRIPTION, nothing_found, tool_schema, tool_window
from umi_common.runtime.losses import with_losses
from umi_common.search.fetch import chunks_beside
from umi_common.search.passages import assemble_for
from umi_common.search.request import checked_limit, end_of
from umi_common.types import SearchResult
from umi_langchain._trace import astages, report_losses, stages
from umi_langchain.retriever import UmiRetriever

Reply = tuple[str, list[Document]]
"""(content, artifact) of a tool's message."""


def create_umi_tool(
    retriever: UmiRetriever,
    name: str = "search_memory",
    description: str = TOOL_DESCRIPTION,
    *,
    k_max: int = 20,
    budget: TokenBudget | int | None = None,
    policy: AssemblyPolicy | None = None,
) -> BaseTool:
    """A tool whose arguments are query, k, filter, and start and end of a time range.

    The content of the tool's message is a context with sources, the artifact is the list of documents. Documents must
    pass the model's filter and time range, and those of the retriever. For wrong arguments the model gets an error
    message. If nothing is found with the model's filter, the content names the metadata keys that exist. If a part of
    the search failed, a line after the context names it; the budget does not count this line.

    Args:
        retriever: Searches. If the model gives no `k`, the retriever's `k` is used, at most `k_max`.
        name: The tool's name for the model.
        description: Tells the model when to call the tool.
        k_max: Largest number of documents that the model may ask for, 1..100.
        budget: Limits in tokens of the content: in total, per source and per chunk. A number limits the total. None:
            the budget of the settings `assembly`.
        policy: Order, format and neighbours of the content; None: that of the settings `assembly`. If the retriever's
            `whole` is set, sections take the place of chunks, and no neighbours are added.

    Raises:
        ConfigError: If `retriever` is no `UmiRetriever` or has a search method of its own, or if `budget` or `policy`
            has the wrong type.
        InvalidLimit: If `k_max` is outside 1..100.
    """
    refuse_other_retriever(retriever, UmiRetriever, "search", "asearch")
    asked_assembly(retriever.umi.config.assembly, budget, policy)  # wrong arguments are refused here
    k = min(retriever.k, checked_limit(k_max, "k_max"))
    calls = _Calls(retriever, k, budget, policy)
    return StructuredTool.from_function(
        calls.search,
        calls.asearch,
        name=name,
        description=description,
        args_schema=tool_schema("k", k, k_max),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=str,
    )


@dataclass(frozen=True)
class _Calls:
    """The synchronous and the asynchronous function of one tool. The fields are arguments of `create_umi_tool`."""

    retriever: UmiRetriever
    k: int
    budget: TokenBudget | int | None
    policy: AssemblyPolicy | None

    def search(self, query: str, callbacks: CallbackManager | None = None, **asked: Any) -> Reply:
        """Search, and return the content and the documents.

        Raises:
            ToolException: If an argument is wrong; LangChain returns its message to the model.
        """
        on_stage = stages(callbacks)
        try:
            options = self._options(**asked)
            result = self.retriever.umi.search(end_of(query), on_stage=on_stage, **options)
        except InputError as error:
            raise ToolException(str(error)) from error
        report_losses(on_stage, result.degraded)
        return self._reply(result, options, asked)

    async def asearch(self, query: str, callbacks: AsyncCallbackManager | None = None, **asked: Any) -> Reply:
        """`search` for an event loop."""
        async with astages(callbacks) as on_stage:
            try:
                options = self._options(**asked)
                result = await self.retriever.umi.asearch(end_of(query), on_stage=on_stage, **options)
            except InputError as error:
                raise ToolException(str(error)) from error
            report_losses(on_stage, result.degraded)
        return await asyncio.to_thread(self._reply, result, options, asked)  # counting tokens takes milliseconds

    def _options(
        self,
        k: int | None = None,
        filter: dict[str, Any] | None = None,
        start: str | None = None,
        end: str | None = None,
    ) -> dict[str, Any]:
        """The options of `DualRetriever.search` for the model's arguments."""
        asked = {"k": self.k if k is None else k, "filter": filter or None, "time_range": tool_window(start, end)}
        return self.retriever.core_options(asked)

    def _reply(self, found: SearchResult, options: dict[str, Any], asked: dict[str, Any]) -> Reply:
        """The content that the model reads, and the documents.

        Args:
            found: The result of the search.
            options: The options of the search, from `core_options`.
            asked: The arguments that the model gave.
        """
        retriever = self.retriever
        if not found.hits:
            own = retriever.core_options({})
            content = nothing_found(retriever.umi.store, asked.get("filter"), own["where"], own["time_range"])
            return with_losses(content, found.degraded), []
        limits, layout = asked_assembly(retriever.umi.config.assembly, self.budget, self.policy)
        layout = layout if retriever.whole is None else replace(layout, neighbours=0)  # a section holds the neighbours
        around, lost = chunks_beside(retriever.umi.store, found.ids, layout, options["where"], options["time_range"])
        result = retriever.sections(found, options)
        context = assemble_for(found.query, result.hits, found=found, budget=limits, policy=layout, around=around)
        return with_losses(context.text, (*result.degraded, *lost)), retriever.documents(result)
