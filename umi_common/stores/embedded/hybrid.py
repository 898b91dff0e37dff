"""HybridStore: chunks in a ledger, searched by BM25 and by cosine."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from umi_common.config import UmiConfig
from umi_common.embedders import as_embedder
from umi_common.errors import ConfigError, StoreClosed
from umi_common.filters import Filter, Where, parse_filter
from umi_common.pool import Pool, Vectors
from umi_common.protocols import Embedder, RecallRequest
from umi_common.stores.base import BaseStore
from umi_common.stores.batch_checks import AddReport, OnInvalid, checked_directory, checked_ids
from umi_common.stores.chroma.chroma_import import CollectionKeys, Drift, Imported, drift, import_collection
from umi_common.stores.embedded import care
from umi_common.stores.embedded.core import Core
from umi_common.stores.embedded.opening import CoreHandle, open_core
from umi_common.stores.embedded.recall import recall_pools, search_lexical
from umi_common.stores.embedded.reindex import reindex
from umi_common.stores.ledger.history import Mark
from umi_common.stores.query_embedder import with_error, with_vectors
from umi_common.stores.values import Listing, Verification
from umi_common.types import Chunk, TimeRange


class HybridStore(BaseStore):
    """Chunks with their vectors, searched by BM25 and by cosine. Opened by `HybridStore.open`. Thread-safe.

    A write is on the disk when its call returns. One process writes to a directory, any number read it. Within a
    process, stores opened for writing in one directory share their data, and each must be closed.

    Raises:
        StoreClosed: From every method after close().
        StoreForked: From every method in a child process forked after open(); open the store in the child.
        LedgerDamaged: From every method that reads a row that does not fit its checksum.
    """

    def __init__(self, handle: CoreHandle) -> None:
        self._handle = handle
        self.search_counter = handle.core.search_counter
        # Without a call of close(), the store is closed when it is garbage-collected, or when the interpreter exits.
        weakref.finalize(self, handle.close)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        embedder: Any = None,
        config: UmiConfig | None = None,
        read_only: bool = False,
    ) -> HybridStore:
        """Open the store in a directory, or create one there.

        Args:
            path: A directory; None: the store is in memory and ends with the process.
            embedder: An `Embedder`, a LangChain Embeddings, a LlamaIndex embed model, a function from texts to vectors,
                or a name: "minilm" (the extra `minilm`), "fastembed:MODEL" or "sentence-transformers:MODEL". None:
                `config.embedder.model`, else the model that made the store if packages carry it, else the default.
            config: None: the defaults, with the analyzer the store was made with.
            read_only: Take no lock, change no file, and read what another process writes.

        Raises:
            ConfigError: If `path` is "" or not a path.
            MissingExtra: If the package of a named model is not installed.
            NotAStore: If the directory holds files that are not a store's.
            StoreLocked: If another process has it open for writing, or this one has with another embedder or config.
            ReindexRequired: If it was made with another embedder or analyzer; names the call that changes it.
            LedgerDamaged: If the ledger is damaged.
            StoreReadOnly: If the directory cannot be written; opening it with read_only=True can succeed.
        """
        return cls(open_core(path, embedder, config, read_only=read_only))

    @classmethod
    def reindex(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Any = None,
        config: UmiConfig | None = None,
        show_progress: bool = False,
    ) -> None:
        """Change the embedder or the analyzer of a closed store; if anything fails, nothing is changed.

        Args:
            embedder: Embeds every text again; None: the vectors stay.
            config: Its analyzer indexes every text again at the next opening; None: the terms stay.

        Raises:
            ConfigError: If neither is given.
            NotAStore, StoreLocked, LedgerDamaged: As `open`.
            EmbedderError: If the embedder fails; the store is as it was.
        """
        if embedder is None and config is None:
            raise ConfigError("reindex() needs embedder=, to embed every text again, or config=, for its analyzer")
        model = None if embedder is None else as_embedder(embedder)
        reindex(checked_directory(path), model, config, show_progress=show_progress)

    def add(
        self,
        chunks: Iterable[Chunk | Mapping[str, Any]],
        *,
        vectors: Any = None,
        on_invalid: OnInvalid = "raise",
        show_progress: bool = False,
    ) -> AddReport:
        """Insert chunks, or replace those with the same id; durable when it returns, all valid ones or none.

        A chunk that is stored already, the same in every field, is left alone and costs no embedding.

        Args:
            chunks: Chunks, or dicts with the fields of a chunk. No id twice.
            vectors: (n, dim) finite numbers, one row per chunk; scaled to length 1. None: the embedder makes them.
            on_invalid: "raise": an invalid item raises and nothing is written. "skip": the others are written, and the
                report lists the invalid ones. `Chunk(...)` itself raises, so blank texts can be skipped in dicts only.
            show_progress: A progress bar while texts are embedded.

        Raises:
            InvalidChunk, DuplicateId, InvalidVector: The batch is wrong; names the item. Nothing is written.
            EmbedderError: The embedder failed. Nothing is written.
            StoreFull: The disk is full, or cannot be written. Nothing is written.
        """
        return self._core.add(chunks, vectors, on_invalid=on_invalid, show_progress=show_progress)

    def import_collection(
        self,
        collection: Any,
        *,
        source_key: str | Sequence[str] = ("source", "ref_doc_id"),
        position_key: str | Sequence[str] = ("position", "chunk_index"),
        time_key: str | Sequence[str] = ("event_time", "timestamp"),
        show_progress: bool = False,
    ) -> Imported:
        """Copy a Chroma collection with its vectors.

        Only three texts are embedded, to check that the store's embedder made the vectors. Each slice of 1,000 chunks
        is one commit: an import that was interrupted keeps its slices, and a repeated one skips them.

        Args:
            collection: The collection, or a vector store of LangChain or LlamaIndex over it, open in this process.
            source_key, position_key, time_key: Metadata keys of a chunk's source, position and event time. If there
                are several keys, the first that the chunk has is used.

        Raises:
            ConfigError: If `collection` is none of these.
            StoreUnavailable: If it cannot be read.
            ReindexRequired: If the vectors were made by another embedder.
            InvalidChunk: If a time cannot be read.
        """
        given = (source_key, position_key, time_key)
        keys = CollectionKeys(*((key,) if isinstance(key, str) else tuple(key) for key in given))
        self._core.ready_to_write()
        return import_collection(self, collection, keys, show_progress=show_progress)

    def drift(self, collection: Any) -> Drift:
        """How the store differs now from a collection that was imported into it; changes neither."""
        return drift(self, collection)

    def delete(self, ids: Iterable[str] | None = None, *, where: Where = None) -> int:
        """Remove chunks by id, by filter, or by both: those of the ids that pass the filter. Returns their number.

        Raises:
            InputError: If neither is given.
            FilterError: If the filter has no meaning.
        """
        return self._core.delete(ids, where)

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """Chunks aligned with ids; None where the store has no such chunk.

        Raises:
            InputError: If `ids` is one string or no collection.
        """
        core, ids = self._ready(), checked_ids(ids)
        return core.get_versions(ids, core.indexes.table.seqs_of(ids))

    def get_versions(
        self, ids: Sequence[str], versions: Sequence[int | None], *, exact: bool = False
    ) -> list[Chunk | None]:
        """The chunks in the versions that a pool of this store scored (`Pool.version`), aligned with ids.

        Args:
            exact: For a version that was replaced or removed since, return None; otherwise the chunk that has the id
                now, or None.
        """
        return self._ready().get_versions(ids, versions, exact=exact)

    def scan(self, *, where: Where = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """A page of the chunks that pass `where`, with ids above `after`, by rising id; see `protocols.Store.scan`."""
        if where is None:
            return self._ready().ledger.scan(after, limit)
        return super().scan(where=where, after=after, limit=limit)

    def _content(self) -> object:
        return self._ready().indexes.snapshot.mark

    def _ids_passing(self, where: Filter | None) -> list[str]:
        listing = self.listing(where=where)
        return sorted(listing.ids[row] for row in np.flatnonzero(listing.passing).tolist())

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) aligned with ids, each of length 1; zeros where the store has no vector."""
        return self._ready().vectors(checked_ids(ids))

    def unknown_keys(self, where: Where) -> list[str]:
        """Keys of a filter under which no chunk has a value, rising: such a key may be misspelt."""
        asked = parse_filter(where)
        return [] if asked is None else self._ready().indexes.snapshot.row_data.columns().unknown_keys(asked)

    def listing(self, *, where: Where = None, window: TimeRange | None = None) -> Listing:
        """Ids and versions of all chunks, and which of them pass; reads no texts."""
        snapshot = self._ready().indexes.snapshot
        rows, passing = snapshot.rows, snapshot.row_data.mask(snapshot, parse_filter(where), window)
        return Listing(rows.ids, rows.seq, rows.alive if passing is None else passing)

    def _around(self, ids: Sequence[str], reach: int, where: Filter | None) -> dict[str, list[Chunk]]:
        return self._ready().neighbours(ids, reach, where)

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """`recall` for each of several searches, with one embedding call for all."""
        return recall_pools(self._ready(), requests)

    @property
    def aembed(self) -> Callable[[Sequence[RecallRequest]], Awaitable[list[RecallRequest]]] | None:
        """Async function that returns the requests with a vector in each probe, so that `recall` calls no embedder.

        A probe whose text could not be embedded in time gets the error as its vector. None: the embedder is called in
        place, by `recall`.
        """
        return None if self._handle.core.query_embedder.in_place else self._aembed

    async def _aembed(self, requests: Sequence[RecallRequest]) -> list[RecallRequest]:
        core = self._ready()
        if core.other_embedder is not None:
            return with_error(requests, core.other_embedder)
        return await with_vectors(requests, core.query_embedder, core.dim or 0)

    def search_lexical(
        self,
        query: str,
        *,
        k: int = 10,
        where: Where = None,
        timeout: float = 0.25,
    ) -> list[tuple[str, float]]:
        """(id, BM25) of the best chunks of the lexical arm, best first; unlike `recall`, it raises if that arm fails.

        Args:
            k: Largest number of results, >= 1.
            timeout: Seconds to wait for another thread that repairs a failed index; at most 0.15 are waited.

        Raises:
            InputError: If `query` is not a string.
            InvalidLimit: If `k` is not a whole number of at least 1.
            IndexUnavailable: If the lexical index has failed, or holds no chunk.
        """
        return search_lexical(self._core, query, k=k, where=parse_filter(where), timeout=timeout)

    def __len__(self) -> int:
        return self._ready().indexes.snapshot.rows.living

    def _ready(self) -> Core:
        """The open store, after it read what other processes wrote. Raises as `Core.ready`."""
        core = self._core
        core.ready()
        return core

    @property
    def _core(self) -> Core:
        """The open store.

        Raises:
            StoreForked: In a process that was forked after the opening.
            StoreClosed: If this handle was closed; other handles may keep the store open.
        """
        core = self._handle.core
        core.check_open()
        if self._handle.closed:
            raise StoreClosed("the store is closed; open it again")
        return core

    @property
    def replacing(self) -> threading.Lock:
        """Lock for callers that read what is stored and then replace it. `add` and `delete` do not wait for it."""
        return self._ready().replacing

    @property
    def path(self) -> Path | None:
        """The directory; None: in memory."""
        return self._handle.core.directory

    @property
    def read_only(self) -> bool:
        """Whether it was opened with read_only=True."""
        return self._handle.core.ledger.read_only

    @property
    def embedder(self) -> Embedder:
        """The embedder of this store."""
        return self._handle.core.embedder

    @property
    def config(self) -> UmiConfig:
        """The settings in force."""
        return self._handle.core.config

    @property
    def terms_of(self) -> Callable[[str], list[str]]:
        """Function from a text to its terms in the lexical index; can be pickled and used after close()."""
        return self._handle.core.indexes.analyzer.terms

    def reconfigure(self, config: UmiConfig) -> None:
        """Replace the settings of this store, and of those that share its directory, for calls that start afterwards.

        Raises:
            ReindexRequired: If the analyzer differs; nothing is changed then.
        """
        self._core.reconfigure(config)

    @property
    def last_write(self) -> str:
        """A name for the last write, for `holds_write`."""
        return json.dumps(self._ready().indexes.snapshot.mark)

    def holds_write(self, name: str) -> bool:
        """Whether the store contains the write that `last_write` has named.

        False after an older copy was put back, and for a name that no store has given.
        """
        core = self._ready()
        try:
            return core.ledger.holds(Mark(*json.loads(name)))
        except (TypeError, ValueError):
            return False

    def status(self) -> care.StoreStatus:
        """Size, parts and problems of the store."""
        return care.status(self._ready())

    def verify(self, *, full: bool = False) -> Verification:
        """Compare all rows with their checksums, and the postings of 1,000 chunks, if `full` of all, with the texts.

        The problems name every damaged chunk and vector, or the first 100 of each.
        """
        return care.verify(self._ready(), full=full)

    def repair(self) -> Verification:
        """Make damaged indexes again from the ledger; returns what verify() finds afterwards.

        Raises:
            LedgerDamaged: If the ledger itself is damaged, which cannot be rebuilt.
        """
        return care.repair(self._core)

    def rebuild(self) -> None:
        """Make all indexes again from the ledger; embeds nothing."""
        care.rebuild(self._core)

    def compact(self) -> None:
        """Free the space of removed chunks, on the disk and in memory.

        If another process still reads what was there before, they stay on the disk, and a warning says until when.
        """
        care.compact(self._core)

    def close(self) -> None:
        """Close the store; its directory is released when all stores that share it are closed."""
        self._handle.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled store opens its directory again, for reading, since another process may write it."""
        if self.path is None:
            raise ConfigError("a store in memory cannot be pickled; open it in a directory")
        embedder, path = self.embedder, str(self.path.absolute())
        return partial(HybridStore.open, path, embedder=embedder, config=self.config, read_only=True), ()

    def __repr__(self) -> str:
        return f"HybridStore({str(self.path) if self.path else 'in memory'!r})"
