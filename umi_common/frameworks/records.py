"""Convert records (text, metadata, id) of a framework or a database to chunks and back.

A chunk's metadata is flat. Nested values are kept as JSON under `NESTED_KEY`, with `NESTED` in their place, and
`to_metadata` restores them. `types.plain_value` converts other values; arrays and sets become lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isclose
from typing import Any

import numpy as np

from umi_common.errors import InvalidChunk
from umi_common.runtime.losses import warn_once
from umi_common.times import read_time
from umi_common.types import Chunk, plain_value

NESTED_KEY = "_umi_json"
"""Metadata key for the JSON of all nested values."""
NESTED = ["umi_nested"]
"""Value in place of a nested value, so that filters see a value that is not None."""
POSITION_END = 2**62
"""Positions from this size on are dropped: a chunk cannot hold them."""
IDS_KEY = "umi_ids"
"""Metadata key of the ids of the chunks that were joined into one text, in reading order."""
IDS_NAMED = 20
"""Largest number of ids in one warning."""
OFFSET_END = 10**7
"""A number below this under the key of the time may count milliseconds or seconds from the start of a recording. It is
not read as a time, and no warning is logged."""
UNREAD_TIME = (
    "metadata[%r] is %.60r, which does not read as one moment: the text has no time, so time ranges leave it out and "
    "decay does not change its score. Write ISO 8601, for example 2026-11-18T10:15:00Z. Logged once for this key."
)


@dataclass(frozen=True, slots=True)
class PlaceKeys:
    """The metadata keys of a text's source, position and time; None: there is no such key.

    The values also stay in the metadata. A value of another type than the field describes is metadata only.
    """

    source: str | None = "source"
    """Key of the source that the text was cut from, such as a file; its value is a string or a number."""
    position: str | None = "position"
    """Key of the text's position in its source; its value is a whole number that rises in reading order."""
    time: str | None = "timestamp"
    """Key of the time of the event that the text describes; its value is a datetime with a zone, a date, a text or a
    number that `times.read_time` can read. Any other value except a number below `OFFSET_END` is warned of."""


METADATA_ALONE = PlaceKeys(None, None, None)
"""No keys: `to_chunk` reads neither source, position nor time, and `to_metadata` adds none."""


def to_chunk(
    text: str,
    metadata: Mapping[str, Any],
    *,
    id: str | None = None,
    keys: PlaceKeys = PlaceKeys(),
    source: str | None = None,
    position: int | None = None,
    search_text: str | None = None,
) -> Chunk:
    """The chunk of a record; raises InvalidChunk, which names the value and the fix, if a value cannot be stored.

    Args:
        id: Id of the chunk; None: a hash of text and metadata, so that a record gets the same id in every run.
        source: The source if the metadata has none.
        position: The position if the metadata has none. It is dropped if the chunk has no source.
        search_text: The text that is indexed; None or blank: `text`.
    """
    plain: dict[Any, Any] = plain_metadata(metadata)  # under the key None there is nothing
    stated = source_in_metadata(plain.get(keys.source))
    source = source if stated is None else stated
    return Chunk(
        content_id(text, plain) if id is None else id,
        text,
        metadata=_flat(plain),
        source=source,
        position=None if source is None else position_in_metadata(plain.get(keys.position), position),
        event_time=time_in(metadata, keys.time),
        search_text=search_text if search_text != text and search_text and search_text.strip() else None,
    )


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the metadata in JSON's own types; raises InvalidChunk if JSON cannot hold a key or a value."""
    try:
        plain: dict[str, Any] = _plain(metadata, "metadata")
    except RecursionError as error:
        raise InvalidChunk("metadata holds itself, or is nested too deeply; flatten it or leave it out") from error
    return plain


def to_metadata(chunk: Chunk, keys: PlaceKeys = PlaceKeys()) -> dict[str, Any]:
    """A new dict of a chunk's metadata as the record had it; tuples become lists.

    The chunk's source and time are added under their keys, if the metadata lacks these keys.
    """
    metadata = {key: list(value) if isinstance(value, tuple) else value for key, value in chunk.metadata.items()}
    nested = nested_in(metadata.get(NESTED_KEY))
    if nested is not None:
        del metadata[NESTED_KEY]
        metadata.update(nested)
    if keys.source is not None and chunk.source is not None:
        metadata.setdefault(keys.source, chunk.source)
    if keys.time is not None and chunk.event_time is not None:
        metadata.setdefault(keys.time, chunk.event_time.isoformat())
    return metadata


def own_metadata(chunk: Chunk, keys: PlaceKeys = PlaceKeys()) -> dict[str, Any]:
    """`to_metadata` without keys that begin with "_", under which frameworks keep their own data."""
    return {key: value for key, value in to_metadata(chunk, keys).items() if not key.startswith("_")}


def nested_in(value: Any) -> dict[str, Any] | None:
    """The nested values in `value`, if it is JSON that this module has written under `NESTED_KEY`; else None."""
    try:
        nested = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return nested if isinstance(nested, dict) else None


def content_id(text: str, plain: Mapping[str, Any]) -> str:
    """A stable id of a record: 32 hexadecimal digits of SHA-256 over text and metadata."""
    record = json.dumps([text, plain], sort_keys=True, default=str)
    return hashlib.sha256(record.encode()).hexdigest()[:32]


def time_in(metadata: Mapping[str, Any], key: str | None) -> datetime | None:
    """The time under a key of a text's metadata; None: there is no value, or the value is NaN, NaT, "" or no time.

    If a value is no time, the logger `umi` warns once per key, unless the value is a number below `OFFSET_END`. A
    datetime without a zone raises InvalidChunk.
    """
    value = None if key is None else metadata.get(key)
    if plain_value(value) is None or (isinstance(value, str) and value == ""):
        return None
    moment = read_time(value, f"metadata[{key!r}]")
    if moment is None and not may_be_offset(value):
        warn_once("time", str(key), UNREAD_TIME, key, value)
    return moment


def may_be_offset(value: object) -> bool:
    """Whether a value may be a number of seconds or milliseconds from the start of a recording."""
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(value < OFFSET_END)


def source_in_metadata(value: object) -> str | None:
    """The source for a metadata value; None: the value is "" or NaN, or neither a string nor a number."""
    value = plain_value(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        return None
    return str(value)


def position_in_metadata(value: object, otherwise: int | None = None) -> int | None:
    """The position for a metadata value: `otherwise` if it is no whole number, None if it is too large for a chunk."""
    value = plain_value(value)
    if isinstance(value, float) and value.is_integer():  # pandas, of a column with gaps
        value = int(value)
    position = value if isinstance(value, int) and not isinstance(value, bool) else otherwise
    return None if position is None or abs(position) >= POSITION_END else position


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, np.ndarray):  # `tolist` makes ints of nanoseconds
        value = (value.astype("datetime64[us]") if value.dtype == "datetime64[ns]" else value).tolist()
    value = plain_value(value)
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, what) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(item, what) for item in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidChunk(f"{what} has the key {key!r:.80} ({type(key).__name__}); expected str")
        return {key: _plain(item, f"{what}[{key!r}]") for key, item in value.items()}
    raise InvalidChunk(
        f"{what} is {value!r:.80} ({type(value).__name__}); expected a value that JSON can hold, a date, a "
        "NumPy value, an enum, a path, a set, a Decimal or a UUID; convert it or leave it out"
    )


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    # A value that the record itself has under NESTED_KEY is also kept in the JSON, because the key is taken.
    nested = {key: value for key, value in plain.items() if _is_nested(value) or key == NESTED_KEY}
    flat = {key: NESTED if key in nested else value for key, value in plain.items()}
    return {**flat, NESTED_KEY: json.dumps(nested, ensure_ascii=False)} if nested else flat


def _is_nested(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, (list, dict)) for item in items)


def chroma_collection(vector_store: Any, kind: str) -> Any:
    """The collection of a framework's vector store over Chroma, of the class named `kind`; None: of another class.

    The class is recognised by its name, because its package may not be installed. The attribute `_collection` is not
    enough: vector stores of other databases have it, too.
    """
    of_chroma = any(each.__name__ == kind for each in type(vector_store).__mro__)
    return getattr(vector_store, "_collection", None) if of_chroma else None


def same_float(value: object, stored: object) -> bool:
    """Whether `value` is a float that equals `stored` up to the last bits, which a Chroma server may round."""
    if not isinstance(value, float) or isinstance(stored, bool) or not isinstance(stored, (int, float)):
        return False
    return isclose(value, stored, rel_tol=1e-15)
