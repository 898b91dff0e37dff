"""The queue that spaces the calls of a service that refuses some."""

from __future__ import annotations

import time
from contextlib import ExitStack

from umi_common.runtime.call_queue import CallQueue


def admitted_at(queue: CallQueue) -> float:
    """When a call that asks now is admitted, as its caller reads the clock."""
    with queue.ticket(time.monotonic()) as ticket:
        queue.admission(ticket, time.monotonic() + 10.0).run()
        time.sleep(0.002)
        return time.monotonic()


def test_the_refusal_of_one_spaced_call_after_a_quiet_second_lowers_the_rate_by_a_third_at_most():
    queue = CallQueue(64, time.monotonic)
    with ExitStack() as burst:
        for _ in range(10):
            queue.admission(burst.enter_context(queue.ticket(time.monotonic())), time.monotonic() + 1.0).run()
        queue.refused(time.monotonic(), 0.0)  # nine a second are accepted
    time.sleep(1.1)
    queue.refused(admitted_at(queue), 0.0)
    first = admitted_at(queue)
    assert admitted_at(queue) - first < 0.5, "the estimate of the quiet second is one a second"
