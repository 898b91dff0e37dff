"""Call something that may never return, and be back on time.

Python cannot stop a running thread, so a call past its deadline is left behind: in a daemon thread, which does not hold
up the end of the process, and in one of a few places, so that a hanging service cannot pile up threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from umi_common.runtime.forks import renew_in_child

T = TypeVar("T")

PLACES = 16
"""Calls under way at once, those left behind included."""


class DeadlineExceeded(Exception):
    """No answer within the time allowed."""


class NoPlace(Exception):
    """Every place is taken by a call that has not returned."""


class Bounded:
    """A few places in which blocking calls run, each in its own daemon thread.

    Args:
        places: Calls under way at once.
        waits: Whether `call` waits for a place, within its deadline, where all are taken.
    """

    _places: threading.BoundedSemaphore

    def __init__(self, places: int = PLACES, *, waits: bool = False) -> None:
        self._size = places
        self._waits = waits
        self._begin()
        renew_in_child(self, Bounded._begin)

    def _begin(self) -> None:
        self._places = threading.BoundedSemaphore(self._size)

    def call(self, function: Callable[[], T], seconds: float) -> T:
        """function(), or DeadlineExceeded after `seconds`; its own exception as it is.

        Raises:
            DeadlineExceeded: The call goes on in its place and its outcome is dropped.
            NoPlace: If all places are taken: at once, or after `seconds` where it waits for one.
        """
        deadline = time.monotonic() + seconds
        future = self._start(function, seconds if self._waits else 0.0)
        try:
            return future.result(timeout=max(0.0, deadline - time.monotonic()))
        except FutureTimeout:
            if future.done():  # the function itself raised a TimeoutError
                raise
            raise DeadlineExceeded from None

    async def acall(self, function: Callable[[], T], seconds: float) -> T:
        """`call` without blocking the event loop, never waiting for a place. A cancelled caller leaves at once."""
        return await awaited(asyncio.wrap_future(self._start(function, 0.0)), seconds)

    def _start(self, function: Callable[[], T], patience: float) -> Future[T]:
        places = self._places
        if not places.acquire(timeout=patience):
            raise NoPlace
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # a running future cannot be cancelled: whoever leaves just leaves
        context = contextvars.copy_context()  # tracing libraries keep the current span there
        worker = threading.Thread(
            target=context.run, args=(self._work, function, future), daemon=True, name="umi-timed"
        )
        try:
            worker.start()
        except RuntimeError:  # the process has no thread left to give
            self._places.release()
            raise NoPlace from None
        return future

    def _work(self, function: Callable[[], T], future: Future[T]) -> None:
        try:
            outcome = function()
        except BaseException as error:  # noqa: BLE001 - this is the thread's last frame; the caller judges it
            self._places.release()
            future.set_exception(_as_exception(error))
        else:
            self._places.release()
            future.set_result(outcome)


def _as_exception(error: BaseException) -> Exception:
    """What may cross into a future: not SystemExit and its like, which would end the caller; not StopIteration."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the call raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


async def awaited(awaitable: Awaitable[T], seconds: float) -> T:
    """The awaitable's result, or DeadlineExceeded after `seconds`, even if it refuses to be cancelled.

    `asyncio.wait_for` waits until a cancelled task has ended; a task that swallows its cancellation would hold us.

    Raises:
        DeadlineExceeded: The task was told to stop and is not waited for.
        asyncio.CancelledError: If the *caller* was cancelled; a task that cancels itself is a RuntimeError.
        KeyboardInterrupt, SystemExit: As they are. Whatever else is no Exception becomes a RuntimeError.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if not task.done():
        _leave(task)
        raise DeadlineExceeded
    if task.cancelled():
        raise RuntimeError("the call cancelled itself")
    error = task.exception()
    if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
        return task.result()
    raise _as_exception(error)


def _leave(task: asyncio.Future[Any]) -> None:
    task.add_done_callback(_forget)
    task.cancel()


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # else asyncio reports it as never retrieved
