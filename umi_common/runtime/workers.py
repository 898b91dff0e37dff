"""The threads of a retriever, which make blocking calls for searches on an event loop.

A search stays in its thread from one blocking call to the next, because a thread that is woken must wait for the
interpreter lock. Queued searches run in one thread as a group: each step merges their calls of one kind into one call,
for example the embedding of their queries.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from umi_common.errors import StoreClosed
from umi_common.runtime.calls import (
    CALL_THREADS_MAX,
    COMPUTE_SLOTS,
    GROUP_MAX,
    SEARCH_THREADS_MAX,
    Body,
    Call,
    CallOutcome,
    Finished,
    make_together,
    run_here,
)
from umi_common.runtime.forks import renew_in_child


class Workers:
    """The threads of a retriever and of its copies. They start when needed. They end at `close`, or when the retriever
    and all its copies were garbage-collected.

    A forked child starts its own threads and drops its parent's queue.
    """

    def __init__(self) -> None:
        renew_in_child(self, Workers._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._queue: deque[_Task] = deque()
        """Tasks with a batchable call that wait for a thread."""

    def executor(self) -> Executor:
        """The threads for calls that are not batched, and for the searches that continue after them; at most
        CALL_THREADS_MAX."""
        return self._pool(CALL_THREADS_MAX, "umi")

    def submit(self, run: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call `run` in a thread of `executor`, with the context variables of the calling thread."""
        with self._lock:  # else `close` could end the executor between its lookup and its use
            return self.executor().submit(copy_context().run, run, *arguments)

    def _pool(self, size: int, name: str) -> ThreadPoolExecutor:
        with self._lock:
            if name not in self._pools:
                self._pools[name] = ThreadPoolExecutor(size, thread_name_prefix=name)
            return self._pools[name]

    def close(self) -> None:
        """End the threads; the queued searches raise StoreClosed. A later search starts new threads."""
        with self._lock:  # both at once: without a submitted run, a queued task would never run
            pools, self._pools = self._pools, {}
            queue, self._queue = self._queue, deque()
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        _refuse(queue)

    async def run(self, body: Body[Any], call: Call) -> tuple[Call, ...] | Finished:
        """Make `call` in a thread, and run the body there. Returns its result, or its next calls if they are not a
        single call that blocks.

        If it is cancelled, its caller closes the body; a body that is running then is closed in its thread.

        Raises:
            Exception: An error that the body raised.
            StoreClosed: If `close` was called before a thread was free.
        """
        task = _Task(body, call, asyncio.get_running_loop().create_future())
        self._submit(task)
        return await task.future

    def _submit(self, task: _Task) -> None:
        if not task.batchable:
            alone = self.submit(self._run, [task])
            alone.add_done_callback(lambda alone: _refuse([task]) if alone.cancelled() else None)
            return
        with self._lock:
            # At least ceil(queue length / GROUP_MAX) submitted runs have not begun, and each takes GROUP_MAX tasks. So
            # there is room for this task, unless the length is a multiple of GROUP_MAX.
            if len(self._queue) % GROUP_MAX == 0:
                self._pool(SEARCH_THREADS_MAX, "umi-search").submit(self._run_group)
            self._queue.append(task)

    def _run_group(self) -> None:
        """Run the first GROUP_MAX queued searches."""
        with self._lock:
            tasks = [self._queue.popleft() for _ in range(min(GROUP_MAX, len(self._queue)))]
        self._run(tasks, batchable_only=True)

    def _run(self, tasks: list[_Task], *, batchable_only: bool = False) -> None:
        """Run searches in step, until their outcomes are known.

        Args:
            batchable_only: Move a search to another thread before a call that cannot be batched and may take long.
        """
        try:
            while tasks := [task for task in tasks if task.outcome is None and not task.abandoned]:
                outcomes = run_here(make_together([task.call for task in tasks]))
                with COMPUTE_SLOTS.held():
                    for task, outcome in zip(tasks, outcomes, strict=True):
                        task.step(outcome)
                _notify([task for task in tasks if task.outcome is not None])
                tasks = [task for task in tasks if task.outcome is None]
                if batchable_only:
                    for task in [each for each in tasks if not each.batchable]:
                        self._submit(task)
                        tasks.remove(task)
        except BaseException as error:
            for task in tasks:
                task.outcome = task.outcome or error
            _notify(tasks)
            raise


@dataclass(slots=True, eq=False)
class _Task:
    """A body that runs in a worker, and the future that its caller awaits on an event loop."""

    body: Body[Any]
    call: Call
    """The call that the body waits for."""
    future: asyncio.Future[tuple[Call, ...] | Finished]
    outcome: Finished | tuple[Call, ...] | BaseException | None = None
    """What `Workers.run` returns or raises; None until it is known."""

    @property
    def batchable(self) -> bool:
        """Whether the call can be made together with calls of other tasks."""
        return self.call.kind is not None

    @property
    def abandoned(self) -> bool:
        """Whether the caller was cancelled, or its event loop is closed."""
        return self.future.cancelled() or self.future.get_loop().is_closed()

    def step(self, outcome: CallOutcome) -> None:
        """Send the body an outcome, and run it to its next calls or its end."""
        try:
            calls = self.body.send([outcome])
            while not calls:  # an empty tuple lets other tasks of an event loop run; a worker has no loop
                calls = self.body.send([])
            self.call = calls[0]
            if self.abandoned:
                self.body.close()
            elif len(calls) > 1 or not self.call.blocks:
                self.outcome = calls
        except StopIteration as stop:
            self.outcome = Finished(stop.value)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self.outcome = error


def _refuse(tasks: Iterable[_Task]) -> None:
    """Raise StoreClosed in the callers of tasks that wait for a thread.

    Their futures are not cancelled, because an `asyncio.TaskGroup` ignores the cancellation of its tasks.
    """
    for task in tasks:
        task.outcome = StoreClosed("the retriever or its store was closed before this search had run; open it again")
    _notify(tasks)


def _notify(tasks: Iterable[_Task]) -> None:
    """Resolve the futures of tasks on their event loops; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = {}
    for task in tasks:
        by_loop.setdefault(task.future.get_loop(), []).append(task)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nothing awaits these tasks
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(tasks: Sequence[_Task]) -> None:
    """Set the outcomes of the futures; called on their loop."""
    for task in tasks:
        if task.outcome is None or task.future.done():  # done: the caller was cancelled
            continue
        if isinstance(task.outcome, BaseException):
            task.future.set_exception(task.outcome)
        else:
            task.future.set_result(task.outcome)
