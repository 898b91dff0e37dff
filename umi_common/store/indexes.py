"""Everything made from the ledger and kept in step with it: rows, vectors, both search arms, metadata columns.

The writer hands over what it has committed; a reader, or a writer whose hand-over was cut short, reads it from the
ledger by sequence number. `state` is swapped as a whole, so a search works on one moment.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np

from umi_common.config import AnalyzerConfig
from umi_common.errors import LedgerDamaged
from umi_common.filters import Filter
from umi_common.pool import Vectors
from umi_common.store import snapshot
from umi_common.store.calibration import Calibration
from umi_common.store.codec import Head, decode_metadata
from umi_common.store.columns import MetadataColumns
from umi_common.store.growing import Growing
from umi_common.store.id_order import IdOrder
from umi_common.store.ledger import Ledger, Mark
from umi_common.store.lexical_arm import LexicalArm
from umi_common.store.quantised import QuantisedRows
from umi_common.store.rows import Mask, RowTable
from umi_common.store.state import Change, State
from umi_common.types import TimeRange

DEAD_ROWS_MAX = 50_000
"""Rows of removed chunks, where they are also more than half, at which all rows are numbered afresh."""


class Indexes:
    """The indexes of one open store.

    Args:
        ledger: What they are made from.
        directory: Where they keep what spares the next opening work; None: nowhere.
        analyzer: Text to terms.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.lock = threading.RLock()
        """Held while the indexes change; the ledger may be read under it."""
        self.stale = False
        """The ledger may hold more than the indexes: a hand-over was cut short."""
        self.lexical = LexicalArm(directory, analyzer)
        self.id_order = IdOrder()
        self._ledger = ledger
        self._directory = directory
        self._version = ledger.version()
        self.load()

    def load(self, *, fresh: bool = False) -> None:
        """Read everything from the ledger; the lexical index from its snapshot, unless `fresh` or unusable."""
        with self.lock, self._ledger.reading() as connection:
            self._torn = True
            self.calibration = Calibration()  # remembers by row, and rows may get other numbers
            connection.execute("BEGIN")
            mark = self._ledger.mark(connection)
            saved = None if fresh else snapshot.load(self._directory, self.lexical.analyzer, mark)
            heads = self._ledger.heads(connection)
            vectors = self._ledger.vectors(connection, expected=len(heads))
            texts = list(self._ledger.texts(connection, after=0 if saved is None else saved.mark.seq))
            connection.execute("COMMIT")
            if len(vectors) != len(heads):
                raise LedgerDamaged(f"the ledger holds {len(heads)} chunks and {len(vectors)} vectors; restore a copy")
            self._columns: MetadataColumns | None = None
            self._start_rows(heads, vectors, saved)
            rows = self._table.snapshot()
            known = np.zeros(0, dtype=np.bool_) if saved is None else saved.alive & ~rows.alive[: len(saved.alive)]
            self.lexical.start(saved, np.flatnonzero(known))
            newest = np.arange(len(rows) - len(texts), len(rows))
            self.lexical.change(newest[:0], newest, [text for _, text, _ in texts], rows.source[newest].tolist())
            self._publish(mark)

    def _start_rows(self, heads: Sequence[Head], vectors: Vectors, saved: snapshot.Saved | None) -> None:
        """Rows in the order of the snapshot's, dead ones included, then those that are newer."""
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
            self._quantised = QuantisedRows(vectors.shape[1])
        else:
            self._vectors.extend(vectors)
        self._present.extend(vectors.any(axis=1))

    def apply(self, change: Change) -> None:
        """Take over what was committed, unless a reading of the ledger has brought it already."""
        with self.lock:
            known = self.state.mark
            if change.mark.seq <= known.seq and change.mark.deletion <= known.deletion:
                return
            self._torn = True
            dead = self._table.rows_of_seqs(np.asarray(change.dead, dtype=np.int64))
            self._table.remove(dead)
            rows = self._table.append(change.heads)
            if len(rows):
                self._keep_vectors(change.vectors, afresh=not len(self._vectors.view))
            self.lexical.change(dead, rows, change.texts, self._table.snapshot().source[rows].tolist())
            if self._columns is not None and len(rows):
                self._columns.add(rows.tolist(), [decode_metadata(text) for text in change.metadata])
            self._publish(change.mark)
            dead_rows = len(self._table) - self.state.rows.living
            if dead_rows > max(DEAD_ROWS_MAX, self.state.rows.living):
                self.load(fresh=True)

    def _publish(self, mark: Mark) -> None:
        present = self._present.view
        rows = self._table.snapshot()
        self.state = State(
            mark=mark,
            rows=rows,
            vectors=self._vectors.view,
            present=None if present.all() else present,
            quantised=self._quantised,
            id_order=self.id_order,
            lexical=self.lexical.view(),
            lexical_fault=self.lexical.fault,
        )
        self._torn = self.stale = False

    def follow(self) -> None:
        """Catch up with the ledger: behind another process, or after a hand-over that was cut short."""
        if self._ledger.read_only:
            version = self._ledger.version()
            if version != self._version:
                self._catch_up()
                self._version = version
        elif self.stale:
            with self.lock:
                with self._ledger.reading() as connection:
                    mark = self._ledger.mark(connection)
                if self._torn or mark != self.state.mark:
                    self.load()
                self.stale = False

    def _catch_up(self) -> None:
        with self.lock, self._ledger.reading() as connection:
            connection.execute("BEGIN")
            ledger = self._ledger
            mark, known = ledger.mark(connection), self.state.mark
            if self._torn or mark.epoch != known.epoch:
                connection.execute("COMMIT")
                self.load()
            elif mark != known:
                texts = list(ledger.texts(connection, after=known.seq))
                change = Change(
                    mark,
                    ledger.deleted(connection, after=known.deletion),
                    ledger.heads(connection, after=known.seq),
                    [text for _, text, _ in texts],
                    [metadata for _, _, metadata in texts],
                    ledger.vectors(connection, after=known.seq),
                )
                connection.execute("COMMIT")
                self.apply(change)

    @property
    def sources(self) -> Sequence[str]:
        """Names of the sources by code; only ever grows."""
        return self._table.sources

    def row_of(self, id: str) -> int | None:
        """The row of a living chunk."""
        return self._table.row_of(id)

    def seqs_of(self, ids: Sequence[str]) -> list[int | None]:
        """Ledger numbers of living chunks; None where there is none."""
        return self._table.seqs_of(ids)

    def is_alive(self, seq: int) -> bool:
        """Whether a chunk with this ledger number is there now."""
        rows = self._table.rows_of_seqs(np.array([seq]))
        return bool(self.state.rows.alive[rows].any())

    def mask(self, state: State, where: Filter | None, window: TimeRange | None) -> Mask | None:
        """(n,) the living rows that pass both; None: every row does."""
        rows = state.rows
        allowed = None if rows.living == len(rows) else rows.alive
        if window is not None:
            inside = rows.within(window)
            allowed = inside if allowed is None else inside & allowed
        if where is not None:
            passing = self._filled_columns().mask(where, len(rows))
            allowed = passing if allowed is None else passing & allowed
        return allowed

    def _filled_columns(self) -> MetadataColumns:
        """The metadata columns, read from the ledger at the first filter."""
        columns = self._columns
        if columns is None:
            with self.lock:
                if self._columns is None:
                    self._columns = self._read_columns()
                columns = self._columns
        return columns

    def _read_columns(self) -> MetadataColumns:
        with self._ledger.reading() as connection:
            stored = {seq: decode_metadata(text) for seq, _, text in self._ledger.texts(connection)}
        seqs = self._table.snapshot().seq.tolist()
        columns = MetadataColumns()
        columns.add(range(len(seqs)), [stored.get(seq, {}) for seq in seqs])
        return columns

    def save(self, *, always: bool) -> None:
        """Write the lexical snapshot: always, or when a crash would cost a long rebuild."""
        with self.lock:
            if not self.stale and always:
                self.lexical.save(self.state.mark, self._table)
            elif not self.stale:
                self.lexical.save_if_worth_it(self.state.mark, self._table)
