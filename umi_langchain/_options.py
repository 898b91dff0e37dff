"""The type of the options that one call of the retriever may carry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from langchain_core.messages import MessageLikeRepresentation
from typing_extensions import TypedDict

from umi_common.retriever import Strategy, Where
from umi_common.search.request import Window


class CallOptions(TypedDict, total=False):
    """The options of one call. One that is missing or None leaves the retriever's own value."""

    k: int | None
    """Largest number of documents in the result, 1..100."""
    filter: Where
    """Metadata filter; documents must also pass the retriever's own filter."""
    time_range: Window
    """Only documents whose time lies in [start, end), and in the retriever's own time range; aware datetimes."""
    deep_search: bool | None
    """Whether the LLM may be asked for variations of the query."""
    now: datetime | None
    """The time that "last week" and ages refer to."""
    history: Sequence[str | MessageLikeRepresentation]
    """Earlier messages of the conversation, oldest first; only the LLM gets them."""
    strategy: Strategy
    """Both arms ("hybrid") or one alone ("text", "vector")."""
    min_relevance: float | None
    """0..1; documents of a lower relevance are left out. Replaces the retriever's own value; 0: none is left out."""
