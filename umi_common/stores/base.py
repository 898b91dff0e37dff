"""Base classes of the stores: `recall` with its arguments, the settings, and the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from umi_common.config import DecayConfig, LexicalConfig, UmiConfig
from umi_common.embedders.cache import document_cache
from umi_common.filters import Filter
from umi_common.pool import Pool
from umi_common.protocols import Embedder, Probe, RecallRequest, Strategy
from umi_common.runtime.closing import Closing
from umi_common.stores.query_embedder import QueryEmbedder
from umi_common.stores.search_counts import SearchCounter, SearchMetrics
from umi_common.types import TimeRange


class BaseStore(Closing, ABC):
    """A store that answers several searches at a time. A context manager: it closes the store."""

    search_counter: SearchCounter
    """Of all retrievers over this store."""

    @property
    @abstractmethod
    def config(self) -> UmiConfig:
        """The settings in force."""

    def metrics(self) -> SearchMetrics:
        """Counts of the searches of all retrievers over this store in this process since it was opened."""
        return self.search_counter.metrics

    @abstractmethod
    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches."""

    def recall(
        self,
        probes: Sequence[Probe],
        *,
        depth: int,
        now: datetime,
        where: Filter | None = None,
        window: TimeRange | None = None,
        lexical: LexicalConfig | None = None,
        decay: DecayConfig | None = None,
        around: int = 0,
        strategy: Strategy = "hybrid",
        embedder_timeout_seconds: float | None = None,
        references: bool = False,
    ) -> Pool:
        """The candidates of both arms for all probes; see `protocols.Store.recall` and `protocols.RecallRequest`.

        Args:
            lexical, decay, embedder_timeout_seconds: None: the store's setting.

        Raises:
            SearchUnavailable: If no arm that is asked for can answer.
            InvalidVector: If a probe's vector has not the store's dimension.
        """
        config, seconds = self.config, embedder_timeout_seconds
        request = RecallRequest(
            probes,
            depth=depth,
            now=now,
            where=where,
            window=window,
            lexical=config.lexical if lexical is None else lexical,
            decay=config.decay if decay is None else decay,
            around=around,
            strategy=strategy,
            embedder_timeout_seconds=config.recall.embedder_timeout_seconds if seconds is None else seconds,
            references=references,
        )
        return self.recall_many([request])[0]


class CollectionStore(BaseStore):
    """A store over a collection of a database, with an embedder, settings and caches of its own."""

    def __init__(self, embedder: Embedder, config: UmiConfig) -> None:
        self._embedder = embedder
        self._config = config
        self._query_embedder = QueryEmbedder(embedder, config.embedder)
        self._embeddings = document_cache(None, None, config.embedder.cached_documents)
        self.search_counter = SearchCounter()
        self._closed = False

    @property
    def embedder(self) -> Embedder:
        """The embedder of this store."""
        return self._embedder

    @property
    def config(self) -> UmiConfig:
        """The settings in force."""
        return self._config

    def reconfigure(self, config: UmiConfig) -> None:
        """Replace the settings, for calls that start afterwards.

        Raises:
            ReindexRequired: If the analyzer differs; nothing is changed then.
        """
        self._config.check_live_change(config)
        if config.embedder != self._config.embedder:
            self._query_embedder = QueryEmbedder(self._embedder, config.embedder)
        self._config = config
