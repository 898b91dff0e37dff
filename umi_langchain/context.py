"""`create_umi_context`: a runnable from a question to a context for a prompt."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableLambda
from typing_extensions import Unpack

from umi_common.context.budget import AssembledContext, AssemblyPolicy, TokenBudget, asked_assembly
from umi_common.frameworks.options import refuse_other_retriever
from umi_common.search.passages import assemble_for
from umi_common.search.request import checked_limit, end_of
from umi_common.types import SearchResult
from umi_langchain._trace import asearched, searched
from umi_langchain.retriever import CallOptions, UmiRetriever

HITS = 50
"""Number of hits that are candidates for the context."""


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

    A call takes the same options as a call of the retriever: `context.invoke(question, filter={"user": "ann"})`.

    Args:
        retriever: Searches, with its own filter and other settings.
        budget: Limits in tokens: of the whole context, per source and per chunk. A number limits the whole context.
            None: the budget of the settings `assembly`.
        policy: Order, format and neighbours; None: that of the settings `assembly`. If the retriever's `whole` is set,
            sections take the place of chunks, and no neighbours are added.
        counter: Counts tokens: the name of a model or encoding, a tokenizer, or a function; None: the default of
            `counter_for`.
        k: Number of hits that are candidates for the context, 1..100.
        min_relevance: 0..1; hits of lower relevance are left out; None: the retriever's own value. The context is "" if
            no hit is left.

    Raises:
        ConfigError: If `retriever` is no `UmiRetriever` or has a search method of its own, or if `budget` or `policy`
            has the wrong type.
        InvalidLimit: If `k` is outside 1..100.
    """
    refuse_other_retriever(retriever, UmiRetriever, "search", "asearch")
    checked_limit(k, "k")  # wrong arguments are refused here, not at the first question
    asked_assembly(retriever.umi.config.assembly, budget, policy)
    packing = {"budget": budget, "policy": policy, "counter": counter}
    asked = {"k": k, "min_relevance": min_relevance}

    def sections(found: SearchResult, options: dict[str, Any]) -> str:
        limits, layout = asked_assembly(retriever.umi.config.assembly, budget, policy)
        hits, history = retriever.sections(found, options).hits, options["history"]
        limited = {**packing, "budget": limits, "policy": layout}
        return assemble_for(found.query, hits, history=history, found=found, **limited).text

    def context(query: str, run_manager: CallbackManagerForChainRun, **call: Unpack[CallOptions]) -> str:
        options, umi = retriever.core_options({**asked, **call}), retriever.umi
        search = partial(umi.get_context, **packing) if retriever.whole is None else umi.search
        found = searched(search, run_manager.get_child(), end_of(query), **options)
        return found.text if isinstance(found, AssembledContext) else sections(found, options)

    async def acontext(query: str, run_manager: AsyncCallbackManagerForChainRun, **call: Unpack[CallOptions]) -> str:
        options, umi = retriever.core_options({**asked, **call}), retriever.umi
        search = partial(umi.aget_context, **packing) if retriever.whole is None else umi.asearch
        found = await asearched(search, run_manager.get_child(), end_of(query), **options)
        return found.text if isinstance(found, AssembledContext) else await asyncio.to_thread(sections, found, options)

    return RunnableLambda(context, acontext, name="umi_context")
