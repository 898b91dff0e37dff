"""What a search tells LlamaIndex's instrumentation: an event per stage, and one per part that was lost."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation.dispatcher import Dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import NullEventHandler
from llama_index.core.instrumentation.events import BaseEvent

from umi_common.types import SearchResult


class UmiStageEvent(BaseEvent):
    """A stage of a search ended. No query text.

    `stage` is the core's name: "route" decides on deep search, "rewrite" asks the LLM, "recall" the store, "fuse" makes
    one score; the others are those of `result.trace`. They are sent when the search is over, in the order they ended:
    the event's own time says nothing, `milliseconds` does.
    """

    stage: str
    milliseconds: float
    facts: dict[str, Any]
    """What it decided and on what evidence."""

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "UmiStageEvent"


class UmiDegradationEvent(BaseEvent):
    """A part failed, and the answer came without it."""

    part: str
    reason: str
    consequence: str

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "UmiDegradationEvent"


def tell(dispatcher: Dispatcher, result: SearchResult) -> None:
    """Send the events of one search, if anybody listens: making them costs more than ranking does."""
    if not _heard(dispatcher):
        return
    for stage in result.trace:
        event = UmiStageEvent(stage=stage.name, milliseconds=stage.milliseconds, facts=dict(stage.facts))
        dispatcher.event(event)
    for lost in result.degraded:
        dispatcher.event(UmiDegradationEvent(part=lost.part, reason=lost.reason, consequence=lost.consequence))


def _heard(dispatcher: Dispatcher) -> bool:
    """Whether a handler stands anywhere on the way that an event of this dispatcher takes."""
    while True:
        if any(not isinstance(handler, NullEventHandler) for handler in dispatcher.event_handlers):
            return True
        if not dispatcher.propagate:
            return False
        dispatcher = dispatcher.parent
