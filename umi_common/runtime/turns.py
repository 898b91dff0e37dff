"""Whose turn it is to compute in the interpreter, which runs one thread at a time.

Threads that want it together take it from one another at each call into numpy, and wake one another in vain: a search
then costs half as much again. So searches take turns for what Python does, and let go for what can do without the
interpreter: an embedder's call, a scan for several searches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from umi_common.runtime.forks import renew_in_child

AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""Threads of a process that compute at a time; with more, each takes longer and no more gets done."""
PATIENCE = 0.25
"""Seconds to wait for a turn. Only speed depends on having one, so who waits in vain takes its holder for lost: in an
interrupted cell, say."""


class Turns:
    """Up to so many threads at a time have one."""

    _free: threading.BoundedSemaphore

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._begin()
        renew_in_child(self, Turns._begin)

    def _begin(self) -> None:
        self._free = threading.BoundedSemaphore(self._at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have one meanwhile, after at most PATIENCE seconds."""
        free = self._free
        if not free.acquire(timeout=PATIENCE):
            free = self._free = threading.BoundedSemaphore(self._at_once)
            free.acquire()
        try:
            yield
        finally:
            free.release()


TURNS = Turns(AT_ONCE)
