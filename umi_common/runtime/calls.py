"""The calls that a search makes to stores and models, the two drivers that make them, and the limits on their threads.

A search is a generator, its body. It yields tuples of `Call`s, which run at the same time, and is sent their outcomes:

    chunks, reply = yield (Call(lambda: store.get(ids)), Call(lambda: llm.complete(prompt)))

A call that raises has a `CallFailure` as its outcome, so the body decides how to continue. A body that yields an empty
tuple lets the event loop run other tasks. `drive` runs a body to its end and blocks; `adrive` runs it on an event loop.

The constants below limit the threads of a search. Two limits are elsewhere: `config.embedder` limits the calls of an
embedder, `stores.dense.cosines.SCAN_THREADS_MAX` the threads that compute the cosines of one scan.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from umi_common.errors import StoreUnavailable
from umi_common.runtime.forks import renew_in_child

if TYPE_CHECKING:
    from umi_common.runtime.workers import Workers

T = TypeVar("T")

CALL_THREADS_MAX = 8
"""Largest number of threads of a retriever and its copies for calls that wait for a service, for example an LLM. A
thread that waits uses no processor time. Further calls are queued."""
SEARCH_THREADS_MAX = max(2, (os.cpu_count() or 1) // 2)
"""Largest number of threads of a retriever and its copies in which async searches run. More threads would wait for each
other at the interpreter lock."""
GROUP_MAX = 8
"""Largest number of searches that one thread runs as a group. In a larger group, each search takes longer, and no more
searches end per second."""
AWAITED_MAX = 8
"""Largest number of calls that one search, or one `asearch_many`, awaits at a time. Further calls are queued, because a
service may refuse too many at once."""
LIMITED_CALLS_MAX = 16
"""Largest number of calls with a time limit that have not returned, for each reranker, rewriter and extra arm. A
further call waits, within its time limit, until one returns. If all 16 are past their time limit, the service hangs, so
a further call fails at once: a call that hangs keeps its thread."""
SLOT_COUNT = max(1, (os.cpu_count() or 1) // 2)
"""Number of slots of the process for threads that compute. With more, each search takes longer, and no more searches
end per second."""
SLOT_WAIT_SECONDS = 0.25
"""If no slot became free for so many seconds, all slots are replaced by free ones, because an interrupted notebook cell
may have lost some. Slots affect speed only."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store or a model. Calls of one kind, which differ only in their items, can be made as one call."""

    run: Callable[[], Any]
    """Makes the call, blocking."""
    arun: Callable[[], Awaitable[Any]] | None = None
    """Makes the call without blocking; None: `run` runs in a thread."""
    kind: Hashable = None
    """Equal for calls that can be made together by `run_items`. None: the call is made alone, or is already merged from
    several."""
    items: Sequence[Any] = ()
    run_items: Callable[[Sequence[Any]], Any] | None = None
    """Makes one call for all items and returns a list with the result for each item. None: the call is made alone."""
    prepare: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]] | None = None
    """Coroutine function that an event loop awaits before the call. It waits for services, for example an embedder, and
    returns items for which `run_items` waits for none. None: nothing is awaited before the call."""

    @classmethod
    def batched(
        cls,
        kind: Hashable,
        items: Sequence[Any],
        run_items: Callable[[Sequence[Any]], Any],
        prepare: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]] | None = None,
    ) -> Call:
        """A call for these items that may be made together with others of its kind."""
        return cls(partial(run_items, items), None, kind, items, run_items, prepare)

    @property
    def blocks(self) -> bool:
        """Whether the call is made in a thread, without `prepare`."""
        return self.arun is None and self.prepare is None

    async def prepared(self) -> Call:
        """The call to make on an event loop: one for the items that `prepare` returns, else this call."""
        if self.prepare is None or self.run_items is None:
            return self
        return Call.batched(self.kind, await self.prepare(self.items), self.run_items)


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The outcome of a call that raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a body that ended in a worker, because a future cannot hold a generator's StopIteration."""

    result: Any


CallOutcome = Any | CallFailure
Body = Generator[tuple[Call, ...], Sequence[CallOutcome], T]


def outcome_of(run: Callable[[], Any]) -> CallOutcome:
    """The result of `run()`, or its exception as a `CallFailure`."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - the body decides how to go on
        return CallFailure(error)


def value_of(outcome: CallOutcome) -> Any:
    """The result of a call of the store.

    Raises:
        StoreUnavailable: If the call raised an OSError. Any other error of the call is raised unchanged.
    """
    if isinstance(outcome, CallFailure):
        if isinstance(outcome.error, OSError):
            raise StoreUnavailable(
                f"the store failed with {type(outcome.error).__name__}; check its disk, server and network"
            ) from outcome.error
        raise outcome.error
    return outcome


def make_together(calls: Sequence[Call]) -> Body[list[CallOutcome]]:
    """Make the calls, those of each kind as one merged call; returns their outcomes.

    If a merged call fails, each call in it is made alone, so that only the calls at fault fail.
    """
    groups: dict[Hashable, list[int]] = {}  # the indices of the calls that are made as one
    for index, call in enumerate(calls):
        single = call.kind is None or call.run_items is None
        groups.setdefault(("single", index) if single else ("kind", call.kind), []).append(index)
    outcomes: dict[int, CallOutcome] = {}
    failed: list[int] = []
    answers = yield tuple(_merged([calls[index] for index in indices]) for indices in groups.values())
    for indices, answer in zip(groups.values(), answers, strict=True):
        if len(indices) == 1:
            outcomes[indices[0]] = answer
        elif isinstance(answer, CallFailure):
            failed += indices
        else:
            outcomes.update(zip(indices, answer, strict=True))
    if failed:
        alone = yield tuple(calls[index] for index in failed)
        outcomes.update(zip(failed, alone, strict=True))
    return [outcomes[index] for index in range(len(calls))]


def _merged(calls: Sequence[Call]) -> Call:
    """One call in place of several of one kind; its result is the list of their results. A single call stays."""
    run_items = calls[0].run_items
    if len(calls) == 1 or run_items is None:
        return calls[0]

    def run_merged(items: Sequence[Any]) -> list[list[Any]]:
        results = iter(run_items(items))
        return [list(islice(results, len(call.items))) for call in calls]

    items = [item for call in calls for item in call.items]
    return Call.batched(None, items, run_merged, calls[0].prepare)


def run_together(bodies: Sequence[Body[T]]) -> Body[list[T]]:
    """Run several bodies in step; the results are in the order of the bodies.

    Each step makes the calls of all bodies by `make_together`. Before a body continues, an empty tuple is yielded, so
    that the event loop may run other tasks. An exception of one body ends all bodies.
    """
    results: dict[int, T] = {}
    waiting: dict[int, Any] = dict.fromkeys(range(len(bodies)))  # the outcomes for each body; None starts it
    try:
        while waiting:
            wanted: list[tuple[int, Call]] = []
            for index, outcomes in list(waiting.items()):
                if outcomes is not None:
                    yield ()
                try:
                    wanted += [(index, call) for call in bodies[index].send(outcomes)]
                    waiting[index] = []
                except StopIteration as stop:
                    results[index] = stop.value
                    del waiting[index]
            if waiting:
                made = yield from make_together([call for _, call in wanted])
                for (index, _), outcome in zip(wanted, made, strict=True):
                    waiting[index].append(outcome)
    finally:
        for body in bodies:
            body.close()
    return [results[index] for index in range(len(bodies))]


def run_here(body: Body[T]) -> T:
    """The body's result. The body and all its calls run in this thread, one after the other."""
    try:
        calls = next(body)
        while True:
            calls = body.send([outcome_of(call.run) for call in calls])
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def drive(body: Body[T], workers: Workers) -> T:
    """The body's result. The body and the first call of each tuple run in this thread, other calls in workers.

    Workers get this thread's context variables, in which tracing libraries keep the current run or span.
    """
    try:
        calls = next(body)
        while True:
            futures: list[Future[Any]] = [workers.submit(call.run) for call in calls[1:]]
            here = [outcome_of(call.run) for call in calls[:1]]
            calls = body.send([*here, *map(_outcome_of_future, calls[1:], futures)])
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        body.close()


def _outcome_of_future(call: Call, future: Future[Any]) -> CallOutcome:
    """The outcome of a call that was submitted as `future`. If `Workers.close` cancelled it, the call is made here."""
    outcome = outcome_of(future.result)
    return outcome_of(call.run) if future.cancelled() else outcome


async def adrive(body: Body[T], workers: Workers, *, on_loop: bool = False) -> T:
    """The body's result, without blocking the event loop.

    The body starts on the loop. When it yields a single call that blocks, the call is prepared on the loop, and the
    body then runs in a worker. The body returns to the loop when it yields several calls, a call with `arun`, or a call
    that must be prepared.

    Args:
        body: Never runs on the loop and in a worker at the same time.
        on_loop: Keep the body on the loop, where it calls the user's `on_stage`; only its calls run in workers.
    """
    try:
        calls = next(body)
        while True:
            if not on_loop and len(calls) == 1 and calls[0].arun is None:
                try:
                    call = await calls[0].prepared()
                except Exception as error:  # noqa: BLE001 - the body decides how to go on
                    calls = body.send([CallFailure(error)])
                    continue
                left = await workers.run(body, call)
                if isinstance(left, Finished):
                    return left.result  # type: ignore[no-any-return]
                calls = left
            elif not calls:
                await asyncio.sleep(0)
                calls = body.send([])
            else:
                calls = body.send(await _awaited(calls, workers))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        with suppress(ValueError):  # after a cancellation the body may be running in its worker, which closes it
            body.close()


async def _awaited(calls: Sequence[Call], workers: Workers) -> list[CallOutcome]:
    """Make the calls at the same time, at most AWAITED_MAX; returns their outcomes."""
    free = asyncio.Semaphore(AWAITED_MAX)

    async def limited(call: Call) -> CallOutcome:
        async with free:
            if call.arun is None:
                return await adrive(_single(call), workers)
            try:
                return await call.arun()
            except Exception as error:  # noqa: BLE001 - the body decides how to go on
                return CallFailure(error)

    if len(calls) == 1:
        return [await limited(calls[0])]
    tasks = [asyncio.ensure_future(limited(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # after a BaseException of one call, the other tasks still run
            task.cancel()


def _single(call: Call) -> Body[CallOutcome]:
    """The outcome of one call."""
    (outcome,) = yield (call,)
    return outcome


def free_slots(count: int) -> SimpleQueue[None]:
    """A queue with one item for each free slot.

    `threading.Semaphore` is written in Python: if Ctrl-C interrupts it, its lock may never be released.
    """
    free: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free


class ComputeSlots:
    """Limits how many threads compute at a time.

    Threads that compute at the same time pass the interpreter lock to each other at each call into NumPy, and each
    search then takes half as long again. So a search holds a slot while it computes in Python. It holds none during a
    call of an embedder or a scan for several searches, which run mostly outside the interpreter.

    Ctrl-C just after a slot was taken loses it. So if no slot became free for `wait_seconds`, all are replaced by free
    ones: beside threads that compute for longer, `count` more threads then compute.

    Args:
        count: Number of slots.
        wait_seconds: Seconds without a free slot after which all are replaced.
    """

    _free: SimpleQueue[None]

    def __init__(self, count: int, wait_seconds: float = SLOT_WAIT_SECONDS) -> None:
        self._count = count
        self._wait_seconds = wait_seconds
        renew_in_child(self, ComputeSlots._renew)

    def _renew(self) -> None:
        self._free = free_slots(self._count)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a slot in the `with` block."""
        free = self._take()
        try:
            yield
        finally:
            free.put(None)

    def _take(self) -> SimpleQueue[None]:
        """Take a slot, and return the queue to which to give it back."""
        while True:
            free = self._free
            try:
                free.get(timeout=self._wait_seconds)
            except Empty:
                if free is self._free:  # else another waiting thread has replaced the slots
                    self._renew()
            else:
                return free


COMPUTE_SLOTS = ComputeSlots(SLOT_COUNT)
"""The slots of this process. A forked child has its own."""
