"""`UmiQuery`, a query with its own options, and the texts of queries and conversations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self

from umi_common.errors import InputError
from umi_common.filters import Where
from umi_common.retriever import Strategy
from umi_common.search.request import Window, end_of, is_ordered, refuse_unknown_options
from umi_common.types import utf8_text

TOOL_INPUT = re.compile(r"\A\ninput is (.*)\n\Z", re.DOTALL)
"""Matches a query with the text that LlamaIndex's `RetrieverTool` puts around it. Group 1 is the query."""
NO_TEXT = "?"
"""Text of a query that has only a vector: `DualRetriever` requires a text, and this text contains no term."""


@dataclass
class UmiQuery(QueryBundle):
    """A `QueryBundle` with options for this one query: `retriever.retrieve(UmiQuery("who?", limit=3))`.

    For an option that is None, the retriever's own value is used. Only a `UmiRetriever` reads the options: the
    retriever of an index ignores them, and LlamaIndex's query transforms, such as HyDE, make a new bundle without them.
    So a filter that must always apply, such as that of a user, belongs to the retriever.
    """

    limit: int | None = None
    """Largest number of nodes to return, 1..100."""
    filters: Where | MetadataFilters = None
    """`MetadataFilters`, or a filter as a dict; chunks must pass this filter and the retriever's filters."""
    time_range: Window = None
    """(start, end) aware datetimes: chunks with an event time in [start, end), and in the retriever's time range."""
    deep_search: bool | None = None
    """Whether the LLM may be asked for variations of the query."""
    now: datetime | None = None
    """The present, for phrases such as "last week"."""
    history: Sequence[str | ChatMessage] | None = None
    """Earlier messages of the conversation, oldest first: for the LLM, and for follow-up questions."""
    strategy: Strategy | None = None
    """The arms that search: "hybrid" (BM25 and vectors), "text" (BM25 alone) or "vector" (vectors alone)."""
    min_relevance: float | None = None
    """0..1; nodes of a lower relevance are left out. Replaces the retriever's own value; 0: none is left out."""

    def __new__(cls, *unnamed: Any, **options: Any) -> Self:
        """Raise TypeError for an unknown option, with a similar name, or for a value without a name after the query."""
        if len(unnamed) > 1:
            raise TypeError(f"UmiQuery(..., {unnamed[1]!r:.40}): only the query goes without a name; name it: limit=3")
        refuse_unknown_options(options, [field.name for field in fields(cls)], TypeError)
        return super().__new__(cls)


def query_text(bundle: QueryBundle) -> str:
    """The query's text without the text that a `RetrieverTool` puts around it, cut by `end_of`; "" if it is blank."""
    text = bundle.query_str
    wrapped = TOOL_INPUT.match(text) if isinstance(text, str) else None
    return end_of(text if wrapped is None else wrapped[1]).strip()


def defines_vector(bundle: QueryBundle) -> bool:
    """Whether the bundle has the query's vector, or `custom_embedding_strs` from which the vector is made."""
    return bundle.embedding is not None or bool(bundle.custom_embedding_strs)


def history_texts(history: Sequence[str | ChatMessage] | None) -> tuple[str, ...]:
    """The texts of a conversation, in characters that UTF-8 can hold. A message becomes "role: text"; messages without
    text are left out. Raises InputError if `history` is unordered, or an item is neither a string nor a message."""
    if history is None:
        return ()
    if not is_ordered(history):
        advice = "; give memory.get_all()" if hasattr(history, "get_all") else ""
        raise InputError(f"history is {type(history).__name__}; expected a list of strings or ChatMessages{advice}")
    texts = []
    for index, turn in enumerate(history):
        if isinstance(turn, str):
            texts.append(utf8_text(turn))
        elif not isinstance(turn, ChatMessage):
            raise InputError(f"history[{index}] is {turn!r:.80}; expected a string or a ChatMessage")
        elif text := chat_text(turn):
            texts.append(f"{turn.role.value}: {text}")
    return tuple(texts)


def chat_text(message: ChatMessage) -> str:
    """The text of a message, in characters that UTF-8 can hold; "" if there is no text."""
    return utf8_text(" ".join(block.text for block in message.blocks if isinstance(block, TextBlock)).strip())
