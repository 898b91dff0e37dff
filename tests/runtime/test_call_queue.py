"""The queue that spaces the calls of a service that refuses some."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack

import pytest

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


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_call_that_waits_for_a_running_one_is_admitted_at_the_services_rate_and_not_at_its_deadline(on_a_loop):
    queue, admissions = CallQueue(1, time.monotonic), []

    def wait():
        with queue.ticket(time.monotonic()) as ticket:
            admission = queue.admission(ticket, time.monotonic() + 10.0)
            asyncio.run(admission.arun()) if on_a_loop else admission.run()
            admissions.append(ticket.result().time)

    waiting = threading.Thread(target=wait)
    with ExitStack() as tickets:
        running = admitted(queue, tickets)
        waiting.start()
        time.sleep(0.1)
        queue.refused(running, 0.0)  # one a second is accepted
        refused_at = time.monotonic()
    waiting.join()
    assert admissions[0] - refused_at < 2.0
