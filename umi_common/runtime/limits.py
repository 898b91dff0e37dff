"""Every limit on the threads of a search, with unit and reason, and the compute slots.

    constant            limits                                            of
    CALL_THREADS_MAX    threads for calls that wait for a service         each retriever and its copies
    SEARCH_THREADS_MAX  threads in which async searches run               each retriever and its copies
    GROUP_MAX           searches that one such thread runs as a group     each thread
    AWAITED_MAX         calls that one search awaits on its event loop    each search
    LIMITED_CALLS_MAX   calls with a time limit that have not returned    each reranker, rewriter and extra arm
    SLOT_COUNT          threads that compute at a time                    the process

Elsewhere: `config.embedder` limits the calls of an embedder, a commit of a ledger takes one thread, and a scan of codes
takes `stores.dense.int8.SCAN_THREADS_MAX`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from umi_common.runtime.forks import renew_in_child

CALL_THREADS_MAX = 8
"""Threads. Their calls wait, for example for an LLM, and use no processor time; further calls are queued."""
SEARCH_THREADS_MAX = max(2, (os.cpu_count() or 1) // 2)
"""Threads. More would wait for each other at the interpreter lock."""
GROUP_MAX = 8
"""Searches. The first that ends waits for the last of its group; a larger group waits longer and is no faster."""
AWAITED_MAX = 8
"""Calls. Protects the service from the many calls of one `asearch_many`; further calls are queued."""
LIMITED_CALLS_MAX = 16
"""Calls. A call past its time limit keeps its thread until it returns, so a service that hangs holds 16 threads."""
SLOT_COUNT = max(1, (os.cpu_count() or 1) // 2)
"""Threads. If more compute at a time, each takes longer, and no more searches end per second."""
SLOT_WAIT_SECONDS = 0.25
"""Seconds. A slot that is held for longer was probably lost, for example by an interrupted notebook cell; then all
slots are replaced. Slots affect speed only."""


def free_slots(count: int) -> SimpleQueue[None]:
    """One item for each free slot. A semaphore is written in Python: an interrupt inside it keeps its lock for ever."""
    free: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free


class ComputeSlots:
    """Limits how many threads compute at a time.

    The interpreter runs one thread at a time. Threads that compute at the same time hand over its lock at each call
    into NumPy, which makes a search take half as long again. So a search holds a slot while it computes in Python. It
    holds none while it waits or works outside the interpreter: during an embedder's call or a scan for several
    searches.

    Args:
        count: Threads that hold a slot at a time.
        wait_seconds: Longest wait for a slot.
    """

    _free: SimpleQueue[None]

    def __init__(self, count: int, wait_seconds: float = SLOT_WAIT_SECONDS) -> None:
        self._count = count
        self._wait_seconds = wait_seconds
        self._renew()
        renew_in_child(self, ComputeSlots._renew)

    def _renew(self) -> None:
        self._free = free_slots(self._count)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds a slot inside the `with` block; waits at most `wait_seconds` for it, then replaces all slots."""
        free = self._free
        try:
            free.get(timeout=self._wait_seconds)
        except Empty:
            self._renew()
            free = self._free
            free.get()
        try:
            yield
        finally:
            free.put(None)


COMPUTE_SLOTS = ComputeSlots(SLOT_COUNT)
"""The slots of this process. A forked child has its own."""
