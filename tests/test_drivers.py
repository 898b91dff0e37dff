"""One body, two drivers: the same outcomes in the same order, failures handed to the body, nothing left running."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from umi_common.drivers import Call, Failure, adrive, drive


@pytest.fixture()
def executor():
    with ThreadPoolExecutor(2) as pool:
        yield pool


async def twice(body_of, executor):
    """The result by both drivers; they must agree."""
    result = drive(body_of(), executor)
    assert await adrive(body_of(), executor) == result
    return result


async def test_outcomes_come_back_in_the_order_of_the_calls(executor):
    def body():
        first = yield (Call(lambda: 1), Call(lambda: 2), Call(lambda: 3))
        (last,) = yield (Call(lambda: sum(first)),)
        return [*first, last]

    assert await twice(body, executor) == [1, 2, 3, 6]


async def test_calls_of_one_tuple_run_at_the_same_time(executor):
    def body():
        meeting = threading.Barrier(2, timeout=5)
        return (yield (Call(meeting.wait), Call(meeting.wait)))

    assert sorted(drive(body(), executor)) == [0, 1]
    assert sorted(await adrive(body(), executor)) == [0, 1]


async def test_a_call_that_raises_is_the_bodys_business(executor):
    def fail():
        raise OSError("no")

    def body():
        failed, fine = yield (Call(fail), Call(lambda: "fine"))
        assert isinstance(failed, Failure)
        return (type(failed.error).__name__, fine)

    assert await twice(body, executor) == ("OSError", "fine")


async def test_what_the_body_raises_reaches_the_caller(executor):
    def body():
        yield (Call(lambda: 1),)
        raise LookupError("ours")

    with pytest.raises(LookupError):
        drive(body(), executor)
    with pytest.raises(LookupError):
        await adrive(body(), executor)


async def test_a_cancelled_search_closes_its_body_and_swallows_nothing(executor):
    closed = []

    def body():
        try:
            yield (Call(lambda: None, lambda: asyncio.sleep(60)),)
        finally:
            closed.append(True)

    task = asyncio.create_task(adrive(body(), executor))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]


async def test_the_loop_stays_free_while_a_blocking_call_runs(executor):
    released = threading.Event()

    def body():
        return (yield (Call(lambda: released.wait(5)),))

    task = asyncio.create_task(adrive(body(), executor))
    await asyncio.sleep(0.01)
    released.set()  # could not run if the loop were blocked
    assert await task == [True]
