"""Copy a Chroma collection, with its vectors, into another store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import numpy as np

from umi_common.errors import InvalidChunk, InvalidVector
from umi_common.frameworks.records import IDS_NAMED, METADATA_ALONE, position_in_metadata, source_in_metadata, to_chunk
from umi_common.pool import Vectors
from umi_common.stores.chroma.collection import SAMPLES, ChromaCollection, Record, records_of, refuse_other_model
from umi_common.stores.chroma.records import chunk_of_record, is_text
from umi_common.stores.document_embedder import progress
from umi_common.times import read_time
from umi_common.types import Chunk

log = logging.getLogger("umi")

IMPORT_SECONDS = 120.0
"""Time limit for a server's answer with the records of one call and their vectors, in seconds."""
PRIVATE = frozenset({"_node_content", "_node_type"})
"""Metadata keys of LlamaIndex's copy of a node; they are not imported."""
ImportKeys = Sequence[Sequence[str]]
"""Three lists of metadata keys: for a chunk's source, its position and its time. Of each list, the first key that a
record has is read."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    chunks: int
    skipped: tuple[str, ...]
    """Ids of records without a text, which are not copied."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences in ids and texts between a collection and the store into which it was copied; false if there are
    none. Metadata and vectors are not compared."""

    missing: tuple[str, ...]
    """Ids that only the collection has. Records without a text are left out, as in an import (`Imported.skipped`)."""
    extra: tuple[str, ...]
    """Ids that only the store has."""
    changed: tuple[str, ...]
    """Ids whose text differs between the collection and the store."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)


def import_collection(store: Any, collection: Any, keys: ImportKeys, *, show_progress: bool) -> Imported:
    """See `HybridStore.import_collection`."""
    skipped: list[str] = []
    with closing(ChromaCollection(collection, IMPORT_SECONDS)) as theirs:
        total, name = theirs.count(), theirs.name
    with progress(total, show_progress) as advance:

        def pages() -> Iterator[tuple[list[Chunk], Vectors]]:
            for records, vectors in pages_with_text(collection, skipped):
                yield [chunk_of_record(record, partial(_read, keys)) for record in records], vectors
                advance(len(records))

        count = add_with_vectors(store, name, pages())
        advance(len(skipped))
    return Imported(count, tuple(skipped))


def drift(store: Any, collection: Any) -> Drift:
    """See `HybridStore.drift`."""
    here, there, changed = set(store.ids()), set[str](), list[str]()
    with closing(ChromaCollection(collection, IMPORT_SECONDS)) as theirs:
        for ids in theirs.pages_of_ids():
            for some in theirs.batches(ids):
                records = theirs.records(some)
                there.update(id for id, record in records.items() if id in here or is_text(record))
                pairs = zip(some, store.get(some), strict=True)
                changed += [id for id, chunk in pairs if chunk and id in records and chunk.text != records[id].text]
    return Drift(tuple(sorted(there - here)), tuple(sorted(here - there)), tuple(sorted(changed)))


def _read(keys: ImportKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record with a text. Its source and position are read as in `to_chunk`; "" counts as no value."""
    values = {key: value for key, value in metadata.items() if key not in PRIVATE}

    def first_of(names: Sequence[str]) -> Any:
        return next((values[name] for name in names if values.get(name) not in (None, "")), None)

    source, position, when = map(first_of, keys)
    return replace(
        to_chunk(text, values, id=id, keys=METADATA_ALONE),
        source=None if source == "None" else source_in_metadata(source),  # "None": LlamaIndex's node without a document
        position=position_in_metadata(position),
        event_time=None if when is None else _moment(id, when),
    )


def _moment(id: str, value: Any) -> datetime:
    """A time as `read_time` reads it. A number that `read_time` refuses, such as 5, counts as seconds since 1970."""
    moment = read_time(value)
    if moment is None and isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError, OSError):
            moment = datetime.fromtimestamp(value, tz=timezone.utc)
    if moment is None:
        raise InvalidChunk(
            f"chunk {id!r}: time {value!r:.80} does not read as one moment (it is no time, or can be read as two, as "
            "3/4/2026 can); expected ISO 8601 or seconds since 1970"
        )
    return moment


def add_with_vectors(store: Any, name: str, pages: Iterable[tuple[Sequence[Chunk], Any]]) -> int:
    """Add chunks with their vectors from another vector store; SAMPLES chunks are embedded to check the model.

    Args:
        store: A `HybridStore`.
        name: Name of the other vector store.
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
    """The records of a Chroma collection that have a text, with their vectors (n, dim), a batch at a time.

    Args:
        skipped: A list to which the ids of the records without a text are added; None: a warning of the logger `umi`
            states their number and names the first IDS_NAMED.

    Raises:
        StoreUnavailable: If the collection cannot be read.
        InvalidVector: If a record has no vector.
    """
    without_text: list[str] = [] if skipped is None else skipped
    with closing(ChromaCollection(collection, IMPORT_SECONDS)) as theirs:
        for ids in (some for page in theirs.pages_of_ids() for some in theirs.batches(page)):
            got = theirs.call("get", ids=ids, include=["documents", "metadatas", "embeddings"])
            stored = got["embeddings"]
            if stored is None or len(stored) != len(got["ids"]):
                raise InvalidVector(
                    f"collection {theirs.name!r} holds records without vectors; pass its texts to the store's add "
                    "without vectors, which embeds them"
                )
            records, vectors = records_of(got), dict(zip(got["ids"], stored, strict=True))
            there = [id for id in ids if id in records]  # in the order of `ids`, which Chroma does not keep
            filled = [id for id in there if is_text(records[id])]
            without_text += [id for id in there if not is_text(records[id])]
            if filled:
                yield [records[id] for id in filled], np.array([vectors[id] for id in filled], np.float32)
    if skipped is None and without_text:
        named = ", ".join(without_text[:IDS_NAMED])
        log.warning("%d rows of the collection without text are left out: %s", len(without_text), named)
