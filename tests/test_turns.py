"""Searches take turns at computing; having none costs speed and nothing else."""

from __future__ import annotations

import threading
import time

import pytest

from umi_common.runtime import turns as module
from umi_common.runtime.turns import Turns


def in_threads(work, count):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("at_once", [1, 2])
def test_no_more_threads_than_some_compute_at_a_time(at_once, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 30.0)
    turns, inside, most = Turns(at_once), [], []

    def compute():
        for _ in range(20):
            with turns.taken():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    in_threads(compute, 4)
    assert max(most) == at_once


def test_a_turn_that_ends_with_an_error_is_free_again():
    turns = Turns(1)
    with pytest.raises(ValueError), turns.taken():
        raise ValueError
    begun = time.perf_counter()
    with turns.taken():
        assert time.perf_counter() - begun < module.PATIENCE


def test_who_waits_in_vain_goes_on_and_those_after_do_not_wait_again(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    turns, times = Turns(1), []

    def compute():
        begun = time.perf_counter()
        with turns.taken():
            times.append(time.perf_counter() - begun)

    with turns.taken():  # held by one who does not come back
        for _ in range(3):
            in_threads(compute, 1)
        assert times[0] >= 0.3 > max(times[1:])
    compute()  # and when the holder gives it back after all, nothing is free twice
    assert times[-1] < 0.3
    with pytest.raises(ValueError):
        turns._free.release()


def test_who_has_a_turn_and_takes_one_more_is_not_stuck(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    turns = Turns(1)
    with turns.taken(), turns.taken(), turns.taken():
        pass
    with turns.taken():
        pass
