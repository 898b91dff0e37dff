"""The store over a user's Chroma collection. The collection holds texts, metadata and vectors; umi adds an index."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.config import UmiConfig, check_settings
from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError, InputError, SearchUnavailable, StoreUnavailable
from umi_common.filters import Filter, Where, matches, parse_filter
from umi_common.frameworks.records import IDS_NAMED, PlaceKeys
from umi_common.pool import Pool, Vectors, unit_vectors
from umi_common.protocols import RecallRequest
from umi_common.stores.base import CollectionStore
from umi_common.stores.batch_checks import checked_directory, checked_ids
from umi_common.stores.chroma.collection import (
    MODEL_ADVICE,
    SAMPLES,
    ChromaCollection,
    Record,
    records_of,
    refuse_other_model,
)
from umi_common.stores.chroma.following import RECORDS_COMPARED, Follower
from umi_common.stores.chroma.recall import recall_pool, statistics
from umi_common.stores.chroma.records import (
    ReadRecord,
    metadata_of_record,
    readable_chunk,
    reader,
    reader_name,
    same_chunk,
)
from umi_common.stores.chroma.side_index import SideIndex
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.query_embedder import query_vectors
from umi_common.stores.rows.rows import DEAD_ROWS_MAX
from umi_common.stores.values import Listing, RecallTrace
from umi_common.types import Chunk, TimeRange

log = logging.getLogger("umi")

ROWS_MAX = 2**40
"""A number above the number of rows of any side index. The version of a chunk in `listing` is its row + ROWS_MAX * the
number of the side index, because each index numbers its rows from 0."""
WRITES_MAX = 3
"""Largest number of times that a record is written by one call, while other programs add metadata keys to it."""


@dataclass(frozen=True, slots=True)
class ChromaStatus:
    """Size and state of a store over a collection."""

    collection: str
    chunks: int
    """Number of indexed chunks."""
    skipped: tuple[str, ...]
    """Ids of records without a text or with unreadable metadata."""
    behind: int
    """Difference between the number of records in the collection and the number of indexed and skipped ones."""
    compared_seconds: float
    """Seconds since the index was last compared with records of the collection."""
    bound_seconds: float
    """Seconds after which a record that another program replaced is surely indexed, while searches are made."""
    dimension: int
    embedder: str
    analyzer: str
    """Fingerprint of the analyzer."""


class ChromaStore(CollectionStore):
    """The chunks of a Chroma collection, searched by BM25 and by cosine. Thread-safe.

    umi keeps a side index of terms, sources, positions and times, in memory or in a directory. The index is updated
    after any program has written to the collection; see docs/chroma.md. close() does not close the collection or its
    client.

    Args:
        collection: A collection of a `PersistentClient`, `HttpClient`, `AsyncHttpClient` or a client with the same
            interface, or the vector store of LangChain or LlamaIndex around a collection.
        embedder: The embedder that made the collection's vectors, as for `HybridStore.open`; None: the default.
        directory: Folder in which the side index is saved for the next process; None: the index is in memory only.
        config: None: the defaults.
        keys: Metadata keys of source, position and time; None: "source", "position", "timestamp".
        read: Function from id, text and metadata to a chunk, used in place of `keys`. Raises InvalidChunk for a record
            that cannot be a chunk.
        sync_seconds: Seconds between two comparisons of the index with records of the collection, > 0.

    Raises:
        ConfigError: If `collection` is not one of these.
        ReindexRequired: If the collection's vectors were made by another embedder.
        StoreUnavailable: From every method, if Chroma fails.
        StoreClosed: From every method after close().
    """

    def __init__(
        self,
        collection: Any,
        embedder: Any = None,
        directory: str | os.PathLike[str] | None = None,
        config: UmiConfig | None = None,
        *,
        keys: PlaceKeys | None = None,
        read: ReadRecord | None = None,
        sync_seconds: float = 2.0,
    ) -> None:
        if not isinstance(sync_seconds, (int, float)) or not sync_seconds > 0:
            raise InputError(f"sync_seconds is {sync_seconds!r}; expected a number above 0")
        check_settings(config)
        settings = UmiConfig() if config is None else config
        super().__init__(as_embedder(embedder, settings), settings, Analyzer(settings.analyzer))
        self._directory = None if directory is None else checked_directory(directory)
        self._read = reader(PlaceKeys() if keys is None else keys) if read is None else read
        self._sync_seconds = sync_seconds
        self._side: SideIndex
        self._follower: Follower
        self._made_of: dict[str, str] = {}
        self._model_checked = False
        self._lock = threading.RLock()
        """Held while the index changes, or is replaced by a new one; see `Follower`."""
        self._collection = ChromaCollection(collection)
        self._server, self._write_at_once = "Chroma", self._collection.batch
        try:
            self._begin()
        except BaseException:
            self._collection.close()
            raise

    def _begin(self) -> None:
        """Make the index: if only dead rows are to be dropped, from the present one; else load the saved one, if it was
        made from this collection. Then index the records that it lacks."""
        made_of = {
            "collection": self._collection.id,
            "embedder": self._embedder.name,
            "dimension": str(self._embedder.dim),
            "analyzer": self._analyzer.fingerprint,
            "read": reader_name(self._read),
        }
        known = self._model_checked and self._made_of == made_of  # only replaced records are dropped from the index
        if known and not self._side.damaged:
            side = self._side.without_dead_rows()
            follower, saved = self._follower.over(side), True
        else:
            side = SideIndex(self._collection, self._analyzer, self._read, self._embedder.dim)
            follower = Follower(side, self._sync_seconds, self._lock)
            saved = self._directory is not None and not self._made_of and side.load(self._directory, made_of)
        checked = known or bool(saved and side.snapshot.rows.living) or self._check_model()
        follower.compare_ids()  # records that were replaced are found later, by comparing records
        self._side, self._made_of = side, made_of  # set last, so that an error above changes nothing
        self._follower, self._model_checked = follower, checked
        if side.skipped:
            log.warning(
                "%d of %d records of collection %r are not searched, because they have no text, or unreadable "
                "metadata: %s",
                len(side.skipped),
                len(side),
                self._collection.name,
                ", ".join(sorted(side.skipped)[:IDS_NAMED]),
            )
        if not saved and self._directory is not None:
            statistics(side, side.snapshot, np.zeros((1, self._embedder.dim), np.float32))
            self.save()

    def _check_model(self) -> bool:
        """Compare stored vectors with new ones of the same texts. Returns whether the collection has a record.

        Raises:
            ReindexRequired: If another model made a stored vector.
        """
        got = self._collection.call("get", limit=SAMPLES, include=["documents", "metadatas", "embeddings"])
        records = records_of(got).values()
        chunks_read = [readable_chunk(record, self._read) for record in records]
        pairs = [(chunk, vector) for chunk, vector in zip(chunks_read, got["embeddings"], strict=True) if chunk]
        if not pairs:
            return bool(got["ids"])
        chunks, vectors = zip(*pairs, strict=True)
        stored = np.array(vectors, dtype=np.float32)
        refuse_other_model(self._collection.name, chunks, stored, self._embedder, MODEL_ADVICE)
        return True

    def _ready(self) -> SideIndex:
        """The index, after an update."""
        self._follow()
        return self._side

    def _follow(self, *, always: bool = True) -> None:
        self._check_open()
        must = self._must_begin()
        # If most rows are dead, other threads search the old index while this one makes a new one.
        if (must or self._mostly_dead()) and self._lock.acquire(blocking=must):
            try:
                if self._must_begin() or self._mostly_dead():
                    self._begin()
            finally:
                self._lock.release()
        follower = None
        while follower is not self._follower:  # repeated if another thread has replaced the index meanwhile
            follower = self._follower
            follower.follow(always=always)
        if not self._model_checked and len(self._side):  # the collection was empty until now
            self._model_checked = self._check_model()

    def _must_begin(self) -> bool:
        """Whether a new index is needed: the collection was created again, or an update was interrupted."""
        return self._made_of["collection"] != self._collection.id or self._side.damaged

    def _mostly_dead(self) -> bool:
        return self._side.snapshot.rows.mostly_dead(DEAD_ROWS_MAX)

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches; their queries are embedded in one call.

        If Chroma fails, the candidates come from the lexical arm alone, and `pool.degraded` says so.

        Raises:
            SearchUnavailable: If Chroma or the embedder fails and only the dense arm is searched.
            InvalidVector: If a probe's vector has another dimension than the collection.
        """
        self._check_open()
        traces = [RecallTrace() for _ in requests]
        queries = query_vectors(requests, self._query_embedder, self._embedder.dim, traces)
        failure: StoreUnavailable | None = None
        try:  # a search by text alone may call Chroma only here, so the records are always counted before it
            self._follow(always=any(request.strategy == "text" for request in requests))
        except StoreUnavailable as error:
            failure = error
        pools = []
        for request, own, trace in zip(requests, queries, traces, strict=True):
            if failure is not None:
                own = None
                trace.lost(
                    "chroma", failure, "searched with the lexical arm alone, in the texts as they were last read"
                )
            try:
                pools.append(recall_pool(self._side, own, request, trace, has_failed=failure is not None))
            except StoreUnavailable as error:
                raise SearchUnavailable(str(error)) from error
        return pools

    def _read_chunks(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        return {id: self._side.chunk(record) for id, record in self._collection.whole_records(ids).items()}

    def last_read(self, ids: Sequence[str]) -> list[Chunk | None]:
        """Chunks aligned with ids, from the records that this process read last. Used for hits while Chroma fails."""
        self._check_open()
        side = self._side
        return [side.chunk(side.last_read(id)) for id in ids]

    def listing(self, *, where: Where = None, window: TimeRange | None = None) -> Listing:
        """Ids and versions of all chunks, and which of them pass; see `HybridStore.listing`."""
        side = self._ready()
        snapshot, allowed = side.allowed(parse_filter(where), window)
        rows = snapshot.rows
        return Listing(rows.ids, rows.seq + side.number * ROWS_MAX, rows.alive if allowed is None else allowed)

    def _around(self, ids: Sequence[str], reach: int) -> dict[str, list[Chunk]]:
        side = self._ready()
        ids_near: dict[str, list[str]] = {}
        for id in ids:
            rows, row = side.row_of(id)
            if row is not None:
                ids_near[id] = [rows.ids[other] for other in rows.around(row, reach).tolist()]
        every = list(dict.fromkeys(other for near in ids_near.values() for other in near))
        chunks = {chunk.id: chunk for chunk in self.get(every) if chunk is not None}
        return {id: [chunks[other] for other in near if other in chunks] for id, near in ids_near.items()}

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) aligned with ids, scaled to length 1; zeros where there is none."""
        self._ready()
        return unit_vectors(self._collection.vectors(checked_ids(ids), self._embedder.dim)[0])

    def _ids_passing(self, where: Filter | None) -> list[str]:
        listing = self.listing(where=where)
        return sorted(listing.ids[row] for row in np.flatnonzero(listing.passing).tolist())

    def _content(self) -> object:
        return self._ready().snapshot

    def _holds(self, chunks: Sequence[Chunk]) -> list[bool]:
        stored = zip(self.get([chunk.id for chunk in chunks]), chunks, strict=True)
        return [own is not None and same_chunk(own, chunk) for own, chunk in stored]

    def _write(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """See `CollectionStore._write`. Chroma keeps the keys of the old metadata that are not given; None removes a
        key. So the old records are read first, and a record that got a further key meanwhile is written again."""
        self._model_checked = True
        stated = [metadata_of_record(chunk, self._read) for chunk in chunks]
        with self._lock:
            found, todo = self._collection.records([chunk.id for chunk in chunks]), list(range(len(chunks)))
            for _ in range(WRITES_MAX):
                ids, texts = [chunks[n].id for n in todo], [chunks[n].text for n in todo]
                removed = [dict.fromkeys(found[id].metadata) if id in found else {} for id in ids]  # key -> None
                metadatas = [(keys | stated[n]) or None for keys, n in zip(removed, todo, strict=True)]
                self._collection.call("upsert", ids=ids, documents=texts, metadatas=metadatas, embeddings=vectors[todo])
                self._follower.forget(ids)  # before reading, so that later writes of other threads stay noted
                found = self._collection.records(ids)
                self._side.update(list(found.values()))
                todo = [n for n in todo if _is_mixed(found.get(chunks[n].id), chunks[n], stated[n])]
                if not todo:
                    break

    def _remove(self, ids: list[str] | None, where: Filter | None) -> int:
        with self._lock:
            side = self._side
            named = side.ids() if ids is None else ids
            stored = zip(named, self.get(named), strict=True)
            gone = [id for id, chunk in stored if chunk is not None and matches(where, chunk.metadata)]
            left: dict[str, Record] = {}
            try:  # with the clause, because another program may have changed a record since it was read
                self._collection.delete(gone, side.clause(where))
            finally:
                left = self._collection.records(gone)
                side.update(list(left.values()), [id for id in gone if id not in left])
        return len(gone) - len(left)

    def sync(self) -> None:
        """Compare the index with the whole collection now, and update it."""
        self._follow()
        self._follower.sync()

    def status(self) -> ChromaStatus:
        """Size and state of the store; the index is not updated first."""
        self._check_open()
        side = self._side
        return ChromaStatus(
            collection=self._collection.name,
            chunks=side.snapshot.rows.living,
            skipped=tuple(sorted(side.skipped)),
            behind=abs(self._collection.count() - len(side)),
            compared_seconds=time.monotonic() - self._follower.compared_at,
            bound_seconds=math.ceil(len(side) / RECORDS_COMPARED) * self._sync_seconds,
            dimension=self._embedder.dim,
            embedder=self._embedder.name,
            analyzer=self._analyzer.fingerprint,
        )

    def save(self) -> None:
        """Write the index to the directory, if there is one. If it cannot be written, a warning is logged.

        An index whose last update was interrupted is not written; the next search makes a new index.
        """
        self._check_open()
        if self._directory is None:
            return
        with self._lock:
            self._follower.settle()
            if self._side.damaged:
                return
            try:
                self._side.save(self._directory, self._made_of)
            except OSError as error:
                log.warning("the index was not saved (%s); the next opening makes it from the collection", error)

    def __len__(self) -> int:
        return self._ready().snapshot.rows.living

    @property
    def path(self) -> Path | None:
        """The directory of the index; None: in memory."""
        return self._directory

    def close(self) -> None:
        """Save the index and refuse further calls."""
        if not self._closed:
            self.save()
            self._collection.close()
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigError(
            "a store over a Chroma collection cannot be pickled, because its client has connections and threads; make "
            "it, or its retriever, again in the other process"
        )

    def __repr__(self) -> str:
        return f"ChromaStore({self._collection.name!r})"


def _is_mixed(record: Record | None, chunk: Chunk, stated: Mapping[str, Any]) -> bool:
    """Whether a record has the chunk's text, and metadata keys that the chunk's record should not have."""
    return record is not None and record.text == chunk.text and bool(record.metadata.keys() - stated.keys())
