"""A framework's record (text, metadata, id) as a chunk, and its metadata back: what both adapters share.

A chunk's metadata is flat. A value that is not keeps its JSON under `NESTED_KEY`, where no filter sees it, and comes
back whole. Datetimes and dates become ISO strings, numpy values, enums, paths and UUIDs what they stand for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from umi_common.errors import InvalidChunk, InvalidVector
from umi_common.types import Chunk, as_utc

NESTED_KEY = "_umi_json"
"""Metadata key for the JSON of everything that is not flat."""
ID_CHARACTERS = 32
POSITION_END = 2**62
"""Chunks take no position from here on."""
PAGE = 5_000
"""Rows asked of Chroma at once; it refuses more than 5,461."""
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ])")
EPOCH_SECONDS = range(10**8, 10**11)
"""Numbers that are read as seconds since 1970, from 1973 on: smaller ones are offsets into a recording."""


@dataclass(frozen=True, slots=True)
class PlaceKeys:
    """Which metadata keys hold a text's place in the world; None: none does.

    The values stay in the metadata as well. One that cannot be read as what its key promises is metadata only.
    """

    source: str | None = "source"
    """What the text was cut from; a string or a number."""
    position: str | None = "position"
    """Its order there; a whole number."""
    time: str | None = "timestamp"
    """When it happened: a datetime, a date, the ISO string of either (UTC without a zone), or seconds since 1970."""


def to_chunk(
    text: str,
    metadata: Mapping[str, Any],
    *,
    id: str | None = None,
    keys: PlaceKeys = PlaceKeys(),
    source: str | None = None,
    position: int | None = None,
) -> Chunk:
    """The chunk of a record.

    Args:
        text: Not blank.
        metadata: Anything JSON can say, and what the module's docstring lists.
        id: None: a hash of text and metadata, so the same record gets the same id in every run.
        keys: Where source, position and time stand in the metadata.
        source: What to take where the metadata names none.
        position: Likewise; without a source it is dropped.

    Raises:
        InvalidChunk: Names what cannot be stored and the fix.
    """
    plain = plain_metadata(metadata)
    stated = _source(plain.get(keys.source)) if keys.source is not None else None
    source = source if stated is None else stated
    placed = plain.get(keys.position) if keys.position is not None else None
    if isinstance(placed, int) and not isinstance(placed, bool):
        position = placed
    if source is None or (position is not None and abs(position) >= POSITION_END):
        position = None
    return Chunk(
        content_id(text, plain) if id is None else id,
        text,
        metadata=_flat(plain),
        source=source,
        position=position,
        event_time=None if keys.time is None else read_time(metadata.get(keys.time), f"metadata[{keys.time!r}]"),
    )


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in JSON's own types.

    Raises:
        InvalidChunk: Names the key whose value has no such form.
    """
    return {key: _plain(value, f"metadata[{key!r}]") for key, value in metadata.items()}


def to_metadata(chunk: Chunk, keys: PlaceKeys = PlaceKeys()) -> dict[str, Any]:
    """A fresh, mutable copy of a chunk's metadata as the record had it; tuples are lists.

    Source and time that a chunk was given without metadata appear under their keys.
    """
    metadata = {key: list(value) if isinstance(value, tuple) else value for key, value in chunk.metadata.items()}
    nested = metadata.pop(NESTED_KEY, None)
    if isinstance(nested, str):
        metadata.update(json.loads(nested))
    if keys.source is not None and chunk.source is not None:
        metadata.setdefault(keys.source, chunk.source)
    if keys.time is not None and chunk.event_time is not None:
        metadata.setdefault(keys.time, chunk.event_time.isoformat())
    return metadata


def content_id(text: str, plain: Mapping[str, Any]) -> str:
    """A stable id from what a record says: 32 hexadecimal digits of SHA-256."""
    said = json.dumps([text, plain], sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:ID_CHARACTERS]


def read_time(value: object, what: str = "time") -> datetime | None:
    """`value` as a moment in UTC; None if it does not read as one.

    Raises:
        InvalidChunk: For a datetime without a zone; its meaning would be a guess.
    """
    if isinstance(value, datetime):
        return as_utc(value, what, InvalidChunk)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    if isinstance(value, str) and ISO_DATE.match(value):
        try:
            moment = datetime.fromisoformat(value.removesuffix("Z") + ("+00:00" if value.endswith("Z") else ""))
            return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, (int, float, np.number)) and EPOCH_SECONDS.start <= value < EPOCH_SECONDS.stop:
        return datetime.fromtimestamp(float(value), timezone.utc)
    return None


def _source(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        return None
    return str(value)


def _plain(value: Any, what: str) -> Any:
    """`value` in JSON's own types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, what)
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist(), what)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (UUID, PurePath)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item, what) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{what}[{key!r}]") for key, item in value.items()}
    raise InvalidChunk(
        f"{what} is {value!r:.80} ({type(value).__name__}); expected what JSON can say, dates, numpy values, enums, "
        "paths or UUIDs; convert it or leave it out"
    )


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: value for key, value in plain.items() if not _is_flat(value) or key == NESTED_KEY}
    flat = {key: value for key, value in plain.items() if key not in nested}
    return {**flat, NESTED_KEY: json.dumps(nested, ensure_ascii=False)} if nested else flat


def _is_flat(value: object) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, (list, dict)) for item in value)
    return not isinstance(value, dict)


class Page(NamedTuple):
    """Up to `PAGE` rows of a Chroma collection, aligned."""

    ids: list[str]
    texts: list[str | None]
    metadatas: list[dict[str, Any]]
    vectors: Any
    """(n, dim)."""


def collection_pages(collection: Any) -> Iterator[Page]:
    """All of a Chroma collection, in its order, with its vectors: nothing needs to be embedded again.

    Raises:
        InvalidVector: If a row has no vector.
    """
    for offset in range(0, collection.count(), PAGE):
        rows = collection.get(limit=PAGE, offset=offset, include=["documents", "metadatas", "embeddings"])
        ids, vectors = rows["ids"], rows["embeddings"]
        if vectors is None or len(vectors) != len(ids):
            raise InvalidVector(f"collection {collection.name!r} holds rows without vectors; add its texts instead")
        yield Page(ids, rows["documents"], [{} if found is None else found for found in rows["metadatas"]], vectors)
