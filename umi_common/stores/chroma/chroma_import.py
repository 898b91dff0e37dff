"""Copy a Chroma collection, with its vectors, into another store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from umi_common.errors import InvalidChunk, StoreError
from umi_common.framework_records import iso_time
from umi_common.pool import Vectors
from umi_common.stores.batch_checks import progress
from umi_common.stores.chroma.collection import SAMPLES, refuse_other_model
from umi_common.types import Chunk

if TYPE_CHECKING:
    from umi_common.stores.embedded.core import Core

ROWS_AT_ONCE = 1_000
PRIVATE = frozenset({"_node_content", "_node_type"})
"""Metadata keys of LlamaIndex's copy of a node, which is left out."""


@dataclass(frozen=True, slots=True)
class CollectionKeys:
    """Metadata keys of a chunk's source, position and time; of several, the first that a record has is read."""

    source: Sequence[str]
    position: Sequence[str]
    time: Sequence[str]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    chunks: int
    skipped: tuple[str, ...]
    """Ids of records without a text, which are not copied."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a collection differs from the store into which it was copied; true if it does."""

    missing: tuple[str, ...]
    """Ids that only the collection has."""
    extra: tuple[str, ...]
    """Ids that only the store has."""
    changed: tuple[str, ...]
    """Ids with another text."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)


def import_collection(core: Core, collection: Any, keys: CollectionKeys, *, show_progress: bool) -> Imported:
    """See `HybridStore.import_collection`."""
    core.ready_to_write()
    collection = getattr(collection, "_collection", collection)
    count, skipped = 0, []
    with progress(collection.count(), show_progress) as advance:
        for ids, texts, metadata, vectors in _batches(collection):
            kept = [at for at, text in enumerate(texts) if isinstance(text, str) and text.strip()]
            skipped += [id for id, text in zip(ids, texts, strict=True) if not (isinstance(text, str) and text.strip())]
            chunks = [chunk_of(ids[at], texts[at], metadata[at], keys) for at in kept]
            if chunks and not count:
                refuse_other_model(
                    getattr(collection, "name", ""),
                    chunks[:SAMPLES],
                    vectors[kept[:SAMPLES]],
                    core.embedder,
                    "open the store with the embedder that made them, or add the texts with store.add()",
                )
            core.add(chunks, vectors[kept], show_progress=False)
            count += len(chunks)
            advance(len(ids))
    return Imported(count, tuple(skipped))


def drift(core: Core, collection: Any) -> Drift:
    """See `HybridStore.drift`."""
    core.ready()
    collection = getattr(collection, "_collection", collection)
    here = set(core.ids())
    there: set[str] = set()
    changed: list[str] = []
    for ids, texts, _, _ in _batches(collection, vectors=False):
        there.update(ids)
        stored = core.get(ids)
        changed += [id for id, text, chunk in zip(ids, texts, stored, strict=True) if chunk and chunk.text != text]
    return Drift(tuple(sorted(there - here)), tuple(sorted(here - there)), tuple(sorted(changed)))


def chunk_of(id: str, text: str, metadata: Mapping[str, Any] | None, keys: CollectionKeys) -> Chunk:
    """The chunk of a record.

    Raises:
        InvalidChunk: If a position or a time cannot be read; names the chunk and the key.
    """
    values = {key: value for key, value in (metadata or {}).items() if key not in PRIVATE}
    source = _first(values, keys.source)
    position = _first(values, keys.position)
    when = _first(values, keys.time)
    if isinstance(position, float) and position.is_integer():
        position = int(position)
    if position is not None and (isinstance(position, bool) or not isinstance(position, int)):
        position = None  # "page" may be "iv"
    return Chunk(
        id,
        text,
        metadata=values,
        source=None if source in (None, "None") else str(source),
        position=position,
        event_time=None if when is None else _moment(id, when),
    )


def _first(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _moment(id: str, value: Any) -> datetime:
    """ISO text or seconds since 1970; without a zone it is UTC, as Chroma's users store it."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, tz=timezone.utc)
        return iso_time(str(value))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidChunk(f"chunk {id!r}: time {value!r:.80} is neither ISO 8601 nor seconds since 1970") from error


def _batches(
    collection: Any, *, vectors: bool = True
) -> Iterator[tuple[list[str], list[Any], list[Mapping[str, Any] | None], Vectors]]:
    """(ids, texts, metadata, vectors) of the whole collection, aligned."""
    include = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
    try:
        ids = sorted(collection.get(include=[])["ids"])
        for start in range(0, len(ids), ROWS_AT_ONCE):
            got = collection.get(ids=ids[start : start + ROWS_AT_ONCE], include=include)
            matrix = np.asarray(got["embeddings"], dtype=np.float32) if vectors else np.zeros((0, 0), np.float32)
            yield got["ids"], got["documents"], got["metadatas"], matrix
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the collection cannot be read as a Chroma collection: {error}") from error
