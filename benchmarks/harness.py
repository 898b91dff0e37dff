"""How figures are measured: systems are queried in turn, round by round; a figure is the median of the rounds.

All meet the same noise, because the rounds go around. Every round asks other questions: a cache of answers or of terms
earns nothing.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.children import Outcome

Row = dict[str, Any]
"""One line of a result: "what", "size", "system", then figures, or "skipped" with the reason."""
Work = Callable[..., Any]
Build = Callable[[], Work]
Prepare = Callable[["Spec"], Build]
Answer = tuple[float, float, list[int]]
"""Milliseconds of the wall and of the processor, and the rows found, best first."""


@dataclass(frozen=True)
class Spec:
    """The values from which every child makes the same data."""

    size: int
    dim: int = 384
    questions: int = 400
    home: str = ""
    """A directory for what goes to the disk; each system uses one of its own below it."""


@dataclass(frozen=True)
class Plan:
    """Number and duration of rounds."""

    rounds: int = 5
    questions: int = 60
    """In each round, all different from those of other rounds."""
    warm_up: int = 20
    seconds: float = 3.0
    """Longest round of one system; a slow one answers fewer questions, and the row says how many."""
    build_seconds: float = 420.0
    """Seconds after which a build is stopped; the row says so."""

    @property
    def all_questions(self) -> int:
        """Needed in all."""
        return self.warm_up + self.rounds * self.questions

    def of_round(self, at: int) -> range:
        """Numbers of its questions."""
        start = self.warm_up + at * self.questions
        return range(start, start + self.questions)


class Skipped(Exception):
    """A system cannot take part; the message is the reason."""


@dataclass(frozen=True)
class Asking:
    """Work that answers numbered questions and times each."""

    ask: Callable[[int], list[int]]

    def __call__(self, numbers: Sequence[int], seconds: float) -> list[Answer]:
        """Answer questions until the time is over; at least one."""
        answers: list[Answer] = []
        until = time.perf_counter() + seconds
        gc.collect()
        for number in numbers:
            begun, working = time.perf_counter(), time.process_time()
            rows = self.ask(number)
            ended, worked = time.perf_counter(), time.process_time()
            answers.append(((ended - begun) * 1e3, (worked - working) * 1e3, rows))
            if ended > until:
                break
        return answers


def timing(rounds: Sequence[Sequence[float]]) -> Row:
    """Medians of the rounds: p50 and p95 in ms, and how much was measured."""
    return {
        "p50_ms": statistics.median(statistics.median(each) for each in rounds),
        "p95_ms": statistics.median(float(np.quantile(each, 0.95)) for each in rounds),
        "rounds": len(rounds),
        "questions": sum(len(each) for each in rounds),
    }


def rows_of(
    what: str, size: int, outcomes: Mapping[str, Outcome], ours: str, more: Mapping[str, Row] = {}
) -> list[Row]:
    """A row a system; "times" is its p50 in multiples of `ours`, the median of the rounds' ratios."""
    rows = []
    base = outcomes[ours].rounds
    for name, outcome in outcomes.items():
        row: Row = {"what": what, "size": size, "system": name}
        if outcome.skipped is not None or not outcome.rounds:
            rows.append({**row, "skipped": outcome.skipped or "no round"})
            continue
        pairs = zip(outcome.rounds, base, strict=False)
        ratios = [statistics.median(theirs) / statistics.median(own) for theirs, own in pairs]
        row |= timing(outcome.rounds)
        row |= {"times": statistics.median(ratios) if ratios else None}
        row["cpu_p50_ms"] = statistics.median(statistics.median(each) for each in outcome.worked)
        row["asked_again_p50_ms"] = statistics.median(outcome.again) if outcome.again else None
        row |= {"build_s": outcome.seconds, "memory_mb": outcome.megabytes}
        rows.append(row | dict(more.get(name, {})))
    return rows


def alternated(
    systems: Mapping[str, Callable[[], Any]], *, rounds: int, repeats: int, seconds: float = 1.0
) -> dict[str, list[list[float]]]:
    """Milliseconds of short calls in this process, by system and round, in turn; `repeats` calls each, fewer when the
    seconds are up."""
    spent: dict[str, list[list[float]]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            times: list[float] = []
            gc.collect()
            until = time.perf_counter() + seconds
            while len(times) < repeats and (not times or time.perf_counter() < until):
                begun = time.perf_counter()
                run()
                times.append((time.perf_counter() - begun) * 1e3)
            spent[name].append(times)
    return spent
