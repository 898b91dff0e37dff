"""Many async callers on one event loop: searches a second, and the latency of each."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.children import Child
from benchmarks.harness import Build, Plan, Row, Skipped, Spec
from benchmarks.hybrid_systems import HYBRIDS, UMI, Hybrid
from benchmarks.stores import shared_store

SIZES = (10_000,)
WHAT = "hybrid search, async callers"
CALLERS = (1, 4, 16)


@dataclass(frozen=True)
class Loaded:
    """Answers questions of many callers and measures the time of each."""

    hybrid: Hybrid

    def __call__(self, callers: int, numbers: list[int], seconds: float) -> tuple[float, list[float]]:
        """(seconds in all, milliseconds of each answer)"""
        return asyncio.run(self._run(callers, numbers, seconds))

    async def _run(self, callers: int, numbers: list[int], seconds: float) -> tuple[float, list[float]]:
        waiting, times = iter(numbers), []
        begun = time.perf_counter()

        async def caller() -> None:
            for number in waiting:
                asked = time.perf_counter()
                await self.hybrid.aask(number)
                answered = time.perf_counter()
                times.append((answered - asked) * 1e3)
                if answered - begun > seconds:
                    break

        await asyncio.gather(*(caller() for _ in range(callers)))
        return time.perf_counter() - begun, times


@dataclass(frozen=True)
class ManyCallers:
    """Prepares a hybrid system that many callers query."""

    name: str

    def __call__(self, spec: Spec) -> Build:
        """See `harness.Prepare`."""
        build = HYBRIDS[self.name](spec)
        return lambda: Loaded(build())


def measure(size: int, plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """A row a system and number of callers; every caller asks its next question when the last is answered."""
    numbers = plan.questions * 4
    rows: list[Row] = []
    with shared_store(Spec(size, questions=numbers * plan.rounds + plan.warm_up), say) as spec:
        children = {name: Child(ManyCallers(name), spec) for name in HYBRIDS}
        spent: dict[tuple[str, int], list[Any]] = {(name, callers): [] for name in HYBRIDS for callers in CALLERS}
        try:
            for name, child in list(children.items()):
                try:
                    child.build(plan.build_seconds)
                    child.call(2, list(range(plan.warm_up)), plan.seconds)
                except Skipped as reason:
                    rows.append({"what": WHAT, "size": size, "system": name, "skipped": str(reason)})
                    children.pop(name).close()
                    say(f"{name}: left out, {reason}")
            for at in range(plan.rounds):
                asked = range(plan.warm_up + at * numbers, plan.warm_up + (at + 1) * numbers)
                for callers in CALLERS:
                    for name, child in children.items():
                        spent[name, callers].append(child.call(callers, list(asked), plan.seconds))
                say(f"round {at + 1} of {plan.rounds}")
        finally:
            for child in children.values():
                child.close()
    rows += [_row(size, name, callers, rounds) for (name, callers), rounds in spent.items() if rounds]
    return _with_ratios(rows)


def _row(size: int, name: str, callers: int, rounds: list[Any]) -> Row:
    return {
        "what": WHAT,
        "size": size,
        "system": name,
        "callers": callers,
        "per_second": statistics.median(len(times) / seconds for seconds, times in rounds),
        "p50_ms": statistics.median(statistics.median(times) for _, times in rounds),
        "p95_ms": statistics.median(float(np.quantile(times, 0.95)) for _, times in rounds),
        "rounds": len(rounds),
        "questions": sum(len(times) for _, times in rounds),
    }


def _with_ratios(rows: list[Row]) -> list[Row]:
    """ "throughput": umi's searches a second in multiples of the row's."""
    ours = {row["callers"]: row["per_second"] for row in rows if row["system"] == UMI and "per_second" in row}
    for row in rows:
        if row.get("callers") in ours:
            row["throughput"] = ours[row["callers"]] / row["per_second"]
    return rows
