"""A circuit breaker: no calls to a failing service for a while, then one trial call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from umi_common.runtime.forks import renew_in_child

BreakerState = Literal["closed", "open", "half-open"]


class Breaker:
    """Closed while calls succeed; open after failures in a row; half-open once the pause is over.

    Half-open allows one call: its success closes the breaker, its failure starts the pause again.

    Args:
        failures: Failures in a row that open it, >= 1.
        seconds: Length of the pause, > 0.
        clock: Monotonic seconds.

    Thread-safe. Every `enter()` that returns True is followed by one of `succeeded`, `failed`, `abandoned`.
    """

    _lock: threading.Lock
    _trying: bool
    """Whether the trial call of the half-open state is running."""

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._renew()
        renew_in_child(self, Breaker._renew)

    def _renew(self) -> None:
        """Make the lock new and forget the running call; in a forked child both are the parent's."""
        self._lock = threading.Lock()
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """The state that the next call finds."""
        with self._lock:
            return self._state()

    def enter(self) -> bool:
        """Whether a call is allowed now."""
        with self._lock:
            state = self._state()
            if state == "open" or (state == "half-open" and self._trying):
                return False
            self._trying = state == "half-open"
            return True

    def succeeded(self) -> None:
        """Record that the call returned a usable result."""
        with self._lock:
            self._in_a_row, self._opened_at, self._trying = 0, None, False

    def failed(self) -> None:
        """Record that the call failed."""
        with self._lock:
            self._in_a_row += 1
            if self._trying or self._in_a_row >= self._limit:
                self._opened_at = self._clock()
            self._trying = False

    def abandoned(self) -> None:
        """Record that the caller left before the call ended, which counts neither as a success nor as a failure."""
        with self._lock:
            self._trying = False

    def _state(self) -> BreakerState:
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() - self._opened_at < self._seconds else "half-open"
