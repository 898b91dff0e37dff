"""Writes: checked as a whole, embedded as a whole, then sent in slices that a repeated call completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from umi_common.errors import InputError, PartlyWritten, StoreUnavailable
from umi_common.filters import Filter, matches
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.stores.batch_checks import checked_chunks, checked_vectors, embedded
from umi_common.stores.qdrant.collection import Opened
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.filters import compiled
from umi_common.stores.qdrant.points import DENSE, HEAD, digest, point_id, to_head, to_point
from umi_common.stores.qdrant.reading import chunks_alone
from umi_common.types import Chunk

WRITE_AT_ONCE = 256
"""Points of one call: some megabytes at most."""


def add(
    connection: Connection,
    opened: Opened,
    embedder: Embedder,
    chunks: Iterable[Chunk],
    vectors: Any,
    *,
    show_progress: bool,
    written: Callable[[int], None],
) -> None:
    """See `QdrantStore.add`.

    Args:
        written: Told how many chunks a slice had, once it is stored.
    """
    batch = checked_chunks(chunks)
    given = None if vectors is None else checked_vectors(vectors, batch, opened.dim)
    same = _unchanged(connection, batch, given)
    todo = [at for at in range(len(batch)) if at not in same]
    new = [batch[at] for at in todo]
    if given is not None:
        made = given[todo]
    else:
        ids, texts = [chunk.id for chunk in new], [chunk.indexed_text for chunk in new]
        made = embedded(ids, texts, embedder, dim=opened.dim, show_progress=show_progress)
    terms = opened.analyzer.terms
    points = [
        to_point(chunk, vector, terms(chunk.indexed_text), opened.saturation)
        for chunk, vector in zip(new, made, strict=True)
    ]
    for start in range(0, len(points), WRITE_AT_ONCE):
        some = points[start : start + WRITE_AT_ONCE]
        try:
            connection.upsert(some)
        except StoreUnavailable as error:
            raise PartlyWritten(
                f"{start} of {len(points)} chunks are stored for sure, then Qdrant failed; call add() again with the "
                "same batch: what is stored is left alone"
            ) from error
        finally:
            written(len(some))  # a write that failed may have been made


def _unchanged(connection: Connection, batch: Sequence[Chunk], given: Vectors | None) -> set[int]:
    """Places of chunks that are stored just so; with `given`, their vectors as well."""
    ids = [point_id(chunk.id) for chunk in batch]
    stored = connection.retrieve(ids, payload=["digest"], vectors=False if given is None else [DENSE])
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
    connection: Connection,
    ids: Iterable[str] | None,
    where: Filter | None,
    tenants: tuple[str, ...],
    written: Callable[[int], None],
) -> int:
    """See `QdrantStore.delete`."""
    if ids is None and where is None:
        raise InputError("delete() needs ids= or where=; to empty a store, delete its collection")
    if isinstance(ids, str):
        raise InputError("delete(ids=...) takes a list of ids; put the one id into a list")
    dead = _by_filter(connection, where, tenants) if ids is None else _by_id(connection, list(ids), where)
    try:
        connection.delete(dead)
    finally:
        written(len(dead))
    return len(dead)


def _by_id(connection: Connection, ids: Sequence[str], where: Filter | None) -> list[str]:
    records = connection.retrieve(list({point_id(id): None for id in ids}), payload=HEAD)
    return [id for id, record in records.items() if matches(where, to_head(record.payload).metadata)]


def _by_filter(connection: Connection, where: Filter | None, tenants: tuple[str, ...]) -> list[str]:
    pages = connection.pages(chunks_alone(compiled(where, None, tenants).condition), payload=HEAD)
    return [
        str(record.id) for records in pages for record in records if matches(where, to_head(record.payload).metadata)
    ]
