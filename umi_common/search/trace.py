"""Collects the trace of one search: stages with times and facts, and degradations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from umi_common.protocols import OnStage
from umi_common.types import Degradation, Stage, Trace


@dataclass(slots=True)
class TraceBuilder:
    """Collects the trace of one search. Not thread-safe."""

    on_stage: OnStage | None = None
    """Called when a stage begins; its result is called when the stage ends."""
    started: float = field(default_factory=time.perf_counter)
    stages: list[Stage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Times a stage: `with trace.stage(name) as facts`; the caller adds facts to the dict."""
        facts: dict[str, Any] = {}
        on_end = None if self.on_stage is None else self.on_stage(name)
        begun = time.perf_counter()
        try:
            yield facts
        finally:
            milliseconds, offset = (time.perf_counter() - begun) * 1e3, (begun - self.started) * 1e3
            self.stages.append(Stage(name, milliseconds, facts, offset))
            if on_end is not None:
                on_end(self.stages[-1])

    def add(self, name: str, **facts: Any) -> None:
        """Adds a stage whose time is not worth measuring."""
        with self.stage(name) as stated:
            stated.update(facts)

    def degrade(self, part: str, reason: str, consequence: str) -> None:
        """Adds a part that failed, and what was done instead."""
        self.degraded.append(Degradation(part, reason, consequence))

    def build(self) -> Trace:
        """The stages that have ended, and the time since the search started."""
        return Trace(tuple(self.stages), (time.perf_counter() - self.started) * 1e3)
