"""HybridStore: chunks in a ledger, searched by BM25 and by cosine.

ledger     the SQLite file `umi.db`, which holds chunks and vectors; all else is made from it
core       the open ledger with its indexes and embedder; stores of one directory share it, each by a handle
seq        sequence number of a stored chunk. A chunk that is replaced gets a new, larger one; it is the chunk's
           version in `get_versions`
mark       names a commit of the ledger; the snapshot of the indexes has the mark of the last commit it contains
probe      a query, or a variation of it, with or without its vector
arm        one way to find chunks: BM25 (the lexical arm) or cosine (the dense arm)
pool       the candidates of one search, with the scores of both arms
"""

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
from umi_common.embedders import as_embedder, declared_dim
from umi_common.errors import ConfigError, InputError, InvalidVector, StoreClosed
from umi_common.filters import Filter, Where, parse_filter
from umi_common.pool import Pool, Vectors
from umi_common.protocols import Embedder, RecallRequest
from umi_common.stores.base import BaseStore
from umi_common.stores.batch_checks import (
    AddReport,
    OnInvalid,
    checked_directory,
    checked_ids,
    ids_to_delete,
    valid_batch,
)
from umi_common.stores.chroma.chroma_import import Drift, Imported, drift, import_collection
from umi_common.stores.document_embedder import progress
from umi_common.stores.embedded import care
from umi_common.stores.embedded.core import Core, CoreHandle, open_core
from umi_common.stores.embedded.recall import recall_pools, search_lexical
from umi_common.stores.ledger.codec import encode
from umi_common.stores.ledger.history import Mark
from umi_common.stores.query_embedder import with_error, with_vectors
from umi_common.stores.rows.rows import UNKNOWN
from umi_common.stores.values import Listing, Verification
from umi_common.types import Chunk, TimeRange


class HybridStore(BaseStore):
    """Chunks with their vectors, searched by BM25 and by cosine. Opened by `HybridStore.open`. Thread-safe.

    A write is on the disk when its call returns. One process at a time may write to a directory; any number of
    processes may read it. Stores that one process opens for writing in the same directory share their data, and each
    of them must be closed.

    Raises:
        StoreClosed: By every method that reads or writes the store, after close().
        StoreForked: By these methods in a child process that was forked after open(); open the store in the child.
        LedgerDamaged: By every method that reads a row whose checksum is wrong.
        StoreLocked: In a signal handler that interrupts a write of its thread, by every method that writes, and by a
            method that would read half of that write.
    """

    def __init__(self, handle: CoreHandle) -> None:
        if not isinstance(handle, CoreHandle):
            raise ConfigError(f"HybridStore({handle!r:.80}): expected HybridStore.open(path), which opens a store")
        self._handle = handle
        self.search_counter = handle.core.search_counter
        # If close() is not called, the store is closed when it is garbage-collected or the interpreter exits.
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
                `config.embedder.model`, else the model that made the store if that is "default" or "minilm", which
                need no download, else "default".
            config: The settings; None: the defaults, with the analyzer that the store was made with.
            read_only: Acquire no lock, change no file, and read the later writes of another process.

        Raises:
            ConfigError: If `path` is "" or not a path.
            MissingExtra: If the package of a named model is not installed.
            NotAStore: If the directory holds files that do not belong to a store.
            StoreLocked: If another process has the store open for writing, or this process has it open with another
                embedder or config.
            ReindexRequired: If the store was made with another embedder or analyzer; names the call that changes them.
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
            embedder: The new embedder, which embeds every text again; None: the vectors stay.
            config: Its analyzer becomes the store's; the next opening indexes every text again. None: the terms stay.

        Raises:
            ConfigError: If neither `embedder` nor `config` is given.
            NotAStore, StoreLocked, LedgerDamaged: See `open`.
            EmbedderError: If the embedder fails; nothing is changed.
        """
        if embedder is None and config is None:
            raise ConfigError("reindex() needs embedder=, to embed every text again, or config=, for its analyzer")
        model = None if embedder is None else as_embedder(embedder)
        care.reindex(checked_directory(path), model, config, show_progress=show_progress)

    def add(
        self,
        chunks: Iterable[Chunk | Mapping[str, Any]],
        *,
        vectors: Any = None,
        on_invalid: OnInvalid = "raise",
        show_progress: bool = False,
    ) -> AddReport:
        """Insert chunks. A chunk replaces the stored chunk with its id. When the call returns, the write is durable.

        Either all valid chunks are written or none. A chunk that is already stored with the same fields and, if
        `vectors` is given, the same vector, is neither embedded nor written again. A chunk that is stored with other
        fields but the same text (`search_text`, or `text` if that is None) is written with its stored vector, unless
        `vectors` is given.

        Args:
            chunks: Chunks, or dicts with the fields of a chunk. No two may have the same id.
            vectors: (n, dim) finite numbers, one row per chunk; scaled to length 1. None: the embedder makes them.
            on_invalid: "raise": an invalid item raises, and nothing is written. "skip": the valid items are written,
                and the report lists the invalid ones. Give dicts if texts may be blank: `Chunk("a", "")` itself raises.
            show_progress: Whether to show progress bars while texts are embedded and stored.

        Raises:
            InvalidChunk, DuplicateId, InvalidVector: An item is invalid; the message names it. Nothing is written.
            EmbedderError: The embedder failed. Nothing is written.
            StoreFull: The disk is full, or cannot be written. Nothing is written.
        """
        core = self._core_to_write
        core.ready_to_write()
        batch = valid_batch(chunks, vectors, core.dim or declared_dim(core.embedder), on_invalid)
        entries = encode(batch.chunks)
        while True:
            same = core.unchanged(entries, batch.vectors)  # id -> seq, of the chunks that are stored already
            todo = [at for at, entry in enumerate(entries) if entry.id not in same]  # indices of the other entries
            report = AddReport(len(todo), len(same), batch.skipped)
            if not todo:
                return report
            kept = {} if batch.vectors is not None else core.vectors_of_same_texts([entries[at] for at in todo])
            new = [at for index, at in enumerate(todo) if index not in kept]
            options = {"config": core.config.embedder, "cache": core.vector_cache, "show_progress": show_progress}
            made = batch.vectors_of(new, core.embedder, dim=core.dim, **options)
            if kept:
                others = iter(made)
                made = np.stack([kept[index] if index in kept else next(others) for index in range(len(todo))])
            with core.writing:
                core.ready_to_write()
                # Start again if another thread removed or replaced chunks of `same` while the texts were embedded.
                if core.indexes.table.seqs_of(list(same)) == list(same.values()):
                    if core.dim not in (None, made.shape[1]):  # another thread has written the first vectors
                        raise InvalidVector(
                            f"vectors have {made.shape[1]} dimensions and the store holds {core.dim}; give vectors of "
                            f"{core.dim} dimensions"
                        )
                    replaced = core.indexes.table.seqs_of([entries[at].id for at in todo])
                    with progress(len(todo), show_progress, "storing") as advance:
                        core.commit([seq for seq in replaced if seq is not None], [entries[at] for at in todo], made)
                        advance(len(todo))
                    return report

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

        Only three texts are embedded, to check that the store's embedder made the vectors. Each batch of 1,000 chunks
        is one commit: the batches of an interrupted import stay, and a repeated import skips them.

        Args:
            collection: The collection, or a vector store of LangChain or LlamaIndex over it, open in this process.
            source_key, position_key, time_key: Metadata keys of a chunk's source, position and event time. If there
                are several keys, the first that the chunk has is used.

        Raises:
            ConfigError: If `collection` is neither a collection nor such a vector store.
            StoreUnavailable: If the collection cannot be read.
            ReindexRequired: If the vectors were made by another embedder.
            InvalidChunk: If a time cannot be read.
        """
        given = (source_key, position_key, time_key)
        keys = [(key,) if isinstance(key, str) else tuple(key) for key in given]
        self._core_to_write.ready_to_write()
        return import_collection(self, collection, keys, show_progress=show_progress)

    def drift(self, collection: Any) -> Drift:
        """How ids and texts of the store differ now from those of a collection that was imported into it. Changes
        neither of them."""
        return drift(self, collection)

    def delete(self, ids: Iterable[str] | None = None, *, where: Where = None) -> int:
        """Remove the chunks with these ids, or all that pass `where`; given both, the chunks with these ids that pass.

        Returns the number of removed chunks.

        Raises:
            InputError: If neither `ids` nor `where` is given.
            FilterError: If `where` is not a valid filter.
        """
        core, tree = self._core_to_write, parse_filter(where)
        wanted = ids_to_delete(ids, tree, "to remove all, give the ids() of the HybridStore")
        with core.writing:
            core.ready_to_write()
            snapshot = core.snapshot(tree)
            allowed = snapshot.mask(tree, None)
            rows = np.arange(len(snapshot.rows)) if wanted is None else np.sort(core.indexes.table.rows_of(wanted))
            rows = rows[rows != UNKNOWN]
            deleted = snapshot.rows.seq[rows if allowed is None else rows[allowed[rows]]].tolist()
            if deleted:
                core.commit(deleted, [], np.zeros((0, snapshot.vectors.shape[1]), dtype=np.float32))
            return len(deleted)

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """The chunk of each id, in the order of `ids`; None for an id that is not stored.

        Raises:
            InputError: If `ids` is one string, or not an iterable of strings.
        """
        core, ids = self._ready(), checked_ids(ids)
        return core.get_versions(ids, core.indexes.table.seqs_of(ids))

    def get_versions(
        self, ids: Sequence[str], versions: Sequence[int | None], *, exact: bool = False
    ) -> list[Chunk | None]:
        """The chunk of each id in the version that a search scored, in the order of `ids`.

        Args:
            versions: The sequence numbers from `Pool.version`, in the order of `ids`; None: return None for this id.
            exact: True: return None for a version that was replaced or removed since. False: return the chunk that has
                the id now, or None if there is none.
        """
        return self._ready().get_versions(ids, versions, exact=exact)

    def scan(self, *, where: Where = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """A page of the chunks that pass `where`, with ids above `after`, by rising id; see `protocols.Store.scan`.

        Raises:
            LedgerDamaged: If a row is not what was written; at the last page of a scan without `where`, also if
                SQLite's index of ids lacks rows.
        """
        page = super().scan(where=where, after=after, limit=limit)
        if where is None and len(page) < limit:  # the last page
            core = self._core
            core.ledger.retry_read(partial(care.check_id_index, core))
        return page

    def _content(self) -> object:
        return self._ready().indexes.snapshot.mark

    def _ids_passing(self, where: Filter | None) -> list[str]:
        listing = self.listing(where=where)
        return sorted(listing.ids[row] for row in np.flatnonzero(listing.passing).tolist())

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) vectors of length 1, in the order of `ids`; zeros for an id that has no vector."""
        core, ids = self._ready(), checked_ids(ids)
        with core.indexes.lock:  # so that rows and vectors are of one commit
            rows, stored = core.indexes.table.rows_of(ids), core.indexes.snapshot.vectors
            made = np.zeros((len(ids), stored.shape[1]), dtype=np.float32)
            made[rows != UNKNOWN] = stored[rows[rows != UNKNOWN]]
        return made

    def unknown_keys(self, where: Where) -> list[str]:
        """The keys of a filter that no chunk has had since the store was opened, sorted; they may be misspelt."""
        asked = parse_filter(where)
        columns = self._ready().snapshot(asked).columns
        return [] if asked is None or columns is None else columns.unknown_keys(asked)

    def similar_texts(self, where: Where) -> list[tuple[str, str, list[str]]]:
        """(key, text, at most three stored texts like it) for each text that a filter asks for by equality and that no
        chunk has had under the key since the store was opened; only texts that have similar ones."""
        asked = parse_filter(where)
        columns = self._ready().snapshot(asked).columns
        return [] if asked is None or columns is None else columns.similar_texts(asked)

    def listing(self, *, where: Where = None, window: TimeRange | None = None) -> Listing:
        """Id and version of each row, removed chunks included, and whether its chunk is stored and passes filter and
        time range; reads no texts."""
        tree, core = parse_filter(where), self._ready()
        snapshot = core.snapshot(tree)
        rows, passing = snapshot.rows, snapshot.mask(tree, window)
        return Listing(rows.ids, rows.seq, rows.alive if passing is None else passing)

    def _around(self, ids: Sequence[str], reach: int) -> dict[str, list[Chunk]]:
        core = self._ready()
        before: dict[str, list[int]] | None = None
        while True:  # repeated if chunks are replaced or removed while they are read
            around = core.seqs_around(ids, reach)
            chunks = core.chunks(sorted({seq for seqs in around.values() for seq in seqs}))
            found = {id: [chunks[seq] for seq in seqs if seq in chunks] for id, seqs in around.items()}
            if around == before or sum(map(len, found.values())) == sum(map(len, around.values())):
                return found
            before = around
            core.ready()

    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """The pool of each request, in the order of `requests`; their queries are embedded together. See `recall`."""
        return recall_pools(self._ready(), requests)

    @property
    def aembed(self) -> Callable[[Sequence[RecallRequest]], Awaitable[list[RecallRequest]]] | None:
        """Async function that returns the requests with a vector in each probe, so that `recall` calls no embedder.

        If the text of a probe could not be embedded in time, the probe's vector is the error. None: the embedder is
        `in_place`, which means that it takes less than a millisecond in this process, so `recall` calls it.
        """
        return None if self._handle.core.query_embedder.in_place else self._aembed

    async def _aembed(self, requests: Sequence[RecallRequest]) -> list[RecallRequest]:
        core = self._ready()
        if core.other_embedder is not None:
            return with_error(requests, core.other_embedder)
        return await with_vectors(requests, core.query_embedder, core.dim or 0)

    def search_lexical(
        self, query: str, *, k: int = 10, where: Where = None, timeout: float = 0.25
    ) -> list[tuple[str, float]]:
        """(id, BM25) of the lexical arm's best chunks, best first. Raises if the arm has failed, unlike `recall`.

        Args:
            k: Largest number of results, >= 1.
            timeout: Longest time to wait for another thread that repairs a failed index, in seconds. There are two
                waits, of 0.05 and 0.1 s; a wait that would exceed `timeout` is left out.

        Raises:
            InputError: If `query` is not a string, or `timeout` no number.
            InvalidLimit: If `k` is not a whole number of at least 1.
            IndexUnavailable: If the lexical index has failed, or holds no chunk.
        """
        if not isinstance(timeout, (int, float)):
            raise InputError(f"timeout is {timeout!r:.40}; expected a number of seconds")
        return search_lexical(self._core, query, k=k, where=parse_filter(where), timeout=timeout)

    def __len__(self) -> int:
        return self._ready().indexes.snapshot.rows.living

    def _ready(self) -> Core:
        """The open store with all writes of other processes; raises the errors of `_core`."""
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
        core.check_not_forked()
        if self._handle.closed:
            raise StoreClosed("the store is closed; open it again")
        return core

    @property
    def _core_to_write(self) -> Core:
        """The open store; raises the errors of `_core`, and StoreLocked in the middle of a write of this thread."""
        core = self._core
        core.check_not_writing()
        return core

    @property
    def replacing(self) -> threading.Lock:
        """A lock for callers that read chunks and then replace them; the store itself does not acquire it."""
        return self._ready().replacing

    @property
    def path(self) -> Path | None:
        """The store's directory; None: the store is in memory."""
        return self._handle.core.directory

    @property
    def read_only(self) -> bool:
        """Whether the store was opened with read_only=True."""
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
        return self._handle.core.indexes.snapshot.row_data.analyzer.terms

    def reconfigure(self, config: UmiConfig) -> None:
        """Replace the settings of this store and of all stores that share its data in this process.

        Calls that start afterwards use the new settings.

        Raises:
            ReindexRequired: If the new analyzer differs from the present one; then no setting changes.
        """
        core = self._core
        config = core.config.checked_live_change(config)
        if config.embedder != core.config.embedder:
            core.apply_embedder_settings(config.embedder)
        core.config = config

    @property
    def last_write(self) -> str:
        """A name for the last write, for `holds_write`."""
        return json.dumps(self._ready().indexes.snapshot.mark)

    def holds_write(self, name: str) -> bool:
        """Whether the store contains the write with this name from `last_write`.

        False if an older copy of the store was put back since, and for a string that is no such name.
        """
        core = self._ready()
        try:
            return core.ledger.holds(Mark(*json.loads(name)))
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False

    def status(self) -> care.StoreStatus:
        """Size, parts and problems of the store."""
        return care.status(self._ready())

    def verify(self, *, full: bool = False) -> Verification:
        """Compare all rows with their checksums, and the postings of 1,000 chunks (all if `full`) with the texts.

        The problems name every damaged chunk and vector, or the first 100 of each.
        """
        return care.verify(self._ready(), full=full)

    def repair(self) -> Verification:
        """Build damaged indexes again from the ledger; returns the result of verify() afterwards.

        Raises:
            LedgerDamaged: If the ledger itself is damaged, which cannot be rebuilt.
        """
        return care.repair(self._core_to_write)

    def rebuild(self) -> None:
        """Build all indexes again from the ledger; embeds nothing."""
        care.rebuild(self._core_to_write)

    def compact(self) -> None:
        """Free the space of removed chunks, on the disk and in memory, and delete the LLM's replies in `rewrites.db`.

        If another process still reads an earlier state, the removed chunks stay on the disk; a warning then says how to
        free their space.
        """
        care.compact(self._core_to_write)

    def close(self) -> None:
        """Close the store. Its directory is unlocked when all stores of this process that share it are closed."""
        self._handle.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickling opens the directory again, read-only, because another process may have it open for writing."""
        if self.path is None:
            raise ConfigError("a store in memory cannot be pickled; open it in a directory")
        embedder, path = self.embedder, str(self.path.absolute())
        return partial(HybridStore.open, path, embedder=embedder, config=self.config, read_only=True), ()

    def __repr__(self) -> str:
        return f"HybridStore({str(self.path) if self.path else 'in memory'!r})"
