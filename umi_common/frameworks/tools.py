"""An agent's search tool: the arguments that a model may give, and the answer if nothing is found.

The tools of both adapters and of `umi mcp` have these arguments.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from umi_common.errors import InputError, UmiError
from umi_common.filters import Filter
from umi_common.frameworks.records import METADATA_ALONE, own_metadata
from umi_common.protocols import Store, chunk_passes
from umi_common.times import read_time
from umi_common.types import TimeRange

TOOL_DESCRIPTION = "Search the stored texts and earlier conversations. Ask in plain words for what you need to know."
NOTHING_FOUND = "Nothing found. Ask in other words, or with fewer conditions."
UNLIKELY = "None of these texts is likely to answer the question."
"""The note to a model if texts were found but `SearchResult.answerable` is False."""
KEYS_READ = 100
"""Number of texts from which `nothing_found` collects metadata keys."""
KEYS_NAMED = 20
"""Largest number of keys that `nothing_found` names."""
FAULTS_NAMED = 5
"""Largest number of wrong arguments that `wrong_arguments` names."""
EXAMPLE = reprlib.Repr()
"""Shows a metadata value in `nothing_found`: the beginning and the end of a text of more than 40 characters."""
EXAMPLE.maxstring = 40


_WHEN = "ISO date or time, for example 2024-05-01 or 2024-05-01T09:30:00+02:00"
Query = Annotated[str, Field(description="What to look for, in plain words.")]
Conditions = Annotated[
    dict[str, Any] | None, Field(description='Conditions on metadata: {"user": "ann"} or {"year": {"$gte": 2023}}.')
]
Start = Annotated[str | None, Field(description=f"Only texts about this time or later; {_WHEN}.")]
End = Annotated[str | None, Field(description=f"Only texts about a time before this; {_WHEN}.")]


class ToolArguments(BaseModel):
    """Arguments of a tool. null and "" count as missing for optional ones: models send them for unused arguments.

    Unknown arguments are refused: if the model meant one as a limit or a filter, ignoring it would widen the search.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, asked: Any) -> Any:
        if not isinstance(asked, Mapping):
            return asked
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in asked.items() if value not in (None, "") or name in required}


def tool_schema(limit_name: str, limit: int, limit_max: int) -> type[BaseModel]:
    """The arguments of an agent's search tool: query, `limit_name` (default `limit`, at most `limit_max`), filter,
    start and end."""
    limit_field = Field(min(limit, limit_max), ge=1, le=limit_max, description="Largest number of texts to return.")
    fields: dict[str, Any] = {"query": (Query, ...), limit_name: (int, limit_field), "filter": (Conditions, None)}
    return create_model("UmiSearch", __base__=ToolArguments, **fields, start=(Start, None), end=(End, None))


def wrong_arguments(error: Any) -> str:
    """The answer of a tool to a model whose arguments raised pydantic's ValidationError: one line, for example
    "limit: Input should be less than or equal to 20; user: Extra inputs are not permitted"."""
    told = []
    for fault in error.errors()[:FAULTS_NAMED]:
        name = " ".join(".".join(map(str, fault["loc"])).split())
        told.append(f"{name:.80}: {fault['msg']}")
    return "; ".join(told)


def nothing_found(store: Store, asked: object, within: Filter | None, window: TimeRange | None) -> str:
    """The answer of a tool to a model whose search found nothing.

    If the model gave a filter (`asked`), the answer names metadata keys, each with an example value: the model may have
    guessed a key, or compared a number with a string. Only keys and values of texts that pass the retriever's own
    filter and time range (`within`, `window`) are shown.
    """
    try:
        read = store.scan(where=within, limit=KEYS_READ) if asked else []
    except UmiError:  # the search has succeeded, so the tool still answers
        read = []
    chunks = [chunk for chunk in read if chunk_passes(chunk, None, window)]
    if not chunks:
        return NOTHING_FOUND
    examples: dict[str, Any] = {}
    for own in (own_metadata(chunk, METADATA_ALONE) for chunk in chunks):
        examples |= {key: value for key, value in own.items() if examples.get(key) is None}
    shown = [f"{key!r} ({EXAMPLE.repr(examples[key])})" for key in sorted(examples)[:KEYS_NAMED]]
    keys = f"Keys of the texts, with an example of each: {', '.join(shown)}." if shown else "No text has metadata."
    return f"{NOTHING_FOUND} {keys}"


def tool_window(start: str | None, end: str | None) -> TimeRange | None:
    """The time range that a model asked for; None: it gave neither start nor end. Raises as `tool_time`."""
    moments = tool_time("start", start), tool_time("end", end)
    return None if moments == (None, None) else TimeRange(*moments)


def tool_time(name: str, text: str | None) -> datetime | None:
    """The time that a model gave as the argument `name`; None: it gave none. Raises InputError if it is no time."""
    moment = read_time(text)
    if text not in (None, "") and moment is None:
        raise InputError(f"{name} {text!r:.40} is no ISO date or time; expected for example 2024-05-01")
    return moment
