"""A chunk as a record of a Chroma collection and back.

The text is the document. Metadata that Chroma holds is its metadata. The rest is JSON under the key `_umi`, which a
record has only if it is needed: metadata that Chroma cannot hold (None, mixed lists, some keys), and source, position
and time where the record's metadata does not say the same. Fractions are in both: a server may lose their last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isclose
from typing import Any

from umi_common.filters import chroma_metadata
from umi_common.framework_records import PlaceKeys, to_chunk
from umi_common.stores.chroma.collection import Record
from umi_common.types import Chunk, from_microseconds, microseconds

KEY = "_umi"
"""Metadata key of what Chroma cannot hold."""
DIGEST_BYTES = 8

ReadRecord = Callable[[str, str, Mapping[str, Any]], Chunk]
"""From id, text and metadata of a record to its chunk; raises InvalidChunk if it cannot be one."""


def reader(keys: PlaceKeys) -> ReadRecord:
    """Reads records whose metadata names source, position and time by these keys."""
    return partial(_read, keys)


def _read(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    return to_chunk(text, metadata, id=id, keys=keys)


def is_text(record: Record) -> bool:
    """Whether the record has a text that can be searched."""
    return isinstance(record.text, str) and bool(record.text.strip())


def chunk_of_record(record: Record, read: ReadRecord) -> Chunk:
    """The chunk of a record with a text.

    Raises:
        InvalidChunk: If its metadata cannot be read.
    """
    stated = {key: value for key, value in record.metadata.items() if key != KEY}
    chunk = read(record.id, record.text or "", stated)
    own = record.metadata.get(KEY)
    if own is None:
        return chunk if chunk.id == record.id else replace(chunk, id=record.id)
    more = json.loads(own)
    time = more["time"]
    return Chunk(
        record.id,
        record.text or "",
        metadata={**chunk.metadata, **_exact(more["metadata"], stated)},
        source=more["source"],
        position=more["position"],
        event_time=None if time is None else from_microseconds(time),
        search_text=more.get("search_text"),
    )


def metadata_of_record(chunk: Chunk, read: ReadRecord) -> dict[str, Any]:
    """The metadata of a chunk's record, from which `chunk_of_record` makes an equal chunk."""
    held = chroma_metadata(chunk.metadata) or {}
    stated: dict[str, Any] = {key: value for key, value in held.items() if key != KEY}
    by_order = chunk.source is not None and chunk.position is None  # else umi would give it the next position
    exact = not by_order and not any(isinstance(value, float) for value in stated.values())
    if exact and chunk_of_record(Record(chunk.id, chunk.text, stated), read) == chunk:
        return stated
    more: dict[str, Any] = {
        "metadata": {
            key: value for key, value in chunk.metadata.items() if key not in stated or isinstance(value, float)
        },
        "source": chunk.source,
        "position": chunk.position,
        "time": None if chunk.event_time is None else microseconds(chunk.event_time),
    }
    if chunk.search_text is not None:
        more["search_text"] = chunk.search_text
    return {**stated, KEY: json.dumps(more)}


def record_digest(record: Record) -> int:
    """63 bits of BLAKE2b over text and metadata; another one for a changed record."""
    whole = json.dumps([record.text, record.metadata], sort_keys=True, default=str)
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=DIGEST_BYTES).digest(), "little") >> 1


def _exact(more: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The values under `_umi`; not those of fractions that the collection holds by now with another value."""
    return {
        key: _value(value)
        for key, value in more.items()
        if key not in stated or (isinstance(stated[key], (int, float)) and isclose(stated[key], value))
    }


def _value(value: Any) -> Any:
    return tuple(_value(item) for item in value) if isinstance(value, list) else value
