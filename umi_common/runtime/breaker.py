"""A circuit breaker: leave a failing service alone for a while, then let one call try again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from umi_common.runtime.forks import renew_in_child

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Closed while calls succeed; open after failures in a row; half-open once the pause is over.

    Half-open lets exactly one call through: its success closes the breaker, its failure starts the pause anew.

    Args:
        failures: So many in a row open it, >= 1.
        seconds: Length of the pause, > 0.
        clock: Monotonic seconds.

    Thread-safe. Every `enter()` that returns True is followed by one of `succeeded`, `failed`, `abandoned`.
    """

    _lock: threading.Lock
    _trying: bool
    """Whether a call that may close it is under way."""

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._forget_calls()
        renew_in_child(self, Breaker._forget_calls)

    def _forget_calls(self) -> None:
        """Those under way; in a forked child they are the parent's."""
        self._lock = threading.Lock()
        self._trying = False

    @property
    def state(self) -> State:
        """What the next call would meet."""
        with self._lock:
            return self._state()

    def enter(self) -> bool:
        """Whether a call may go ahead."""
        with self._lock:
            state = self._state()
            if state == "open" or (state == "half-open" and self._trying):
                return False
            self._trying = state == "half-open"
            return True

    def succeeded(self) -> None:
        """The call gave something usable."""
        with self._lock:
            self._in_a_row, self._opened_at, self._trying = 0, None, False

    def failed(self) -> None:
        """The call failed, whatever way."""
        with self._lock:
            self._in_a_row += 1
            if self._trying or self._in_a_row >= self._limit:
                self._opened_at = self._clock()
            self._trying = False

    def abandoned(self) -> None:
        """The caller went away before the call ended: it says nothing about the service."""
        with self._lock:
            self._trying = False

    def _state(self) -> State:
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() - self._opened_at < self._seconds else "half-open"
