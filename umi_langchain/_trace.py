"""A child run per stage of a search, so that a tracer shows one tree per call."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

from umi_common.types import SearchResult


def tell(run_manager: CallbackManagerForRetrieverRun, result: SearchResult) -> None:
    """Report the stages under the retriever's run: facts and milliseconds, no query text.

    The stages are over by then: the runs' own clock times say nothing, `milliseconds` does.
    """
    if run_manager.handlers:
        manager = run_manager.get_child()
        for name, facts in _stages(result):
            manager.on_chain_start({"name": name}, {}, name=name).on_chain_end(facts)


async def atell(run_manager: AsyncCallbackManagerForRetrieverRun, result: SearchResult) -> None:
    """`tell` for async handlers."""
    if run_manager.handlers:
        manager = run_manager.get_child()
        for name, facts in _stages(result):
            run = await manager.on_chain_start({"name": name}, {}, name=name)
            await run.on_chain_end(facts)


def _stages(result: SearchResult) -> list[tuple[str, dict[str, Any]]]:
    stages = [(f"umi.{s.name}", {"milliseconds": s.milliseconds, **s.facts}) for s in result.trace]
    lost = [(f"umi.without {d.part}", {"reason": d.reason, "consequence": d.consequence}) for d in result.degraded]
    return stages + lost
