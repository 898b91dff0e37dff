"""A chunk as a row of the ledger and back, with checksums: what the disk changed is noticed, not answered."""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.types import Chunk, Metadata

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
DIGEST_BYTES = 16
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Head(NamedTuple):
    """What ranking needs of a chunk, without its text."""

    seq: int
    id: str
    source: str | None
    position: int | None
    event_time: int | None
    """Microseconds since 1970, UTC."""


class Entry(NamedTuple):
    """A chunk as the ledger keeps it, its vector apart."""

    id: str
    source: str | None
    position: int | None
    event_time: int | None
    head: int
    """Checksum of the fields above."""
    digest: bytes
    """Checksum of everything."""
    text: str
    metadata: str
    """JSON."""


def encode(chunk: Chunk) -> Entry:
    """The row of a chunk."""
    when = None if chunk.event_time is None else microseconds(chunk.event_time)
    metadata = _as_json(dict(chunk.metadata))
    head = (chunk.id, chunk.source, chunk.position, when)
    return Entry(*head, head_check(*head), digest(*head, chunk.text, metadata), chunk.text, metadata)


def checked(entry: Entry) -> Entry:
    """The row itself, once its checksum has been seen to hold.

    Raises:
        LedgerDamaged: If the row is not what was written.
    """
    if not (isinstance(entry.text, str) and isinstance(entry.metadata, str)) or entry.digest != digest(
        *entry[:4], entry.text, entry.metadata
    ):
        raise LedgerDamaged(f"chunk {entry.id!r:.80} is not what was stored; restore umi.db from a copy")
    return entry


def decode(entry: Entry) -> Chunk:
    """The chunk of a row.

    Raises:
        LedgerDamaged: If the row is not what was written.
    """
    id, source, position, when, _, _, text, metadata = checked(entry)
    return Chunk(
        id,
        text,
        metadata=decode_metadata(metadata),
        source=source,
        position=position,
        event_time=None if when is None else EPOCH + when * MICROSECOND,
    )


def decode_metadata(text: str) -> Metadata:
    """Metadata from its JSON; lists come back as the tuples they were."""
    values = json.loads(text)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def microseconds(moment: datetime) -> int:
    """An aware moment as microseconds since 1970, exact."""
    return (moment - EPOCH) // MICROSECOND


def head_check(id: str, source: str | None, position: int | None, event_time: int | None) -> int:
    """CRC-32 of the fields that are read without the text."""
    return zlib.crc32(_head_bytes(id, source, position, event_time))


def digest(
    id: str, source: str | None, position: int | None, event_time: int | None, text: str, metadata: str
) -> bytes:
    """BLAKE2b of all that a chunk says; equal for equal chunks."""
    head = _head_bytes(id, source, position, event_time)
    whole = b"%d\0%s%d\0%s%s" % (len(head), head, len(text), text.encode(), metadata.encode())
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).digest()


def _head_bytes(id: str, source: str | None, position: int | None, event_time: int | None) -> bytes:
    # Lengths and the "=" keep None, "" and "None" apart. What a damaged file holds may be of any type.
    stated = "" if source is None else f"={source}"
    return f"{len(str(id))}\0{id}{len(stated)}\0{stated}{position}\0{event_time}".encode()


def encode_vector(vector: Vectors) -> tuple[bytes, int]:
    """A float32 row as little-endian bytes, and their CRC-32."""
    blob = vector.astype("<f4", copy=False).tobytes()
    return blob, zlib.crc32(blob)


def decode_vectors(blobs: list[tuple[bytes, int]]) -> Vectors:
    """(n, dim) float32 from the ledger's (blob, checksum) rows; (0, 0) from none.

    Raises:
        LedgerDamaged: If a blob is not what was written.
    """
    size = len(blobs[0][0] or b"") if blobs else 0
    for blob, check in blobs:
        if not isinstance(blob, bytes) or not blob or len(blob) != size or zlib.crc32(blob) != check:
            raise LedgerDamaged("a stored vector is not what was written; restore umi.db from a copy")
    joined = b"".join([blob for blob, _ in blobs])
    return np.frombuffer(joined, dtype="<f4").reshape(len(blobs), size // 4).astype(np.float32, copy=False)
