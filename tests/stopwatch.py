"""How long work takes a processor, whatever else the machine does and whatever other tests left in memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of this thread's processor time that one call of `work` takes.

    Without garbage collection: after thousands of tests one full collection takes a second.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun
    finally:
        if collects:
            gc.enable()
