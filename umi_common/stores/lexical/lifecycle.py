"""Where an index stands, from nothing to ready or broken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class IndexState(str, Enum):
    """Uninitialized -> Building -> Ready or Empty, or Error; from Error only by rebuilding."""

    UNINITIALIZED = "uninitialized"
    BUILDING = "building"
    READY = "ready"
    EMPTY = "empty"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Where the index stands."""

    state: IndexState
    docs: int = 0
    """Live rows that answers come from; while building, those of the old content."""
    reason: str = ""
    """Only for ERROR."""

    def __str__(self) -> str:
        """`ready, 125 chunks`."""
        return f"{self.state.value}, {self.reason or f'{self.docs} chunks'}"
