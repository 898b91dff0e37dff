"""Convert a chunk to a Qdrant point, and a point to a chunk or a `Candidate`.

id          uuid5 of the chunk's id, so a chunk that is written again replaces its point; the payload holds the id too
vectors     "dense": the unit vector, absent where the embedder gave zeros
            "lexical": a sparse vector of the text's terms; the index of a term is a hash of it (`index_of`)
payload     id, text, metadata, and if the chunk has them search_text, source, position: the chunk's fields
            time: the chunk's event time, in microseconds since 1970
            digest: hash of all fields of the chunk; by it, a read finds a changed chunk
            length: number of terms of the text, for BM25
            facts, numbers, texts: the metadata in a form in which Qdrant can filter it (see `filters`)
            draw, source_draw: CRC-32 of id and source. Statistics sample the points with the smallest ones

A term's sparse value is the factor of BM25 that depends only on the text that holds the term:

    value = tf / (tf + K),   K = k1 * (1 - b + b * length / fixed average length)

Qdrant multiplies the value by idf, which gives Lucene's BM25. The average length in K is fixed when the collection is
made, so stored values never change. umi computes tf from the value, and scores with the current average length, k1, b.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Floats, Ints, Vectors
from umi_common.runtime.losses import warn_once
from umi_common.stores.qdrant.connection import models
from umi_common.stores.qdrant.filters import facts_of, numbers_of, texts_of
from umi_common.types import Chunk, Metadata, MetadataValue, from_microseconds, microseconds

DENSE, LEXICAL = "dense", "lexical"
NAMESPACE = uuid.UUID("5f0d6a0e-7f0b-5c6e-9a55-0d1c6f2b7e11")
"""Namespace of the uuid5 of all points. If it changed, a chunk that is written again would get a second point."""
SETTINGS = str(uuid.uuid5(NAMESPACE, ""))
"""Id of the point that holds the collection's settings; no chunk has the empty id. The point has no vectors, so
searches and statistics do not return it."""
INDEX_BYTES = 4
"""Qdrant's sparse indices have 32 bits: among a million terms, about 116 pairs of terms have the same index."""
VALUE_MAX = 1.0 - 2.0**-24
"""The largest float32 below 1; a stored value that was rounded to 1 is read as this number."""
FLOAT = "float"
"""A float in metadata is stored as an object with this key, whose value is the float in hexadecimal."""
HEAD = ["id", "source", "position", "time", "length", "metadata"]
"""Payload fields that `to_candidate` needs; the text is not among them."""
DERIVED = ("length", "draw", "source_draw", "facts", "texts")
"""Payload fields that are computed from the chunk and are not in its digest; `QdrantStore.verify` compares them.
`numbers` is left out, because a server may change the last bit of a number."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "source": (str, NoneType),
    "position": (int, NoneType),
    "time": (int, NoneType),
    "length": (int,),
    "metadata": (dict,),
    "draw": (int,),
    "source_draw": (int,),
}
"""Payload field -> the types that it has in a point that umi wrote; NoneType: the field may be missing."""


class Candidate(NamedTuple):
    """The parts of a chunk that ranking needs: its vectors, and its fields without the text."""

    id: str
    source: str | None
    position: int | None
    time: int | None
    """Microseconds since 1970."""
    length: int
    """Number of terms of the text."""
    metadata: Metadata
    vector: Vectors | None
    """(dim,), unit length; None: the embedder gave zeros."""
    indices: Sequence[int]
    """Indices of the sparse vector, rising."""
    values: Sequence[float]
    """Values of the sparse vector, aligned with `indices`."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Parameters of the stored sparse values; fixed when the collection is made."""

    k1: float
    b: float
    average_length: float
    """The fixed average length of K, in terms."""

    def norm(self, length: Ints | int) -> Floats:
        """K of a text of `length` terms, or of each of several texts."""
        share = 1.0 - self.b + self.b * np.asarray(length, dtype=np.float64) / self.average_length
        return np.asarray(self.k1 * share, dtype=np.float64)


def point_id(id: str) -> str:
    """Id of a chunk's point: uuid5. Also defined for a string that UTF-8 cannot encode: no chunk has such an id, but a
    caller may look one up."""
    named = hashlib.sha1(NAMESPACE.bytes + id.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    return str(uuid.UUID(bytes=named.digest()[:16], version=5))


def own_points(points: Iterable[Any]) -> list[Any]:
    """The points whose ids umi may have given. Another program added the others; a warning names the first, once."""
    own = []
    for point in points:
        if str(point.id)[14:15] == "5":  # the version of a UUID; `point_id` makes version 5
            own.append(point)
        else:
            warn_once(
                "qdrant",
                "points of another program",
                "the collection holds points that umi did not write, such as %r: they are left out of searches, but "
                "take room among the candidates; move them to a collection of their own",
                point.id,
            )
    return own


def index_of(term: str) -> int:
    """The term's index in sparse vectors, 0..2^32-1: a hash, the same in every collection."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=INDEX_BYTES).digest(), "little")


def sparse(terms: Sequence[str], saturation: Saturation) -> tuple[list[int], list[float]]:
    """Indices, rising, and values of the sparse vector of a text.

    BM25's idf counts all texts, but Qdrant's idf counts only points with a sparse vector. So a text without terms gets
    a vector too, with the index of the empty term, which no query has.
    """
    if not terms:
        return [index_of("")], [1.0]
    counts = Counter(map(index_of, terms))
    indices = sorted(counts)
    tf = np.array([counts[index] for index in indices], dtype=np.float64)
    values = (tf / (tf + saturation.norm(len(terms)))).astype(np.float32)
    return indices, values.tolist()


def frequencies(values: Floats, lengths: Ints, saturation: Saturation) -> Floats:
    """Term frequencies from the stored values and lengths of texts; whole numbers, exact below about 2,000 if k1 > 0.

    A value of 0 means that the term does not occur in the text.
    """
    below_one = np.minimum(np.asarray(values, dtype=np.float64), VALUE_MAX)
    tf = below_one * saturation.norm(lengths) / (1.0 - below_one)
    return np.asarray(np.where(below_one > 0, np.maximum(np.rint(tf), 1.0), 0.0), dtype=np.float64)


def to_point(chunk: Chunk, vector: Vectors, terms: Sequence[str], saturation: Saturation) -> Any:
    """The point of a chunk.

    Args:
        vector: (dim,) the chunk's unit vector, or zeros.
        terms: The terms of its text, repeats included.
    """
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
    if chunk.search_text is not None:
        payload["search_text"] = chunk.search_text
    if chunk.source is not None:
        payload |= {"source": chunk.source, "source_draw": crc32(chunk.source.encode())}
    if chunk.position is not None:
        payload["position"] = chunk.position
    if chunk.event_time is not None:
        payload["time"] = microseconds(chunk.event_time)
    return models().PointStruct(id=point_id(chunk.id), vector=vectors, payload=payload)


def chunk_of_payload(payload: dict[str, Any]) -> Chunk:
    """The chunk of a payload. Raises LedgerDamaged, the error of all stores for changed data, if the payload does not
    match its digest."""
    try:
        time = payload.get("time")
        chunk = Chunk(
            payload["id"],
            payload["text"],
            metadata=metadata_of(payload),
            source=payload.get("source"),
            position=payload.get("position"),
            event_time=None if time is None else from_microseconds(time),
            search_text=payload.get("search_text"),
        )
        if payload["digest"] != digest(chunk):
            raise ValueError("the digest is another chunk's")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise LedgerDamaged(f"chunk {payload.get('id')!r:.80} is not what was stored; add it again") from error
    return chunk


def to_candidate(point: Any) -> Candidate:
    """The candidate of a point that was read with the payload fields `HEAD` and all vectors."""
    payload, vectors = payload_of(point, HEAD), point.vector or {}
    dense, lexical = vectors.get(DENSE), vectors.get(LEXICAL)
    return Candidate(
        payload["id"],
        payload.get("source"),
        payload.get("position"),
        payload.get("time"),
        payload["length"],
        metadata_of(payload),
        None if dense is None else np.asarray(dense, dtype=np.float32),
        () if lexical is None else lexical.indices,
        () if lexical is None else lexical.values,
    )


def metadata_of(payload: dict[str, Any]) -> Metadata:
    """The metadata of a payload's chunk: the inverse of `plain`."""
    try:
        return {key: _value(stored) for key, stored in payload["metadata"].items()}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _not_written(payload.get("id")) from error


def payload_of(point: Any, fields: Sequence[str]) -> dict[str, Any]:
    """The payload of a point. Raises LedgerDamaged if one of these fields is missing or has another type."""
    payload: dict[str, Any] = point.payload or {}
    if not all(isinstance(payload.get(name), _TYPES[name]) for name in fields):
        raise _not_written(point.id)
    return payload


def _not_written(id: object) -> LedgerDamaged:
    """The error for a point that another program wrote or changed."""
    return LedgerDamaged(
        f"point {id!r:.80} is not what umi wrote: another program added or changed it; delete it or add its chunk again"
    )


def _value(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(_value(item) for item in stored)
    return float.fromhex(stored[FLOAT]) if isinstance(stored, dict) else stored


def digest(chunk: Chunk) -> str:
    """BLAKE2b of all fields of a chunk, hexadecimal; the order of its metadata does not matter."""
    time = None if chunk.event_time is None else microseconds(chunk.event_time)
    fields = [chunk.id, chunk.text, plain(chunk.metadata), chunk.source, chunk.position, time]
    if chunk.search_text is not None:  # else left out: digests of early versions must stay valid
        fields.append(chunk.search_text)
    encoded = json.dumps(fields, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(encoded.encode(), digest_size=16).hexdigest()


def plain(metadata: Metadata) -> dict[str, Any]:
    """Metadata in JSON's types. Floats are written in hexadecimal, because Qdrant reads a fifth of all decimal numbers
    with a wrong last bit."""
    return {key: _plain(value) for key, value in metadata.items()}


def _plain(value: MetadataValue) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {FLOAT: value.hex()} if isinstance(value, float) else value
