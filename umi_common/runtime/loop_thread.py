"""An event loop in a thread, on which synchronous code runs coroutines, for example of a model or client that has only
async functions."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from inspect import isawaitable
from typing import Any, TypeVar

from umi_common.errors import EmbedderError
from umi_common.runtime.forks import renew_in_child

T = TypeVar("T")

STOP_SECONDS = 5.0
"""Longest time, in seconds, that `close` waits for the thread, which a blocking coroutine may then leave running."""


class LoopThread:
    """One daemon thread with one event loop, started at the first call and ended by `close()` or garbage collection.

    A model's connections belong to the loop that opened them, so all calls of one model share this loop. A call after
    `close`, or in a forked child, starts a new thread. Thread-safe.
    """

    _lock: threading.Lock
    _loop: asyncio.AbstractEventLoop | None
    _stop: weakref.finalize[..., LoopThread]
    """Ends the thread that runs `_loop`: called by `close`, or when this object is garbage-collected."""

    def __init__(self, name: str) -> None:
        self._name = name
        renew_in_child(self, LoopThread._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._loop = None

    def __reduce__(self) -> tuple[type[LoopThread], tuple[str]]:
        return LoopThread, (self._name,)  # a pickled embedder starts a thread of its own

    def call(self, function: Callable[[Any], Any] | None, coroutine: Callable[[Any], Any] | None, argument: Any) -> Any:
        """The result of `function(argument)`, awaited on the loop if it is awaitable.

        If `function` is None or raises NotImplementedError, `coroutine(argument)` is called on the loop instead. Some
        async classes of frameworks raise this error in their sync methods. At most one of the two functions is None.
        """
        if function is not None:
            try:
                result = function(argument)
                return self.run(lambda: result) if isawaitable(result) else result
            except NotImplementedError:
                if coroutine is None:
                    raise
        assert coroutine is not None
        return self.run(lambda: coroutine(argument))

    def run(self, start: Callable[[], Awaitable[T]]) -> T:
        """Call `start()` on the loop, and return the result of its awaitable.

        Raises:
            Exception: An error of the awaitable.
            RuntimeError: If the awaitable cancelled itself.
            EmbedderError: If the thread was closed during the call.
        """

        async def run() -> T:
            return await start()

        with self._lock:
            loop = self._loop = self._loop or self._started()
            future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return future.result()
        except CancelledError:
            if self._loop is loop:
                raise RuntimeError("the call cancelled itself") from None
            raise EmbedderError("the store was closed during the call") from None

    def _started(self) -> asyncio.AbstractEventLoop:
        """A new loop that runs in a new thread. Raises RuntimeError if the process cannot start a thread."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_serve, args=(loop,), daemon=True, name=self._name)
        try:
            thread.start()
        except RuntimeError:
            loop.close()
            raise
        self._stop = weakref.finalize(self, _stop, loop, thread)
        self._stop.atexit = False  # the thread is a daemon
        return loop

    def close(self) -> None:
        """End the thread and cancel its calls; does nothing if no thread runs."""
        with self._lock:
            if self._loop is None:
                return
            self._loop = None
            self._stop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        end_loop(loop, STOP_SECONDS / 2)


def end_loop(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Cancel the tasks of a loop that does not run, wait at most `seconds` for their end, and close the loop."""
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop(loop: Any, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(STOP_SECONDS)
