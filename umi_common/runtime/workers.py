"""The threads of a retriever, in which what blocks is done beside the event loop.

A search stays in its thread from one blocking call to the next: a thread that is woken for each waits for the
interpreter every time. Searches that wait for a thread go together, and what they ask for at the same time, vectors of
their queries say, is asked at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from umi_common.runtime.calls import Body, Call, Outcome, grouped, outcome_of
from umi_common.runtime.forks import renew_in_child
from umi_common.runtime.turns import TURNS

THREADS_MAX = 8
"""Calls of one retriever that wait for somebody else at a time, for an LLM say; more wait their turn."""
CARRIERS_MAX = max(2, (os.cpu_count() or 1) // 2)
"""Threads in which searches compute; in more they would wait for one another's interpreter lock."""
TOGETHER_MAX = 8
"""Searches that go together; with more the first would wait long for the last."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A body that ended in a thread, which StopIteration cannot leave."""

    result: Any


class Threads:
    """The threads of a retriever and of those made from it; started when they are needed, ended with the last user.

    A forked child starts its own: those of its parent do not run there, and its parent's searches are not the child's.
    """

    _lock: threading.Lock
    _pools: dict[str, ThreadPoolExecutor]
    _waiting: deque[_Carried]
    _coming: int
    """Threads that have been called and have taken nobody yet, or fewer."""

    def __init__(self) -> None:
        self._begin()
        renew_in_child(self, Threads._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pools = {}
        self._waiting = deque()
        self._coming = 0

    def executor(self) -> Executor:
        """Where single calls go."""
        return self._pool(THREADS_MAX, "umi")

    def _pool(self, size: int, name: str) -> ThreadPoolExecutor:
        with self._lock:
            if name not in self._pools:
                self._pools[name] = ThreadPoolExecutor(size, thread_name_prefix=name)
                weakref.finalize(self, _shut_down, self._pools[name], os.getpid())
            return self._pools[name]

    def close(self) -> None:
        """End the threads; whoever needs some later gets new ones, who waits for one is cancelled."""
        with self._lock:
            pools, self._pools, self._coming = self._pools, {}, 0
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        _cancel(self._taken(len(self._waiting)))

    async def carry(self, body: Body[Any], calls: tuple[Call, ...]) -> tuple[Call, ...] | Finished:
        """The body in a thread, from calls that block up to the next that are not for a thread alone.

        Raises:
            Exception: What the body raises.
        """
        loop = asyncio.get_running_loop()
        carried = _Carried(body, calls, loop, loop.create_future())
        try:
            self._hand_on(carried)
            left: tuple[Call, ...] | Finished = await carried.told
            return left
        finally:
            carried.given_up = True

    async def answer(self, call: Call) -> Outcome:
        """What one blocking call gives, together with others of its kind that wait."""

        def body() -> Body[Outcome]:
            (outcome,) = yield (call,)
            return outcome

        asking = body()
        finished = await self.carry(asking, next(asking))
        assert isinstance(finished, Finished), "it asks for nothing else"
        return finished.result

    def _hand_on(self, carried: _Carried) -> None:
        if carried.has_company:
            self._waiting.append(carried)
            self._call_a_thread()
        else:
            alone = self.executor().submit(self._carry_alone, carried)
            alone.add_done_callback(lambda alone: _cancel([carried]) if alone.cancelled() else None)

    def _call_a_thread(self) -> None:
        """Unless those that come will take all who wait."""
        with self._lock:
            if len(self._waiting) <= self._coming * TOGETHER_MAX:
                return
            self._coming += 1
        try:
            self._pool(CARRIERS_MAX, "umi-search").submit(self._carry_on)
        except BaseException:
            self._has_come()
            raise

    def _has_come(self) -> None:
        with self._lock:
            self._coming = max(0, self._coming - 1)

    def _taken(self, most: int) -> list[_Carried]:
        """Up to so many of those who still wait."""
        taken: list[_Carried] = []
        with suppress(IndexError):  # there are no more, or another thread has taken them
            while len(taken) < most:
                carried = self._waiting.popleft()
                if not carried.given_up:
                    taken.append(carried)
        return taken

    def _carry_on(self) -> None:
        """Those who wait, together, for as long as their calls have company."""
        self._has_come()
        group = self._taken(TOGETHER_MAX)
        try:
            while group:
                as_few, parted = grouped([carried.calls[0] for carried in group])
                outcomes = parted([outcome_of(call.run) for call in as_few])
                with TURNS.taken():
                    for carried, outcome in zip(group, outcomes, strict=True):
                        carried.go_on(outcome)
                _tell(carried for carried in group if carried.news)
                group = [carried for carried in group if not carried.news]
                for carried in [each for each in group if not each.has_company]:
                    self._hand_on(carried)
                    group.remove(carried)
        except BaseException as error:
            _fail(group, error)
            raise

    def _carry_alone(self, carried: _Carried) -> None:
        """One whose call has nothing in common with others' and may take long."""
        try:
            while not carried.given_up and not carried.news:
                carried.go_on(outcome_of(carried.calls[0].run))
            _tell([carried])
        except BaseException as error:
            _fail([carried], error)
            raise


@dataclass(slots=True, eq=False)
class _Carried:
    """A body in the hands of a thread, and who waits for it on an event loop."""

    body: Body[Any]
    calls: tuple[Call, ...]
    loop: asyncio.AbstractEventLoop
    told: asyncio.Future[Any]
    given_up: bool = False
    """Nobody waits any more."""
    news: Callable[[], object] | None = None
    """Ends the waiting, on the loop; None: the body still needs a thread and nothing else."""

    @property
    def has_company(self) -> bool:
        """Whether its call can be answered together with others."""
        return self.calls[0].batch is not None

    def go_on(self, outcome: Outcome) -> None:
        """Send the body this; when it no longer needs a thread alone, there is news."""
        try:
            self.calls = self.body.send([outcome])
            while not self.calls:
                self.calls = self.body.send([])
        except StopIteration as stop:
            self.has(self.told.set_result, Finished(stop.value))
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.has(self.told.set_exception, error)
        else:
            if self.given_up:
                self.body.close()
            if self.given_up or not blocks(self.calls):
                self.has(self.told.set_result, self.calls)

    def has(self, how: Callable[..., object], *what: Any) -> None:
        """News, unless there are some."""
        self.news = self.news or partial(how, *what)


def _shut_down(pool: ThreadPoolExecutor, process: int) -> None:
    """End a pool's threads; not in a forked child, where a lock of the pool may be held for ever."""
    if os.getpid() == process:
        pool.shutdown(wait=False)


def _tell(whom: Iterable[_Carried]) -> None:
    """Those who wait, their news; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Carried]] = {}
    for carried in whom:
        by_loop.setdefault(carried.loop, []).append(carried)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(_hear, some)


def _cancel(whom: Sequence[_Carried]) -> None:
    for carried in whom:
        carried.has(carried.told.cancel)
    _tell(whom)


def _fail(whom: Sequence[_Carried], error: BaseException) -> None:
    for carried in whom:
        carried.has(carried.told.set_exception, error)
    _tell(whom)


def _hear(news: Iterable[_Carried]) -> None:
    for carried in news:
        if carried.news is not None and not carried.told.done():  # it may have given up
            carried.news()


def blocks(calls: tuple[Call, ...]) -> bool:
    """Whether this is one call, and one for a thread."""
    return len(calls) == 1 and calls[0].arun is None
