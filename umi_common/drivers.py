"""One body for sync and async: a generator asks for outside work, one of two drivers answers.

The body yields a tuple of `Call`s and is sent their outcomes in the same order; calls of one tuple run together.
A call that raises gives its exception as its outcome, so that the body decides what a failure costs. The empty tuple
asks for nothing: the event loop gets its turn.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

THREADS_MAX = min(4, (os.cpu_count() or 1) + 1)
"""Blocking calls of one retriever at a time; more wait their turn."""
HEAD_START = 0.0002
"""Seconds that the other calls of a tuple get to be on their way, to an LLM say, before the first, a search, keeps the
interpreter busy: without it they start 1 to 2 ms later."""
AWAITED_MAX = 8
"""Calls of one tuple that the event loop awaits at a time; more wait their turn."""


@dataclass(frozen=True, slots=True)
class Batch:
    """How to answer a call together with others of its kind, which differ from it in their items alone."""

    kind: Hashable
    items: Sequence[Any]
    run: Callable[[Sequence[Any]], Any]
    """One answer for any items."""
    part: Callable[[Any, slice], Any]
    """What that answer says of these items, as if they had been asked for alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One piece of outside work."""

    run: Callable[[], Any]
    """Does it, blocking."""
    arun: Callable[[], Awaitable[Any]] | None = None
    """Does it without blocking; None: `run` goes to a thread."""
    batch: Batch | None = None
    """None: it is never answered together with others."""

    @classmethod
    def batched(
        cls,
        kind: Hashable,
        items: Sequence[Any],
        run: Callable[[Sequence[Any]], Any],
        part: Callable[[Any, slice], Any],
    ) -> Call:
        """A call for these items that may be answered together with others of its kind; see `Batch`."""
        return cls(lambda: part(run(items), slice(0, len(items))), batch=Batch(kind, items, run, part))


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a call that raised."""

    error: Exception


Outcome = Any | Failure
Body = Generator[tuple[Call, ...], Sequence[Outcome], T]


class Threads:
    """The threads of a retriever and of those made from it; started when they are needed, ended with the last user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def executor(self) -> Executor:
        """Where blocking calls go."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="umi")
                weakref.finalize(self, self._executor.shutdown, wait=False)
            return self._executor

    def close(self) -> None:
        """End the threads; whoever needs some later gets new ones."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)


def drive(body: Body[T], executor: Executor) -> T:
    """Run the body in this thread: the first call of a tuple here, the others in the executor."""
    try:
        calls = next(body)
        while True:
            futures: list[Future[Any]] = [executor.submit(call.run) for call in calls[1:]]
            if futures:
                time.sleep(HEAD_START)
            outcomes = [*(_outcome(call.run) for call in calls[:1]), *(_outcome(future.result) for future in futures)]
            calls = body.send(outcomes)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


async def adrive(body: Body[T], executor: Executor, *, on_loop: bool = False) -> T:
    """Run the body on the event loop; blocking calls go to the executor, so the loop stays free.

    With its first blocking call the body itself goes to that thread, and stays there while it asks for nothing else:
    a thread that is woken for every call waits for the interpreter each time. `on_loop`: it comes back after each,
    because it tells somebody who must be told on the loop.
    """
    in_thread = _InThread(body)
    try:
        calls = next(body)
        while True:
            if not on_loop and _blocks(calls):
                left = await asyncio.get_running_loop().run_in_executor(executor, in_thread.go_on, calls)
                if isinstance(left, _Finished):
                    return left.result  # type: ignore[no-any-return]
                calls = left
            elif not calls:
                await asyncio.sleep(0)
                calls = body.send([])
            else:
                calls = body.send(await _awaited(calls, executor))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        in_thread.given_up = True
        with suppress(ValueError):  # a cancelled caller's body is in the middle of a step; its thread closes it
            body.close()


@dataclass(frozen=True, slots=True)
class _Finished:
    """A body that ended in a thread; StopIteration cannot leave one."""

    result: Any


@dataclass(slots=True)
class _InThread:
    """A body that a thread drives for a while."""

    body: Body[Any]
    given_up: bool = False
    """Nobody waits for it any more."""

    def go_on(self, calls: tuple[Call, ...]) -> tuple[Call, ...] | _Finished:
        """Up to the next calls that are not for this thread alone."""
        try:
            while not self.given_up and (not calls or _blocks(calls)):
                calls = self.body.send([_outcome(call.run) for call in calls])
        except StopIteration as stop:
            return _Finished(stop.value)
        if self.given_up:
            self.body.close()
        return calls


def _blocks(calls: tuple[Call, ...]) -> bool:
    """Whether this is one call, and one for a thread."""
    return len(calls) == 1 and calls[0].arun is None


async def _awaited(calls: Sequence[Call], executor: Executor) -> list[Outcome]:
    """The outcomes of calls that run together."""
    free = asyncio.Semaphore(AWAITED_MAX)

    async def in_turn(call: Call) -> Outcome:
        if call is calls[0] and len(calls) > 1:
            await asyncio.sleep(HEAD_START)
        try:
            async with free:
                if call.arun is not None:
                    return await call.arun()
                return await asyncio.get_running_loop().run_in_executor(executor, call.run)
        except Exception as error:  # noqa: BLE001 - the body judges it
            return Failure(error)

    return await asyncio.gather(*map(in_turn, calls))


def _outcome(run: Callable[[], Any]) -> Outcome:
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - the body judges it
        return Failure(error)
