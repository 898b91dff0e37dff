"""What a search has to tell about itself, gathered along the line."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from umi_common.protocols import OnStage
from umi_common.types import Degradation, Stage, Trace


@dataclass(slots=True)
class Notes:
    """Of one search; never shared between two."""

    on_stage: OnStage | None = None

    started: float = field(default_factory=time.perf_counter)
    stages: list[Stage] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)

    def stage(self, name: str) -> _Timed:
        """Time a stage: `with notes.stage(name) as facts`; the dict takes its facts."""
        return _Timed(self, name)

    def fact(self, name: str, **facts: Any) -> None:
        """A stage that takes no time worth measuring."""
        with self.stage(name) as told:
            told.update(facts)

    def lost(self, part: str, reason: str, consequence: str) -> None:
        """A part that failed, and what was done instead."""
        self.degraded.append(Degradation(part, reason, consequence))

    def trace(self) -> Trace:
        """All stages so far."""
        return Trace(tuple(self.stages), (time.perf_counter() - self.started) * 1e3)


class _Timed:
    """One stage under way. A class, because a generator as a context manager takes three times as long."""

    __slots__ = ("_begun", "_ended", "_facts", "_name", "_notes")

    def __init__(self, notes: Notes, name: str) -> None:
        self._notes, self._name = notes, name
        self._facts: dict[str, Any] = {}

    def __enter__(self) -> dict[str, Any]:
        on_stage = self._notes.on_stage
        self._ended = None if on_stage is None else on_stage(self._name)
        self._begun = time.perf_counter()
        return self._facts

    def __exit__(self, *exc_info: object) -> None:
        stage = Stage(self._name, (time.perf_counter() - self._begun) * 1e3, self._facts)
        self._notes.stages.append(stage)
        if self._ended is not None:
            self._ended(stage)
