"""Turns chunks into rows of the ledger, and rows into chunks; a row with a wrong digest raises LedgerDamaged."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from operator import ne
from typing import NamedTuple

import numpy as np

from umi_common.errors import LedgerDamaged
from umi_common.pool import Vectors
from umi_common.stores.batch_checks import FIELDS
from umi_common.types import Chunk, Metadata, ReadOnlyDict, from_microseconds, microseconds

DIGEST_BYTES = 16
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_of_json = json.JSONDecoder().raw_decode
"""Returns (value, end of its JSON). It is faster than `decode`, which also checks that only white space follows."""


class Head(NamedTuple):
    """A chunk's sequence number, and its fields except texts and metadata."""

    seq: int
    id: str
    source: str | None
    position: int | None
    event_time: int | None
    """Microseconds since 1970, UTC."""


class Entry(NamedTuple):
    """A chunk as the ledger stores it, without its vector."""

    id: str
    source: str | None
    position: int | None
    event_time: int | None
    head_checksum: int
    """CRC-32 of the fields above, for a column of the table. It is never compared: `digest` covers the same fields."""
    digest: bytes
    """BLAKE2b of all fields of the chunk; `checked` compares it."""
    text: str
    metadata: str
    """JSON."""
    search_text: str | None = None

    @property
    def indexed_text(self) -> str:
        """`search_text`, or `text` if `search_text` is None."""
        return self.text if self.search_text is None else self.search_text


def encode(chunks: Sequence[Chunk]) -> list[Entry]:
    """The row of each chunk, in the order of `chunks`."""
    return [_encoded(chunk) for chunk in chunks]


def _encoded(chunk: Chunk) -> Entry:
    id, source, position, text, search_text = chunk.id, chunk.source, chunk.position, chunk.text, chunk.search_text
    time = None if chunk.event_time is None else microseconds(chunk.event_time)
    metadata, head = _as_json(dict(chunk.metadata)), _head_text(id, source, position, time)
    checksum, digest = zlib.crc32(head.encode()), _digest(head, text, metadata, search_text)
    return Entry(id, source, position, time, checksum, digest, text, metadata, search_text)


def checked(entry: Entry) -> Entry:
    """The row itself. Raises LedgerDamaged if the row is not what was written."""
    id, source, position, time, _, digest, text, metadata, search_text = entry
    strings = isinstance(text, str) and isinstance(metadata, str) and isinstance(search_text, (str, type(None)))
    if not strings or digest != _digest(_head_text(id, source, position, time), text, metadata, search_text):
        raise LedgerDamaged(f"chunk {id!r:.80} is not what was stored; restore umi.db from a copy")
    return entry


def decode(entry: Entry) -> Chunk:
    """The chunk that a row holds. Raises LedgerDamaged if the row is not what was written."""
    id, source, position, time, _, _, text, metadata, search_text = checked(entry)
    event_time = None if time is None else from_microseconds(time)
    values = (id, text, decode_metadata(metadata), source, position, event_time, search_text)
    # `Chunk.__init__` would check the fields again, which takes 10 us. They were checked before they were stored.
    chunk = object.__new__(Chunk)
    for name, value in zip(FIELDS, values, strict=True):
        object.__setattr__(chunk, name, value)
    return chunk


def same_content(stored: Entry, other: Entry) -> bool:
    """Whether `stored` is intact and holds the same chunk as `other`; the order of metadata keys does not matter."""
    try:
        return _comparable(checked(stored)) == _comparable(other)
    except LedgerDamaged:
        return False


def _comparable(entry: Entry) -> Entry:
    """The row with its metadata sorted by key, and with an empty digest, since the digest depends on their order."""
    values, _ = _of_json(entry.metadata)
    return entry._replace(digest=b"", metadata=_as_json(dict(sorted(values.items()))))


def decode_metadata(text: str) -> Metadata:
    """Metadata from its JSON; lists become tuples."""
    values, _ = _of_json(text)
    if "[" in text:  # else no value is a list
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return ReadOnlyDict(values)


def _digest(head: str, text: str, metadata: str, search_text: str | None) -> bytes:
    """BLAKE2b of all fields of a chunk. It depends on the order of the keys of the metadata."""
    whole = f"{len(head.encode())}\0{head}{len(text)}\0{text}{metadata}"
    if search_text is not None:  # the metadata ends at the NUL, because JSON holds none
        whole += f"\0{search_text}"
    return hashlib.blake2b(whole.encode(), digest_size=DIGEST_BYTES).digest()


def _head_text(id: str, source: str | None, position: int | None, event_time: int | None) -> str:
    """The fields of a chunk except texts and metadata as one text, which differs for None, "" and "None"."""
    id, stated = str(id), "" if source is None else f"={source}"  # str: a damaged id may be of any type
    return f"{len(id)}\0{id}{len(stated)}\0{stated}{position}\0{event_time}"


def encode_vectors(vectors: Vectors) -> Iterator[tuple[memoryview, int]]:
    """Yield (little-endian bytes, their CRC-32) for each row of an (n, dim) float32 array. The bytes are not copied."""
    for vector in np.ascontiguousarray(vectors, dtype="<f4"):
        blob = vector.data.cast("B")
        yield blob, zlib.crc32(blob)


def decode_vectors(blobs: list[tuple[bytes, int]]) -> Vectors:
    """(n, dim) float32 from n >= 1 pairs (bytes, CRC-32). Raises LedgerDamaged if bytes are not what was written."""
    stored, checksums = zip(*blobs, strict=True)
    size = len(stored[0]) if isinstance(stored[0], bytes) else 0
    of_one_size = size > 0 and set(map(type, stored)) == {bytes} and set(map(len, stored)) == {size}
    if not of_one_size or size % 4 or any(map(ne, map(zlib.crc32, stored), checksums)):
        raise LedgerDamaged("a stored vector is not what was written; restore umi.db from a copy")
    return np.frombuffer(b"".join(stored), dtype="<f4").reshape(len(stored), size // 4).astype(np.float32, copy=False)
