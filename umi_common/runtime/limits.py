"""Every limit on the threads of a search, with unit and reason, and the compute slots.

    constant            limits                                            of
    CALL_THREADS_MAX    threads for calls that wait for a service         each retriever and its copies
    SEARCH_THREADS_MAX  threads in which async searches run               each retriever and its copies
    GROUP_MAX           searches that one such thread runs as a group     each thread
    AWAITED_MAX         calls that one search awaits on its event loop    each search
    LIMITED_CALLS_MAX   calls with a time limit that have not returned    each reranker, rewriter and extra arm
    SLOT_COUNT          threads that compute at a time                    the process

Stores set their own: `stores.query_embedder.CALLS_MAX` for calls of the embedder with a time limit, one thread for the
commits of a ledger, and the threads of the int8 scan.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from umi_common.runtime.forks import renew_in_child

CALL_THREADS_MAX = 8
"""Threads. These calls wait, for an LLM say, and use no processor; further calls queue."""
SEARCH_THREADS_MAX = max(2, (os.cpu_count() or 1) // 2)
"""Threads. More would wait for one another at the interpreter lock."""
GROUP_MAX = 8
"""Searches. The first to end waits for the last of its group; with more the wait grows and throughput does not."""
AWAITED_MAX = 8
"""Calls. Protects the service from the many calls of one `asearch_many`; further calls queue."""
LIMITED_CALLS_MAX = 16
"""Calls. A call past its time limit keeps its thread until it returns, so a service that hangs holds 16 threads."""
SLOT_COUNT = max(1, (os.cpu_count() or 1) // 2)
"""Threads. With more of them computing each takes longer, and no more searches end per second."""
SLOT_WAIT_SECONDS = 0.25
"""Seconds. Only speed depends on a slot. One held for longer is taken for lost, as after an interrupted notebook cell,
and all slots are made new."""


class ComputeSlots:
    """Limits how many threads compute at a time.

    The interpreter runs one thread at a time. Threads that compute at once pass its lock on at each call into NumPy,
    and a search then takes half as long again. So a search holds a slot while it computes in Python, and holds none
    while it waits or works outside the interpreter: during an embedder's call or a scan for several searches.

    Args:
        count: Threads that hold a slot at a time.
        wait_seconds: Longest wait for a slot.
    """

    _free: threading.BoundedSemaphore

    def __init__(self, count: int, wait_seconds: float = SLOT_WAIT_SECONDS) -> None:
        self._count = count
        self._wait_seconds = wait_seconds
        self._renew()
        renew_in_child(self, ComputeSlots._renew)

    def _renew(self) -> None:
        self._free = threading.BoundedSemaphore(self._count)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds a slot inside the `with` block; waits at most `wait_seconds` for it, then replaces all slots."""
        free = self._free
        if not free.acquire(timeout=self._wait_seconds):
            free = self._free = threading.BoundedSemaphore(self._count)
            free.acquire()
        try:
            yield
        finally:
            free.release()


COMPUTE_SLOTS = ComputeSlots(SLOT_COUNT)
"""The slots of this process. A forked child has its own."""
