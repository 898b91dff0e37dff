"""How long an event loop is kept from its other tasks, measured so that a busy machine changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

ROUNDS = 5
"""What a call does to the loop it does in every round; what the garbage collector does, in one of them."""


async def held(work: Callable[[], Awaitable[Any]]) -> float:
    """The longest the loop was kept from its other tasks, in the best of `ROUNDS`.

    Each time is the seconds by the clock, or the CPU seconds of this process if these are fewer: a loop that computes,
    or waits for a thread that does, is counted; one that waits because other processes have the CPU is not. A loop that
    waits for a thread that sleeps is not counted either: `Gate` finds that.
    """
    return min([await _longest(work()) for _ in range(ROUNDS)])


async def _longest(work: Awaitable[Any]) -> float:
    longest, ended = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not ended:
            clock, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.001)
            longest = max(longest, min(time.perf_counter() - clock, time.process_time() - worked))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await work
    ended = True
    await watching
    return longest


class Gate:
    """A store whose recalls wait until a task of the event loop has run meanwhile."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._asked, self._passed = threading.Event(), threading.Event()

    def _wait(self) -> None:
        self._asked.set()
        assert self._passed.wait(30), "no task of the event loop ran while the store was asked"

    def recall(self, *args: Any, **options: Any) -> Any:
        self._wait()
        return self._store.recall(*args, **options)

    def recall_many(self, *args: Any, **options: Any) -> Any:
        self._wait()
        return self._store.recall_many(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        """Let the recalls through, as soon as there is one."""
        await asyncio.to_thread(self._asked.wait, 30)
        self._passed.set()
