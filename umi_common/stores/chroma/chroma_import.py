"""Copy a Chroma collection, with its vectors, into another store."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any

import numpy as np

from umi_common.errors import ConfigError, InvalidChunk, InvalidVector, StoreError
from umi_common.frameworks.records import IDS_NAMED, METADATA_ALONE, to_chunk
from umi_common.pool import Vectors
from umi_common.stores.chroma.collection import SAMPLES, Record, refuse_other_model
from umi_common.stores.chroma.records import chunk_of_record, is_text
from umi_common.stores.document_embedder import progress
from umi_common.times import read_time
from umi_common.types import Chunk

log = logging.getLogger("umi")

ROWS_AT_ONCE = 1_000
"""Records read in one call."""
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


def import_collection(store: Any, collection: Any, keys: CollectionKeys, *, show_progress: bool) -> Imported:
    """See `HybridStore.import_collection`."""
    collection = _collection_of(collection)
    skipped: list[str] = []
    with progress(collection.count(), show_progress) as advance:

        def pages() -> Iterator[tuple[list[Chunk], Vectors]]:
            for records, vectors in pages_with_text(collection, skipped):
                yield [chunk_of(record, keys) for record in records], vectors
                advance(len(records))

        count = add_with_vectors(store, getattr(collection, "name", ""), pages())
        advance(len(skipped))
    return Imported(count, tuple(skipped))


def drift(store: Any, collection: Any) -> Drift:
    """See `HybridStore.drift`."""
    collection, here = _collection_of(collection), set(store.ids())
    there: set[str] = set()
    changed: list[str] = []
    for records, _ in collection_pages(collection, vectors=False):
        ids = [record.id for record in records]
        there.update(ids)
        pairs = zip(records, store.get(ids), strict=True)
        changed += [record.id for record, chunk in pairs if chunk and chunk.text != record.text]
    return Drift(tuple(sorted(there - here)), tuple(sorted(here - there)), tuple(sorted(changed)))


def _collection_of(given: Any) -> Any:
    """The collection itself, or that of a vector store. Raises ConfigError for anything else."""
    collection = getattr(given, "_collection", given)
    if not all(callable(getattr(collection, name, None)) for name in ("count", "get")):
        raise ConfigError(
            f"collection is {type(given).__name__}; expected a Chroma collection, or the vector store of LangChain or "
            "LlamaIndex around one: client.get_collection(name)"
        )
    if inspect.iscoroutinefunction(collection.count):
        raise ConfigError("the collection is that of an AsyncHttpClient; expected one of an HttpClient to the server")
    return collection


def chunk_of(record: Record, keys: CollectionKeys) -> Chunk:
    """The chunk of a record with a text. A position that is no whole number, such as the page "iv", is left out.

    Raises:
        InvalidChunk: If the time cannot be read, or the record cannot be a chunk; names the chunk.
    """
    return chunk_of_record(record, partial(_read, keys))


def _read(keys: CollectionKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    values = {key: value for key, value in metadata.items() if key not in PRIVATE}
    source = _first(values, keys.source)
    position = _first(values, keys.position)
    when = _first(values, keys.time)
    if isinstance(position, float) and position.is_integer():
        position = int(position)
    if position is not None and (isinstance(position, bool) or not isinstance(position, int)):
        position = None
    return Chunk(
        id,
        text,
        metadata=to_chunk(text, values, id=id, keys=METADATA_ALONE).metadata,
        source=None if source in (None, "None") else str(source),  # "None": LlamaIndex's node without a document
        position=position,
        event_time=None if when is None else _moment(id, when),
    )


def _first(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _moment(id: str, value: Any) -> datetime:
    """A time as `read_time` reads it, or any number of seconds since 1970."""
    moment = read_time(value)
    if moment is None and isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError, OSError):
            moment = datetime.fromtimestamp(value, tz=timezone.utc)
    if moment is None:
        raise InvalidChunk(
            f"chunk {id!r}: time {value!r:.80} does not read as one moment; expected ISO 8601 or seconds since 1970"
        )
    return moment


def collection_pages(collection: Any, *, vectors: bool = True) -> Iterator[tuple[list[Record], Vectors]]:
    """All records of a collection in Chroma's order, with their vectors (n, dim), ROWS_AT_ONCE at a time.

    Args:
        vectors: False: vectors are not read, and are (0, 0).

    Raises:
        StoreError: If the collection cannot be read.
        InvalidVector: If a record has no vector.
    """
    include = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
    (ids,) = _columns(collection, [])
    for start in range(0, len(ids), ROWS_AT_ONCE):
        some = ids[start : start + ROWS_AT_ONCE]
        found, texts, metadatas, *stored = _columns(collection, include, ids=some)
        row_of = {id: row for row, id in enumerate(found)}
        rows = [row_of[id] for id in some if id in row_of]  # Chroma does not keep the order of the ids that it is given
        matrix = np.zeros((0, 0), np.float32)
        if vectors:
            if stored[0] is None or len(stored[0]) != len(found):
                raise InvalidVector(f"collection {collection.name!r} holds rows without vectors; add its texts instead")
            matrix = np.asarray(stored[0], dtype=np.float32)[rows]
        yield [Record(found[row], texts[row], dict(metadatas[row] or {})) for row in rows], matrix


def _columns(collection: Any, include: list[str], **arguments: Any) -> list[Any]:
    """The ids and these columns of the result of the collection's `get`."""
    try:
        got = collection.get(include=include, **arguments)
        return [got[name] for name in ("ids", *include)]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the collection cannot be read as a Chroma collection: {error}") from error


def add_with_vectors(store: Any, name: str, pages: Iterable[tuple[Sequence[Chunk], Any]]) -> int:
    """Add chunks with the vectors that another vector store has of them; a few are embedded, to check the model.

    Args:
        store: A `HybridStore`.
        name: Of the other vector store.
        pages: Chunks and their vectors (n, dim).

    Returns:
        The number of chunks.

    Raises:
        ReindexRequired: If another model than the store's made the vectors; nothing is added.
    """
    count = 0
    for chunks, vectors in pages:
        if chunks and not count:
            advice = "give the embedder that made them, or add the texts without vectors, which embeds them"
            refuse_other_model(name, chunks[:SAMPLES], np.asarray(vectors[:SAMPLES]), store.embedder, advice)
        store.add(chunks, vectors=vectors)
        count += len(chunks)
    return count


def pages_with_text(collection: Any, skipped: list[str] | None = None) -> Iterator[tuple[list[Record], Vectors]]:
    """`collection_pages` without the records that have no text.

    Args:
        skipped: Gets the ids of these records; None: a warning of the logger `umi` names them.
    """
    blank = [] if skipped is None else skipped
    for records, vectors in collection_pages(collection):
        filled = [at for at, record in enumerate(records) if is_text(record)]
        blank += [record.id for record in records if not is_text(record)]
        yield [records[at] for at in filled], vectors[filled]
    if blank and skipped is None:
        log.warning("%d rows of the collection without text are left out: %s", len(blank), ", ".join(blank[:IDS_NAMED]))
