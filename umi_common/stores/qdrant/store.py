"""The store over a Qdrant collection. docs/scale.md lists how it differs from `HybridStore`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError, LedgerDamaged
from umi_common.filters import Filter, matches
from umi_common.pool import Pool, Vectors
from umi_common.protocols import RecallRequest
from umi_common.stores.base import CollectionStore
from umi_common.stores.batch_checks import checked_ids
from umi_common.stores.qdrant.collection import MADE_WITH, OpenCollection, chunks_alone, open_collection
from umi_common.stores.qdrant.connection import Connection, models
from umi_common.stores.qdrant.filters import compiled
from umi_common.stores.qdrant.neighbours import beside
from umi_common.stores.qdrant.points import (
    DENSE,
    DERIVED,
    HEAD,
    LEXICAL,
    SETTINGS,
    chunk_of_payload,
    digest,
    metadata_of,
    own_points,
    payload_of,
    point_id,
    to_point,
)
from umi_common.stores.qdrant.recall import recall_many
from umi_common.stores.query_embedder import query_vectors
from umi_common.stores.values import RecallTrace, Verification
from umi_common.types import Chunk

WRITE_AT_ONCE = 256
"""Largest number of points that are written in one call to the server: some megabytes."""
LENGTH_TOLERANCE = 1e-3
"""Largest difference from 1 that `verify` accepts in the length of a unit vector."""
VALUE_TOLERANCE = 1e-6
"""Largest difference that `verify` accepts between a stored value of the sparse vector, tf / (tf + K) of a term (see
`points`), and the value computed from the text."""


@dataclass(frozen=True, slots=True)
class QdrantStatus:
    """Size and state of a collection."""

    chunks: int
    dimension: int
    embedder: str
    analyzer: str
    """Fingerprint of the analyzer."""
    server: str
    """Version of the server; in local mode, of the client."""
    state: str
    """"green": all is indexed; "yellow": the server is indexing; "grey": indexing is pending; "red": an error."""
    segments: int
    indexed_vectors: int


class QdrantStore(CollectionStore):
    """Chunks and vectors in a Qdrant collection, searched by BM25 and by cosine. Thread-safe.

    Args:
        client: A `qdrant_client.QdrantClient`; the caller closes it.
        collection: Name of the collection; created if there is none.
        embedder: As for `HybridStore.open`; None: `config.embedder.model`, else "default", umi's own model.
        config: None: the defaults, with the analyzer the collection was made with.
        tenants: Metadata keys with string values that divide the collection, such as "user". A search with a filter for
            one value reads only the chunks with that value.
        ordered: Metadata keys that filters compare by order ($gt, $lt); each gets an index.
        consistency: Read consistency in a cluster: "majority", "quorum", "all" or a number of replicas.
        ordering: Write ordering in a cluster: "weak", "medium", "strong".
        search_params: `models.SearchParams` of the dense arm, for example `exact=True` or `hnsw_ef=256`.
        options: Further arguments of `create_collection` (shard_number, replication_factor, hnsw_config,
            quantization_config ...), used if the collection is created.

    Raises:
        MissingExtra: If qdrant-client is not installed.
        ConfigError: If the client is asynchronous, or a tenant's key has characters besides letters, digits, _, -.
        NotAStore: If umi did not make the collection.
        ReindexRequired: If the collection was made with another embedder, dimension or analyzer. A search, `add`,
            `vectors`, `status` and `verify` also raise it if the collection was since replaced by another one.
        StoreUnavailable: If the server is too old; from every method except a search, if the server fails.
        SearchUnavailable: From a search, if the server fails.
        LedgerDamaged: From every method that reads a chunk's point which another program has changed. The error has
            this name in all stores, although this one has no ledger. Points that another program added are left out,
            and a warning names one.
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
        super().__init__(model, self._collection.config, self._collection.analyzer)
        self._server, self._write_at_once = "Qdrant", WRITE_AT_ONCE

    def _holds(self, chunks: Sequence[Chunk]) -> list[bool]:
        ids = [point_id(chunk.id) for chunk in chunks]
        stored = self._read_checked(ids, payload=["digest"], vectors=False)
        digests = {id: (record.payload or {}).get("digest") for id, record in stored.items()}
        return [digests.get(id) == digest(chunk) for id, chunk in zip(ids, chunks, strict=True)]

    def _read_checked(self, points: Sequence[str], *, payload: Sequence[str], vectors: Any) -> dict[str, Any]:
        """Records by point id. Raises the errors of `OpenCollection.check` if the collection was made again.

        The collection's settings are a point with the id SETTINGS. It is read in the same call, so `_read_checked([])`
        only checks the collection.
        """
        fields = [*payload, *MADE_WITH]
        records = self._collection.connection.retrieve([SETTINGS, *points], payload=fields, vectors=vectors)
        settings = records.pop(SETTINGS, None)
        self._collection.check(None if settings is None else settings.payload)
        return records

    def _write(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        terms, saturation = self._collection.analyzer.terms, self._collection.saturation
        points = [
            to_point(chunk, vector, terms(chunk.indexed_text), saturation)
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        try:
            self._collection.connection.upsert(points)
        finally:
            self._collection.statistics.changed(len(chunks))  # also after an error: the server may have stored them

    def _remove(self, ids: list[str] | None, where: Filter | None) -> int:
        connection = self._collection.connection
        if ids is None:
            records: Iterable[Any] = self._passing_records(where)
        else:
            found = connection.retrieve([point_id(id) for id in ids], payload=HEAD).values()
            records = (record for record in found if matches(where, metadata_of(record.payload)))
        points = [str(record.id) for record in records]
        try:  # with the condition, because another program may have changed a chunk since it was read
            connection.delete(points, compiled(where, None, self._collection.tenants).condition)
        finally:
            self._collection.statistics.changed(len(points))  # also after an error: the server may have removed them
        return len(points)

    def _read_chunks(self, ids: Sequence[str]) -> dict[str, Chunk]:
        points = {point_id(id): id for id in ids}
        records = self._collection.connection.retrieve(list(points))
        return {points[point]: chunk_of_payload(record.payload) for point, record in records.items()}

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) aligned with ids, each of length 1; zeros where the store has no vector."""
        collection, points = self._ready(), [point_id(id) for id in checked_ids(ids)]
        records = self._read_checked(list(dict.fromkeys(points)), payload=[], vectors=[DENSE])
        made = np.zeros((len(points), collection.dim), dtype=np.float32)
        for row, point in enumerate(points):
            stored = (records[point].vector or {}).get(DENSE) if point in records else None
            if stored is not None:
                made[row] = stored
        return made

    def _passing_records(self, where: Filter | None) -> Iterator[Any]:
        """The records of all chunks that pass `where`, with id and metadata only."""
        collection, fields = self._ready(), ["id", "metadata"]
        condition = compiled(where, None, collection.tenants).condition
        for page in collection.connection.pages(chunks_alone(condition), payload=fields):
            own = own_points(page)
            yield from (record for record in own if matches(where, metadata_of(payload_of(record, fields))))

    def _ids_passing(self, where: Filter | None) -> list[str]:
        return sorted(record.payload["id"] for record in self._passing_records(where))

    def _around(self, ids: Sequence[str], reach: int) -> dict[str, list[Chunk]]:
        known = [chunk for chunk in self.get(ids) if chunk is not None]
        seen = beside(self._collection.connection, known, reach, payload=True, vectors=False)
        chunks = {id: chunk_of_payload(point.payload) for id, point in seen.points.items()}
        chunks |= {chunk.id: chunk for chunk in known}
        return {chunk.id: [chunks[id] for id in seen.around([chunk.id], reach)] or [chunk] for chunk in known}

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches; searches that differ only in their probes share the round trips.

        Raises:
            SearchUnavailable: If the server fails; it computes both BM25 and cosines, so neither is left.
            InvalidVector: If a probe's vector has another dimension than the collection.
            ConfigError: If the variant of BM25 is Okapi's, which needs statistics that Qdrant does not have.
        """
        collection = self._ready()
        if any(request.lexical.variant == "okapi" for request in requests):
            raise ConfigError(
                'BM25 variant "okapi" needs the mean idf of all terms of the collection, which Qdrant does not give; '
                'set lexical.variant to "lucene", "l" or "plus"'
            )
        traces = [RecallTrace() for _ in requests]
        queries = query_vectors(requests, self._query_embedder, collection.dim, traces)
        return recall_many(collection, queries, requests, traces)

    def __len__(self) -> int:
        m = models()
        has_draw = m.FieldCondition(key="draw", range=m.Range(gte=0))  # points of other programs have no such field
        found = self._ready().connection.call("count", count_filter=chunks_alone(has_draw), exact=True)
        return int(found.count)

    @property
    def path(self) -> None:
        """None, because this store has no directory."""
        return None

    def status(self) -> QdrantStatus:
        """Size and state of the collection."""
        collection = self._ready()
        self._read_checked([], payload=[], vectors=False)
        info = collection.connection.call("get_collection")
        return QdrantStatus(
            chunks=len(self),
            dimension=collection.dim,
            embedder=self._embedder.name,
            analyzer=collection.analyzer.fingerprint,
            server=collection.connection.server,
            state=str(info.status.value),
            segments=int(info.segments_count),
            indexed_vectors=int(info.indexed_vectors_count or 0),
        )

    def verify(self) -> Verification:
        """Compare all chunks with their checksums, and their indexed terms with their texts; changes nothing."""
        collection = self._ready()
        self._read_checked([], payload=[], vectors=False)
        checked, problems = 0, list[str]()
        for records in collection.connection.pages(chunks_alone(), vectors=True):
            checked += len(records)
            problems += [problem for record in records for problem in _problems(record, collection)]
        return Verification(checked, tuple(problems))

    def _ready(self) -> OpenCollection:
        self._check_open()
        return self._collection

    def __repr__(self) -> str:
        return f"QdrantStore({self._collection.connection.collection!r})"


def _problems(record: Any, collection: OpenCollection) -> list[str]:
    """One line that names the parts of a point that differ from what umi writes for its chunk; empty: no part does."""
    if not own_points([record]):
        return [f"point {record.id!r} was not written by umi; move it to a collection of its own"]
    try:
        chunk = chunk_of_payload(record.payload or {})
    except LedgerDamaged as error:
        return [str(error)]
    terms = collection.analyzer.terms(chunk.indexed_text)
    written = to_point(chunk, np.zeros(0, dtype=np.float32), terms, collection.saturation)
    wrong = [name for name in DERIVED if record.payload.get(name) != written.payload.get(name)]
    if str(record.id) != written.id:
        wrong.append(f"the point's id, {record.id}")
    vectors = record.vector or {}
    dense = vectors.get(DENSE)
    if dense is not None and abs(float(np.linalg.norm(np.asarray(dense, dtype=np.float64))) - 1.0) > LENGTH_TOLERANCE:
        wrong.append("the vector, which is not of length 1")
    expected, lexical = written.vector[LEXICAL], vectors.get(LEXICAL)
    stored = ([], []) if lexical is None else (list(lexical.indices), list(lexical.values))
    if stored[0] != expected.indices or not np.allclose(stored[1], expected.values, rtol=0.0, atol=VALUE_TOLERANCE):
        wrong.append("the terms")
    return [f"chunk {chunk.id!r}: not what umi writes: {', '.join(wrong)}"] if wrong else []
