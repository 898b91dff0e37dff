"""Whose turn it is to compute in the interpreter, which runs one thread at a time.

Threads that want it together take it from one another at each call into numpy, and wake one another in vain: a search
then costs half as much again. So searches take turns for what Python does, and let go for what can do without the
interpreter: an embedder's call, a scan for several searches.
"""

from __future__ import annotations

import os
import threading

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Threads of a process that compute at a time; with more, each takes longer and no more gets done."""
PATIENCE = 0.25
"""Seconds to wait for a turn. Nothing depends on having one but speed: who waited in vain goes on without."""


class _Own(threading.local):
    """Of one thread."""

    def __init__(self) -> None:
        self.got: list[bool] = []
        """For each `with` it is in, whether it got a turn."""


class Turn:
    """Held by up to so many threads at a time; `with` it."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.BoundedSemaphore(at_once)
        self._mine = _Own()

    def __enter__(self) -> None:
        self._mine.got.append(self._free.acquire(timeout=PATIENCE))

    def __exit__(self, *exc_info: object) -> None:
        if self._mine.got.pop():
            self._free.release()


TURN = Turn(AT_ONCE)
