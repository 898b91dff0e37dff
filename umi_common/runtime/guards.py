"""Guards for calls that may hang or fail: a time limit, a limited number of threads, a circuit breaker.

Python cannot stop a running thread, so a call past its time limit continues in its thread and its result is dropped.
The thread is a daemon, so the process can end. `ThreadLimiter` limits the number of calls that run in such threads.
A thread whose call has returned runs a later call, because starting a thread may take 0.3 ms.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

from umi_common.runtime.calls import LIMITED_CALLS_MAX, Call, free_slots
from umi_common.runtime.forks import renew_in_child

T = TypeVar("T")
POLL_SECONDS = 0.005
"""Pause between two attempts to start a call while a limiter is full, in seconds."""
IDLE_SECONDS = 1.0
"""A thread of a limiter ends if it gets no call for this number of seconds."""


class DeadlineExceeded(Exception):
    """The call did not return within its time limit."""

    def __str__(self) -> str:
        return "no reply in time"


class TooManyCalls(Exception):
    """The limiter's largest number of calls is running, or the process cannot start a thread."""

    def __str__(self) -> str:
        return "too many of its calls have not returned"


class ThreadLimiter(Executor):
    """Runs blocking calls in daemon threads, one call in a thread at a time, a limited number at a time.

    Args:
        calls_max: Largest number of calls that have not returned, including those past their time limit.
    """

    _free: SimpleQueue[None]
    _calls: SimpleQueue[Callable[[], None]]
    """Calls for the threads that wait here."""
    _idle: SimpleQueue[None]
    """One item for each waiting thread to which `submit` has not given a call."""
    _started: dict[Future[Any], float]
    """The running calls -> `time.monotonic()` at their start."""

    def __init__(self, calls_max: int = LIMITED_CALLS_MAX) -> None:
        self._calls_max = calls_max
        renew_in_child(self, ThreadLimiter._renew)

    def _renew(self) -> None:
        self._free, self._calls, self._idle = free_slots(self._calls_max), SimpleQueue(), SimpleQueue()
        self._started = {}

    def call(self, function: Callable[[], T], seconds: float) -> T:
        """The result of `function()`; its own exceptions pass through.

        Raises:
            DeadlineExceeded: After `seconds`. The call continues in its thread and its outcome is dropped.
            TooManyCalls: If the limit is reached and no running call returns within `seconds`; at once if each of them
                has already run for longer than `seconds`.
        """
        end = time.monotonic() + seconds
        start = partial(self.submit, function)
        while (future := self._try_start(start, seconds, end - time.monotonic())) is None:
            time.sleep(POLL_SECONDS)
        try:
            return future.result(timeout=max(0.0, end - time.monotonic()))
        except FutureTimeout:
            if future.done():  # the function itself raised a TimeoutError, or it ended just after the time limit
                return future.result()
            raise DeadlineExceeded from None

    def limited(
        self, function: Callable[[], T], seconds: float, afunction: Callable[[], Awaitable[T]] | None = None
    ) -> Call:
        """A `Call` of `function` with a time limit; it raises the errors of the method `call`.

        If the call is cancelled on an event loop, `function` continues in its thread and its outcome is dropped.

        Args:
            afunction: Awaited on an event loop in place of `function`. If `afunction` raises NotImplementedError, as
                the base classes of frameworks do, `function` is called in a thread.
        """

        async def arun() -> T:
            if afunction is not None:
                with suppress(NotImplementedError):
                    return await awaited(afunction(), seconds)
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            # Not `submit`: the virtual clock of tests counts the calls of `run_in_executor`.
            start = partial(loop.run_in_executor, self, function)
            while (running := self._try_start(start, seconds, end - loop.time())) is None:  # noqa: ASYNC110 threads end calls
                await asyncio.sleep(POLL_SECONDS)
            return await awaited(running, end - loop.time())

        return Call(lambda: self.call(function, seconds), arun)

    def _try_start(self, start: Callable[[], T], seconds: float, left: float) -> T | None:
        """The future that `start` returns; None: the limit is reached, but a call may return in the time left.

        Raises:
            TooManyCalls: If no time is left, or if each running call has run for longer than `seconds`, so it hangs.
        """
        try:
            return start()
        except TooManyCalls:
            now = time.monotonic()
            if left <= 0 or all(now - started > seconds for started in tuple(self._started.values())):
                raise
            return None

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Start the function in a thread and return its future. Raises TooManyCalls if the limit is reached."""
        try:
            self._free.get_nowait()
        except Empty:
            raise TooManyCalls from None
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # so that it cannot be cancelled
        self._started[future] = time.monotonic()
        context = contextvars.copy_context()  # tracing libraries keep the current span there
        try:
            work = partial(context.run, self._work, partial(function, *args, **kwargs), future)
            try:
                self._idle.get_nowait()
            except Empty:
                threading.Thread(target=self._serve, args=[[work]], daemon=True, name="umi-timed").start()
            else:
                self._calls.put(work)
        except RuntimeError:  # the process cannot start another thread
            self._ended(future)
            raise TooManyCalls from None
        return future

    def _serve(self, calls: list[Callable[[], None]]) -> None:
        """Run the one call in the list, then further calls, until there is none for IDLE_SECONDS."""
        while True:
            if calls:
                calls.pop()()  # popped, so that the waiting thread does not keep its objects
                self._idle.put(None)
            try:
                calls.append(self._calls.get(timeout=IDLE_SECONDS))
            except Empty:
                with suppress(Empty):  # no item: `submit` is giving a call to this thread
                    self._idle.get_nowait()
                    return

    def _work(self, function: Callable[[], T], future: Future[T]) -> None:
        try:
            outcome = function()
        except BaseException as error:  # noqa: BLE001 - the caller gets it as the outcome
            self._ended(future)  # before the outcome, so that a caller who gets it can start another call
            future.set_exception(as_exception(error))
        else:
            self._ended(future)
            future.set_result(outcome)

    def _ended(self, future: Future[Any]) -> None:
        self._started.pop(future, None)  # a forked child does not know the calls of its parent
        self._free.put(None)


def as_exception(error: BaseException) -> Exception:
    """The error, if a future can hold it: an Exception other than StopIteration; else a RuntimeError caused by it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the call raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


async def awaited(awaitable: Awaitable[T], seconds: float) -> T:
    """The awaitable's result, or an error after `seconds`, even if the awaitable ignores its cancellation.

    `asyncio.wait_for` would wait for the end of a task that ignores its cancellation.

    Raises:
        DeadlineExceeded: After `seconds`. The task is cancelled, and its end is not awaited.
        asyncio.CancelledError: If the caller was cancelled.
        Exception, KeyboardInterrupt, SystemExit: As the task raised it.
        RuntimeError: If the task cancelled itself, or raised any other BaseException.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _abandon(task)
        raise
    if not task.done():
        _abandon(task)
        raise DeadlineExceeded
    if task.cancelled():
        raise RuntimeError("the call cancelled itself")
    error = task.exception()
    if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
        return task.result()
    raise as_exception(error)


def _abandon(task: asyncio.Future[Any]) -> None:
    """Cancel a task whose outcome is dropped. Its error is read, because asyncio logs errors that are never read."""
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    task.cancel()


class Breaker:
    """A circuit breaker.

        closed      All calls are allowed. After `failures` failures in a row the breaker opens.
        open        No call is allowed. After `seconds` the breaker is half-open.
        half-open   One trial call is allowed. Its success closes the breaker; its failure opens it again.

    Thread-safe. After each `enter()` that returns True, the caller must call `succeeded`, `failed` or `abandoned`.

    Args:
        failures: Number of failures in a row that opens the breaker, >= 1.
        seconds: Length of the open state, > 0.
        clock: Returns monotonic seconds.
    """

    _lock: threading.RLock
    _trying: bool
    """Whether the trial call of the half-open state is running."""

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._failures_max = failures
        self._seconds = seconds
        self._clock = clock
        self._failures_in_a_row = 0
        self._opened_at: float | None = None
        renew_in_child(self, Breaker._renew)

    def _renew(self) -> None:
        """Make a new lock, and forget the trial call, which does not run in a forked child."""
        self._lock = threading.RLock()
        self._trying = False

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        with self._lock:
            if self._opened_at is None:
                return "closed"
            return "open" if self._clock() - self._opened_at < self._seconds else "half-open"

    def enter(self) -> bool:
        """Whether a call is allowed now. In the half-open state, True means that the caller makes the trial call."""
        with self._lock:
            state = self.state
            if state == "open" or (state == "half-open" and self._trying):
                return False
            self._trying = state == "half-open"
            return True

    def succeeded(self) -> None:
        """Record that the call returned a usable result."""
        with self._lock:
            self._failures_in_a_row, self._opened_at, self._trying = 0, None, False

    def failed(self) -> None:
        """Record that the call failed."""
        with self._lock:
            self._failures_in_a_row += 1
            if self._trying or self._failures_in_a_row >= self._failures_max:
                self._opened_at = self._clock()
            self._trying = False

    def abandoned(self) -> None:
        """Record that the call was cancelled; it counts neither as a success nor as a failure."""
        with self._lock:
            self._trying = False
