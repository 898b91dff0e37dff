"""What a caller's options mean to the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import MessageLikeRepresentation
from typing_extensions import TypedDict

from umi_common.config import UmiConfig
from umi_common.framework_records import Window
from umi_common.retriever import Strategy, Where


class CallOptions(TypedDict, total=False):
    """What one call may ask for; None leaves it to the retriever."""

    k: int | None
    """At most so many documents, 1..100."""
    filter: Where
    """Narrows the retriever's own."""
    time_range: Window
    """Only what happened in [start, end); aware datetimes; narrows the retriever's own."""
    deep_search: bool | None
    """Whether the LLM may be asked for variations of the query."""
    now: datetime | None
    """What "last week" refers to."""
    history: Sequence[str | MessageLikeRepresentation]
    """Earlier turns of the conversation, oldest first; only the LLM sees them."""
    strategy: Strategy
    """Both arms ("hybrid") or one alone ("text", "vector")."""
    min_relevance: float | None
    """0..1; documents of a lower relevance are left out; goes before the retriever's own, and 0 leaves none out."""


def stages_and_fields(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options parted into stages of `UmiConfig` and everything else."""
    stages = {name: value for name, value in options.items() if name in UmiConfig.model_fields}
    return stages, {name: value for name, value in options.items() if name not in stages}
