"""Shorten a schedule that fails, by leaving out steps without which it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from schedule import Schedule, Step

RUNS_MAX = 400
"""Largest number of schedules that are tried."""


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The shortest schedule found that still fails."""
    left = RUNS_MAX
    size = max(1, len(schedule.steps) // 2)
    while size and left > 0:
        smaller = None
        for candidate in _without_some(schedule, size):
            left -= 1
            if fails(candidate):
                smaller = candidate
                break
            if left <= 0:
                break
        if smaller is not None:
            schedule, size = smaller, min(size, max(1, len(smaller.steps) // 2))
        else:
            size //= 2
    return _simpler(schedule, fails, left)


def _without_some(schedule: Schedule, size: int) -> Iterator[Schedule]:
    for start in range(0, len(schedule.steps), size):
        steps = schedule.steps[:start] + schedule.steps[start + size :]
        yield replace(schedule, steps=steps)


def _simpler(schedule: Schedule, fails: Callable[[Schedule], bool], left: int) -> Schedule:
    """With simpler steps: no fault, fewer inner steps, fewer chunks."""
    again = True
    while again and left > 0:
        again = False
        for number, step in enumerate(schedule.steps):
            for simpler in _simpler_steps(step):
                left -= 1
                candidate = replace(schedule, steps=(*schedule.steps[:number], simpler, *schedule.steps[number + 1 :]))
                if fails(candidate):
                    schedule, again = candidate, True
                    break
                if left <= 0:
                    return schedule
            if again:
                break
    return schedule


def _simpler_steps(step: Step) -> Iterator[Step]:
    if step.fault is not None and step.kind != "crash":
        yield replace(step, fault=None)
        if step.fault.at > 1:
            yield replace(step, fault=step.fault._replace(at=1))
    for at, (point, inner) in enumerate(step.during):
        rest = step.during[:at] + step.during[at + 1 :]
        yield replace(step, during=rest)
        for number, one in enumerate(inner):
            if len(inner) > 1:
                fewer = inner[:number] + inner[number + 1 :]
                yield replace(step, during=(*step.during[:at], (point, fewer), *step.during[at + 1 :]))
            for simpler in _simpler_steps(one):
                kept = (*inner[:number], simpler, *inner[number + 1 :])
                yield replace(step, during=(*step.during[:at], (point, kept), *step.during[at + 1 :]))
    chunks = step.what.get("chunks", ())
    for at in range(len(chunks)):
        if len(chunks) > 1:
            yield replace(step, what={**step.what, "chunks": chunks[:at] + chunks[at + 1 :]})
