"""Calls with a time limit: their threads are used again, and one that hangs is not waited for."""

from __future__ import annotations

import threading
import time

import pytest

from umi_common.runtime import guards
from umi_common.runtime.guards import DeadlineExceeded, ThreadLimiter, TooManyCalls


def test_a_thread_whose_call_has_returned_runs_the_next_call():
    limiter = ThreadLimiter()
    used = set()
    for _ in range(20):
        used.add(limiter.call(threading.current_thread, 5))
        time.sleep(0.005)  # the thread becomes idle a moment after its outcome is there
    assert len(used) < 5


def test_beside_a_call_that_hangs_another_thread_runs_the_next():
    limiter, go = ThreadLimiter(), threading.Event()
    with pytest.raises(DeadlineExceeded):
        limiter.call(go.wait, 0.01)
    assert limiter.call(lambda: 2, 5) == 2
    go.set()


def test_at_the_limit_a_call_is_refused_until_one_returns():
    limiter, go = ThreadLimiter(1), threading.Event()
    hanging = limiter.start(go.wait)
    with pytest.raises(TooManyCalls):
        limiter.start(int)
    go.set()
    assert hanging.result(5)
    assert limiter.call(int, 5) == 0


def test_an_idle_thread_ends(monkeypatch):
    monkeypatch.setattr(guards, "IDLE_SECONDS", 0.01)
    limiter = ThreadLimiter()
    thread = limiter.call(threading.current_thread, 5)
    thread.join(5)
    assert not thread.is_alive()
    assert limiter.call(int, 5) == 0


def test_many_callers_each_get_the_outcome_of_their_own_call(monkeypatch):
    monkeypatch.setattr(guards, "IDLE_SECONDS", 0.0005)  # threads end while others put calls
    limiter, wrong = ThreadLimiter(8), []

    def caller(own):
        for each in range(200):
            if limiter.start(lambda each=each: (own, each), 5).result(5) != (own, each):
                wrong.append((own, each))
            time.sleep(0.0004 * (each % 3))

    callers = [threading.Thread(target=caller, args=(own,)) for own in range(6)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert wrong == []
