"""A virtual clock and event loop: sleeps and timeouts take no real time."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

T = TypeVar("T")

THREAD_POLL_SECONDS = 0.001
"""Longest real time between two checks whether work in a thread has ended, in seconds."""


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

    def __call__(self) -> datetime:
        """The virtual time; see `now`."""
        return self.now()

    def now(self) -> datetime:
        """The virtual time, in the time zone of `start`."""
        return self._start + timedelta(seconds=self.monotonic())

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

        When every task sleeps, the clock advances to the time at which the first one wakes. Work in an executor takes
        no virtual time: the clock does not advance until that work has ended.
        """
        loop = _VirtualLoop(self)
        try:
            return loop.run_until_complete(coroutine)
        finally:
            try:
                _cancel_rest(loop)
                loop.run_until_complete(loop.shutdown_asyncgens())
            finally:
                loop.close()


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a virtual clock's, and which counts the calls that run in threads."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual = clock
        self._in_threads = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._virtual.monotonic()

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def wait_or_jump(self, timeout: float | None) -> float | None:
        """Real seconds that the selector may wait; advances the clock if all tasks sleep and no thread works.

        Args:
            timeout: Virtual seconds until the first task wakes; None: no task sleeps.
        """
        if timeout is None or timeout <= 0:
            return timeout
        if self._in_threads:
            return min(timeout, THREAD_POLL_SECONDS)
        self._virtual.advance(timeout)
        return 0.0

    def _left_thread(self, _future: asyncio.Future[Any]) -> None:
        self._in_threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the loop's clock instead of waiting, if no file is ready."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready:
            return ready
        return super().select(self._loop.wait_or_jump(timeout))


def _cancel_rest(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks that have not ended, and wait at most 1 virtual second for their end."""
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest, timeout=1.0))
