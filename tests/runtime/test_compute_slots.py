"""A limited number of threads compute at a time; a search that gets no slot ends, too."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from umi_common.runtime.calls import ComputeSlots


def in_threads(work, count):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("at_once", [1, 2])
def test_at_most_slot_count_threads_compute_at_a_time(at_once):
    slots, inside, most = ComputeSlots(at_once, wait_seconds=30.0), [], []

    def compute():
        for _ in range(20):
            with slots.held():
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    in_threads(compute, 4)
    assert max(most) == at_once


def test_a_slot_is_free_again_after_an_error():
    slots = ComputeSlots(1, wait_seconds=30.0)
    with pytest.raises(ValueError), slots.held():
        raise ValueError
    begun = time.perf_counter()
    with slots.held():
        assert time.perf_counter() - begun < 15.0


def test_a_thread_that_waited_too_long_continues_and_later_ones_do_not_wait():
    slots, times = ComputeSlots(1, wait_seconds=1.0), []

    def compute():
        begun = time.perf_counter()
        with slots.held():
            times.append(time.perf_counter() - begun)

    with slots.held():  # held by one who does not come back
        for _ in range(3):
            in_threads(compute, 1)
        assert times[0] >= 1.0 > max(times[1:])
    compute()  # and when the holder gives it back after all, nothing is free twice
    assert times[-1] < 1.0
    assert slots._free.qsize() == 1


def test_a_thread_that_holds_a_slot_and_takes_another_does_not_wait_for_ever():
    slots = ComputeSlots(1, wait_seconds=0.01)
    with slots.held(), slots.held(), slots.held():
        pass
    with slots.held():
        pass


def test_an_interrupt_while_a_slot_is_taken_or_given_back_stops_no_later_search():
    """Ctrl-C at each line, call and return of the code in turn; then another thread takes a slot."""
    left, slots = 0, ComputeSlots(1, wait_seconds=0.01)

    def interrupt(frame, event, argument):
        nonlocal left
        left -= 1
        if left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    def compute():
        with slots.held():
            pass

    for instant in range(1, 200):
        left = instant
        try:
            sys.settrace(interrupt)
            compute()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        in_threads(compute, 1)
        if left > 0:
            return
    raise AssertionError("more instants than were tried")


def test_long_computations_do_not_all_run_at_once():
    """A slot that is held for longer than `wait_seconds` lets one more thread compute, not all that wait."""
    slots, inside, most = ComputeSlots(1, wait_seconds=0.2), [], []

    def compute():
        with slots.held():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.3)
            inside.pop()

    in_threads(compute, 8)
    assert max(most) <= 4
