"""Read a collection: chunks by id, neighbours, all chunks in pages, status, verification."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.filters import Filter, matches
from umi_common.pool import Vectors
from umi_common.stores.batch_checks import checked_page
from umi_common.stores.qdrant.collection import OpenCollection
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.filters import compiled, facts_of
from umi_common.stores.qdrant.neighbours import beside
from umi_common.stores.qdrant.points import DENSE, LEXICAL, SETTINGS, chunk_of_payload, metadata_of, point_id, sparse
from umi_common.stores.values import Verification
from umi_common.types import Chunk

LENGTH_TOLERANCE = 1e-3
"""Largest difference of a unit vector's length from 1."""
VALUE_TOLERANCE = 1e-6
"""Largest difference of a term's stored value from the one computed from the text."""


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


def status(collection: OpenCollection, embedder: str) -> QdrantStatus:
    """See `QdrantStore.status`."""
    info = collection.connection.call("get_collection")
    return QdrantStatus(
        chunks=count(collection),
        dimension=collection.dim,
        embedder=embedder,
        analyzer=collection.analyzer.fingerprint,
        server=collection.connection.server,
        state=str(info.status.value),
        segments=int(info.segments_count),
        indexed_vectors=int(info.indexed_vectors_count or 0),
    )


def count(collection: OpenCollection) -> int:
    """Exact number of chunks."""
    return int(collection.connection.call("count", count_filter=chunks_alone(), exact=True).count)


def get(collection: OpenCollection, ids: Sequence[str]) -> list[Chunk | None]:
    """See `QdrantStore.get`."""
    points = [point_id(id) for id in ids]
    records = collection.connection.retrieve(list(dict.fromkeys(points)))
    chunks = {id: chunk_of_payload(record.payload) for id, record in records.items()}
    return [chunks.get(point) for point in points]


def vectors(collection: OpenCollection, ids: Sequence[str]) -> Vectors:
    """See `QdrantStore.vectors`."""
    points = [point_id(id) for id in ids]
    records = collection.connection.retrieve(list(dict.fromkeys(points)), payload=False, vectors=[DENSE])
    made = np.zeros((len(ids), collection.dim), dtype=np.float32)
    for row, point in enumerate(points):
        stored = (records[point].vector or {}).get(DENSE) if point in records else None
        if stored is not None:
            made[row] = stored
    return made


def neighbours(
    collection: OpenCollection, ids: Sequence[str], reach: int, where: Filter | None
) -> dict[str, list[Chunk]]:
    """See `QdrantStore.neighbours`."""
    known = [chunk for chunk in get(collection, ids) if chunk is not None]
    positions = [(c.source, c.position) for c in known if c.source is not None and c.position is not None]
    seen = beside(collection.connection, positions, reach, payload=True, vectors=False)
    chunks = {id: chunk_of_payload(point.payload) for id, point in seen.points.items()}
    chunks |= {chunk.id: chunk for chunk in known}
    around = {chunk.id: [chunks[id] for id in seen.around([chunk.id], reach)] or [chunk] for chunk in known}
    return {id: [chunk for chunk in near if matches(where, chunk.metadata)] for id, near in around.items()}


def chunks_alone(condition: Any = None) -> Any:
    """A filter for all chunks, or for those that pass a condition; it excludes the point of the settings."""
    m = models()
    settings = m.HasIdCondition(has_id=[SETTINGS])
    return m.Filter(must=None if condition is None else [condition], must_not=[settings])


def passing_records(collection: OpenCollection, where: Filter | None) -> Iterator[Any]:
    """The records of all chunks that pass `where`, with id and metadata alone."""
    condition = compiled(where, None, collection.tenants).condition
    for page in collection.connection.pages(chunks_alone(condition), payload=["id", "metadata"]):
        yield from (record for record in page if matches(where, metadata_of(record.payload)))


def list_ids(collection: OpenCollection, where: Filter | None) -> list[str]:
    """Ids of all chunks that pass `where`, rising."""
    return sorted(record.payload["id"] for record in passing_records(collection, where))


class Pages:
    """Pages of all chunks by rising id. The first page of a scan lists all ids; the following pages use that list."""

    def __init__(self) -> None:
        self._scan: tuple[Filter | None, str, list[str]] | None = None
        """Filter of the last scan, last id of its last page, all its ids; None: it has ended."""

    def page(self, collection: OpenCollection, where: Filter | None, after: str | None, limit: int) -> list[Chunk]:
        """See `QdrantStore.scan`."""
        start = checked_page(after, limit)
        last = self._scan
        ids = last[2] if last is not None and last[:2] == (where, start) else list_ids(collection, where)
        page: list[Chunk] = []
        at = bisect_right(ids, start) if start else 0
        while len(page) < limit and at < len(ids):  # chunks removed since the listing leave gaps
            batch = ids[at : at + limit - len(page)]
            at += len(batch)
            page += [c for c in get(collection, batch) if c is not None and matches(where, c.metadata)]
        self._scan = (where, page[-1].id, ids) if len(page) == limit else None
        return page


def verify(collection: OpenCollection) -> Verification:
    """See `QdrantStore.verify`."""
    checked, problems = 0, list[str]()
    for records in collection.connection.pages(chunks_alone(), vectors=True):
        for record in records:
            checked += 1
            problems += _problems(record, collection)
    return Verification(checked, tuple(problems))


def _problems(record: Any, collection: OpenCollection) -> list[str]:
    try:
        chunk = chunk_of_payload(record.payload or {})
    except LedgerDamaged as error:
        return [str(error)]
    found = []
    if str(record.id) != point_id(chunk.id):
        found.append("it is stored under another chunk's point")
    if record.payload.get("facts") != facts_of(chunk.metadata):
        found.append("its facts for filters are not those of its metadata")
    vectors = record.vector or {}
    dense = vectors.get(DENSE)
    if dense is not None and abs(float(np.linalg.norm(np.asarray(dense, dtype=np.float64))) - 1.0) > LENGTH_TOLERANCE:
        found.append("its vector is not of length 1")
    indices, values = sparse(collection.analyzer.terms(chunk.indexed_text), collection.saturation)
    lexical = vectors.get(LEXICAL)
    stored = ([], []) if lexical is None else (list(lexical.indices), list(lexical.values))
    if stored[0] != indices or not np.allclose(stored[1], values, atol=VALUE_TOLERANCE):
        found.append("its stored terms are not its text's")
    return [f"chunk {chunk.id!r}: {problem}" for problem in found]
