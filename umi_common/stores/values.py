"""Values that all stores return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from umi_common.errors import UmiError
from umi_common.pool import Bools, Ints
from umi_common.runtime.losses import log_bug
from umi_common.types import Degradation

REASON_CHARACTERS_MAX = 200
"""Longest reason of a degradation, in characters; longer messages are cut."""


@dataclass(slots=True)
class RecallTrace:
    """Facts and failures of one recall, for its pool. Not thread-safe."""

    degraded: list[Degradation] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def lost(self, part: str, error: Exception | str, consequence: str) -> None:
        """Record that a part failed. Of an error that is no UmiError only the type is kept: its
        message may hold the query."""
        if isinstance(error, Exception):
            log_bug(part, error)
        reason = str(error)[:REASON_CHARACTERS_MAX] if isinstance(error, (str, UmiError)) else type(error).__name__
        self.degraded.append(Degradation(part, reason, consequence))

    def reasons(self) -> str:
        """Every failure with its part, in one line."""
        return "; ".join(f"{loss.part}: {loss.reason}" for loss in self.degraded)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify()`; true if it found no problem."""

    checked: int
    """Chunks read in full."""
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The chunks of a store at one moment, without their texts, by row."""

    ids: Sequence[str]
    """At least n ids; row i is that of ids[i]."""
    versions: Ints
    """(n,) rising. A chunk that is replaced gets a new row with a larger version; none is used twice."""
    passing: Bools
    """(n,) whether the row's chunk is stored, was not replaced, and passes filter and time range."""
