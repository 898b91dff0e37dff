"""Further arms: other ways to find chunks, asked at the same time as the store and each failing alone."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from umi_common.config import ExtraArmsConfig
from umi_common.errors import ConfigError
from umi_common.filters import Filter
from umi_common.runtime.calls import Call, Failure, Outcome
from umi_common.runtime.deadline import Bounded, DeadlineExceeded, NoPlace, awaited
from umi_common.search.request import Request
from umi_common.search.trace import Notes
from umi_common.types import Chunk, TimeRange

OWN_ARMS = ("lexical", "dense")

Ranked = Sequence[tuple[Chunk | str, float]]
"""(chunk or id, score), best first. Larger is better; a score <= 0 is no hit."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A further arm of a `DualRetriever`: a web search, a graph, another vector store.

    `search(query, k, where, window)` gives at most k (chunk or id, score) pairs, best first, larger scores better, > 0.
    An id names a chunk of the store; a chunk that the store lacks is carried along as it is. `where` and `window` may
    be ignored: what does not pass is left out afterwards, by the store's metadata where it has the chunk.

    Args:
        name: Stands in signals and losses; neither "lexical" nor "dense".
        search: May block; called from many threads at once.
        weight: >= 0, beside `fusion.lexical_weight` and `fusion.dense_weight`.
        asearch: The same for event loops; None: `search` in a thread.

    Raises:
        ConfigError: If name or weight are wrong.
    """

    name: str
    search: Callable[[str, int, Filter | None, TimeRange | None], Ranked]
    weight: float = 0.5
    asearch: Callable[[str, int, Filter | None, TimeRange | None], Awaitable[Ranked]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name in OWN_ARMS:
            raise ConfigError(f"arm name {self.name!r}: expected a string other than {', '.join(OWN_ARMS)}")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ConfigError(f"arm {self.name!r}: weight {self.weight!r}: expected a number >= 0")


@dataclass(frozen=True, slots=True)
class Brought:
    """What one arm found."""

    scores: Mapping[str, float]
    """By id, > 0."""
    chunks: Mapping[str, Chunk]
    """Those that came as chunks."""


class Arms:
    """The further arms of one retriever.

    Raises:
        ConfigError: If two have one name, or one is no `Arm`.
    """

    def __init__(self, arms: Sequence[Arm] = ()) -> None:
        for arm in arms:
            if not isinstance(arm, Arm):
                raise ConfigError(f"arms holds {type(arm).__name__}; expected Arm(name, search)")
        self.weights = {arm.name: arm.weight for arm in arms}
        if len(self.weights) < len(arms):
            raise ConfigError(f"arms {[arm.name for arm in arms]}: give each a name of its own")
        self._arms = [(arm, Bounded()) for arm in arms]

    def calls(self, request: Request, window: TimeRange | None, config: ExtraArmsConfig) -> tuple[Call, ...]:
        """One for each arm; none for a search by one own arm alone."""
        if request.strategy != "hybrid":
            return ()
        return tuple(_call(arm, threads, request, window, config) for arm, threads in self._arms)

    def brought(self, outcomes: Sequence[Outcome], notes: Notes) -> dict[str, Brought]:
        """What each arm found, by name, from the outcomes of `calls`; an arm that failed is noted and left out."""
        found: dict[str, Brought] = {}
        for (arm, _), outcome in zip(self._arms, outcomes, strict=False):
            if isinstance(outcome, Failure):
                notes.lost(arm.name, _named(outcome.error), "searched without it")
            else:
                found[arm.name] = outcome
        return found


class _BadReply(Exception):
    """An arm gave something other than `Ranked`; says what."""


def _call(arm: Arm, threads: Bounded, request: Request, window: TimeRange | None, config: ExtraArmsConfig) -> Call:
    search = partial(arm.search, request.query, config.depth, request.where, window)

    def run() -> Brought:
        return _read(threads.call(search, config.timeout_seconds), config.depth)

    async def arun() -> Brought:
        if arm.asearch is None:
            reply = await threads.acall(search, config.timeout_seconds)
        else:
            reply = await awaited(_asked(arm.asearch, request, window, config), config.timeout_seconds)
        return _read(reply, config.depth)

    return Call(run, arun)


async def _asked(
    asearch: Callable[[str, int, Filter | None, TimeRange | None], Awaitable[Ranked]],
    request: Request,
    window: TimeRange | None,
    config: ExtraArmsConfig,
) -> Ranked:
    """The arm's reply; what it raises before it can be awaited is raised here, too."""
    return await asearch(request.query, config.depth, request.where, window)


def _read(reply: Ranked, depth: int) -> Brought:
    scores: dict[str, float] = {}
    chunks: dict[str, Chunk] = {}
    try:
        pairs = [(found, float(score)) for found, score in list(reply)[:depth]]
    except (TypeError, ValueError):
        raise _BadReply(f"gave {type(reply).__name__}; expected (chunk or id, score) pairs") from None
    for found, score in pairs:
        if not isinstance(found, (Chunk, str)) or not math.isfinite(score):
            raise _BadReply(f"gave {type(found).__name__} and a score; expected a chunk or id and a finite number")
        id = found.id if isinstance(found, Chunk) else found
        if score > 0:
            scores.setdefault(id, score)
        if isinstance(found, Chunk):
            chunks.setdefault(id, found)
    return Brought(scores, chunks)


def _named(error: Exception) -> str:
    """The failure in a few words; a stranger's message could hold the query."""
    if isinstance(error, DeadlineExceeded):
        return "no reply in time"
    if isinstance(error, NoPlace):
        return "too many of its calls have not returned"
    return str(error) if isinstance(error, _BadReply) else f"failed with {type(error).__name__}"
