"""What a search asks of the outside: calls, and what comes of them.

A body is a generator that yields a tuple of `Call`s and is sent their outcomes in the same order; calls of one tuple
run together. A call that raises gives its exception as its outcome, so that the body decides what a failure costs. The
empty tuple asks for nothing: others get their turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """How to answer a call together with others of its kind, which differ from it in their items alone."""

    kind: Hashable
    items: Sequence[Any]
    run: Callable[[Sequence[Any]], Any]
    """One answer for any items."""
    part: Callable[[Any, slice], Any]
    """What that answer says of these items, as if they had been asked for alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One piece of outside work."""

    run: Callable[[], Any]
    """Does it, blocking."""
    arun: Callable[[], Awaitable[Any]] | None = None
    """Does it without blocking; None: `run` goes to a thread."""
    batch: Batch | None = None
    """None: it is never answered together with others."""

    @classmethod
    def batched(
        cls,
        kind: Hashable,
        items: Sequence[Any],
        run: Callable[[Sequence[Any]], Any],
        part: Callable[[Any, slice], Any],
    ) -> Call:
        """A call for these items that may be answered together with others of its kind; see `Batch`."""
        return cls(lambda: part(run(items), slice(0, len(items))), batch=Batch(kind, items, run, part))


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a call that raised."""

    error: Exception


Outcome = Any | Failure
Body = Generator[tuple[Call, ...], Sequence[Outcome], T]


def outcome_of(run: Callable[[], Any]) -> Outcome:
    """What it gives, or how it fails."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - the body judges it
        return Failure(error)


def grouped(calls: Sequence[Call]) -> tuple[tuple[Call, ...], Callable[[Sequence[Outcome]], list[Outcome]]]:
    """The calls with those of one kind (`Batch`) as one, and what makes of their outcomes those of `calls`.

    A call for several that raises is made again for each, so that none pays for another.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, call in enumerate(calls):
        groups.setdefault(("alone", place) if call.batch is None else ("batch", call.batch.kind), []).append(place)

    def parted(answers: Sequence[Outcome]) -> list[Outcome]:
        outcomes: list[Outcome] = [None] * len(calls)
        for group, answer in zip(groups.values(), answers, strict=True):
            each = [answer] * len(group) if len(group) == 1 or isinstance(answer, Failure) else answer
            for place, outcome in zip(group, each, strict=True):
                outcomes[place] = outcome
        return outcomes

    return tuple(_as_one([calls[place] for place in group]) for group in groups.values()), parted


def _as_one(calls: Sequence[Call]) -> Call:
    """The call itself, or one that gives a list with the outcome of each."""
    batches = [call.batch for call in calls if call.batch is not None]
    if len(calls) == 1:
        return calls[0]
    ends = list(accumulate(len(batch.items) for batch in batches))

    def run() -> list[Outcome]:
        try:
            answer = batches[0].run([item for batch in batches for item in batch.items])
        except Exception:  # noqa: BLE001 - whose fault it was, each finds out alone
            return [outcome_of(call.run) for call in calls]
        return [
            batch.part(answer, slice(end - len(batch.items), end)) for batch, end in zip(batches, ends, strict=True)
        ]

    return Call(run)
