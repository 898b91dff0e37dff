"""One body for sync and async: a generator asks for outside work, one of two drivers answers.

The body yields a tuple of `Call`s and is sent their outcomes in the same order; calls of one tuple run together.
A call that raises gives its exception as its outcome, so that the body decides what a failure costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One piece of outside work."""

    run: Callable[[], Any]
    """Does it, blocking."""
    arun: Callable[[], Awaitable[Any]] | None = None
    """Does it without blocking; None: `run` goes to a thread."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a call that raised."""

    error: Exception


Outcome = Any | Failure
Body = Generator[tuple[Call, ...], Sequence[Outcome], T]


def drive(body: Body[T], executor: Executor) -> T:
    """Run the body in this thread: the first call of a tuple here, the others in the executor."""
    try:
        calls = next(body)
        while True:
            futures: list[Future[Any]] = [executor.submit(call.run) for call in calls[1:]]
            outcomes = [_outcome(calls[0].run), *(_outcome(future.result) for future in futures)]
            calls = body.send(outcomes)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


async def adrive(body: Body[T], executor: Executor) -> T:
    """Run the body on the event loop; blocking calls go to the executor, so the loop stays free."""
    loop = asyncio.get_running_loop()

    async def outcome(call: Call) -> Outcome:
        try:
            if call.arun is not None:
                return await call.arun()
            return await loop.run_in_executor(executor, call.run)
        except Exception as error:  # noqa: BLE001 - the body judges it
            return Failure(error)

    try:
        calls = next(body)
        while True:
            if len(calls) == 1:
                outcomes = [await outcome(calls[0])]
            else:
                outcomes = await asyncio.gather(*(outcome(call) for call in calls))
            calls = body.send(outcomes)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


def _outcome(run: Callable[[], Any]) -> Outcome:
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - the body judges it
        return Failure(error)
