"""Chunks, names and metadata columns of a store, which are read from the ledger when a search needs them.

Chunks are cached. The first search that needs the names or the metadata columns makes them for all rows; later commits
add their rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from typing import NamedTuple

from umi_common.embedders.cache import LruCache
from umi_common.pool import Ints
from umi_common.stores.chunk_names import BEGINNING, Names
from umi_common.stores.ledger.codec import decode, decode_metadata
from umi_common.stores.ledger.history import Change, Mark
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.stores.rows.rows import Rows
from umi_common.stores.rows.unread_columns import UnreadColumns
from umi_common.types import Chunk

CHUNKS_CACHED = 16_384
"""Largest number of cached chunks. A search reads some 50 chunks, which takes a tenth of its time if none is cached."""
CACHED_CHARACTERS_MAX = 8_192
"""Number of characters of the longest text that is cached, so that 16,384 texts in ASCII take at most 128 MB; mostly
they take a tenth of it."""
DECODED_AT_ONCE = 1_000
"""Number of rows whose metadata are decoded together. With all rows together, the garbage collector would visit all
dicts again and again."""


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
        later_max: In a read-only store, the columns are made if `metadata` gets more rows than this as JSON, because no
            save will write them.
    """

    def __init__(
        self, ledger: Ledger, analyzer: Analyzer, rows: Rows, metadata: UnreadColumns | None, *, later_max: int
    ) -> None:
        self._ledger, self._analyzer = ledger, analyzer
        self._later_max = later_max
        self._chunks: LruCache[int, Chunk] = LruCache(CHUNKS_CACHED)
        self._lock = threading.Lock()
        """Held while names or metadata columns are made, or get new rows, so that they miss none."""
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
                if self._ledger.read_only and metadata.later > self._later_max:
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
        these keys were not made, or all are of a later commit and may lack chunks of the snapshot."""
        made = self._metadata
        if not isinstance(made, MadeColumns) or made.columns.left_out & keys:
            return None
        return None if mark.seq < made.mark.seq or mark.deletion < made.mark.deletion else made.columns

    def read_columns(self, keys: Set[str]) -> None:
        """Make the metadata columns, unless those of these keys were made. A snapshot keeps the columns it has."""
        with self._lock:
            self._use_unread()
            columns = self.columns
            if columns is None or columns.left_out & keys:
                self._metadata = self._ledger.retry_read(self._columns_of_ledger)

    def _use_unread(self) -> None:
        """Make columns of `UnreadColumns`; if that fails, they must be read from the ledger."""
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
