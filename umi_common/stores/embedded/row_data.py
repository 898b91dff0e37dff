"""The data of a store by row: one row for each chunk, removed ones included.

`RowData` reads the arrays from the files of the last save and from the ledger (the SQLite file that holds all chunks),
adds each commit, makes a `StoreSnapshot` after it, and saves them. When rows get new numbers (`fresh`), a new `RowData`
replaces all arrays. A search keeps the snapshot that it started with, so a row number means the same chunk throughout
the search.

`LazyData` reads chunks, names and metadata columns from the ledger when a search needs them. It caches chunks. The
first search that needs the names or the columns makes them for all rows; later commits add their rows.
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
from umi_common.pool import Ints, Vectors
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
from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.stores.rows.rows import MISSING, Mask, Rows, RowTable
from umi_common.stores.rows.unread_columns import COLUMNS, KEYS, UnreadColumns, to_save
from umi_common.types import Chunk, TimeRange

log = logging.getLogger("umi")

SAVE_EVERY = 50_000
"""The arrays are saved when this number of rows, plus an eighth of the store's rows, were added or removed since the
last save. After a crash, opening the store reads the unsaved rows from the ledger: under 1 s for 50,000. A read-only
store saves nothing; when it has more unsaved rows than this, it makes metadata columns of their JSON."""
CHUNKS_CACHED = 16_384
"""Largest number of cached chunks. A search reads some 50 chunks, which takes a tenth of its time if none is cached."""
CACHED_CHARACTERS_MAX = 8_192
"""Number of characters of the longest text that is cached, so that 16,384 texts in ASCII take at most 128 MB; mostly
they take a tenth of it."""
DECODED_AT_ONCE = 1_000
"""Number of rows whose metadata are decoded together. With all rows together, the garbage collector would visit all
dicts again and again."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The data that a search reads, as of one commit; n rows. The names in `row_data.lazy` may be of a later commit."""

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
    """The metadata by which `mask` evaluates a filter; None: `with_columns` was not called."""

    def with_columns(self, keys: Set[str]) -> StoreSnapshot | None:
        """This snapshot, able to evaluate a filter on these keys; None: see `LazyData.columns_at`."""
        columns = self.row_data.lazy.columns_at(self.mark, keys)
        return None if columns is None else replace(self, columns=columns)

    def mask(self, where: Filter | None, window: TimeRange | None) -> Mask | None:
        """(n,) whether each row is living and passes the filter and the time range; None: all rows do.

        With a filter, the snapshot must have its `columns`.
        """
        if where is None:
            return self.rows.allowed(None, window)
        assert self.columns is not None
        return self.rows.allowed(self.columns.mask(where, len(self.rows)), window)


class MadeColumns(NamedTuple):
    """Metadata columns of all rows, by which filters are evaluated."""

    columns: MetadataColumns
    mark: Mark
    """The commit as of which they were read from the ledger or saved. They may lack chunks removed up to it."""


class LazyData:
    """Chunks, names and metadata columns of the rows of one `RowData`. One writer at a time; thread-safe for readers.

    Args:
        rows: The rows so far.
        metadata: Their metadata; None: the columns must be read from the ledger.
    """

    def __init__(self, ledger: Ledger, analyzer: Analyzer, rows: Rows, metadata: UnreadColumns | None) -> None:
        self._ledger, self._analyzer = ledger, analyzer
        self._chunks: LruCache[int, Chunk] = LruCache(CHUNKS_CACHED)
        self._lock = threading.Lock()
        """Held while names or metadata columns are made or get new rows, so that no row is missed."""
        self._rows = rows
        self._metadata: UnreadColumns | MadeColumns | None = metadata
        """Unread until a filter needs them; None: they must be read from the ledger."""
        self._names: Names | None = None
        """None: not made yet."""

    def add(self, change: Change, added: Ints, rows: Rows) -> None:
        """Add a commit. `added` are the numbers of its n new rows, and `rows` are all rows after it."""
        with self._lock:
            self._rows = rows
            if self._names is not None:
                self._names.add(added.tolist(), change.texts)
            metadata = self._metadata
            if isinstance(metadata, UnreadColumns):
                metadata.add(added, change.metadata)
                if self._ledger.read_only and metadata.later > SAVE_EVERY:
                    self._use_unread()
            elif metadata is not None:
                metadata.columns.add(added.tolist(), [decode_metadata(text) for text in change.metadata])

    def chunks(self, seqs: Sequence[int]) -> dict[int, Chunk]:
        """Sequence number -> chunk, from the cache or the ledger; removed chunks that are not cached are left out."""
        found = self._chunks.get(seqs)
        missing = [seq for seq in seqs if seq not in found]
        if missing:
            read = {seq: decode(entry) for seq, entry in self._ledger.entries(missing).items()}
            self._chunks.put({seq: chunk for seq, chunk in read.items() if len(chunk.text) <= CACHED_CHARACTERS_MAX})
            found |= read
        return found

    def names(self) -> Names:
        """The names of the chunks of all rows, which are their headings."""
        if self._names is None:
            with self._lock:
                if self._names is None:
                    seqs = self._rows.seq.tolist()
                    beginnings = self._ledger.retry_read(lambda: self._ledger.beginnings(BEGINNING))
                    names = Names(self._analyzer)
                    names.add(range(len(seqs)), [beginnings.get(seq, "") for seq in seqs])  # "": removed, no name
                    self._names = names
        return self._names

    @property
    def columns(self) -> MetadataColumns | None:
        """The metadata columns; None: they were not made yet."""
        return self._metadata.columns if isinstance(self._metadata, MadeColumns) else None

    def columns_at(self, mark: Mark, keys: Set[str]) -> MetadataColumns | None:
        """The columns by which a snapshot with this mark can evaluate a filter on these keys. None: the columns of
        these keys were not made, or chunks were removed after the snapshot, and the columns may lack them."""
        made = self._metadata
        if not isinstance(made, MadeColumns) or made.columns.left_out & keys:
            return None
        return None if mark.deletion < made.mark.deletion else made.columns

    def read_columns(self, keys: Set[str]) -> None:
        """Make the metadata columns, unless those of these keys were made. Snapshots keep their columns."""
        with self._lock:
            self._use_unread()
            columns = self.columns
            if columns is None or columns.left_out & keys:
                self._metadata = self._ledger.retry_read(self._columns_of_ledger)

    def _use_unread(self) -> None:
        """Make columns of `UnreadColumns`; if these have too many keys, columns must be read from the ledger."""
        unread = self._metadata
        if isinstance(unread, UnreadColumns):
            columns = unread.read()
            self._metadata = None if columns is None else MadeColumns(columns, unread.mark)

    def _columns_of_ledger(self) -> MadeColumns:
        """The metadata columns from the ledger. Rows that it no longer holds get no metadata."""
        with self._ledger.snapshot() as connection:
            stored = {head.seq: text for head, _, text in self._ledger.texts(connection)}
            mark = self._ledger.mark(connection)
        seqs = self._rows.seq.tolist()
        columns = MetadataColumns()
        for start in range(0, len(seqs), DECODED_AT_ONCE):
            some = seqs[start : start + DECODED_AT_ONCE]
            columns.add(range(start, start + len(some)), [decode_metadata(stored.get(seq, "{}")) for seq in some])
        return MadeColumns(columns, mark)

    def all_columns(self) -> MetadataColumns | None:
        """The columns of all rows, for a save; None: they must be read from the ledger. Unread columns stay unread."""
        with self._lock:
            metadata = self._metadata
        if isinstance(metadata, UnreadColumns):
            return metadata.read()
        return None if metadata is None else metadata.columns

    def use_saved(self, saved: UnreadColumns | None) -> None:
        """Replace unread columns by those of a save; None: it saved none."""
        with self._lock:
            if not isinstance(self._metadata, MadeColumns):
                self._metadata = saved


class RowData:
    """Rows, vectors and postings. One writer at a time; readers use a `StoreSnapshot`.

    Args:
        ledger: Holds all chunks.
        directory: The directory in which the arrays are saved; None: they are not saved.
        analyzer: Settings of the lexical index.
        fresh: Read all rows from the ledger, and number them anew, even if there are saved arrays.
        indexed: Given with `fresh` only: a snapshot. If it is of the ledger's last commit, its lexical index is taken
            over without its removed rows, so that no text is analysed again.
    """

    def __init__(
        self,
        ledger: Ledger,
        directory: Path | None,
        analyzer: AnalyzerConfig,
        *,
        fresh: bool,
        indexed: StoreSnapshot | None = None,
    ) -> None:
        self._ledger, self._directory, self.analyzer = ledger, directory, Analyzer(analyzer)
        self._index, self.table, self.calibration = LexicalIndex(self.analyzer), RowTable(), Calibration()
        self._vectors = VectorRows.of(np.zeros((0, 0), dtype=np.float32))
        self.lexical_fault: str | None = None
        """Why the lexical index cannot answer; None: it can."""
        self._unsaved = 0
        """Number of rows added and removed since the arrays were saved."""
        with ledger.snapshot() as connection:
            restored = None if fresh or not ledger.count(connection) else self._restore(connection)
            if restored is None:
                change = ledger.changes(connection, None)
                assert change is not None  # it may be None only for the changes after a mark
                saves = (
                    directory is not None and not ledger.read_only
                )  # else the JSON of all rows would only use memory
                metadata = UnreadColumns(change.mark) if saves else None
            else:
                change, metadata = restored
            self._mark, self._rows = change.mark, self.table.snapshot()
            self.lazy = LazyData(ledger, self.analyzer, self._rows, metadata)
            same = indexed is not None and indexed.mark == change.mark and indexed.lexical_fault is None
            self.apply(change, indexed.lexical if indexed is not None and same else None)

    def _restore(self, connection: Connection) -> tuple[Change, UnreadColumns | None] | None:
        """Set the fields to the saved arrays. Returns the changes of the ledger since the save, and the saved metadata
        if there are any. None: nothing usable is saved, because no saved commit is in the ledger's history or the
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
        self._vectors = self._saved_vectors(saved, alive, count, connection)
        self._index, self.table, self.calibration = index, table, Calibration(arrays["id checksums"])
        keys = saved.facts.get(COLUMNS, saved.facts.get(KEYS))
        return change, None if keys is None else UnreadColumns(saved.mark, keys, arrays, len(saved.seqs))

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

    def apply(self, change: Change, index: LexicalIndex | None = None) -> StoreSnapshot:
        """Add a change, and return the snapshot after it. If an exception is raised, the data are inconsistent and must
        be built again. An error of the lexical index only sets `lexical_fault`, because searches work without it.

        Args:
            index: For the first rows only: an index whose living rows are the chunks of the change, in the same order.
        """
        dead = self._rows.rows_of_seqs(change.deleted)
        added, rows = self.table.replace(dead, change.heads)
        if not len(self._vectors.view):
            self._vectors = VectorRows.of(change.vectors)  # the first vectors set the dimension
        elif len(added):
            self._vectors.extend(change.vectors)
        if self.lexical_fault is None:
            self._unsaved += len(dead) + len(added)
            try:
                if index is None:
                    sources = rows.source[added].tolist()
                    self._index.update(added.tolist(), change.texts, sources, removed=dead.tolist())
                else:
                    self._index = index.without_dead_rows(rows.source)
            except Exception as error:
                log.exception("the lexical index failed; searches go on without it until repair()")
                self.lexical_fault = f"{type(error).__name__} while indexing"
        self.lazy.add(change, added, rows)
        self._mark, self._rows = change.mark, rows
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

    @property
    def quantised(self) -> QuantisedRows:
        """The int8 codes of the vectors."""
        return self._vectors.quantised

    @property
    def columns(self) -> MetadataColumns | None:
        """The metadata columns; None: they were not made yet."""
        return self.lazy.columns

    def save(self, *, always: bool) -> None:
        """Save all arrays if rows changed; unless `always`, only after as many changes as SAVE_EVERY says. If they
        cannot be saved, a warning is logged."""
        least = 1 if always else SAVE_EVERY + len(self.table) // 8
        if self._directory is None or self.lexical_fault is not None or self._unsaved < least:
            return
        rows = self._rows
        # `rows.ids` may already hold the ids of later rows.
        ids = [id if alive else "" for id, alive in zip(rows.ids, rows.alive.tolist(), strict=False)]
        facts: dict[str, Any] = {"ids": ids}
        arrays = {name: np.where(rows.alive, getattr(rows, name), MISSING) for name in ("position", "time")}
        arrays["id checksums"] = self.calibration.saved(rows)["id checksums"]
        self._vectors.remove_unsaved(self._directory)
        try:
            columns = to_save(self.lazy.all_columns(), rows.alive)
            if columns is not None:
                facts[COLUMNS] = columns[0]
                arrays |= columns[1]
            saved = self._vectors.save(self._directory, facts, arrays)
            self._index.save(self._directory, self._mark, rows.seq, self.table.sources, arrays, facts)
        except Exception as error:  # noqa: BLE001 the arrays can always be built again
            log.warning("the indexes were not saved (%s); the next opening reads rows since the last save again", error)
            self._vectors.remove_unsaved(self._directory)  # the files of this attempt may fill the ledger's disk
            return
        self._unsaved = 0
        self.lazy.use_saved(None if columns is None else UnreadColumns(self._mark, *columns, len(rows)))
        try:
            self._vectors.use_saved(self._directory, saved)
        except (OSError, ValueError) as error:
            log.warning("the saved vectors cannot be mapped (%s); they stay in memory until the next opening", error)
