"""The queue that spaces the calls of a service that refuses some."""

from __future__ import annotations

import time
from contextlib import ExitStack

from umi_common.runtime.call_queue import CallQueue


def admitted(queue, tickets):
    """The ticket of a call that asks now, after it was admitted."""
    ticket = tickets.enter_context(queue.ticket(time.monotonic()))
    queue.admission(ticket, time.monotonic() + 10.0).run()
    return ticket


def test_the_refusal_of_one_spaced_call_after_a_quiet_second_lowers_the_rate_by_a_third_at_most():
    queue = CallQueue(64, time.monotonic)
    with ExitStack() as tickets:
        burst = [admitted(queue, tickets) for _ in range(10)]
        queue.refused(burst[-1], 0.0)  # nine a second are accepted
        time.sleep(1.1)
        queue.refused(admitted(queue, tickets), 0.0)
        first = admitted(queue, tickets).result().time
        second = admitted(queue, tickets).result().time
    assert second - first < 0.5, "the estimate of the quiet second is one a second"
