"""A query that carries its own options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from llama_index.core.schema import QueryBundle

from umi_common.errors import InvalidTimeRange
from umi_common.retriever import Strategy
from umi_common.types import TimeRange

TOOL_INPUT = re.compile(r"\A\ninput is (.*)\n\Z", re.DOTALL)
"""How LlamaIndex's `RetrieverTool` wraps an agent's query."""


@dataclass
class UmiQuery(QueryBundle):
    """A `QueryBundle` with options for this one query: `retriever.retrieve(UmiQuery("who?", limit=3))`.

    None leaves an option to the retriever.
    """

    limit: int | None = None
    """At most so many nodes, 1..100."""
    filters: Any = None
    """`MetadataFilters`, or umi's own dict; narrows the retriever's filters."""
    time_range: TimeRange | tuple[datetime, datetime] | None = None
    """Only what happened in [start, end); aware datetimes; narrows the retriever's time range."""
    deep_search: bool | None = None
    """Whether the LLM may be asked for variations of the query."""
    now: datetime | None = None
    """What "last week" refers to."""
    history: tuple[str, ...] = ()
    """Earlier turns of the conversation, oldest first; only the LLM sees them."""
    strategy: Strategy | None = None
    """Both arms ("hybrid") or one alone ("text", "vector")."""


Window = TimeRange | tuple[datetime, datetime] | None


def narrowed(own: Window, asked: Window) -> TimeRange | None:
    """The time that lies in both.

    Raises:
        InvalidTimeRange: If none does.
    """
    windows = [w if isinstance(w, TimeRange) else TimeRange(*w) for w in (own, asked) if w is not None]
    if len(windows) < 2:
        return windows[0] if windows else None
    start = max((w.start for w in windows if w.start is not None), default=None)
    end = min((w.end for w in windows if w.end is not None), default=None)
    if start is not None and end is not None and end <= start:
        raise InvalidTimeRange(f"time_range {asked} lies outside the retriever's own, {own}")
    return TimeRange(start, end)


def query_text(bundle: QueryBundle) -> str:
    """The query's text, without the wrapping of a `RetrieverTool`."""
    framed = TOOL_INPUT.match(bundle.query_str)
    return (bundle.query_str if framed is None else framed[1]).strip()
