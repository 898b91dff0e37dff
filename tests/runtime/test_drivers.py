"""Both drivers give a body the same outcomes in the same order, and failures as outcomes; nothing is left running."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from umi_common.runtime.calls import CALL_THREADS_MAX, Call, CallFailure, adrive, drive
from umi_common.runtime.workers import Workers


@pytest.fixture()
def threads():
    made = Workers()
    yield made
    made.close()


async def twice(body_of, threads):
    """The result by both drivers; they must agree."""
    result = drive(body_of(), threads)
    assert await adrive(body_of(), threads) == result
    return result


async def test_outcomes_come_back_in_the_order_of_the_calls(threads):
    def body():
        first = yield (Call(lambda: 1), Call(lambda: 2), Call(lambda: 3))
        (last,) = yield (Call(lambda: sum(first)),)
        return [*first, last]

    assert await twice(body, threads) == [1, 2, 3, 6]


async def test_calls_of_one_tuple_run_at_the_same_time(threads):
    def body():
        meeting = threading.Barrier(2, timeout=60)
        return (yield (Call(meeting.wait), Call(meeting.wait)))

    assert sorted(drive(body(), threads)) == [0, 1]
    assert sorted(await adrive(body(), threads)) == [0, 1]


def test_closing_the_threads_costs_a_running_search_none_of_its_calls(threads):
    gate = threading.Event()
    busy = [threads.executor().submit(gate.wait, 60) for _ in range(CALL_THREADS_MAX)]

    def body():
        return (yield (Call(threads.close), Call(lambda: 2), Call(lambda: 3)))

    try:
        assert drive(body(), threads) == [None, 2, 3]
    finally:
        gate.set()
    assert all(each.result(60) for each in busy)


async def test_a_call_that_raises_is_a_call_failure_for_the_body(threads):
    def fail():
        raise OSError("no")

    def body():
        failed, fine = yield (Call(fail), Call(lambda: "fine"))
        assert isinstance(failed, CallFailure)
        return (type(failed.error).__name__, fine)

    assert await twice(body, threads) == ("OSError", "fine")


async def test_what_the_body_raises_reaches_the_caller(threads):
    def body():
        yield (Call(lambda: 1),)
        raise LookupError("ours")

    with pytest.raises(LookupError):
        drive(body(), threads)
    with pytest.raises(LookupError):
        await adrive(body(), threads)


async def test_a_cancelled_search_closes_its_body_and_raises_the_cancellation(threads):
    closed = []

    def body():
        try:
            yield (Call(lambda: None, lambda: asyncio.sleep(60)),)
        finally:
            closed.append(True)

    task = asyncio.create_task(adrive(body(), threads))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]


async def test_the_loop_stays_free_while_a_blocking_call_runs(threads):
    released = threading.Event()

    def body():
        return (yield (Call(lambda: released.wait(60)),))

    task = asyncio.create_task(adrive(body(), threads))
    await asyncio.sleep(0.01)
    released.set()  # could not run if the loop were blocked
    assert await task == [True]


async def test_after_its_first_blocking_call_a_body_stays_in_one_thread(threads):
    def body():
        seen = [threading.get_ident()]
        for _ in range(3):
            yield (Call(lambda: None),)
            yield ()
            seen.append(threading.get_ident())
        yield (Call(lambda: None, lambda: asyncio.sleep(0)),)
        return [*seen, threading.get_ident()]

    here = threading.get_ident()
    first, *carried, last = await adrive(body(), threads)
    assert first == last == here
    assert len(set(carried)) == 1
    assert here not in carried
    assert set(await adrive(body(), threads, on_loop=True)) == {here}


async def test_a_body_whose_call_is_prepared_on_the_loop_goes_on_in_a_thread(threads):
    """As a search that has awaited its embedder: the ranking after it does not hold up the loop."""
    seen = []

    async def prepare(items):
        seen.append(threading.get_ident())
        return items

    def body():
        (found,) = yield (Call.batched("recall", [1], sum, prepare),)
        seen.append(threading.get_ident())
        return found

    assert await adrive(body(), threads) == 1
    loop = threading.get_ident()
    assert seen[0] == loop
    assert seen[1] != loop


async def test_a_preparation_that_fails_is_a_call_failure_for_the_body(threads):
    async def prepare(items):
        raise OSError("no")

    def body():
        (failed,) = yield (Call.batched("recall", [1], sum, prepare),)
        (fine,) = yield (Call(lambda: "fine"),)
        return type(failed.error).__name__, fine

    assert await adrive(body(), threads) == ("OSError", "fine")


async def test_what_the_body_raises_in_a_thread_reaches_the_caller(threads):
    def body():
        yield (Call(lambda: 1),)
        yield (Call(lambda: 2),)
        raise StopAsyncIteration("ours")

    with pytest.raises(StopAsyncIteration):
        await adrive(body(), threads)


@pytest.mark.parametrize("inside", ["call", "body"])
async def test_a_search_cancelled_in_its_thread_ends_with_the_step_it_is_at(threads, inside):
    begun, released, seen = threading.Event(), threading.Event(), []

    def wait():
        begun.set()
        released.wait(60)

    def body():
        try:
            yield (Call(wait if inside == "call" else lambda: None),)
            if inside == "body":
                wait()
            yield (Call(lambda: seen.append("next call")),)
            seen.append("next step")
        finally:
            seen.append("closed")

    task = asyncio.create_task(adrive(body(), threads))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()
    threads.executor().shutdown()
    assert seen == ["closed"]


async def test_a_base_exception_of_one_call_cancels_the_others_of_its_tuple(threads):
    class TheEnd(BaseException):
        pass

    ended = []

    async def stop():
        await asyncio.sleep(0.01)
        raise TheEnd

    async def wait():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    def body():
        yield (Call(lambda: None, stop), Call(lambda: None, wait))

    with pytest.raises(TheEnd):
        await adrive(body(), threads)
    await asyncio.sleep(0)
    assert ended == [True]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_calls_see_the_context_variables_of_the_caller(threads):
    span = ContextVar("span", default="none")

    def body():
        first = yield (Call(span.get), Call(span.get))
        (last,) = yield (Call(span.get),)
        return [*first, last]

    span.set("mine")
    assert await twice(body, threads) == ["mine"] * 3
