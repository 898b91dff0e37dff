"""The store over a Qdrant collection: the same promises as the embedded one, for what one machine cannot hold.

What differs from `HybridStore` is in docs/scale.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from umi_common.config import DecayConfig, LexicalConfig, UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import StoreClosed
from umi_common.filters import Filter, parse_filter
from umi_common.pool import Pool, Vectors
from umi_common.protocols import Embedder, Probe, RecallRequest, Strategy
from umi_common.stores.qdrant import bm25, care, reading, writing
from umi_common.stores.qdrant.collection import open_collection
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.recall import Searched, recall_many
from umi_common.stores.qdrant.statistics import Remembered
from umi_common.stores.query_embedder import QueryEmbedder, query_vectors
from umi_common.stores.values import RecallTrace, Verification
from umi_common.types import Chunk, TimeRange

Where = Filter | Mapping[str, Any] | None


class QdrantStore:
    """Chunks with their vectors in a Qdrant collection, searched by BM25 and by cosine in one round trip. Thread-safe.

    Args:
        client: A `qdrant_client.QdrantClient`; it stays the caller's, who closes it.
        collection: Its name; made if there is none.
        embedder: As for `HybridStore.open`; None: the embedded default.
        config: None: the defaults, with the analyzer the collection was made with.
        tenants: Metadata keys whose values part the collection, such as "user"; a filter that names one searches its
            part only. Strings.
        ordered: Metadata keys that filters compare by order ($gt, $lt), which get an index of their own.
        consistency: Of reads in a cluster: "majority", "quorum", "all" or a number of replicas.
        ordering: Of writes in a cluster: "weak", "medium", "strong".
        search_params: `models.SearchParams` of the dense arm, for example `exact=True` or `hnsw_ef=256`.
        options: Further arguments of `create_collection` (shard_number, replication_factor, hnsw_config,
            quantization_config ...), where the collection is made.

    Raises:
        MissingExtra: If qdrant-client is not installed.
        ConfigError: If the client is asynchronous, or a tenant's key cannot be a path.
        NotAStore: If the collection is somebody else's.
        ReindexRequired: If it was made with another embedder, dimension or analyzer.
        StoreUnavailable: From every method, if the server fails or is too old.
        StoreClosed: From every method after close().
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        embedder: Any = None,
        *,
        config: UmiConfig | None = None,
        tenants: Sequence[str] = (),
        ordered: Sequence[str] = (),
        consistency: str | int | None = None,
        ordering: str | None = None,
        search_params: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._embedder = as_embedder(embedder)
        self._query_embedder = QueryEmbedder(self._embedder)
        self._connection = Connection(client, collection, consistency=consistency, ordering=ordering)
        self._opened = open_collection(
            self._connection,
            self._embedder,
            config,
            tenants=tenants,
            ordered=ordered,
            options={} if options is None else options,
        )
        self._config = self._opened.config
        self._tenants = tuple(tenants)
        self._remembered = Remembered()
        self._searched = Searched(self._connection, self._opened, self._remembered, self._tenants, search_params)
        self._pages = reading.Pages()
        self._closed = False

    def add(self, chunks: Iterable[Chunk], *, vectors: Any = None, show_progress: bool = False) -> None:
        """Insert chunks, or replace those with the same id; every replica that must has them when it returns.

        The whole batch is checked and embedded before the first is sent. A chunk that is stored already, the same in
        every field, is left alone and costs no embedding.

        Args:
            chunks: No id twice.
            vectors: (n, dim) finite numbers, one row per chunk, where the caller has them; scaled to length 1.
            show_progress: A progress bar while texts are embedded.

        Raises:
            InvalidChunk, DuplicateId, InvalidVector: The batch is wrong; names the item. Nothing is written.
            EmbedderError: The embedder failed. Nothing is written.
            PartlyWritten: The server failed on the way. The same call again completes the batch.
        """
        writing.add(
            self._ready(),
            self._opened,
            self._embedder,
            chunks,
            vectors,
            show_progress=show_progress,
            written=self._remembered.changed,
        )

    def delete(self, ids: Iterable[str] | None = None, *, where: Where = None) -> int:
        """Remove chunks by id, by filter, or those of the ids that pass the filter; how many went.

        Raises:
            InputError: If neither is given.
            FilterError: If the filter has no meaning.
        """
        return writing.delete(self._ready(), ids, parse_filter(where), self._tenants, self._remembered.changed)

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """Chunks aligned with ids; None where the store has no such chunk.

        Raises:
            LedgerDamaged: If a point is not what was written.
        """
        return reading.get(self._ready(), ids)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) aligned with ids, as stored: length 1; zeros where there is none."""
        return reading.vectors(self._ready(), ids, self._opened.dim)

    def ids(self) -> list[str]:
        """Of all chunks, rising; a pass over the collection."""
        return reading.list_ids(self._ready(), None, self._tenants)

    def scan(self, *, where: Where = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """A page of the chunks that pass `where`, by rising id, from the first beyond `after`; see `protocols.Store`.

        The first page of a walk lists all ids; the pages after it, asked for in order, go by that list.
        """
        return self._pages.page(self._ready(), parse_filter(where), after, limit, self._tenants)

    def neighbours(self, ids: Sequence[str], *, reach: int, where: Where = None) -> dict[str, list[Chunk]]:
        """For each known id the chunks at most `reach` places from it in its source, in order, itself included.

        Only those that pass `where`: a source may hold what a filter keeps from the caller.
        """
        return reading.neighbours(self._ready(), ids, reach, parse_filter(where))

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
    ) -> Pool:
        """The candidates of both arms for all probes; see `protocols.Store.recall`. None: the store's settings.

        One round trip for up to 12 probes, and one for neighbours.

        Raises:
            SearchUnavailable: If the server fails: it is both arms.
            InvalidVector: If a probe's vector has not the collection's dimension.
            ConfigError: If `lexical` is what Qdrant's statistics cannot serve: Okapi.
        """
        request = RecallRequest.with_settings(
            self.config,
            probes,
            depth=depth,
            now=now,
            where=where,
            window=window,
            lexical=lexical,
            decay=decay,
            around=around,
            strategy=strategy,
            embedder_timeout_seconds=embedder_timeout_seconds,
        )
        return self.recall_many([request])[0]

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches; what differs in its probes alone shares the round trips."""
        self._ready()
        for request in requests:
            bm25.refuse_unknown(request.lexical)
        traces = [RecallTrace() for _ in requests]
        queries = query_vectors(requests, self._query_embedder, self._opened.dim, traces)
        return recall_many(self._searched, queries, requests, traces)

    def __len__(self) -> int:
        return care.count(self._ready())

    @property
    def path(self) -> None:
        """None: nothing is kept in a directory here."""
        return None

    @property
    def embedder(self) -> Embedder:
        """What turns texts into vectors here."""
        return self._embedder

    @property
    def config(self) -> UmiConfig:
        """The settings in force."""
        return self._config

    @property
    def terms_of(self) -> Callable[[str], list[str]]:
        """Text to terms, as the lexical arm has them; may be kept, and pickled, beyond the store."""
        return self._opened.analyzer.terms

    def reconfigure(self, config: UmiConfig) -> None:
        """Swap the settings for the calls that start from now on.

        Raises:
            ReindexRequired: If the analyzer differs; nothing is changed then.
        """
        self._config.check_live_change(config)
        self._config = config

    def status(self) -> care.QdrantStatus:
        """The collection at a glance."""
        return care.status(self._ready(), self._opened, self._embedder.name)

    def verify(self) -> Verification:
        """Read everything and compare it with its checksums, and the indexed terms with the texts; changes nothing."""
        return care.verify(self._ready(), self._opened)

    def close(self) -> None:
        """Refuse further calls; what was acknowledged is on the server, and the client stays the caller's."""
        self._closed = True

    def _ready(self) -> Connection:
        if self._closed:
            raise StoreClosed("the store is closed; make another over the same collection")
        return self._connection

    def __enter__(self) -> QdrantStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"QdrantStore({self._connection.collection!r})"
