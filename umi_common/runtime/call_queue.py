"""Admit calls of a service: a limited number at a time and, after a refusal, at the rate that the service accepts."""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple

from umi_common.runtime.calls import Call
from umi_common.runtime.forks import renew_in_child
from umi_common.runtime.guards import DeadlineExceeded

WINDOW_SECONDS = 1.0
"""Seconds over which the calls that a service accepts are counted."""
KEPT_SECONDS = 10.0
"""Seconds for which admissions are kept. A call that is refused 9 s after its admission can then still count the
admissions of the second before its own."""
USED_SHARE = 0.95
"""After a refusal, calls are admitted at this share of the estimated rate. The margin avoids further refusals."""
FASTER = 0.998
"""Each success at a measured rate multiplies the interval between two calls by this factor. If the service accepts more
calls, the rate doubles in about 350 calls; if it does not, about one call in 25 is refused."""
MUCH_FASTER = 0.9
"""The factor in place of FASTER while the rate is not measured: the rate doubles in 7 calls. A service that refuses
most calls of a burst may accept spaced calls at a higher rate."""
LEAST_SHARE = 0.7
"""After the refusal of a spaced call, the new rate is at least this share of the rate at which the call was admitted.
The estimated rate alone may be too low, for example if few calls were made in the last second."""
SHORTEST_SECONDS = 0.001
"""Shortest interval between two calls, in seconds; if it would be shorter, calls are not spaced."""
LOOK_SECONDS = 0.25
"""Seconds after which a caller that waits for the end of a running call calls `_admit`: nobody wakes it if that call
ends before `_next`."""


class Admission(NamedTuple):
    """The admission of a call."""

    time: float
    """On the queue's clock, in seconds."""
    interval: float
    """Seconds between two admissions at that time; 0: calls were not spaced."""


Ticket = Future[Admission]
"""A caller's place in the queue: done when the caller is admitted."""


class CallQueue:
    """Admits calls of one service; the call that has waited longest is admitted first.

    At most `concurrency` calls run at a time. When the service refuses a call because it gets too many (`refused`), the
    queue estimates the rate that the service accepts, in calls per second. The estimate is the number of calls, at
    least 1, that were admitted in the second before the refused call and were not refused. Further calls are admitted
    1 / (0.95 * rate) seconds apart; a late call does not delay the next. If the refused call was spaced already, the
    rate falls by at most 30 percent.

    The rate counts as measured if spaced calls succeeded before one was refused. Each success shortens the interval;
    see FASTER and MUCH_FASTER.

    Args:
        concurrency: Largest number of calls at a time, >= 1.
        clock: Returns monotonic seconds.
        timed: Whether a call that has not returned at its deadline fails. If so, no call is admitted with less time
            left than the last successful call took.

    Thread-safe, also between threads and event loops.
    """

    _lock: threading.Lock
    _waiting: list[tuple[float, int, Ticket]]
    """A heap of (arrival, number, ticket)."""

    def __init__(self, concurrency: int, clock: Callable[[], float], *, timed: bool = False) -> None:
        self._concurrency = concurrency
        self._clock = clock
        self._timed = timed
        self._numbers = count()
        self._interval = 0.0
        """Seconds from one admission to the next; 0: calls are not spaced."""
        self._next = 0.0
        """Time on the clock before which no call is admitted."""
        self._burst_began = -math.inf
        """Time of the first refusal of the last burst. Refusals of calls admitted before it belong to this burst."""
        self._measured = False
        self._succeeded = False
        """Whether a call that was admitted after `_burst_began` succeeded."""
        self._last_call = 0.0
        """Seconds from admission to success of the last successful call; 0: none yet, or calls are not `timed`."""
        self._accepted: deque[Admission] = deque()
        """The admissions of the last KEPT_SECONDS, oldest first, without those of refused calls."""
        renew_in_child(self, CallQueue._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._waiting = []
        self._under_way = 0

    @contextmanager
    def ticket(self, arrival: float) -> Iterator[Ticket]:
        """A ticket for one call; the call is made inside the `with` block. Leaving the block withdraws a ticket that is
        not admitted yet.

        Args:
            arrival: Time on the clock at which the caller began to wait for its first attempt. The caller with the
                earliest time is admitted first.
        """
        ticket: Ticket = Future()
        with self._lock:
            heapq.heappush(self._waiting, (arrival, next(self._numbers), ticket))
        self._admit()
        try:
            yield ticket
        finally:
            if not ticket.cancel():  # it is admitted
                with self._lock:
                    self._under_way -= 1
                self._admit()

    def admission(self, ticket: Ticket, until: float) -> Call:
        """A call that returns when the caller is admitted.

        Args:
            until: Deadline on the clock. The call raises DeadlineExceeded then or, if `timed`, earlier by the time that
                the last successful call took.
        """

        def run() -> None:
            while not ticket.done():
                wait_for([ticket], self._seconds_to_wait(until - self._last_call))
                self._admit()

        async def arun() -> None:
            admitted = asyncio.wrap_future(ticket)
            while not ticket.done():
                await asyncio.wait({admitted}, timeout=self._seconds_to_wait(until - self._last_call))
                self._admit()

        return Call(run, arun)

    def succeeded(self, ticket: Ticket) -> None:
        """Record that the service answered the call of a ticket, and shorten the interval between calls."""
        admission = ticket.result()
        with self._lock:
            if self._timed:
                self._last_call = self._clock() - admission.time
            if admission.time <= self._burst_began:  # the call was admitted at an older interval
                return
            self._succeeded = True
            self._interval *= FASTER if self._measured else MUCH_FASTER
            if self._interval < SHORTEST_SECONDS:
                self._interval = 0.0

    def refused(self, ticket: Ticket, seconds: float) -> None:
        """Record that the service refused the call of a ticket because there are too many.

        Args:
            seconds: Length of the pause that the service asked for; 0: none. No call is admitted during the pause. If
                the rate is measured, the pause is skipped: the service accepts calls at about this rate.
        """
        admission = ticket.result()
        with self._lock:
            now = self._clock()
            with suppress(ValueError):  # the call was admitted more than KEPT_SECONDS ago
                self._accepted.remove(admission)
            accepted = sum(admission.time - WINDOW_SECONDS <= each.time <= admission.time for each in self._accepted)
            rate = max(1, accepted) / WINDOW_SECONDS
            longest = admission.interval / LEAST_SHARE if admission.interval else math.inf
            self._interval = min(1.0 / (USED_SHARE * rate), longest)
            if admission.time > self._burst_began:
                self._measured = accepted > 0 and (self._measured or (admission.interval > 0 and self._succeeded))
                self._succeeded = False
                self._burst_began = now
            pause = 0.0 if self._measured else seconds
            self._next = max(self._next, now + max(pause, self._interval))

    def _admit(self) -> None:
        """Admit the waiting calls that the limits allow now."""
        with self._lock:
            now = self._clock()
            while self._waiting and self._under_way < self._concurrency and now >= self._next:
                ticket = heapq.heappop(self._waiting)[2]
                if not ticket.set_running_or_notify_cancel():  # withdrawn
                    continue
                self._under_way += 1
                while self._accepted and self._accepted[0].time < now - KEPT_SECONDS:
                    self._accepted.popleft()
                admission = Admission(now, self._interval)
                self._accepted.append(admission)
                if self._interval:
                    self._next = max(self._next + self._interval, now)
                ticket.set_result(admission)

    def _seconds_to_wait(self, until: float) -> float:
        """Seconds until a waiting caller calls `_admit`; see LOOK_SECONDS. Raises DeadlineExceeded at the deadline."""
        now = self._clock()
        if now >= until:
            raise DeadlineExceeded
        due = self._next - now
        return min(until - now, due if due > 0 else LOOK_SECONDS)
