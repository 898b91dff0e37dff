"""A virtual clock and event loop: sleeps and timeouts take no real time."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from umi_common.runtime.loop_thread import end_loop

T = TypeVar("T")

THREAD_POLL_SECONDS = 0.001
"""Longest real time between two checks whether calls in threads have ended, in seconds."""
END_SECONDS = 1.0
"""Longest virtual time that `run` waits for tasks that still run when its coroutine has ended, in seconds."""


class VirtualClock:
    """A clock for tests: pass it as `clock=`, or its method `monotonic` where seconds are expected. Thread-safe.

    Args:
        start: The time at which the clock begins, an aware datetime.

    Raises:
        ValueError: If `start` has no time zone.
    """

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=timezone.utc)) -> None:
        if start.tzinfo is None:
            raise ValueError("start has no time zone; add one, e.g. .replace(tzinfo=timezone.utc)")
        self._start = start
        self._seconds = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The virtual time, in the time zone of `start`."""
        return self._start + timedelta(seconds=self.monotonic())

    __call__ = now

    def monotonic(self) -> float:
        """Virtual seconds since `start`."""
        with self._lock:
            return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the virtual time forward by `seconds`, >= 0."""
        if seconds < 0:
            raise ValueError(f"advance({seconds}); expected seconds of at least 0")
        with self._lock:
            self._seconds += seconds

    def sleep(self, seconds: float) -> None:
        """Like time.sleep, but in virtual time: moves the clock and returns at once."""
        self.advance(max(0.0, seconds))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Like asyncio.run, on an event loop in which asyncio.sleep and timeouts take virtual time.

        When every task sleeps, the clock advances to the time at which the first task wakes. A call in an executor
        takes no virtual time: the clock does not advance until the call has ended.
        """
        loop = _VirtualLoop(self)
        try:
            return loop.run_until_complete(coroutine)
        finally:
            end_loop(loop, END_SECONDS)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on the time of a virtual clock. `in_threads` holds the futures of calls that run in threads."""

    def __init__(self, clock: VirtualClock) -> None:
        self.virtual = clock
        self.in_threads = set[asyncio.Future[Any]]()
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.virtual.monotonic()

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.in_threads.add(future)
        future.add_done_callback(self.in_threads.discard)
        return future


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the loop's clock instead of waiting, if no file is ready and no call runs in a thread.

    The timeout of `select` is the virtual seconds until the first task wakes; None: no task sleeps.
    """

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0.0:
            return ready
        if timeout is None:  # no task sleeps: wait, in real time, for a thread or a file
            return super().select(None)
        if self._loop.in_threads:
            return super().select(min(timeout, THREAD_POLL_SECONDS))
        self._loop.virtual.advance(timeout)
        return []
