"""Convert a chunk to a record of a Chroma collection, and a record to a chunk.

The chunk's text is the record's document. Metadata that Chroma can hold is the record's metadata. The rest is JSON
under the key `_umi`, which a record has only if it is needed: metadata that Chroma cannot hold (None, mixed lists, some
keys), the search text, and source, position and time unless the record's metadata gives the same values. Floats are in
the metadata and under `_umi`, because a server may lose their last bit. If another program later changes the text or
the metadata, its values replace the older ones under `_umi`, and a float that it removes is gone. So `_umi` also has a
digest of the text if it has a search text, and, under `instead_of`, the source, position and time that the metadata
gave when umi wrote the record. Older versions did not write `instead_of`; then the values under `_umi` count.
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
        place, instead_of = _place_fields(more), _place_fields(more.get("instead_of", {}))
        same_text = "text_digest" not in more or more["text_digest"] == text_digest(text)
        search_text = {"search_text": more.get("search_text")} if same_text else {}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidChunk(f"record {record.id!r:.80}: {KEY} is {own!r:.80}; expected JSON that umi wrote") from error
    chunk = read(record.id, text, stated | added)
    for name, given in instead_of.items():
        if getattr(chunk, name) != given:  # another program has changed the metadata
            place.pop(name, None)
    metadata = {**chunk.metadata, **added}
    return replace(chunk, id=record.id, text=text, metadata=metadata, **place, **search_text)


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
    as_read = chunk_of_record(Record(chunk.id, chunk.text, {**stated, KEY: json.dumps(more)}), read)
    own, given = _place(chunk), _place(as_read)
    if differing := [name for name in own if own[name] != given[name]]:
        more |= {name: own[name] for name in differing}
        more["instead_of"] = {name: given[name] for name in differing}
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


def _place(chunk: Chunk) -> dict[str, Any]:
    """Source, position and time (microseconds since 1970) of a chunk, as they are under `_umi`."""
    time = None if chunk.event_time is None else microseconds(chunk.event_time)
    return {"source": chunk.source, "position": chunk.position, "time": time}


def _place_fields(own: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a chunk for those of source, position and time that are in `own`, see `_place`."""
    fields = {name: own[name] for name in ("source", "position") if name in own}
    if "time" in own:
        fields["event_time"] = None if own["time"] is None else from_microseconds(own["time"])
    return fields


def _added(more: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata under `_umi`, without the keys that another program has changed or removed in the record.

    A float that Chroma can hold was also in the record's metadata, so it was removed if it is missing there.
    """
    floats = {key: value for key, value in more.items() if key != KEY and isinstance(value, float)}
    held = {key: value for key, value in more.items() if key not in stated or same_float(value, stated[key])}
    for key in (chroma_metadata(floats) or {}).keys() - stated.keys():
        del held[key]
    return {key: tuple(value) if isinstance(value, list) else value for key, value in held.items()}
