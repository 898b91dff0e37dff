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
    """Facts and failures of one recall, in which a store finds and scores the candidates (the pool) of a search.

    Not thread-safe.
    """

    degraded: list[Degradation] = field(default_factory=list)
    """One entry for each failed part."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers and settings of the recall, such as "embed_ms", by name."""

    def lost(self, part: str, error: Exception | str, consequence: str) -> None:
        """Record that a part failed, the reason, and the consequence for the search.

        For an error that is no UmiError, the reason is the type's name only: the message may contain the query.
        """
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
    """The n rows of a store at one moment, as `listing(where=..., window=...)` of the store returns them."""

    ids: Sequence[str]
    """ids[i] is the id of the chunk in row i; after n ids, those of rows that were added later may follow."""
    versions: Ints
    """(n,) rising. A replacement of a chunk gets a new row with a larger version; no version is used twice."""
    passing: Bools
    """(n,) whether the row's chunk is neither deleted nor replaced, and passes the filter `where` and lies in the time
    range `window` of the call."""
