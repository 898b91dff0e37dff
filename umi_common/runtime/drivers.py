"""One body for sync and async: a generator asks for outside work, one of two drivers answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from umi_common.runtime.calls import Body, Call, Failure, Outcome, outcome_of
from umi_common.runtime.workers import Finished, Threads, blocks

T = TypeVar("T")

HEAD_START = 0.0002
"""Seconds that the other calls of a tuple get to be on their way, to an LLM say, before the first, a search, keeps the
interpreter busy: without it they start 1 to 2 ms later."""
AWAITED_MAX = 8
"""Calls of one tuple that the event loop awaits at a time; more wait their turn."""


def drive(body: Body[T], threads: Threads) -> T:
    """Run the body in this thread: the first call of a tuple here, the others in others."""
    try:
        calls = next(body)
        while True:
            futures: list[Future[Any]] = [threads.executor().submit(call.run) for call in calls[1:]]
            if futures:
                time.sleep(HEAD_START)
            here = [outcome_of(call.run) for call in calls[:1]]
            outcomes = [*here, *(outcome_of(future.result) for future in futures)]
            calls = body.send(outcomes)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


async def adrive(body: Body[T], threads: Threads, *, on_loop: bool = False) -> T:
    """Run the body on the event loop; what blocks goes to a thread, so the loop stays free.

    With its first blocking call the body itself goes there, and comes back when it asks for something else. `on_loop`:
    it comes back after each, because it tells somebody who must be told on the loop.
    """
    try:
        calls = next(body)
        while True:
            if not on_loop and blocks(calls):
                left = await threads.carry(body, calls)
                if isinstance(left, Finished):
                    return left.result  # type: ignore[no-any-return]
                calls = left
            elif not calls:
                await asyncio.sleep(0)
                calls = body.send([])
            else:
                calls = body.send(await _awaited(calls, threads))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        with suppress(ValueError):  # a cancelled caller's body is in the middle of a step; its thread closes it
            body.close()


async def _awaited(calls: Sequence[Call], threads: Threads) -> list[Outcome]:
    """The outcomes of calls that run together."""
    free = asyncio.Semaphore(AWAITED_MAX)

    async def in_turn(call: Call) -> Outcome:
        if call is calls[0] and len(calls) > 1:
            await asyncio.sleep(HEAD_START)
        async with free:
            if call.arun is None:
                return await threads.answer(call)
            try:
                return await call.arun()
            except Exception as error:  # noqa: BLE001 - the body judges it
                return Failure(error)

    tasks = [asyncio.ensure_future(in_turn(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # where one raises what no body can catch, nobody waits for the others
            task.cancel()
