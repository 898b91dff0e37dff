"""Looking after a collection: what it is, and whether it holds what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.stores.qdrant.collection import Opened
from umi_common.stores.qdrant.connection import Connection
from umi_common.stores.qdrant.facts import facts_of
from umi_common.stores.qdrant.points import DENSE, LEXICAL, point_id, to_chunk
from umi_common.stores.qdrant.reading import chunks_alone
from umi_common.stores.qdrant.terms import sparse
from umi_common.stores.values import Verification

LENGTH_TOLERANCE = 1e-3
"""How far a unit vector's length may be from 1."""
VALUE_TOLERANCE = 1e-6
"""How far a stored term's value may be from the text's own."""


@dataclass(frozen=True, slots=True)
class QdrantStatus:
    """A collection at a glance."""

    chunks: int
    dimension: int
    embedder: str
    analyzer: str
    """Fingerprint."""
    server: str
    """Its version; the client's own for local mode."""
    state: str
    """"green": all is indexed; "yellow": the server is at it; "grey": it waits; "red": something is broken."""
    segments: int
    indexed_vectors: int


def status(connection: Connection, opened: Opened, embedder: str) -> QdrantStatus:
    """See `QdrantStore.status`."""
    info = connection.call("get_collection")
    return QdrantStatus(
        chunks=count(connection),
        dimension=opened.dim,
        embedder=embedder,
        analyzer=opened.analyzer.fingerprint,
        server=connection.server,
        state=str(info.status.value),
        segments=int(info.segments_count),
        indexed_vectors=int(info.indexed_vectors_count or 0),
    )


def count(connection: Connection) -> int:
    """Chunks, exactly."""
    return int(connection.call("count", count_filter=chunks_alone(), exact=True).count)


def verify(connection: Connection, opened: Opened) -> Verification:
    """See `QdrantStore.verify`."""
    checked, problems = 0, list[str]()
    for records in connection.pages(chunks_alone(), vectors=True):
        for record in records:
            checked += 1
            problems += _problems(record, opened)
    return Verification(checked, tuple(problems))


def _problems(record: Any, opened: Opened) -> list[str]:
    try:
        chunk = to_chunk(record.payload or {})
    except LedgerDamaged as error:
        return [str(error)]
    found = []
    if str(record.id) != point_id(chunk.id):
        found.append(f"chunk {chunk.id!r}: it lies under another chunk's point")
    if record.payload.get("facts") != facts_of(chunk.metadata):
        found.append(f"chunk {chunk.id!r}: filters see other metadata than it has")
    vectors = record.vector or {}
    dense = vectors.get(DENSE)
    if dense is not None and abs(float(np.linalg.norm(np.asarray(dense, dtype=np.float64))) - 1.0) > LENGTH_TOLERANCE:
        found.append(f"chunk {chunk.id!r}: its vector is not of length 1")
    indices, values = sparse(opened.analyzer.terms(chunk.indexed_text), opened.saturation)
    lexical = vectors.get(LEXICAL)
    stored = ([], []) if lexical is None else (list(lexical.indices), list(lexical.values))
    if stored[0] != indices or not np.allclose(stored[1], values, atol=VALUE_TOLERANCE):
        found.append(f"chunk {chunk.id!r}: its terms are not its text's")
    return found
