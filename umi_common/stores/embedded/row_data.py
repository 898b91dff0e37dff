"""All arrays of a store that are addressed by row number. They are replaced together when rows are numbered again.

A search keeps the snapshot that it started with, so a row number means the same chunk from its start to its end.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np

from umi_common.config import AnalyzerConfig
from umi_common.errors import LedgerDamaged
from umi_common.filters import Filter
from umi_common.pool import Vectors
from umi_common.stores.corpus_stats import Calibration
from umi_common.stores.dense.int8 import QuantisedRows
from umi_common.stores.embedded.kept import Kept
from umi_common.stores.growing import Growing
from umi_common.stores.ledger.codec import Head, decode_metadata
from umi_common.stores.ledger.history import Mark
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.arm import LexicalArm
from umi_common.stores.lexical.file import Saved
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.references.names import LETTERS_READ, Names
from umi_common.stores.rows.metadata import MetadataColumns
from umi_common.stores.rows.rows import Mask, Rows, RowTable
from umi_common.types import Chunk, Metadata, TimeRange

CHUNKS_KEPT = 2_048
"""Chunks in the cache of those read last."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """All that a search reads, as of one commit."""

    mark: Mark
    rows: Rows
    vectors: Vectors
    """(n, dim) unit rows, or zeros; (n, 0) in a store that never held a chunk."""
    present: Mask | None
    """(n,) rows whose vector is not zeros; None: all."""
    lexical: LexicalIndex
    lexical_fault: str | None
    row_data: RowData
    """The arrays that this is a view of; they may hold later rows, too."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit, or several in a row, changed in the ledger."""

    mark: Mark
    dead: Sequence[int]
    """Ledger numbers of the deleted chunks."""
    heads: Sequence[Head]
    texts: Sequence[str]
    metadata: Sequence[str]
    """JSON."""
    vectors: Vectors


class RowData:
    """Rows, vectors, metadata and postings. One writer at a time; readers use a `StoreSnapshot`.

    Args:
        ledger: Source of all data.
        directory: Where the lexical index is saved; None: nowhere.
        analyzer: Text to terms.
        fresh: Number the rows again and index every text, even if there is a saved lexical index.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig, *, fresh: bool) -> None:
        self.calibration = Calibration()
        self.chunks: Kept[Chunk] = Kept(CHUNKS_KEPT)
        self.terms: Kept[tuple[str, ...]] = Kept(CHUNKS_KEPT)
        self.lexical = LexicalArm(directory, analyzer)
        self._ledger = ledger
        self._columns: MetadataColumns | None = None
        self._columns_lock = threading.Lock()
        self._names: Names | None = None
        self._names_lock = threading.Lock()
        with ledger.snapshot() as connection:
            mark = ledger.mark(connection)
            heads = ledger.heads(connection)
            # Without chunks the dimension is unknown, and a saved index would hold dead rows only.
            usable = bool(heads) and not fresh
            saved = self.lexical.load(partial(ledger.descends_from, connection)) if usable else None
            vectors = ledger.vectors(connection, expected=len(heads))
            texts = list(ledger.texts(connection, after=0 if saved is None else saved.mark.seq))
        if len(vectors) != len(heads):
            raise LedgerDamaged(f"the ledger holds {len(heads)} chunks and {len(vectors)} vectors; restore a copy")
        self._start_rows(heads, vectors, saved)
        rows = self._table.snapshot()
        known = np.zeros(0, dtype=np.bool_) if saved is None else saved.alive & ~rows.alive[: len(saved.alive)]
        newest = np.arange(len(rows) - len(texts), len(rows))
        sources = rows.source[newest].tolist()
        self.lexical.change(np.flatnonzero(known), newest, [text for _, text, _ in texts], sources)
        self._publish(mark)

    def _start_rows(self, heads: Sequence[Head], vectors: Vectors, saved: Saved | None) -> None:
        """Rows in the order of the saved lexical index, dead rows included, then the newer rows."""
        self._table = RowTable([] if saved is None else saved.sources)
        if saved is not None:
            older = bisect_right(heads, saved.mark.seq, key=attrgetter("seq"))
            old, heads = heads[:older], heads[older:]
            if len(old) < len(saved.seqs):
                by_seq = {head.seq: head for head in old}
                old = [by_seq.get(seq) or Head(seq, "", None, None, None) for seq in saved.seqs.tolist()]
            self._table.append(old)
            if older < len(old):
                self._table.remove(np.flatnonzero([head.id == "" for head in old]))
        self._table.append(heads)
        rows = self._table.snapshot()
        if len(vectors) < len(rows):
            aligned = np.zeros((len(rows), vectors.shape[1]), dtype=np.float32)
            aligned[rows.alive] = vectors
            vectors = aligned
        self._keep_vectors(vectors, afresh=True)

    def _keep_vectors(self, vectors: Vectors, *, afresh: bool) -> None:
        if afresh:
            self._vectors = Growing.holding(vectors)
            self._present = Growing(np.bool_)
            self.quantised = QuantisedRows(vectors.shape[1])
        else:
            self._vectors.extend(vectors)
        self._present.extend(vectors.any(axis=1))

    def apply(self, change: Change) -> StoreSnapshot:
        """The snapshot after a change. After an exception the data is inconsistent and must be made again."""
        dead = self._table.rows_of_seqs(np.asarray(change.dead, dtype=np.int64))
        rows = self._table.append(change.heads)
        self._table.remove(dead)  # last: an id that is replaced always has a row
        if len(rows):
            self._keep_vectors(change.vectors, afresh=not len(self._vectors.view))
        self.lexical.change(dead, rows, change.texts, self._table.snapshot().source[rows].tolist())
        with self._names_lock, self._columns_lock:  # until published: otherwise a first reading could miss these rows
            if self._names is not None:
                self._names.add(rows.tolist(), change.texts)
            if self._columns is not None and len(rows):
                self._columns.add(rows.tolist(), [decode_metadata(text) for text in change.metadata])
            self._publish(change.mark)
        return self.snapshot

    def _publish(self, mark: Mark) -> None:
        self._mark, self._rows = mark, self._table.snapshot()

    @property
    def snapshot(self) -> StoreSnapshot:
        """The snapshot after the last change.

        Not stored here: the two would refer to each other, and a closed store would keep its memory and mapped files
        until the next run of the garbage collector.
        """
        present = self._present.view
        return StoreSnapshot(
            mark=self._mark,
            rows=self._rows,
            vectors=self._vectors.view,
            present=None if present.all() else present,
            lexical=self.lexical.view(),
            lexical_fault=self.lexical.fault,
            row_data=self,
        )

    @property
    def sources(self) -> Sequence[str]:
        """Names of the sources by code; append-only."""
        return self._table.sources

    def row_of(self, id: str) -> int | None:
        """The row of a chunk; None: there is no such chunk now."""
        return self._table.row_of(id)

    def seqs_of(self, ids: Sequence[str]) -> list[int | None]:
        """Ledger numbers of chunks, aligned with ids; None where there is no such chunk now."""
        return self._table.seqs_of(ids)

    def mask(self, snapshot: StoreSnapshot, where: Filter | None, window: TimeRange | None) -> Mask | None:
        """(n,) whether each row of `snapshot` is alive and passes filter and window; None: all do."""
        rows = snapshot.rows
        allowed = None if rows.living == len(rows) else rows.alive
        if window is not None:
            inside = rows.within(window)
            allowed = inside if allowed is None else inside & allowed
        if where is not None:
            passing = self.fill_columns().mask(where, len(rows))
            allowed = passing if allowed is None else passing & allowed
        return allowed

    @property
    def filtered(self) -> bool:
        """Whether the metadata columns are in memory."""
        return self._columns is not None

    def fill_columns(self) -> MetadataColumns:
        """The metadata columns, read from the ledger at the first filter."""
        columns = self._columns
        if columns is None:
            with self._columns_lock:
                if self._columns is None:
                    self._columns = self._read_columns()
                columns = self._columns
        return columns

    def _read_columns(self) -> MetadataColumns:
        seqs = self._rows.seq.tolist()
        stored = self._ledger.steady(self._read_metadata)
        columns = MetadataColumns()
        columns.add(range(len(seqs)), [stored.get(seq, {}) for seq in seqs])
        return columns

    def _read_metadata(self) -> dict[int, Metadata]:
        with self._ledger.reading() as connection:
            return {seq: decode_metadata(text) for seq, _, text in self._ledger.texts(connection)}

    def names(self) -> Names:
        """The names of all chunks, read from the ledger at the first call."""
        names = self._names
        if names is None:
            with self._names_lock:
                if self._names is None:
                    self._names = self._read_names()
                names = self._names
        return names

    def _read_names(self) -> Names:
        seqs = self._rows.seq.tolist()
        begins = self._ledger.steady(lambda: self._ledger.beginnings(LETTERS_READ))
        names = Names(self.lexical.analyzer)
        known = [(row, begins[seq]) for row, seq in enumerate(seqs) if seq in begins]
        names.add([row for row, _ in known], [text for _, text in known])
        return names

    def save(self, snapshot: StoreSnapshot, *, always: bool) -> None:
        """Save the lexical index: always, or only if a crash would cost a long rebuild."""
        if always:
            self.lexical.save(snapshot.mark, self._table)
        else:
            self.lexical.save_if_worth_it(snapshot.mark, self._table)
