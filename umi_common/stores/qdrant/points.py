"""A chunk as a Qdrant point and back.

id          uuid5 of the chunk's id, so that a chunk has one point whoever writes it; the id itself is in the payload
vectors     "dense": the unit vector, absent where the model knows nothing of the text
            "lexical": the terms (`terms`), absent where there are none
payload     what the chunk holds, and what searching needs of it (below)
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.stores.ledger.codec import EPOCH, MICROSECOND, microseconds
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.facts import facts_of, numbers_of, texts_of
from umi_common.stores.qdrant.terms import Saturation, sparse
from umi_common.types import Chunk, Metadata, MetadataValue

DENSE, LEXICAL = "dense", "lexical"
NAMESPACE = uuid.UUID("5f0d6a0e-7f0b-5c6e-9a55-0d1c6f2b7e11")
"""Of all umi's points; changing it would give every chunk a second one."""
SETTINGS = str(uuid.uuid5(NAMESPACE, ""))
"""The one point that is no chunk (no chunk has the empty id): what the collection was made with. Without vectors, so no
search and no statistics meet it."""
DIGEST_BYTES = 16
FLOAT = "float"
"""Key of the object that stands for a float in the metadata of a payload: its value in hexadecimal."""
HEAD = ["id", "source", "position", "time", "length", "metadata", "exact"]
"""What ranking and filters need of a payload; the text stays on the server."""


class Head(NamedTuple):
    """A chunk without its text, as a search meets it."""

    id: str
    source: str | None
    position: int | None
    time: int | None
    """Microseconds since 1970."""
    length: int
    """In terms."""
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Found:
    """A point that came with its vectors."""

    head: Head
    vector: Vectors | None
    indices: Sequence[int]
    values: Sequence[float]


def point_id(id: str) -> str:
    """Of a chunk's point."""
    return str(uuid.uuid5(NAMESPACE, id))


def to_point(chunk: Chunk, vector: Vectors, terms: Sequence[str], saturation: Saturation) -> Any:
    """The point of a chunk with its unit vector (dim,), or zeros, and the terms of its text."""
    indices, values = sparse(terms, saturation)
    vectors: dict[str, Any] = {LEXICAL: models().SparseVector(indices=indices, values=values)}
    if vector.any():
        vectors[DENSE] = vector.tolist()
    payload: dict[str, Any] = {
        "id": chunk.id,
        "text": chunk.text,
        "metadata": plain(chunk.metadata),
        "digest": digest(chunk),
        "length": len(terms),
        "draw": crc32(chunk.id.encode()),
        "facts": facts_of(chunk.metadata),
        "numbers": numbers_of(chunk.metadata),
        "texts": texts_of(chunk.metadata),
    }
    if any(isinstance(item, float) for value in plain(chunk.metadata).values() for item in _items(value)):
        payload["exact"] = json.dumps(plain(chunk.metadata))  # servers lose the last bit of a fraction
    if chunk.search_text is not None:
        payload["search_text"] = chunk.search_text
    if chunk.source is not None:
        payload |= {"source": chunk.source, "source_draw": crc32(chunk.source.encode())}
    if chunk.position is not None:
        payload["position"] = chunk.position
    if chunk.event_time is not None:
        payload["time"] = microseconds(chunk.event_time)
    return models().PointStruct(id=point_id(chunk.id), vector=vectors, payload=payload)


def to_chunk(payload: dict[str, Any]) -> Chunk:
    """The chunk of a payload.

    Raises:
        LedgerDamaged: If it is not what was written.
    """
    try:
        time = payload.get("time")
        chunk = Chunk(
            payload["id"],
            payload["text"],
            metadata=metadata_of(payload),
            source=payload.get("source"),
            position=payload.get("position"),
            event_time=None if time is None else EPOCH + time * MICROSECOND,
            search_text=payload.get("search_text"),
        )
        intact = payload["digest"] == digest(chunk)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise LedgerDamaged(f"point of chunk {payload.get('id')!r:.80} is not what was stored; add it again") from error
    if not intact:
        raise LedgerDamaged(f"chunk {chunk.id!r:.80} is not what was stored; add it again")
    return chunk


def to_head(payload: dict[str, Any]) -> Head:
    """What a search needs of a payload that was asked for with `HEAD`."""
    return Head(
        payload["id"],
        payload.get("source"),
        payload.get("position"),
        payload.get("time"),
        payload["length"],
        metadata_of(payload),
    )


def metadata_of(payload: dict[str, Any]) -> Metadata:
    """As the chunk had it; lists come back as the tuples they were."""
    return {key: _value(stored) for key, stored in payload["metadata"].items()}


def _value(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(_value(item) for item in stored)
    return float.fromhex(stored[FLOAT]) if isinstance(stored, dict) else stored


def to_found(point: Any) -> Found:
    """A point that was asked for with `HEAD` and all vectors."""
    vectors = point.vector or {}
    dense, lexical = vectors.get(DENSE), vectors.get(LEXICAL)
    vector = None if dense is None else np.asarray(dense, dtype=np.float32)
    return Found(
        to_head(point.payload),
        vector,
        () if lexical is None else lexical.indices,
        () if lexical is None else lexical.values,
    )


def digest(chunk: Chunk) -> str:
    """BLAKE2b of all that a chunk says; equal for equal chunks, whatever the order of their metadata."""
    time = None if chunk.event_time is None else microseconds(chunk.event_time)
    said = [chunk.id, chunk.text, plain(chunk.metadata), chunk.source, chunk.position, time]
    said += [] if chunk.search_text is None else [chunk.search_text]
    whole = json.dumps(said, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(whole.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def plain(metadata: Metadata) -> dict[str, Any]:
    """Metadata as JSON holds it, floats in full: Qdrant reads one decimal in five into the float64 next to it."""
    return {key: _plain(value) for key, value in metadata.items()}


def _plain(value: MetadataValue) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {FLOAT: value.hex()} if isinstance(value, float) else value
