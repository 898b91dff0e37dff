"""Write and delete chunks, and find those of a batch that are stored already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from umi_common.filters import Filter, matches
from umi_common.pool import Vectors
from umi_common.stores.batch_checks import ids_to_delete
from umi_common.stores.qdrant.collection import MADE_WITH, OpenCollection
from umi_common.stores.qdrant.points import DENSE, HEAD, SETTINGS, digest, metadata_of, point_id, to_point
from umi_common.stores.qdrant.reading import passing_records
from umi_common.types import Chunk

WRITE_AT_ONCE = 256
"""Largest number of points in one call to the server; they have some megabytes."""


def write_chunks(collection: OpenCollection, chunks: Sequence[Chunk], vectors: Vectors) -> None:
    """Insert or replace chunks, with (n, dim) unit rows, in one call to the server."""
    terms, saturation = collection.analyzer.terms, collection.saturation
    points = [
        to_point(chunk, vector, terms(chunk.indexed_text), saturation)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
    collection.connection.upsert(points)


def unchanged(collection: OpenCollection, batch: Sequence[Chunk], given: Vectors | None) -> set[int]:
    """Indices of the chunks that are stored with the same fields and, if `given` (n, dim), with these vectors."""
    ids = [point_id(chunk.id) for chunk in batch]
    vectors = False if given is None else [DENSE]
    stored = collection.connection.retrieve([SETTINGS, *ids], payload=["digest", *MADE_WITH], vectors=vectors)
    settings = stored.get(SETTINGS)
    collection.check(None if settings is None else settings.payload)
    same = set()
    for at, (chunk, id) in enumerate(zip(batch, ids, strict=True)):
        record = stored.get(id)
        if record is None or (record.payload or {}).get("digest") != digest(chunk):
            continue
        if given is not None:
            held = (record.vector or {}).get(DENSE)
            vector = np.zeros_like(given[at]) if held is None else np.asarray(held, dtype=np.float32)
            if not np.array_equal(vector, given[at]):
                continue
        same.add(at)
    return same


def delete(
    collection: OpenCollection,
    ids: Iterable[str] | None,
    where: Filter | None,
    on_written: Callable[[int], None],
) -> int:
    """See `QdrantStore.delete`. `on_written` gets the number of points, even if the call fails."""
    named = ids_to_delete(ids, where, "to empty a store, delete its collection")
    points = [str(record.id) for record in _records(collection, named, where)]
    try:
        collection.connection.delete(points)
    finally:
        on_written(len(points))
    return len(points)


def _records(collection: OpenCollection, ids: list[str] | None, where: Filter | None) -> Iterable[Any]:
    """The records, without texts and vectors, of the chunks with these ids (None: of all) that pass the filter."""
    if ids is None:
        return passing_records(collection, where)
    records = collection.connection.retrieve([point_id(id) for id in ids], payload=HEAD).values()
    return [record for record in records if matches(where, metadata_of(record.payload))]
