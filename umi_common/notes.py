"""What a search has to tell about itself, gathered along the line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage; the dict takes its facts."""
        facts: dict[str, Any] = {}
        ended = None if self.on_stage is None else self.on_stage(name)
        begun = time.perf_counter()
        try:
            yield facts
        finally:
            stage = Stage(name, (time.perf_counter() - begun) * 1e3, facts)
            self.stages.append(stage)
            if ended is not None:
                ended(stage)

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
