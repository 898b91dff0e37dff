"""Events of a search for LlamaIndex's instrumentation: one for each stage, and one for each part that failed."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation.dispatcher import Dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent

from umi_common.types import SearchResult


class NamedInTraces:
    """A component that LlamaIndex's traces show under the name of its class."""

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's traces."""
        return cls.__name__


class UmiStageEvent(NamedInTraces, BaseEvent):
    """A stage of a search. The event does not hold the query.

    All events of a search are sent after the search has ended, in the order of its stages. So the timestamp of an event
    is not the time of its stage.
    """

    stage: str
    """Name of the stage, as in `result.trace`: for example "recall" (the store), "rewrite" (the LLM), "fuse"."""
    milliseconds: float
    """Duration of the stage."""
    facts: dict[str, Any]
    """Facts of the stage, as in `result.trace`."""


class UmiDegradationEvent(NamedInTraces, BaseEvent):
    """A part of a search failed, and the result was computed without it; see `umi_common.types.Degradation`."""

    part: str
    """Name of the part."""
    reason: str
    """Why the part failed."""
    consequence: str
    """How the search continued without the part."""


def send_events(dispatcher: Dispatcher, result: SearchResult) -> None:
    """Send the events of one search."""
    for stage in result.trace:
        event = UmiStageEvent(stage=stage.name, milliseconds=stage.milliseconds, facts=dict(stage.facts))
        dispatcher.event(event)
    for lost in result.degraded:
        dispatcher.event(UmiDegradationEvent(part=lost.part, reason=lost.reason, consequence=lost.consequence))
