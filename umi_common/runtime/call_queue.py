"""Admit calls of a service: a limited number at a time; once the service has refused calls, at the rate it accepts."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from itertools import count

from umi_common.runtime.calls import Call
from umi_common.runtime.forks import renew_in_child
from umi_common.runtime.guards import DeadlineExceeded

WINDOW_SECONDS = 1.0
"""Seconds over which the admitted and the refused calls are counted."""
KEPT_SECONDS = 10.0
"""Seconds for which the times of calls are kept; a refusal may take so long to arrive."""
USED_SHARE = 0.95
"""Share of the rate estimated at a refusal at which further calls are admitted."""
FASTER = 0.998
"""Factor on the seconds between two calls after each success. If the service accepts more, the rate doubles in about
350 calls; if it does not, about one call in 25 is refused."""
SHORTEST_SECONDS = 0.001
"""Smallest number of seconds between two calls; a shorter interval counts as none."""


class CallQueue:
    """Admits calls of one service; the call that has waited longest is admitted first.

    At most `concurrency` calls run at a time. If the service refuses a call because there are too many (`refused`), the
    rate that it accepts is estimated as the calls admitted in the second up to that call less the refused ones among
    them, at least one. Further calls are admitted 1 / (0.95 rate) seconds apart. Each success shortens that interval by
    0.2 percent.

    Args:
        concurrency: Calls at a time, >= 1.
        clock: Returns monotonic seconds.

    Thread-safe, also between threads and event loops. Each admission is followed by one `leave()`.
    """

    _lock: threading.Lock
    _waiting: list[tuple[float, int, Future[None]]]
    """A heap of (arrival, number, future)."""

    def __init__(self, concurrency: int, clock: Callable[[], float]) -> None:
        self._concurrency = concurrency
        self._clock = clock
        self._numbers = count()
        self._interval = 0.0
        """Seconds from one admission to the next; 0: calls are not spaced."""
        self._next = 0.0
        """Time on the clock before which no call is admitted."""
        self._succeeded = False
        """Whether a call succeeded since the last refusal."""
        self._admitted: deque[float] = deque()
        self._refused: deque[float] = deque()
        renew_in_child(self, CallQueue._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._waiting = []
        self._under_way = 0

    def admission(self, arrival: float, until: float) -> Call:
        """A call that returns when the caller is admitted.

        Args:
            arrival: When the caller began to wait, for its first attempt; the earliest is admitted first. On the clock.
            until: Deadline on the clock, at which the call raises DeadlineExceeded.
        """

        def run() -> None:
            with self._ticket(arrival) as ticket:
                while not ticket.done():
                    wait_for([ticket], self._seconds_to_wait(until))
                    self._admit()

        async def arun() -> None:
            with self._ticket(arrival) as ticket:
                admitted = asyncio.wrap_future(ticket)
                while not ticket.done():
                    await asyncio.wait({admitted}, timeout=self._seconds_to_wait(until))
                    self._admit()

        return Call(run, arun)

    def leave(self) -> None:
        """Record that an admitted call has ended."""
        with self._lock:
            self._under_way -= 1
        self._admit()

    def succeeded(self) -> None:
        """Record that the service answered a call; shortens the interval between calls."""
        with self._lock:
            self._succeeded = True
            self._interval *= FASTER
            if self._interval < SHORTEST_SECONDS:
                self._interval = 0.0

    def refused(self, admitted: float, seconds: float) -> None:
        """Record that the service refused a call because there are too many.

        Args:
            admitted: When the refused call was admitted, on the clock.
            seconds: Pause that the service asked for; 0: none. No call is admitted during it, unless calls succeeded
                since the last refusal: then the rate is already close to the accepted one.
        """
        with self._lock:
            now = self._clock()
            _drop_old(self._refused, now)
            self._refused.append(admitted)
            accepted = _calls_until(admitted, self._admitted) - _calls_until(admitted, self._refused)
            rate = max(1, accepted) / WINDOW_SECONDS
            self._interval = 1.0 / (USED_SHARE * rate)
            self._next = max(self._next, now + (self._interval if self._succeeded else max(seconds, self._interval)))
            self._succeeded = False

    @contextmanager
    def _ticket(self, arrival: float) -> Iterator[Future[None]]:
        """A future that is done when the caller is admitted; withdrawn if the `with` block raises."""
        ticket: Future[None] = Future()
        with self._lock:
            heapq.heappush(self._waiting, (arrival, next(self._numbers), ticket))
        self._admit()
        try:
            yield ticket
        except BaseException:
            if not ticket.cancel():  # it is admitted already
                self.leave()
            raise

    def _admit(self) -> None:
        """Admit the waiting calls that the limits allow now."""
        with self._lock:
            now = self._clock()
            while self._waiting and self._under_way < self._concurrency and now >= self._next:
                ticket = heapq.heappop(self._waiting)[2]
                if not ticket.set_running_or_notify_cancel():  # withdrawn
                    continue
                self._under_way += 1
                _drop_old(self._admitted, now)
                self._admitted.append(now)
                if self._interval:
                    self._next = max(self._next, now - self._interval) + self._interval
                ticket.set_result(None)

    def _seconds_to_wait(self, until: float) -> float:
        """Seconds until the next admission, but at most until the deadline `until`.

        Raises:
            DeadlineExceeded: After the deadline.
        """
        now = self._clock()
        if now >= until:
            raise DeadlineExceeded
        due = self._next - now
        return min(until - now, due) if due > 0 else until - now


def _drop_old(times: deque[float], now: float) -> None:
    """Remove the times before the last KEPT_SECONDS."""
    while times and times[0] < now - KEPT_SECONDS:
        times.popleft()


def _calls_until(end: float, times: deque[float]) -> int:
    """The number of times in the WINDOW_SECONDS up to `end`."""
    return sum(end - WINDOW_SECONDS <= each <= end for each in times)
