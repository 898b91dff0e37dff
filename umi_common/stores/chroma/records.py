"""Convert a chunk to a record of a Chroma collection, and a record to a chunk.

The text is the record's document, and metadata that Chroma can hold is its metadata. The rest is JSON under the key
`_umi`, which a record has only if it is needed:

    chunk     text "Fuel cells", metadata {"page": 7, "ratio": 0.1, "note": None}, source "a.pdf", search text "cells"
    record    document "Fuel cells", metadata {"page": 7, "ratio": 0.1, "_umi": ...}
    _umi      {"metadata": {"ratio": 0.1, "note": null}, "source": "a.pdf", "instead_of": {"source": null},
               "search_text": "cells", "text_digest": 123}

"metadata" holds what Chroma cannot hold (None, lists, some keys), and floats, because a server may lose their last bit.
Source, position and time are there if the record's metadata gives another value, which is then under "instead_of".

If another program changes the record, `chunk_of_record` ignores under `_umi`: a key that has another value in the
metadata, or whose float is gone from it; a source, position or time, if the metadata no longer gives the value under
"instead_of" (older versions did not write it); the search text, if the text has another digest.
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
    umi, text = record.metadata.get(KEY), record.text or ""
    if umi is None:
        chunk = read(record.id, text, stated)
        return chunk if chunk.id == record.id else replace(chunk, id=record.id)
    try:
        own = json.loads(umi)
        added = _added(own["metadata"], stated)
        place, instead_of = _place_fields(own), _place_fields(own.get("instead_of", {}))
        same_text = "text_digest" not in own or own["text_digest"] == text_digest(text)
        search_text = {"search_text": own.get("search_text")} if same_text else {}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidChunk(f"record {record.id!r:.80}: {KEY} is {umi!r:.80}; expected JSON that umi wrote") from error
    chunk = read(record.id, text, stated | added)
    kept = {key: each for key, each in place.items() if key not in instead_of or instead_of[key] == getattr(chunk, key)}
    return replace(chunk, id=record.id, text=text, metadata={**chunk.metadata, **added}, **kept, **search_text)


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
    added = {key: value for key, value in chunk.metadata.items() if key not in stated or isinstance(value, float)}
    needs_key = added or (chunk.source is not None and chunk.position is None)  # without KEY it would get a position
    if not needs_key and same_chunk(chunk_of_record(Record(chunk.id, chunk.text, stated), read), chunk):
        return stated
    own: dict[str, Any] = {"metadata": added}
    as_read = chunk_of_record(Record(chunk.id, chunk.text, {**stated, KEY: json.dumps(own)}), read)
    place, given = _place(chunk), _place(as_read)
    if differing := [name for name in place if place[name] != given[name]]:
        own |= {name: place[name] for name in differing}
        own["instead_of"] = {name: given[name] for name in differing}
    if chunk.search_text is not None:
        own |= {"search_text": chunk.search_text, "text_digest": text_digest(chunk.text)}
    return {**stated, KEY: json.dumps(own)}


def same_chunk(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks are equal, also in the types of their metadata: a filter distinguishes 1 from True."""
    return one == other and all(repr(value) == repr(other.metadata[key]) for key, value in one.metadata.items())


def text_digest(text: str) -> int:
    """63 bits of BLAKE2b over a text."""
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


def _added(own: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata under `_umi`, without the keys that another program has changed or removed in the record."""
    floats = {key: value for key, value in own.items() if key != KEY and isinstance(value, float)}
    were_stated = (chroma_metadata(floats) or {}).keys()
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in own.items()
        if (same_float(value, stated[key]) if key in stated else key not in were_stated)
    }
