"""Report searches to LangChain's callbacks as runs. A run is one recorded call; it may have child runs. A search opens
a child run for each of its stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackManager, CallbackManager
from langchain_core.runnables.config import var_child_runnable_config

from umi_common.protocols import OnStage
from umi_common.types import Degradation, Stage


def stages(manager: CallbackManager | None) -> OnStage | None:
    """The argument `on_stage` of a search: a function that opens a child run for each stage.

    The outputs of a child run are the stage's duration in milliseconds and its `facts`. Neither its inputs nor its
    outputs hold the query; only the parent run has it.

    Args:
        manager: Opens child runs of the call's run. None is returned if it is None or has no handlers.
    """
    if manager is None or not manager.handlers:
        return None

    def began(name: str) -> Callable[[Stage], None]:
        run = manager.on_chain_start({"name": f"umi.{name}"}, {}, name=f"umi.{name}")
        return lambda stage: run.on_chain_end(_outputs(stage))

    return began


@asynccontextmanager
async def astages(manager: AsyncCallbackManager | None) -> AsyncIterator[OnStage | None]:
    """Yield the result of `stages` for asynchronous handlers.

    A task awaits the handlers in the order of the stages while the search runs. Leaving the `with` block waits until
    all handlers have been awaited, and raises the first error of a handler.
    """
    if manager is None or not manager.handlers:
        yield None
        return
    events: asyncio.Queue[Callable[[], Awaitable[None]] | None] = asyncio.Queue()
    errors: list[Exception] = []

    def began(name: str) -> Callable[[Stage], None]:
        started: list[Any] = []

        async def start() -> None:
            started.append(await manager.on_chain_start({"name": f"umi.{name}"}, {}, name=f"umi.{name}"))

        def ended(stage: Stage) -> None:
            async def end() -> None:
                for run in started:  # none if a handler failed at the start
                    await run.on_chain_end(_outputs(stage))

            events.put_nowait(end)

        events.put_nowait(start)
        return ended

    async def report() -> None:
        while (event := await events.get()) is not None:
            try:
                await event()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

    reporter = asyncio.create_task(report())
    try:
        yield began
    finally:
        events.put_nowait(None)
        await reporter
    if errors:
        raise errors[0]


def searched(search: Callable[..., Any], manager: CallbackManager | None, query: str, **options: Any) -> Any:
    """The result of `search(query, **options)`, with a child run for each stage, call of a LangChain model and failed
    part. `search` is `search` or `get_context` of a `DualRetriever`; `manager` is as in `stages`."""
    on_stage = stages(manager)
    with _calls_below(manager):
        found = search(query, on_stage=on_stage, **options)
    report_losses(on_stage, found.degraded)
    return found


async def asearched(
    search: Callable[..., Any], manager: AsyncCallbackManager | None, query: str, **options: Any
) -> Any:
    """`searched` for an event loop; `search` is `asearch` or `aget_context`."""
    async with astages(manager) as on_stage:
        with _calls_below(manager):
            found = await search(query, on_stage=on_stage, **options)
        report_losses(on_stage, found.degraded)
    return found


@contextmanager
def _calls_below(manager: BaseCallbackManager | None) -> Iterator[None]:
    """Inside the `with` block, a call of a LangChain model is recorded as a child run of the run of `manager`."""
    config = var_child_runnable_config.get() or {}
    token = var_child_runnable_config.set(config if manager is None else {**config, "callbacks": manager})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def report_losses(on_stage: OnStage | None, losses: Iterable[Degradation]) -> None:
    """Open and close a child run for each part of the search that failed."""
    if on_stage is None:
        return
    for loss in losses:
        facts = {"reason": loss.reason, "consequence": loss.consequence}
        on_stage(f"without {loss.part}")(Stage(f"without {loss.part}", 0.0, facts))


def _outputs(stage: Stage) -> dict[str, Any]:
    return {"milliseconds": stage.milliseconds, **stage.facts}
