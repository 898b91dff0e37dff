"""What the steps of a search work with: the parts of the retriever (`Components`), and one search of it (`Search`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from umi_common.config import UmiConfig
from umi_common.protocols import Store
from umi_common.query.rewriting.rewrite import Rewriting
from umi_common.search.extra_arms import ExtraArms
from umi_common.search.reorder.rerank import Reranking
from umi_common.search.request import SearchRequest
from umi_common.search.trace import TraceBuilder
from umi_common.stores.search_counts import SearchCounter


@dataclass(frozen=True, slots=True)
class Components:
    """The store, settings and models of one retriever's searches. `reconfigure` replaces the whole object."""

    store: Store
    config: UmiConfig
    rewriting: Rewriting | None
    reranker: Reranking | None
    arms: ExtraArms | None
    counter: SearchCounter
    span_context: Any = None
    """OpenTelemetry's context for the spans of a search; None: the context of the caller."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search: a request to a retriever. The trace collects what its steps do."""

    components: Components
    request: SearchRequest
    trace: TraceBuilder

    @property
    def store(self) -> Store:
        """The retriever's store."""
        return self.components.store

    @property
    def config(self) -> UmiConfig:
        """The retriever's settings."""
        return self.components.config
