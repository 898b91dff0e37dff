"""Collects the trace of one search: stages with times and facts, and degradations."""

from __future__ import annotations

import time
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

    def stage(self, name: str) -> _StageTimer:
        """Times a stage: `with trace.stage(name) as facts`; the caller adds facts to the dict."""
        return _StageTimer(self, name)

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


class _StageTimer:
    """Times one stage. A class: a generator as a context manager takes three times as long."""

    __slots__ = ("_begun", "_facts", "_name", "_on_end", "_trace")

    def __init__(self, trace: TraceBuilder, name: str) -> None:
        self._trace, self._name = trace, name
        self._facts: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        on_stage = self._trace.on_stage
        self._on_end = None if on_stage is None else on_stage(self._name)
        self._begun = time.perf_counter()
        return self._facts

    def __exit__(self, *exc_info: object) -> None:
        offset = (self._begun - self._trace.started) * 1e3
        stage = Stage(self._name, (time.perf_counter() - self._begun) * 1e3, self._facts, offset)
        self._trace.stages.append(stage)
        if self._on_end is not None:
            self._on_end(stage)
