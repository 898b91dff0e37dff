"""A query that carries its own options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from llama_index.core.schema import QueryBundle

from umi_common.framework_records import Window
from umi_common.retriever import Strategy
from umi_common.search.request import QUERY_BYTES_MAX

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
    time_range: Window = None
    """Only what happened in [start, end); aware datetimes; narrows the retriever's time range."""
    deep_search: bool | None = None
    """Whether the LLM may be asked for variations of the query."""
    now: datetime | None = None
    """What "last week" refers to."""
    history: tuple[str, ...] = ()
    """Earlier turns of the conversation, oldest first; only the LLM sees them."""
    strategy: Strategy | None = None
    """Both arms ("hybrid") or one alone ("text", "vector")."""
    min_relevance: float | None = None
    """0..1; nodes of a lower relevance are left out; goes before the retriever's own, and 0 leaves none out."""


def query_text(bundle: QueryBundle) -> str:
    """The query's text, without the wrapping of a `RetrieverTool`; of a long chat message its end, where the question
    tends to stand.
    """
    framed = TOOL_INPUT.match(bundle.query_str)
    return end_of((bundle.query_str if framed is None else framed[1]).strip())


def end_of(message: str) -> str:
    """The end of a message, in at most as many bytes as a query may have."""
    return message.encode(errors="replace")[-QUERY_BYTES_MAX:].decode(errors="ignore")
