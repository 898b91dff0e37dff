"""Run a body to its end: `drive` blocks, `adrive` runs on an event loop. Both make the calls that the body yields."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from umi_common.runtime.calls import Body, Call, CallFailure, CallOutcome, outcome_of
from umi_common.runtime.limits import AWAITED_MAX
from umi_common.runtime.workers import Finished, Workers, blocks

T = TypeVar("T")

HEAD_START = 0.0002
"""Seconds by which the first call of a tuple starts after the others. The first is a recall, which keeps the
interpreter busy; if it started at once, the others, such as a request to an LLM, would start 1 to 2 ms later."""


def drive(body: Body[T], workers: Workers) -> T:
    """The body's result. It runs in this thread, as does the first call of each tuple; other calls run in workers."""
    try:
        calls = next(body)
        while True:
            futures: list[Future[Any]] = [workers.executor().submit(call.run) for call in calls[1:]]
            if futures:
                time.sleep(HEAD_START)
            here = [outcome_of(call.run) for call in calls[:1]]
            outcomes = [*here, *(outcome_of(future.result) for future in futures)]
            calls = body.send(outcomes)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


async def adrive(body: Body[T], workers: Workers, *, on_loop: bool = False) -> T:
    """The body's result, without blocking the event loop.

    At its first blocking call the body moves to a worker thread. It returns to the loop when it yields calls that do
    not block, or several.

    Args:
        body: Makes progress on the loop or in a worker, never in both at once.
        workers: Run blocking calls.
        on_loop: The body itself always runs on the loop, because it calls the user's `on_stage` there.
    """
    try:
        calls = next(body)
        while True:
            if not on_loop and blocks(calls):
                left = await workers.run(body, calls)
                if isinstance(left, Finished):
                    return left.result  # type: ignore[no-any-return]
                calls = left
            elif not calls:
                await asyncio.sleep(0)
                calls = body.send([])
            else:
                calls = body.send(await _awaited(calls, workers))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        with suppress(ValueError):  # after a cancellation the body may be running in its worker, which closes it
            body.close()


async def _awaited(calls: Sequence[Call], workers: Workers) -> list[CallOutcome]:
    """The outcomes of calls that run at the same time."""
    free = asyncio.Semaphore(AWAITED_MAX)

    async def limited(call: Call) -> CallOutcome:
        if call is calls[0] and len(calls) > 1:
            await asyncio.sleep(HEAD_START)
        async with free:
            try:
                if call.prepare is not None:
                    call = await call.prepare()
                if call.arun is None:
                    return await workers.answer(call)
                return await call.arun()
            except Exception as error:  # noqa: BLE001 - the body decides how to go on
                return CallFailure(error)

    tasks = [asyncio.ensure_future(limited(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # after a BaseException of one call the results of the others are not used
            task.cancel()
