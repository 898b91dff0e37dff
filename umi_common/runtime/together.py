"""Many bodies as one: what they ask for at the same time is asked at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from umi_common.runtime.calls import Body, Call, Outcome, grouped

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
            as_few, parted = grouped(calls)
            outcomes = parted((yield as_few))
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
