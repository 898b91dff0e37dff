"""Give a retriever's hits to a model: `create_umi_tool` makes a tool for agents, `create_umi_context` a runnable for
chains."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    CallbackManager,
    CallbackManagerForChainRun,
)
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from typing_extensions import Unpack

from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.context.tokens.counter import counter_for
from umi_common.errors import InputError
from umi_common.frameworks.classes import refuse_other_retriever
from umi_common.frameworks.tools import TOOL_DESCRIPTION, nothing_found, tool_schema, tool_window, wrong_arguments
from umi_common.runtime.losses import with_losses
from umi_common.search.fetch import chunks_beside
from umi_common.search.passages import assemble_for
from umi_common.search.request import checked_limit, checked_relevance, end_of
from umi_common.types import SearchResult
from umi_langchain._runs import asearched, searched
from umi_langchain.retriever import CallOptions, UmiRetriever

HITS = 50
"""Default number of hits that are candidates for a context."""
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

    The content of the tool's message is a context with sources; the artifact is the list of documents. Documents must
    pass the filters and time ranges of both the model and the retriever. For wrong arguments the model gets an error
    message. If nothing is found with the model's filter, the content names the metadata keys that exist. If a part of
    the search failed, a line after the context names the part; the budget does not count this line. A call raises
    BudgetError if the budget is too small to show one character of any hit, because the model cannot correct this.

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
        ConfigError, InvalidLimit: If an argument is wrong, or `retriever` has a search method of its own.
    """
    refuse_other_retriever(retriever, UmiRetriever, "search", "asearch")
    asked_assembly(retriever.umi.config.assembly, budget, policy)  # raises the errors of wrong arguments
    k = min(checked_limit(retriever.k, "k"), checked_limit(k_max, "k_max"))
    calls = _Calls(retriever, k, {"budget": budget, "policy": policy, "counter": None})
    return StructuredTool.from_function(
        calls.search,
        calls.asearch,
        name=name,
        description=description,
        args_schema=tool_schema("k", k, k_max),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=wrong_arguments,
    )


@dataclass(frozen=True)
class _Calls:
    """The synchronous and the asynchronous function of one tool. Its `k` counts if the model gives none."""

    retriever: UmiRetriever
    k: int
    packing: dict[str, Any]
    """budget, policy and counter of `_packed`."""

    def search(self, query: str, callbacks: CallbackManager | None = None, **asked: Any) -> Reply:
        try:  # LangChain returns a ToolException's message to the model
            options = self._options(asked)
            result = searched(self.retriever.umi.search, callbacks, end_of(query), **options)
        except InputError as error:
            raise ToolException(str(error)) from error
        return self._reply(result, options, asked)

    async def asearch(self, query: str, callbacks: AsyncCallbackManager | None = None, **asked: Any) -> Reply:
        try:
            options = self._options(asked)
            result = await asearched(self.retriever.umi.asearch, callbacks, end_of(query), **options)
        except InputError as error:
            raise ToolException(str(error)) from error
        return await asyncio.to_thread(self._reply, result, options, asked)  # counting tokens takes milliseconds

    def _options(self, asked: dict[str, Any]) -> dict[str, Any]:
        window = tool_window(asked.get("start"), asked.get("end"))
        conditions = {"filter": asked.get("filter") or None, "time_range": window}
        return self.retriever.core_options({"k": asked.get("k", self.k), **conditions})

    def _reply(self, found: SearchResult, options: dict[str, Any], asked: dict[str, Any]) -> Reply:
        retriever = self.retriever
        if not found.hits:
            own = retriever.core_options({})
            content = nothing_found(retriever.umi.store, asked.get("filter"), own["where"], own["time_range"])
            return with_losses(content, found.degraded), []
        text, result = _packed(retriever, found, options, self.packing)
        return with_losses(text, result.degraded), retriever.documents(result)


def create_umi_context(
    retriever: UmiRetriever,
    *,
    budget: TokenBudget | int | None = None,
    policy: AssemblyPolicy | None = None,
    counter: Any = None,
    k: int = HITS,
    min_relevance: float | None = None,
) -> Runnable[str, str]:
    """A runnable from a question to a context for a prompt. Context and sources together never exceed the budget.

        chain = {"context": create_umi_context(retriever), "question": RunnablePassthrough()} | prompt | model

    A call takes the same options as a call of the retriever: `context.invoke(question, filter={"user": "ann"})`. If a
    part of the search failed, the log and LangChain's callbacks name it; the text does not.

    Args:
        retriever: Searches, with its own filter and other settings.
        budget, policy: As in `create_umi_tool`.
        counter: Counts tokens: the name of a model or encoding, a tokenizer, or a function; None: the default of
            `counter_for`.
        k: Number of hits that are candidates for the context, 1..100.
        min_relevance: Smallest relevance of a hit, 0..1; None: the retriever's own value. If no hit has it, the context
            is "".

    Raises:
        ConfigError, InvalidLimit: As `create_umi_tool`.
        MissingExtra: If `counter` is a name and tiktoken is not installed.
    """
    refuse_other_retriever(retriever, UmiRetriever, "search", "asearch")
    # wrong arguments raise errors here, not at the first question
    asked = {"k": checked_limit(k, "k"), "min_relevance": checked_relevance(min_relevance)}
    asked_assembly(retriever.umi.config.assembly, budget, policy)
    counter = None if counter is None else counter_for(counter)
    packing = {"budget": budget, "policy": policy, "counter": counter}

    def text(found: SearchResult | AssembledContext, options: dict[str, Any]) -> str:
        return found.text if isinstance(found, AssembledContext) else _packed(retriever, found, options, packing)[0]

    def context(query: str, run_manager: CallbackManagerForChainRun, **call: Unpack[CallOptions]) -> str:
        options, umi = retriever.core_options({**asked, **call}), retriever.umi
        # with `whole`, `_packed` takes the sections of the hits
        search = partial(umi.get_context, **packing) if retriever.whole is None else umi.search
        found = searched(search, run_manager.get_child(), end_of(query), **options)
        return text(found, options)

    async def acontext(query: str, run_manager: AsyncCallbackManagerForChainRun, **call: Unpack[CallOptions]) -> str:
        options, umi = retriever.core_options({**asked, **call}), retriever.umi
        search = partial(umi.aget_context, **packing) if retriever.whole is None else umi.asearch
        found = await asearched(search, run_manager.get_child(), end_of(query), **options)
        return await asyncio.to_thread(text, found, options)

    return RunnableLambda(context, acontext, name="umi_context")


def _packed(
    retriever: UmiRetriever, found: SearchResult, options: dict[str, Any], packing: dict[str, Any]
) -> tuple[str, SearchResult]:
    """(text of a context, the result that it shows, with sections in place of chunks if `retriever.whole` is set)."""
    budget, policy = asked_assembly(retriever.umi.config.assembly, packing["budget"], packing["policy"])
    policy = policy if retriever.whole is None else replace(policy, neighbours=0)  # a section holds the neighbours
    around, lost = chunks_beside(retriever.umi.store, found.ids, policy, options["where"], options["time_range"])
    result = retriever.sections(found, options)
    packing = {**packing, "budget": budget, "policy": policy, "around": around}
    text = assemble_for(found.query, result.hits, history=options["history"], found=found, **packing).text
    return text, replace(result, degraded=(*result.degraded, *lost))
