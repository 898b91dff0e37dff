"""Events of a search for LlamaIndex's instrumentation: one per stage, one per part that failed."""

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
    use `milliseconds`, not the event's own time.
    """

    stage: str
    milliseconds: float
    facts: dict[str, Any]
    """The stage's facts, as in `result.trace`."""

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


def send_events(dispatcher: Dispatcher, result: SearchResult) -> None:
    """Send the events of one search if a handler is registered: creating them costs more time than ranking."""
    if not _has_handler(dispatcher):
        return
    for stage in result.trace:
        event = UmiStageEvent(stage=stage.name, milliseconds=stage.milliseconds, facts=dict(stage.facts))
        dispatcher.event(event)
    for lost in result.degraded:
        dispatcher.event(UmiDegradationEvent(part=lost.part, reason=lost.reason, consequence=lost.consequence))


def _has_handler(dispatcher: Dispatcher) -> bool:
    """Whether this dispatcher, or one that its events propagate to, has a handler."""
    while True:
        if any(not isinstance(handler, NullEventHandler) for handler in dispatcher.event_handlers):
            return True
        if not dispatcher.propagate:
            return False
        dispatcher = dispatcher.parent
