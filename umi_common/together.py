"""Many bodies as one: what they ask for at the same time is asked at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from umi_common.drivers import Body, Call, Failure, Outcome

T = TypeVar("T")


def together(bodies: Sequence[Body[T]]) -> Body[list[T]]:
    """Run bodies side by side, step by step, to their results in the same order.

    In each step the calls of all bodies go out in one tuple, those of one kind (`Batch`) as one call. Between two
    bodies the event loop gets its turn. What one body raises ends all.
    """
    results: dict[int, T] = {}
    asked: dict[int, tuple[Call, ...]] = {}

    def step(place: int, advance: Callable[[], tuple[Call, ...]]) -> None:
        try:
            asked[place] = advance()
        except StopIteration as stop:
            results[place] = stop.value

    try:
        for place, body in enumerate(bodies):
            step(place, lambda body=body: next(body))  # type: ignore[misc]
        while asked:
            places, calls = zip(*((place, call) for place, calls in asked.items() for call in calls), strict=True)
            outcomes = yield from _answered(calls)
            answers: dict[int, list[Outcome]] = {place: [] for place in asked}
            for place, outcome in zip(places, outcomes, strict=True):
                answers[place].append(outcome)
            asked.clear()
            for place, answer in answers.items():
                yield ()
                step(place, lambda body=bodies[place], answer=answer: body.send(answer))  # type: ignore[misc]
    finally:
        for body in bodies:
            body.close()
    return [results[place] for place in range(len(bodies))]


def _answered(calls: Sequence[Call]) -> Body[list[Outcome]]:
    """An outcome for each call, those of one kind by one call."""
    groups: dict[Hashable, list[int]] = {}
    for place, call in enumerate(calls):
        groups.setdefault(("alone", place) if call.batch is None else ("batch", call.batch.kind), []).append(place)
    answers = yield tuple(_as_one([calls[place] for place in group]) for group in groups.values())
    outcomes: list[Outcome] = [None] * len(calls)
    for group, answer in zip(groups.values(), answers, strict=True):
        if len(group) == 1 or isinstance(answer, Failure):
            answer = [answer] * len(group)
        for place, outcome in zip(group, answer, strict=True):
            outcomes[place] = outcome
    return outcomes


def _as_one(calls: Sequence[Call]) -> Call:
    """The call itself, or one whose answer is a list with the part of each."""
    batches = [call.batch for call in calls if call.batch is not None]
    if len(calls) == 1:
        return calls[0]
    ends = list(accumulate(len(batch.items) for batch in batches))

    def run() -> list[Any]:
        answer = batches[0].run([item for batch in batches for item in batch.items])
        return [
            batch.part(answer, slice(end - len(batch.items), end)) for batch, end in zip(batches, ends, strict=True)
        ]

    return Call(run)
