"""Convert a chunk to a record of a Chroma collection, and a record to a chunk.

The chunk's text is the record's document. Metadata that Chroma can hold is the record's metadata. The rest is JSON
under the key `_umi`, which a record has only if it is needed: metadata that Chroma cannot hold (None, mixed lists, some
keys), the search text, and source, position and time unless the record's metadata gives the same values. Floats are in
the metadata and under `_umi`, because a server may lose their last bit. If another program later changes the text or
the metadata, its values replace the older ones under `_umi`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from umi_common.errors import InvalidChunk
from umi_common.filters import chroma_metadata
from umi_common.frameworks.records import NESTED_KEY, PlaceKeys, nested_in, same_float, to_chunk
from umi_common.stores.chroma.collection import Record
from umi_common.types import Chunk, from_microseconds, microseconds

KEY = "_umi"
"""Metadata key of the JSON with the values that Chroma cannot hold."""

ReadRecord = Callable[[str, str, Mapping[str, Any]], Chunk]
"""Makes a chunk of a record's id, text and metadata; raises InvalidChunk if they cannot be a chunk."""


def reader(keys: PlaceKeys) -> ReadRecord:
    """A function that makes a chunk of a record, with source, position and time from the metadata under `keys`."""
    return partial(_read, keys)


def _read(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    return to_chunk(text, metadata, id=id, keys=keys)


def reader_name(read: ReadRecord) -> str:
    """Module and name of the function, and the arguments of a `partial`. A saved index is used only if it was made with
    a function of the same name."""
    function = getattr(read, "func", read)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}.{name}{getattr(read, 'args', ())!r}{getattr(read, 'keywords', {})!r}"


def is_text(record: Record) -> bool:
    """Whether the record has a text that can be searched."""
    return isinstance(record.text, str) and bool(record.text.strip())


def chunk_of_record(record: Record, read: ReadRecord) -> Chunk:
    """The chunk of a record with a text. Raises InvalidChunk if the record's metadata cannot be read."""
    stated = _unnested({key: value for key, value in record.metadata.items() if key != KEY})
    own, text = record.metadata.get(KEY), record.text or ""
    if own is None:
        chunk = read(record.id, text, stated)
        return chunk if chunk.id == record.id else replace(chunk, id=record.id)
    try:
        more = json.loads(own)
        added = _added(more["metadata"], stated)
        fields = {name: more[name] for name in ("source", "position") if name in more}
        if "time" in more:
            fields["event_time"] = None if more["time"] is None else from_microseconds(more["time"])
        if "text_digest" not in more or more["text_digest"] == text_digest(text):
            fields["search_text"] = more.get("search_text")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidChunk(f"record {record.id!r:.80}: {KEY} is {own!r:.80}; expected JSON that umi wrote") from error
    chunk = read(record.id, text, stated | added)
    return replace(chunk, id=record.id, text=text, metadata={**chunk.metadata, **added}, **fields)


def readable_chunk(record: Record | None, read: ReadRecord) -> Chunk | None:
    """The chunk of a record; None: there is no record, or it has no text, or its metadata cannot be read."""
    try:
        return chunk_of_record(record, read) if record is not None and is_text(record) else None
    except InvalidChunk:
        return None


def copied_chunk(record: Record, chunk: Chunk, read: ReadRecord) -> Chunk:
    """`chunk_of_record` if the record has KEY, else `chunk`, which an adapter made of the record."""
    return chunk_of_record(record, read) if KEY in record.metadata else chunk


def metadata_of_record(chunk: Chunk, read: ReadRecord) -> dict[str, Any]:
    """The metadata of a chunk's record, from which `chunk_of_record` makes an equal chunk."""
    held = chroma_metadata(chunk.metadata) or {}
    stated: dict[str, Any] = {key: value for key, value in held.items() if key != KEY}
    gets_position = chunk.source is not None and chunk.position is None  # `SideIndex` gives it one if it has no KEY
    exact = not gets_position and not any(isinstance(value, float) for value in stated.values())
    as_read = chunk_of_record(Record(chunk.id, chunk.text, stated), read)
    if exact and same_chunk(as_read, chunk):
        return stated
    metadata = {key: value for key, value in chunk.metadata.items() if key not in stated or isinstance(value, float)}
    more: dict[str, Any] = {"metadata": metadata}
    for name in ("source", "position"):
        if getattr(as_read, name) != getattr(chunk, name):
            more[name] = getattr(chunk, name)
    if as_read.event_time != chunk.event_time:
        more["time"] = None if chunk.event_time is None else microseconds(chunk.event_time)
    if chunk.search_text is not None:
        more |= {"search_text": chunk.search_text, "text_digest": text_digest(chunk.text)}
    return {**stated, KEY: json.dumps(more)}


def same_chunk(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks are equal, also in the types of their metadata: a filter distinguishes 1 from True."""
    return one == other and all(repr(value) == repr(other.metadata[key]) for key, value in one.metadata.items())


def text_digest(text: str) -> int:
    """63 bits of BLAKE2b over a text. It is stored with a search text, which is ignored if the text has changed."""
    return record_digest(Record("", text, {}))


def record_digest(record: Record) -> int:
    """63 bits of BLAKE2b over text and metadata; differs from the stored digest if the record has changed."""
    whole = json.dumps([record.text, record.metadata], sort_keys=True, default=str)
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=8).digest(), "little") >> 1


def _unnested(stated: dict[str, Any]) -> dict[str, Any]:
    """The metadata, with the nested values that an adapter wrote as JSON under NESTED_KEY in place of that key."""
    nested = nested_in(stated.get(NESTED_KEY))
    return stated if nested is None else nested | {key: stated[key] for key in stated if key != NESTED_KEY}


def _added(more: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata under `_umi`, without the keys that now have another value in the record."""
    held = {key: value for key, value in more.items() if key not in stated or same_float(value, stated[key])}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in held.items()}
