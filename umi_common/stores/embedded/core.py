"""The parts of an open store: its ledger, indexes, embedder and writer's lock.

The ledger (the file `umi.db`, or memory) holds each chunk under a sequence number. The indexes hold the same chunks in
rows, which get other numbers when the indexes are built again.

The indexes follow the ledger. A writer passes each commit to `Indexes.apply`. A process that has the store open
read-only, or whose `apply` was interrupted, reads the new rows from the ledger before its next call.
`Indexes.snapshot` is replaced as a whole, so a search sees one commit, and need not wait for a writer of its process.

Stores that this process opens for writing in one directory share one `Core`. A `CoreHandle` is one use of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence, Set
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from umi_common.config import AnalyzerConfig, EmbedderConfig, UmiConfig, check_settings
from umi_common.embedders import CallableEmbedder, as_embedder, declared_dim, identity_of
from umi_common.embedders.cache import document_cache
from umi_common.errors import ConfigError, LedgerDamaged, ReindexRequired, StoreForked, StoreLocked
from umi_common.filters import Filter
from umi_common.filters.tree import comparisons
from umi_common.pool import Vectors
from umi_common.protocols import Embedder
from umi_common.runtime.calls import COMPUTE_SLOTS
from umi_common.runtime.forks import renew_in_child
from umi_common.stores.batch_checks import checked_directory
from umi_common.stores.embedded.directory import WriterLock, check_directory, locked_for_writing
from umi_common.stores.embedded.row_data import RowData, StoreSnapshot
from umi_common.stores.ledger.acknowledged import MarkFile
from umi_common.stores.ledger.codec import Entry, Head, checked, encode_vectors, same_content
from umi_common.stores.ledger.file import FILE
from umi_common.stores.ledger.history import Change
from umi_common.stores.ledger.ledger import INTERRUPTS, Ledger, held_here
from umi_common.stores.ledger.made_with import EMBEDDER, checked_config, model_of, recorded, refuse_other_embedder
from umi_common.stores.query_embedder import QueryEmbedder
from umi_common.stores.rows.rows import DEAD_ROWS_MAX, UNKNOWN, RowTable
from umi_common.stores.search_counts import DirectoryCounter
from umi_common.types import Chunk

WRITE_WATCHED_SECONDS = 0.01
"""A search whose chunk was just replaced looks at this interval whether the write is in the snapshot."""


class Indexes:
    """Rows, vectors, both search arms and metadata columns of one open store.

    Args:
        directory: Directory in which the arrays are saved for the next opening; None: they are not saved.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.lock = threading.RLock()
        """Held while the indexes change. A search acquires it only if the indexes lack a commit that it must know."""
        self.stale = False
        """Whether a write was interrupted, so that the indexes may lack a commit or hold only a part of it."""
        self.building = False
        """Whether `rebuild` is building all indexes again; meanwhile, searches use the previous snapshot."""
        self._ledger = ledger
        self._directory = directory
        self._analyzer = analyzer
        self._version = ledger.version()
        self.snapshot = ledger.retry_read(self._loaded)

    def load(self, *, fresh: bool = False) -> None:
        """Build the indexes from the saved arrays and the ledger's later rows; if `fresh`, or if the arrays are
        unusable, from all rows of the ledger."""
        with self.lock:
            self._replace(self._loaded(fresh=fresh))

    def _loaded(self, *, fresh: bool = False, indexed: StoreSnapshot | None = None) -> StoreSnapshot:
        return RowData(self._ledger, self._directory, self._analyzer, fresh=fresh, indexed=indexed).snapshot

    def _replace(self, snapshot: StoreSnapshot) -> None:
        """Use indexes that were built again. The caller holds `lock`."""
        if self.snapshot.row_data.columns is not None:  # no later search waits for the columns
            snapshot.row_data.lazy.read_columns(frozenset())
        self.snapshot = snapshot
        self.stale = False

    def apply(self, change: Change) -> None:
        """Add the change of a commit to the indexes, unless `follow` has already done so."""
        with self.lock:
            known = self.snapshot.mark
            if change.mark.seq <= known.seq and change.mark.deletion <= known.deletion:
                return
            try:
                self.snapshot = self.snapshot.row_data.apply(change)
            except BaseException:
                self.stale = True
                raise
            self.stale = False
            if self.snapshot.rows.mostly_dead(DEAD_ROWS_MAX):
                self._replace(self._loaded(fresh=True, indexed=self.snapshot))

    def follow(self) -> None:
        """Add the commits that the indexes lack: those of another process if the store is read-only, else the commit of
        an interrupted write."""
        version = self._ledger.version()
        if version != self._version or self.stale:
            self._ledger.retry_read(self._catch_up)
            self._version = version

    def _catch_up(self) -> None:
        """Add the later commits of the ledger. If the ledger no longer lists them, or an interrupted write left the
        indexes at another commit, they are built again."""
        with self.lock:
            with self._ledger.snapshot() as connection:
                mark, count = self._ledger.mark(connection), self._ledger.count(connection)
                change = None if self.stale else self._ledger.changes(connection, self.snapshot.mark)
            if change is not None:
                self.apply(change)
            if self.snapshot.mark != mark or self.snapshot.rows.living != count:
                self.load()  # raises LedgerDamaged if the ledger has lost rows
            self.stale = False

    def read_columns(self, keys: Set[str]) -> None:
        """Read the metadata columns, unless those of these keys were read, and add the commits up to the moment of
        reading."""
        self.snapshot.row_data.lazy.read_columns(keys)
        if self.snapshot.with_columns(keys) is None:
            self._ledger.retry_read(self._catch_up)

    @property
    def table(self) -> RowTable:
        """Finds the row and the sequence number of each stored chunk by its id."""
        return self.snapshot.row_data.table

    def save(self, *, always: bool) -> None:
        """Save the arrays if rows changed; unless `always`, only after many changes, see `row_data.SAVE_EVERY`."""
        with self.lock:
            if not self.stale and self._ledger.in_place():
                self.snapshot.row_data.save(always=always)
                self.snapshot = self.snapshot.row_data.snapshot


class Core:
    """The parts of an open store. All handles of the store share them."""

    def __init__(
        self, directory: Path | None, ledger: Ledger, lock: WriterLock | None, embedder: Embedder, config: UmiConfig
    ) -> None:
        self.directory = directory
        self.ledger = ledger
        self.embedder = embedder
        self.config = config
        self.apply_embedder_settings(config.embedder)
        self.mark_file = MarkFile(directory)
        acknowledged = self.mark_file.read()
        self.indexes = Indexes(ledger, directory, config.analyzer)
        self.other_embedder: ReindexRequired | None = None
        """Why queries cannot be embedded: another process has reindexed the store with another embedder. None: they can
        be embedded."""
        self._epoch = self.indexes.snapshot.mark.epoch
        """The ledger's epoch (number of reindexes) when `embedder` was last compared with the store's."""
        self.mark_file.check(acknowledged, ledger, self.indexes.snapshot.mark)
        self._session: str | None = None
        """Name of this writer's session, from `Ledger.begin_session`; None: nothing was written yet."""
        self.writing = threading.RLock()
        """Lock that a writer holds while it compares its chunks with the stored ones and changes ledger and indexes."""
        self._held = threading.Condition(self.writing)
        """For `held_here`."""
        self._committing = False
        """Whether a write changes the ledger, or its commit is not in the indexes yet."""
        self.replacing = threading.Lock()
        """See `HybridStore.replacing`."""
        self._writer_lock = lock
        self.search_counter = DirectoryCounter(directory, read_only=ledger.read_only)
        self._pid = os.getpid()

    def ready(self) -> None:
        """Read the commits of other processes. Called before every read.

        Raises:
            StoreForked: In a process that was forked after the opening.
        """
        self.check_not_forked()
        self.indexes.follow()
        epoch = self.indexes.snapshot.mark.epoch
        if epoch != self._epoch:  # another process reindexed the store
            self.other_embedder = None
            try:
                refuse_other_embedder(self.ledger, self.embedder)
            except ReindexRequired as error:
                self.other_embedder = error
            self._epoch = epoch

    def snapshot(self, *filters: Filter | None) -> StoreSnapshot:
        """The last snapshot, able to evaluate the filters. The first filter reads the metadata columns."""
        keys = {each.key for where in filters if where is not None for each in comparisons(where)}
        while True:
            snapshot = self.indexes.snapshot  # read once: another thread may replace it after the test
            found = snapshot.with_columns(keys) if keys else snapshot
            if found is not None:
                return found
            self.indexes.read_columns(keys)

    def ready_to_write(self) -> None:
        """Called before every write: raise StoreForked or an error of `Ledger.check_writable` if the store cannot be
        written, and read the commits that the indexes lack."""
        self.check_not_forked()
        self.ledger.check_writable()
        self.indexes.follow()

    def check_not_writing(self) -> None:
        """Raise StoreLocked in a thread that holds `writing`. Called where a write begins.

        A signal handler, or a finalizer that the garbage collector calls, runs in the middle of another call of its
        thread. `writing` would let it in, as a reentrant lock, and its commit would break the one that is under way.
        """
        if held_here(self._held):
            raise StoreLocked(
                "this thread is in the middle of another write to the store, so this call, made for example by a "
                "signal handler, has written nothing; let the handler set a flag, and repeat the call after that write"
            )

    def check_not_forked(self) -> None:
        """Raise StoreForked in a process that was forked after the opening."""
        if self.forked:
            advice = "open it again" if self.directory else "open one in a directory, or a new one in memory"
            raise StoreForked(f"the store was opened before a fork; in this process, {advice}")

    def apply_embedder_settings(self, settings: EmbedderConfig) -> None:
        """Replace the query embedder and the cache of document vectors by new ones with these settings."""
        self.query_embedder = QueryEmbedder(self.embedder, settings)
        self.vector_cache = document_cache(self.directory, identity_of(self.embedder), settings.cached_documents)

    @property
    def forked(self) -> bool:
        """Whether this process is a child that was forked after the opening."""
        return os.getpid() != self._pid

    @property
    def dim(self) -> int | None:
        """Dimension of the stored vectors; None: the indexes have no row."""
        return self.indexes.snapshot.vectors.shape[1] or None

    def unchanged(self, entries: Sequence[Entry], vectors: Vectors | None) -> dict[str, int]:
        """Id -> sequence number of the entries that are already stored with the same content and the same vector.

        Args:
            vectors: (n, dim), aligned with `entries`; None: only the contents are compared.
        """
        seqs = self.indexes.table.seqs_of([entry.id for entry in entries])
        known = {seq: at for at, seq in enumerate(seqs) if seq is not None}
        stored = self.ledger.checksums(list(known)) if known else {}
        changed = {seq for seq, at in known.items() if seq not in stored or stored[seq][0] != entries[at].digest}
        with suppress(LedgerDamaged):  # an unreadable row counts as changed, so it is replaced
            # The digests of equal contents differ if the keys of their metadata are in another order.
            for seq, row in self.ledger.entries(list(changed)).items():
                if same_content(row, entries[known[seq]]):
                    changed.remove(seq)
        same = {entries[at].id: seq for seq, at in known.items() if seq not in changed}
        if vectors is not None:
            checksums = {entries[at].id: next(encode_vectors(vectors[at : at + 1]))[1] for at in known.values()}
            same = {id: seq for id, seq in same.items() if stored[seq][1] == checksums[id]}
        return same

    def vectors_of_same_texts(self, entries: Sequence[Entry]) -> dict[int, Vectors]:
        """Index of an entry -> (dim,) the stored vector of its id, for entries whose indexed text is stored already.

        Without vectors of zeros, which stand for missing ones; empty if a row or vector is damaged.
        """
        seqs = self.indexes.table.seqs_of([entry.id for entry in entries])
        known = {seq: at for at, seq in enumerate(seqs) if seq is not None}
        if not known:
            return {}
        try:
            rows = self.ledger.entries(list(known))
            same = [seq for seq, row in rows.items() if checked(row).indexed_text == entries[known[seq]].indexed_text]
            return {known[seq]: vector for seq, vector in self.ledger.vectors_of(same).items() if vector.any()}
        except LedgerDamaged:
            return {}

    def commit(self, deleted: Sequence[int], entries: Sequence[Entry], vectors: Vectors) -> None:
        """Delete chunks by sequence number, and add n entries with (n, dim) vectors, in the ledger, the file of
        its acknowledged mark, and the indexes."""
        indexes = self.indexes
        settings = {} if indexes.snapshot.mark.seq else recorded(EMBEDDER, self.embedder.name)
        if self._session is None:
            self._session = self.ledger.begin_session()
        try:
            self._committing = True
            mark = self.ledger.change(deleted, entries, vectors, settings)
            self.mark_file.write(mark, self._session)
            seqs = range(mark.seq - len(entries) + 1, mark.seq + 1)
            heads = [Head(seq, *entry[:4]) for seq, entry in zip(seqs, entries, strict=True)]
            texts, metadata = [entry.indexed_text for entry in entries], [entry.metadata for entry in entries]
            indexes.apply(Change(mark, deleted, heads, texts, metadata, vectors))
        except BaseException:
            indexes.stale = True  # the commit may have succeeded, so the next call reads the ledger
            raise
        finally:
            self._committing = False
        indexes.save(always=False)
        self.search_counter.save(always=False)

    def get_versions(
        self, ids: Sequence[str], seqs: Sequence[int | None], *, exact: bool = False
    ) -> list[Chunk | None]:
        """See `HybridStore.get_versions`."""
        wanted = list(seqs)
        while True:  # repeated if chunks were replaced or removed after their sequence numbers were looked up
            asked = [seq for seq in wanted if seq]
            rows = self.indexes.snapshot.rows
            # The cache of chunks may still hold removed ones.
            removed = set(rows.among(asked, ~rows.alive)) if rows.living < len(rows) else ()
            found = self.chunks([seq for seq in asked if seq not in removed])
            gone = [at for at, seq in enumerate(wanted) if seq and seq not in found]
            if exact or not gone:
                return [found.get(seq) if seq else None for seq in wanted]
            self.ready()  # read the latest commits, then look up the chunks that have these ids now
            for at, seq in zip(gone, self.indexes.table.seqs_of([ids[at] for at in gone]), strict=True):
                wanted[at] = None if seq == wanted[at] else seq  # the same number again: no newer version

    def seqs_around(self, ids: Sequence[str], reach: int) -> dict[str, list[int]]:
        """For each stored id, the sequence numbers of the at most `reach` chunks before and after it in its source, and
        its own, in the order of the source."""
        rows, at = self.indexes.table.located(ids)
        found = {id: row for id, row in zip(ids, at.tolist(), strict=True) if row != UNKNOWN}
        return {id: rows.seq[rows.around(row, reach)].tolist() for id, row in found.items()}

    def chunks(self, seqs: Sequence[int]) -> dict[int, Chunk]:
        """Sequence number -> chunk; removed chunks that are not cached are left out.

        Raises:
            LedgerDamaged: If the ledger lacks a chunk that was not removed.
        """
        with COMPUTE_SLOTS.held():
            found = self.indexes.snapshot.row_data.lazy.chunks(seqs)
        if lost := self.lost([seq for seq in seqs if seq not in found]):
            raise LedgerDamaged(f"the ledger has lost row {lost[0]}; restore umi.db from a copy")
        return found

    def lost(self, seqs: Sequence[int]) -> list[int]:
        """The sequence numbers in `seqs` that no write has deleted; the caller did not find their rows in the ledger.

        Waits until a running write of this process ends, or is in the table of rows, and reads the commits of others.

        Raises:
            StoreLocked: If this call interrupts a write of its thread, which may have deleted them.
        """
        if not self._living(seqs):
            return []
        if self._committing and held_here(self._held):
            raise StoreLocked(INTERRUPTS)
        while not self.writing.acquire(timeout=WRITE_WATCHED_SECONDS):
            if not self._living(seqs):  # the write goes on: it saves the indexes, or builds them again
                return []
        try:
            self.indexes.follow()
            return self._living(seqs)
        finally:
            self.writing.release()

    def _living(self, seqs: Sequence[int]) -> list[int]:
        rows = self.indexes.table.latest  # a write is in the snapshot of the indexes only when its texts are indexed
        return rows.among(seqs, rows.alive)

    def close(self) -> None:
        """Save the indexes, close the ledger and release the lock. Called once, after the last handle was closed."""
        if self.forked:
            return
        interrupted = held_here(self._held)  # by a signal handler that closes the store: the arrays may be half changed
        # The steps run last to first, the ledger is closed before the mark is written: only closing empties its log.
        # Each step runs even if an earlier one fails or is interrupted: a lock that stays would keep all writers out.
        with self.writing, ExitStack() as steps:
            if isinstance(self.embedder, CallableEmbedder):
                steps.callback(self.embedder.close)
            steps.callback(self.query_embedder.close)
            if self._writer_lock is not None:
                steps.callback(self._writer_lock.release)
            steps.callback(self._mark_closed)
            steps.callback(self.ledger.close)
            if not self.ledger.read_only:
                if not interrupted:
                    self.indexes.save(always=True)
                if self.ledger.in_place():
                    self.search_counter.save(always=True)

    def _mark_closed(self) -> None:
        """Record that the session is closed, if all its commits are copied from the write-ahead log into `umi.db`."""
        if self._session is not None and self.ledger.in_place() and not self.ledger.log_bytes():
            self.mark_file.write(self.indexes.snapshot.mark, self._session, closed=True)


class _Shared:
    """A core and the number of its handles. All handles of a directory that is open for writing share one core."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the core is opened or closed. Reentrant, because garbage collection in the thread that holds the
        lock may close a handle."""
        self.core: Core | None = None
        self.handles = 0
        """Number of open handles, counting a handle that is being opened; guarded by `lock`."""

    def release(self) -> None:
        """Count one handle less; after the last handle, close the core."""
        self.handles -= 1
        core = self.core
        if not self.handles and core is not None:
            self.core = None  # closed handles keep this entry in `_registry`; its next opening needs a new core
            core.close()


class _Registry:
    """Directories that this process has open for writing, by real path. An entry is removed with its last handle."""

    def __init__(self) -> None:
        # Calls `_renew` now, and again in each forked child: it cannot use the parent's stores, nor a lock that another
        # thread held.
        renew_in_child(self, _Registry._renew)

    def _renew(self) -> None:
        self._entries: WeakValueDictionary[str, _Shared] = WeakValueDictionary()
        self._lock = threading.RLock()

    def entry(self, path: str) -> _Shared:
        """The entry of a directory; a new one if there is none, or if the open ledger is no longer at this path."""
        with self._lock:
            shared = self._entries.get(path)
            core = None if shared is None else shared.core
            if shared is None or (core is not None and not core.ledger.in_place()):
                shared = self._entries[path] = _Shared()
            return shared


_registry = _Registry()


class CoreHandle:
    """One use of an open core. The core is closed when the last of its handles is closed."""

    def __init__(self, core: Core, shared: _Shared) -> None:
        self.core = core
        self.closed = False
        self._shared = shared

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        if self.closed or self.core.forked:
            return
        self.closed = True
        with self._shared.lock:  # another thread that opens the directory waits until the core is closed
            self._shared.release()


def open_core(
    path: str | os.PathLike[str] | None, embedder: Any, config: UmiConfig | None, *, read_only: bool
) -> CoreHandle:
    """See `HybridStore.open`."""
    check_settings(config)
    if path is None and read_only:
        raise ConfigError("a store in memory is always new; read_only needs a path")
    directory = None if path is None else checked_directory(path)
    shared = _Shared() if directory is None or read_only else _registry.entry(os.path.realpath(directory))
    with shared.lock:
        shared.handles += 1  # first, because garbage collection may close the last other handle during the opening
        try:
            if shared.core is None:
                shared.core = _opened(directory, embedder, config, read_only=read_only)
            else:
                # Without a config, the open store's config names the model. If it is not the default config, the error
                # below is about the config, not about the model.
                wanted = shared.core.config if config is None else config
                _refuse_other_settings(shared.core, model_of(shared.core.ledger, embedder, wanted), config)
            return CoreHandle(shared.core, shared)
        except BaseException:
            shared.release()
            raise


def _refuse_other_settings(core: Core, embedder: Embedder, config: UmiConfig | None) -> None:
    """Raise StoreLocked if the open store has another embedder than `embedder`, or another config than `config`.

    Args:
        config: None: the default config with the store's analyzer, as for a store that is not open yet.
    """
    where = f"{core.directory} is open in this process"
    if embedder.name != core.embedder.name:
        raise StoreLocked(
            f"{where} with embedder {core.embedder.name!r}, not {embedder.name!r}; close that store first, or open "
            "this one with the same embedder"
        )
    wanted = checked_config(core.ledger, config)
    if wanted != core.config:
        other = [name for name, value in wanted if value != getattr(core.config, name)]
        raise StoreLocked(
            f"{where} with another config ({', '.join(other)}); close that store first, open this one with "
            "the same settings (config=store.config), or call store.reconfigure()"
        )


def _refuse_other_dimension(core: Core) -> None:
    """Raise ReindexRequired if the store holds vectors of another dimension than the embedder's.

    If an embedder's name is only that of a class or function (`named` is false), the name may stand for another model
    now. Such an embedder embeds one word, and the dimension of this vector is compared; if it fails, nothing is raised.
    """
    if core.dim is None:
        return
    embedder = core.embedder
    dim = declared_dim(embedder)
    if isinstance(embedder, CallableEmbedder) and not embedder.named:
        seconds = core.config.recall.embedder_timeout_seconds
        (vector,) = core.query_embedder.embed_each(["dimension"], seconds, 0)
        if isinstance(vector, np.ndarray):  # not an error: searches report that the model fails, and use BM25 alone
            dim = len(vector)
    if dim not in (None, core.dim):
        raise ReindexRequired(
            f"{core.directory} holds vectors of {core.dim} dimensions and embedder {embedder.name!r} gives {dim}; open "
            "it with the model that made it, or embed everything again: HybridStore.reindex(path, embedder=...)"
        )


def _opened(directory: Path | None, embedder: Any, config: UmiConfig | None, *, read_only: bool) -> Core:
    """Open a core: check and lock the directory, open the ledger, check the config and the embedder.

    If a step fails, the lock is released and the ledger is closed.
    """
    lock = None
    with ExitStack() as undo:
        if directory is not None:
            check_directory(directory, must_exist=read_only)
            if not read_only:
                if not (directory / FILE).exists():
                    as_embedder(embedder, config)  # raises before a wrong name leaves an empty store
                lock = locked_for_writing(directory)
                undo.callback(lock.release)
        ledger = Ledger(None if directory is None else directory / FILE, read_only=read_only)
        undo.callback(ledger.close)
        settings = checked_config(ledger, config)
        model = model_of(ledger, embedder, settings)
        refuse_other_embedder(ledger, model)
        core = Core(directory, ledger, lock, model, settings)
        _refuse_other_dimension(core)
        undo.pop_all()
    return core
