"""The store over a Qdrant collection. docs/scale.md lists how it differs from `HybridStore`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.filters import Where, parse_filter
from umi_common.pool import Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.stores.base import CollectionStore
from umi_common.stores.batch_checks import checked_ids
from umi_common.stores.qdrant import bm25, reading, writing
from umi_common.stores.qdrant.collection import OpenCollection, open_collection
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.recall import recall_many
from umi_common.stores.qdrant.statistics import CachedStatistics
from umi_common.stores.query_embedder import query_vectors, with_vectors
from umi_common.stores.valid_batch import ValidBatch
from umi_common.stores.values import RecallTrace, Verification
from umi_common.types import Chunk


class QdrantStore(CollectionStore):
    """Chunks and vectors in a Qdrant collection, searched by BM25 and by cosine in one round trip. Thread-safe.

    Args:
        client: A `qdrant_client.QdrantClient`; the caller closes it.
        collection: Name of the collection; created if there is none.
        embedder: As for `HybridStore.open`; None: the embedded default.
        config: None: the defaults, with the analyzer the collection was made with.
        tenants: Metadata keys, such as "user", whose values are strings and divide the collection; a search with a
            filter for one value reads only the chunks with that value.
        ordered: Metadata keys that filters compare by order ($gt, $lt); each gets an index.
        consistency: Read consistency in a cluster: "majority", "quorum", "all" or a number of replicas.
        ordering: Write ordering in a cluster: "weak", "medium", "strong".
        search_params: `models.SearchParams` of the dense arm, for example `exact=True` or `hnsw_ef=256`.
        options: Further arguments of `create_collection` (shard_number, replication_factor, hnsw_config,
            quantization_config ...), used if the collection is created.

    Raises:
        MissingExtra: If qdrant-client is not installed.
        ConfigError: If the client is asynchronous, or a tenant's key cannot be a path.
        NotAStore: If umi did not make the collection.
        ReindexRequired: If it was made with another embedder, dimension or analyzer; also from a later search or `add`,
            if it was made again so.
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
        model = as_embedder(embedder, config)
        self._collection = open_collection(
            Connection(client, collection, consistency=consistency, ordering=ordering),
            model,
            config,
            tenants=tenants,
            ordered=ordered,
            options={} if options is None else options,
            search_params=search_params,
        )
        super().__init__(model, self._collection.config)
        self._server, self._write_at_once = "Qdrant", writing.WRITE_AT_ONCE
        self._statistics = CachedStatistics()
        self._pages = reading.Pages()

    def _unchanged(self, batch: ValidBatch) -> set[int]:
        return writing.unchanged(self._collection, batch.chunks, batch.vectors)

    def _write(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        try:
            writing.write_chunks(self._collection, chunks, vectors)
        finally:
            self._statistics.changed(len(chunks))  # also after an error: the server may have stored them

    def delete(self, ids: Iterable[str] | None = None, *, where: Where = None) -> int:
        """Remove chunks by id, by filter, or those of the ids that pass the filter; returns how many.

        Raises:
            InputError: If neither is given.
            FilterError: If the filter has no meaning.
        """
        return writing.delete(self._ready(), ids, parse_filter(where), self._statistics.changed)

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """Chunks aligned with ids; None where the store has no such chunk.

        Raises:
            LedgerDamaged: If a point is not what was written.
        """
        return reading.get(self._ready(), checked_ids(ids))

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) aligned with ids, each of length 1; zeros where the store has no vector."""
        return reading.vectors(self._ready(), checked_ids(ids))

    def ids(self) -> list[str]:
        """Ids of all chunks, rising; reads the whole collection without texts and vectors."""
        return reading.list_ids(self._ready(), None)

    def scan(self, *, where: Where = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """A page of the chunks that pass `where`, with ids above `after`, by rising id; see `protocols.Store.scan`.

        The first page of a scan lists all ids; the following pages use that list.
        """
        return self._pages.page(self._ready(), parse_filter(where), after, limit)

    def neighbours(self, ids: Sequence[str], *, reach: int, where: Where = None) -> dict[str, list[Chunk]]:
        """For each stored id the chunks at most `reach` positions from it in its source, in order, itself included.

        Chunks that do not pass `where` are left out.
        """
        return reading.neighbours(self._ready(), checked_ids(ids), reach, parse_filter(where))

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches; those that differ only in their probes share the round trips.

        One round trip for up to 12 probes, and one for neighbours.

        Raises:
            SearchUnavailable: If the server fails, since it answers for both arms.
            InvalidVector: If a probe's vector has not the collection's dimension.
            ConfigError: If the variant of BM25 is Okapi's, which needs statistics that Qdrant does not have.
        """
        collection = self._ready()
        for request in requests:
            bm25.refuse_unknown(request.lexical)
        traces = [RecallTrace() for _ in requests]
        queries = query_vectors(requests, self._query_embedder, collection.dim, traces)
        return recall_many(collection, self._statistics, queries, requests, traces)

    @property
    def aembed(self) -> Callable[[Sequence[RecallRequest]], Awaitable[list[RecallRequest]]] | None:
        """See `HybridStore.aembed`."""
        return None if self._query_embedder.in_place else self._aembed

    async def _aembed(self, requests: Sequence[RecallRequest]) -> list[RecallRequest]:
        self._ready()
        return await with_vectors(requests, self._query_embedder, self._collection.dim)

    def __len__(self) -> int:
        return reading.count(self._ready())

    @property
    def path(self) -> None:
        """None: this store keeps nothing in a directory."""
        return None

    @property
    def terms_of(self) -> Callable[[str], list[str]]:
        """Function from a text to its terms in the lexical arm; can be pickled and used after close()."""
        return self._collection.analyzer.terms

    def status(self) -> reading.QdrantStatus:
        """Size and state of the collection."""
        return reading.status(self._ready(), self._embedder.name)

    def verify(self) -> Verification:
        """Compare all chunks with their checksums, and their indexed terms with their texts; changes nothing."""
        return reading.verify(self._ready())

    def close(self) -> None:
        """Refuse further calls. Acknowledged writes are on the server; the client is not closed."""
        self._closed = True

    def _ready(self) -> OpenCollection:
        self._check_open()
        return self._collection

    def __repr__(self) -> str:
        return f"QdrantStore({self._collection.connection.collection!r})"
