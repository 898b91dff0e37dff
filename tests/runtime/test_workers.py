"""Searches that are queued for a thread run as a group; none delays or fails another, and none is lost."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress

import pytest

from umi_common.errors import StoreClosed
from umi_common.runtime import workers
from umi_common.runtime.calls import GROUP_MAX, Call, CallFailure, adrive
from umi_common.runtime.workers import Workers


@pytest.fixture()
def threads(monkeypatch):
    """Workers with one thread, so that searches which begin while it is busy are queued."""
    monkeypatch.setattr(workers, "SEARCH_THREADS_MAX", 1)
    made = Workers()
    yield made
    made.close()


class Busy:
    """Keeps the only thread busy inside the `async with` block."""

    def __init__(self, threads):
        self._begun, self._released, self._threads = threading.Event(), threading.Event(), threads

    async def __aenter__(self):
        def hold(items):
            self._begun.set()
            self._released.wait(60)

        busy = one(Call.batched("hold", [], hold))
        self._task = asyncio.create_task(adrive(busy, self._threads))
        await asyncio.to_thread(self._begun.wait, 60)
        return self

    async def __aexit__(self, *exc_info):
        await asyncio.sleep(0.01)  # the searches that began meanwhile are queued now
        self._released.set()
        await self._task


def one(call):
    (outcome,) = yield (call,)
    return outcome


def asked_of(log):
    """A batched call that appends its items to `log`, and fails if one is "bad"."""

    def run(items):
        log.append(list(items))
        if "bad" in items:
            raise OSError("bad")
        return [item.upper() for item in items]

    return lambda *items: Call.batched("upper", items, run)


async def gathered(threads, bodies):
    async with Busy(threads):
        tasks = [asyncio.create_task(adrive(body, threads)) for body in bodies]
    return await asyncio.gather(*tasks)


async def test_calls_of_queued_searches_are_made_as_one_call(threads):
    log = []
    upper = asked_of(log)
    assert await gathered(threads, [one(upper("a")), one(upper("b", "c")), one(upper("d"))]) == [
        ["A"],
        ["B", "C"],
        ["D"],
    ]
    assert log == [["a", "b", "c", "d"]]


async def test_the_event_loop_is_woken_once_for_searches_that_end_together(threads, monkeypatch):
    loop, told = asyncio.get_running_loop(), []
    async with Busy(threads):
        tasks = [asyncio.create_task(adrive(one(asked_of([])(name)), threads)) for name in "abc"]
        await asyncio.sleep(0)
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(
            loop, "call_soon_threadsafe", lambda call, *given, **how: (told.append(call), wake(call, *given, **how))[1]
        )
    assert await asyncio.gather(*tasks) == [["A"], ["B"], ["C"]]
    assert len(told) == 2  # for the one that kept the thread busy, and for the three


async def test_a_group_has_at_most_group_max_searches(threads):
    log = []
    upper = asked_of(log)
    names = [str(number) for number in range(GROUP_MAX + 3)]
    assert await gathered(threads, [one(upper(name)) for name in names]) == [[name] for name in names]
    assert list(map(len, log)) == [GROUP_MAX, 3]


async def test_as_many_workers_are_started_as_the_queue_needs(threads, monkeypatch):
    called, call = [], Workers._run_group
    monkeypatch.setattr(Workers, "_run_group", lambda self: (called.append(1), call(self)))
    await gathered(threads, [one(asked_of([])(str(number))) for number in range(2 * GROUP_MAX + 1)])
    assert len(called) == 1 + 3  # the busy one, and three for two groups and a rest


async def test_a_worker_that_could_not_be_started_is_not_counted_as_starting(threads, monkeypatch):
    def refuse(size, name):
        raise RuntimeError("the interpreter is going down")

    with monkeypatch.context() as patched:
        patched.setattr(threads, "_pool", refuse)
        with pytest.raises(RuntimeError):
            await adrive(one(asked_of([])("a")), threads)
    assert await adrive(one(asked_of([])("b")), threads) == ["B"]


async def test_a_call_that_fails_in_a_group_fails_for_its_own_search_only(threads):
    log = []
    upper = asked_of(log)
    good, bad, other = await gathered(threads, [one(upper("a")), one(upper("bad")), one(upper("b"))])
    assert (good, other) == (["A"], ["B"])
    assert isinstance(bad, CallFailure)
    assert isinstance(bad.error, OSError)
    assert log == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]


async def test_a_search_that_raises_does_not_end_the_others_of_its_group(threads):
    upper = asked_of([])

    def raising():
        yield (upper("x"),)
        raise LookupError("mine")

    async with Busy(threads):
        failing, fine = (asyncio.create_task(adrive(body, threads)) for body in (raising(), one(upper("a"))))
    assert await fine == ["A"]
    with pytest.raises(LookupError, match="mine"):
        await failing


async def test_a_call_that_cannot_be_batched_does_not_delay_the_others(threads):
    upper, held, ready = asked_of([]), threading.Event(), threading.Event()

    def slow(name):
        yield (upper(name),)
        (outcome,) = yield (Call(lambda: ready.set() or held.wait(60)),)
        return outcome

    def quick():
        yield (upper("q"),)
        yield (upper("r"),)
        return "done"

    tasks = [asyncio.create_task(adrive(body, threads)) for body in (quick(), slow("a"), quick())]
    assert await asyncio.wait_for(tasks[0], 60) == await asyncio.wait_for(tasks[2], 60) == "done"
    await asyncio.to_thread(ready.wait, 60)
    held.set()
    assert await tasks[1] is True


async def test_a_search_cancelled_in_the_queue_is_closed_and_makes_no_call(threads):
    log, closed = [], []
    upper = asked_of(log)

    def body():
        try:
            yield (upper("gone"),)
            log.append("went on")
        finally:
            closed.append(True)

    async with Busy(threads):
        task = asyncio.create_task(adrive(body(), threads))
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await adrive(one(upper("a")), threads) == ["A"]
    assert closed == [True]
    assert log == [["a"]]


async def test_queued_searches_raise_when_the_threads_are_closed_and_later_ones_get_new_threads(threads):
    upper = asked_of([])
    async with Busy(threads):
        task = asyncio.create_task(adrive(one(upper("a")), threads))
        await asyncio.sleep(0.01)
        threads.close()
        with pytest.raises(StoreClosed, match="closed before this search had run"):
            await task
    assert await adrive(one(upper("b")), threads) == ["B"]


async def test_a_base_exception_of_a_merged_call_reaches_all_its_searches(threads):
    class TheEnd(BaseException):
        pass

    def stop(items):
        raise TheEnd

    async with Busy(threads):
        calls = [Call.batched("stop", [n], stop) for n in range(2)]
        tasks = [asyncio.create_task(adrive(one(call), threads)) for call in calls]
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [TheEnd, TheEnd]


def test_searches_of_two_event_loops_share_threads(threads):
    upper = asked_of([])
    found = []

    def run(name):
        found.append(asyncio.run(adrive(one(upper(name)), threads)))

    both = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert sorted(found) == [["A"], ["B"]]


async def test_a_queued_call_that_cannot_be_batched_raises_when_the_threads_are_closed(monkeypatch):
    monkeypatch.setattr(workers, "CALL_THREADS_MAX", 1)
    threads, begun, released = Workers(), threading.Event(), threading.Event()

    def hold():
        begun.set()
        released.wait(60)

    first = asyncio.create_task(adrive(one(Call(hold)), threads))
    await asyncio.to_thread(begun.wait, 60)
    second = asyncio.create_task(adrive(one(Call(lambda: None)), threads))
    await asyncio.sleep(0.01)
    threads.close()
    released.set()
    assert await first is None
    with pytest.raises(StoreClosed, match="closed before this search had run"):
        await second


@pytest.mark.parametrize("on_loop", [False, True])
async def test_a_search_kept_on_the_event_loop_raises_when_the_threads_are_closed(threads, on_loop):
    async with Busy(threads):
        task = asyncio.create_task(adrive(one(asked_of([])("a")), threads, on_loop=on_loop))
        await asyncio.sleep(0.01)
        threads.close()
        with pytest.raises(StoreClosed, match="closed before this search had run"):
            await task


@pytest.mark.parametrize("seed", range(5))
async def test_among_many_searches_started_and_cancelled_each_that_stays_gets_its_own_result(seed):
    draw, threads = random.Random(seed), Workers()
    upper = asked_of([])

    def body(number):
        seen = []
        for step in range(draw.randint(1, 4)):
            name = f"{number}-{step}"
            kinds = {"batch": upper(name), "alone": Call(lambda: [name]), "loop": Call(list, lambda: told(name))}  # noqa: B023
            (outcome,) = yield (kinds[draw.choice(list(kinds))],)
            seen += outcome
            yield ()
        if number % 7 == 0:
            raise LookupError(str(number))
        return seen

    async def told(name):
        await asyncio.sleep(0)
        return [name]

    tasks = []
    for number in range(150):
        tasks.append(asyncio.create_task(adrive(body(number), threads)))
        if draw.random() < 0.3:
            await asyncio.sleep(0)
        if draw.random() < 0.2:
            draw.choice(tasks).cancel()
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    threads.close()
    for number, each in enumerate(found):
        if isinstance(each, list):
            assert [name.casefold() for name in each] == [f"{number}-{step}" for step in range(len(each))]
        else:
            assert isinstance(each, (asyncio.CancelledError, LookupError)), each
            assert isinstance(each, asyncio.CancelledError) or str(each) == str(number)


async def test_a_search_that_begins_while_the_threads_are_closed_gets_new_threads(threads, monkeypatch):
    upper, found = asked_of([]), []
    began = threading.Thread(target=lambda: found.append(asyncio.run(adrive(one(upper("new")), threads))))
    shutdown = workers.ThreadPoolExecutor.shutdown

    def begin_a_search_first(pool, **how):
        monkeypatch.undo()
        began.start()
        began.join(0.5)
        shutdown(pool, **how)

    async with Busy(threads):
        old = asyncio.create_task(adrive(one(upper("old")), threads))
        await asyncio.sleep(0.01)
        monkeypatch.setattr(workers.ThreadPoolExecutor, "shutdown", begin_a_search_first)
        threads.close()
    with pytest.raises(StoreClosed):
        await old
    await asyncio.to_thread(began.join, 10)
    assert found == [["NEW"]]


@pytest.mark.parametrize("on_loop", [False, True])
async def test_a_call_that_cannot_be_batched_is_made_although_another_thread_closes_the_threads(on_loop, monkeypatch):
    threads, executor = Workers(), Workers.executor
    closing = threading.Thread(target=threads.close)

    def close_meanwhile(self):
        found = executor(self)
        if not closing.ident:
            closing.start()
            closing.join(0.2)
        return found

    monkeypatch.setattr(Workers, "executor", close_meanwhile)
    with suppress(StoreClosed):  # the call was queued before the threads were closed
        assert await adrive(one(Call(lambda: "made")), threads, on_loop=on_loop) == "made"
    closing.join(10)
    assert not closing.is_alive()


async def test_a_cancelled_search_that_raises_when_it_is_closed_does_not_end_the_others_of_its_group(threads):
    begun, released = threading.Event(), threading.Event()

    def hold(items):
        begun.set()
        released.wait(60)
        return items

    def searching(name, *, raises):
        try:
            yield (Call.batched("hold", [name], hold),)
            return (yield (Call.batched("hold", [name], hold),))
        finally:
            if raises:
                raise LookupError(name)

    async with Busy(threads):
        bad = searching("bad", raises=True)
        cancelled = asyncio.create_task(threads.run(bad, next(bad)[0]))
        good = asyncio.create_task(adrive(searching("good", raises=False), threads))
    await asyncio.to_thread(begun.wait, 60)
    cancelled.cancel()
    await asyncio.sleep(0.01)
    released.set()
    assert await good == [["good"]]


def test_a_search_whose_event_loop_was_closed_makes_no_further_call(threads):
    begun, released, log = threading.Event(), threading.Event(), []

    def searching():
        yield (Call.batched("hold", [], lambda items: begun.set() or released.wait(60)),)
        yield (asked_of(log)("a"),)

    loop = asyncio.new_event_loop()
    task = loop.create_task(adrive(searching(), threads))
    loop.run_until_complete(asyncio.to_thread(begun.wait, 60))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    released.set()
    assert asyncio.run(adrive(one(asked_of(log)("b")), threads)) == ["B"]
    assert log == [["b"]] and not task.done()
    task._log_destroy_pending = False
