"""The arrays of a store that have one entry per row: one row for each chunk, removed ones included.

In: the ledger (the SQLite file that holds all chunks), arrays that an earlier process saved, and the changes of each
commit. Out: a `StoreSnapshot` after each change. When rows get new numbers (`fresh`), a new `RowData` replaces all
arrays. A search keeps the snapshot that it started with, so a row number means the same chunk throughout the search.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

import numpy as np

from umi_common.config import AnalyzerConfig
from umi_common.embedders.cache import LruCache
from umi_common.filters import Filter
from umi_common.pool import Vectors
from umi_common.stores.chunk_names import BEGINNING, Names
from umi_common.stores.corpus_stats import Calibration
from umi_common.stores.dense.cosines import QuantisedRows
from umi_common.stores.dense.vectors import VECTORS, VectorRows
from umi_common.stores.ledger.codec import decode, decode_metadata
from umi_common.stores.ledger.history import Change, Mark
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.file import Saved
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.metadata import MetadataColumns, allowed_rows
from umi_common.stores.rows.rows import MISSING, Mask, Rows, RowTable
from umi_common.stores.rows.unread_columns import COLUMNS, KEYS, UnreadColumns, to_save
from umi_common.types import Chunk, TimeRange

log = logging.getLogger("umi")

CHUNKS_CACHED = 8_192
"""Largest number of cached chunks. A search reads some 25 chunks, which takes a tenth of its time if none is cached."""
CACHED_CHARACTERS_MAX = 8_192
"""Number of characters of the longest text that is cached, so that 8,192 texts in ASCII take at most 64 MB."""
DECODED_AT_ONCE = 1_000
"""Number of rows whose metadata are decoded together. If all were, the garbage collector would visit all dicts again
and again."""
SAVE_EVERY = 50_000
"""The arrays are saved when the number of rows added or removed since the last save reaches the sum of this and an
eighth of the store's rows. After a crash, opening the store reads the unsaved rows from the ledger: under 1 s for
50,000. A store that is only read keeps the metadata of at most so many later rows as JSON."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """What a search reads, as of one commit; n rows. The metadata columns and names in `row_data` may be of a later
    commit."""

    mark: Mark
    rows: Rows
    vectors: Vectors
    """(n, dim) rows of length 1, or of zeros: of chunks without a vector, and of some removed chunks. (0, 0) in a store
    that never held a chunk."""
    present: Mask | None
    """(n,) whether the row's vector is not zeros; None: no vector is zeros."""
    lexical: LexicalIndex
    lexical_fault: str | None
    """Why the lexical index cannot answer; None: it can."""
    row_data: RowData
    """The object whose arrays the fields above are views of; later writes append rows to these arrays."""
    columns: MetadataColumns | None = None
    """By which `mask` evaluates a filter; set by `with_columns`."""

    def with_columns(self, keys: Set[str]) -> StoreSnapshot | None:
        """This snapshot, able to evaluate a filter on these keys. None: their columns were not made, or they are of a
        later commit. Chunks of this snapshot may have been removed before that commit, and have no metadata in them."""
        made = self.row_data.metadata
        if not isinstance(made, MadeColumns) or made.columns.left_out & keys:
            return None
        older = self.mark.seq < made.mark.seq or self.mark.deletion < made.mark.deletion
        return None if older else replace(self, columns=made.columns)

    def mask(self, where: Filter | None, window: TimeRange | None) -> Mask | None:
        """(n,) whether each row is living and passes the filter and the time range; None: all rows do.

        With a filter, the snapshot must have its `columns`.
        """
        return allowed_rows(self.rows, self.columns, where, window)


class MadeColumns(NamedTuple):
    """Metadata columns, by which filters are evaluated."""

    columns: MetadataColumns
    mark: Mark
    """The commit as of which they were read from the ledger or saved; they may lack chunks that were removed before."""


class _Loaded(NamedTuple):
    """Arrays, and the changes of the ledger that they lack."""

    lexical: LexicalIndex
    table: RowTable
    calibration: Calibration
    vectors: VectorRows
    change: Change
    metadata: UnreadColumns | None
    """See `RowData.metadata`."""


class RowData:
    """Rows, vectors, metadata and postings. One writer at a time; readers use a `StoreSnapshot`.

    Args:
        ledger: Holds all chunks.
        directory: The directory in which the arrays are saved; None: they are not saved.
        analyzer: Settings of the lexical index.
        fresh: Give the rows new numbers and index every text, even if there are saved arrays.
        columns: Read the metadata columns, too.
    """

    def __init__(
        self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig, *, fresh: bool, columns: bool
    ) -> None:
        self._ledger = ledger
        self._directory, self.analyzer = directory, Analyzer(analyzer)
        self._cached: LruCache[int, Chunk] = LruCache(CHUNKS_CACHED)
        self.metadata: MadeColumns | UnreadColumns | None = None
        """The metadata of the rows. `UnreadColumns`: the columns can be made from these. None: they must be read from
        the ledger. `read_columns` makes `MadeColumns` of both."""
        self._names: Names | None = None
        """The names of the rows, which are their headings; None: not read yet."""
        self._reading = threading.Lock()
        """Held while the metadata columns or the names are read from the ledger, or get new rows."""
        self.lexical_fault: str | None = None
        """Why the lexical index cannot answer; None: it can."""
        self._unsaved = 0
        """Number of rows added and removed since the arrays were saved."""
        with ledger.snapshot() as connection:
            loaded = None if fresh or not ledger.count(connection) else self._saved_arrays(connection)
            if loaded is None:
                change = ledger.changes(connection, None)
                assert change is not None  # it may be None only for the changes after a mark
                vectors = VectorRows.of(np.zeros((0, 0), dtype=np.float32))
                metadata = None if directory is None or ledger.read_only else UnreadColumns(change.mark)
                loaded = _Loaded(LexicalIndex(self.analyzer), RowTable(), Calibration(), vectors, change, metadata)
            self._index, self.table, self.calibration, self._vectors, change, self.metadata = loaded
            self._mark, self._rows = change.mark, self.table.snapshot()
            self.apply(change)
            if columns:
                self._use_unread()
                if self.columns is None:
                    self._read_columns(connection)

    def _saved_arrays(self, connection: Connection) -> _Loaded | None:
        """The saved arrays. None: nothing usable is saved, because no saved commit is in the ledger's history or the
        numbers of chunks differ."""

        def belongs(at: Mark) -> bool:
            return self._ledger.deleted(connection, at) is not None

        found = None if self._directory is None else LexicalIndex.load(self._directory, self.analyzer, belongs)
        if found is None:
            return None
        index, saved = found
        change = self._ledger.changes(connection, saved.mark)
        assert change is not None  # `belongs` was true
        corpus, arrays = saved.corpus, saved.arrays
        by_row = (saved.seqs, corpus.sources, arrays["position"], arrays["time"], corpus.alive)
        table = RowTable(saved.facts["ids"], *by_row, saved.sources)
        alive = corpus.alive.copy()
        alive[table.snapshot().rows_of_seqs(change.deleted)] = False
        count = self._ledger.rows(connection)  # counted; `Ledger.count` is the number that the last write stored
        if np.count_nonzero(alive) + len(change.heads) != count:
            return None
        vectors = self._saved_vectors(saved, alive, count, connection)
        keys = saved.facts.get(COLUMNS, saved.facts.get(KEYS))
        metadata = None if keys is None else UnreadColumns(saved.mark, keys, arrays, len(saved.seqs))
        return _Loaded(index, table, Calibration(arrays["id checksums"]), vectors, change, metadata)

    def _saved_vectors(self, saved: Saved, alive: Mask, count: int, connection: Connection) -> VectorRows:
        """The vectors of the saved rows: from the files that were saved with the index, or else from the ledger.

        Args:
            alive: (n,) whether the ledger still holds each saved row.
            count: Number of vectors in the ledger: those of the living saved rows, and then those of later rows.
        """
        if self._directory is not None and VECTORS in saved.facts:
            try:
                return VectorRows.restored(self._directory, saved.facts, saved.arrays)
            except (OSError, ValueError) as error:
                log.warning("the saved vectors cannot be used (%s); reading them from the ledger", error)
        stored = self._ledger.vectors(connection, expected=count)
        vectors = np.zeros((len(alive), stored.shape[1]), dtype=np.float32)
        vectors[alive] = stored[: np.count_nonzero(alive)]
        return VectorRows.of(vectors)

    def apply(self, change: Change) -> StoreSnapshot:
        """Add a change, and return the snapshot after it. If an exception is raised, the data are inconsistent and must
        be built again. An error of the lexical index only sets `lexical_fault`, because searches work without it."""
        dead = self._rows.rows_of_seqs(change.deleted)
        rows = self.table.append(change.heads)
        self.table.remove(dead)  # after the append, so that readers always find a row of a replaced id
        if not len(self._vectors.view):
            self._vectors = VectorRows.of(change.vectors)  # the first vectors set the dimension
        elif len(rows):
            self._vectors.extend(change.vectors)
        now = self.table.snapshot()
        if self.lexical_fault is None:
            self._unsaved += len(dead) + len(rows)
            try:
                sources = now.source[rows].tolist()
                self._index.update(rows.tolist(), change.texts, sources, removed=dead.tolist())
            except Exception as error:
                log.exception("the lexical index failed; searches go on without it until repair()")
                self.lexical_fault = f"{type(error).__name__} while indexing"
        with self._reading:  # `names` and `read_columns` read the rows of `_rows`, so it is replaced with the lock held
            if self._names is not None:
                self._names.add(rows.tolist(), change.texts)
            metadata = self.metadata
            if isinstance(metadata, UnreadColumns):
                metadata.add(rows, change.metadata)
                if self._ledger.read_only and metadata.later > SAVE_EVERY:
                    self._use_unread()  # no save will write these rows, so their JSON would stay
            elif metadata is not None and len(rows):
                metadata.columns.add(rows.tolist(), [decode_metadata(text) for text in change.metadata])
            self._mark, self._rows = change.mark, now
        return self.snapshot

    @property
    def snapshot(self) -> StoreSnapshot:
        """The snapshot after the last change.

        Made at each call and not stored, since it refers to this object: in a cycle of references, a closed store would
        keep its memory and mapped files until the next run of the garbage collector.
        """
        return StoreSnapshot(
            mark=self._mark,
            rows=self._rows,
            vectors=self._vectors.view,
            present=self._vectors.present,
            lexical=self._index.view(),
            lexical_fault=self.lexical_fault,
            row_data=self,
        )

    def chunks(self, seqs: Sequence[int]) -> dict[int, Chunk]:
        """Sequence number -> chunk, from the cache or the ledger; removed chunks that are not cached are left out."""
        found = self._cached.get(seqs)
        missing = [seq for seq in seqs if seq not in found]
        if missing:
            read = {seq: decode(entry) for seq, entry in self._ledger.entries(missing).items()}
            self._cached.put({seq: chunk for seq, chunk in read.items() if len(chunk.text) <= CACHED_CHARACTERS_MAX})
            found |= read
        return found

    @property
    def quantised(self) -> QuantisedRows:
        """The int8 codes of the vectors."""
        return self._vectors.quantised

    @property
    def columns(self) -> MetadataColumns | None:
        """The metadata columns; None: they were not made yet."""
        return self.metadata.columns if isinstance(self.metadata, MadeColumns) else None

    def read_columns(self, keys: Set[str]) -> None:
        """Make the metadata columns from `UnreadColumns` or else from the ledger, unless those of these keys were made.

        A running search keeps the columns of its snapshot.
        """

        def read() -> None:
            with self._ledger.snapshot() as connection:
                self._read_columns(connection)

        with self._reading:
            self._use_unread()
            if self.columns is None or self.columns.left_out & keys:
                self._ledger.retry_read(read)

    def _use_unread(self) -> None:
        """If `metadata` is `UnreadColumns`, replace it by `MadeColumns`, or by None if they cannot be made."""
        unread = self.metadata
        if isinstance(unread, UnreadColumns):
            columns = unread.read()
            self.metadata = None if columns is None else MadeColumns(columns, unread.mark)

    def _read_columns(self, connection: Connection) -> None:
        """Read the metadata columns from the ledger. Rows that it no longer holds get no metadata."""
        stored = {head.seq: text for head, _, text in self._ledger.texts(connection)}
        seqs = self._rows.seq.tolist()
        columns = MetadataColumns()
        for start in range(0, len(seqs), DECODED_AT_ONCE):
            some = seqs[start : start + DECODED_AT_ONCE]
            texts = [stored.get(seq, "{}") for seq in some]
            columns.add(range(start, start + len(some)), [decode_metadata(text) for text in texts])
        self.metadata = MadeColumns(columns, self._ledger.mark(connection))

    def names(self) -> Names:
        """The names of all chunks, read from the ledger at the first call."""
        if self._names is None:
            with self._reading:
                if self._names is None:
                    self._names = self._read_names()
        return self._names

    def _read_names(self) -> Names:
        seqs = self._rows.seq.tolist()
        beginnings = self._ledger.retry_read(lambda: self._ledger.beginnings(BEGINNING))
        names = Names(self.analyzer)
        names.add(range(len(seqs)), [beginnings.get(seq, "") for seq in seqs])  # a removed row has no text: no name
        return names

    def save(self, *, always: bool) -> None:
        """Save all arrays if rows changed; unless `always`, only after as many changes as SAVE_EVERY says.

        If they cannot be saved, a warning is logged.
        """
        least = 1 if always else SAVE_EVERY + len(self.table) // 8
        if self._directory is None or self.lexical_fault is not None or self._unsaved < least:
            return
        rows = self._rows
        # `ids` may already hold the ids of later rows.
        ids = [id if alive else "" for id, alive in zip(rows.ids, rows.alive.tolist(), strict=False)]
        facts: dict[str, Any] = {"ids": ids}
        arrays = {name: np.where(rows.alive, getattr(rows, name), MISSING) for name in ("position", "time")}
        arrays["id checksums"] = self.calibration.saved(rows)["id checksums"]
        self._vectors.remove_unsaved(self._directory)
        try:
            columns = self._columns_to_save(facts, arrays)
            saved = self._vectors.save(self._directory, facts, arrays)
            self._index.save(self._directory, self._mark, rows.seq, self.table.sources, arrays, facts)
        except Exception as error:  # noqa: BLE001 the arrays can always be built again
            log.warning("the indexes were not saved (%s); the next opening reads rows since the last save again", error)
            self._vectors.remove_unsaved(self._directory)  # the files of this attempt may fill the ledger's disk
            return
        self._unsaved = 0
        with self._reading:
            if not isinstance(self.metadata, MadeColumns):
                self.metadata = columns
        try:
            self._vectors.use_saved(self._directory, saved)
        except (OSError, ValueError) as error:
            log.warning("the saved vectors cannot be mapped (%s); they stay in memory until the next opening", error)

    def _columns_to_save(self, facts: dict[str, Any], arrays: dict[str, Any]) -> UnreadColumns | None:
        """Add the metadata columns to the facts and arrays of a save, and return them as they are saved; None: there
        are none, or they are not saved."""
        with self._reading:
            columns, metadata = self.columns, self.metadata
        if isinstance(metadata, UnreadColumns):
            columns = metadata.read()
        alive = self._rows.alive
        found = to_save(columns, alive)
        if found is None:
            return None
        facts[COLUMNS] = found[0]
        arrays |= found[1]
        return UnreadColumns(self._mark, *found, len(alive))
