"""The indexes of an open store, kept in step with its ledger.

A writer passes each commit on to `apply`. A reading process, or a writer whose `apply` was interrupted, reads the new
rows from the ledger by sequence number. `snapshot` is replaced as a whole, so a search sees one commit and never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from umi_common.config import AnalyzerConfig
from umi_common.stores.embedded.row_data import Change, RowData, StoreSnapshot
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.rows.rows import RowTable

DEAD_ROWS_MAX = 50_000
"""Largest number of dead rows; if more than this and more than half of the rows are dead, all rows are numbered
again."""


class Indexes:
    """Rows, vectors, both search arms and metadata columns of one open store.

    Args:
        ledger: Source of all data.
        directory: Where the arrays are saved for the next opening; None: nowhere.
        analyzer: Settings of the analyzer.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.lock = threading.RLock()
        """Held while the indexes change; the ledger may be read meanwhile. Searches do not acquire it."""
        self.stale = False
        """The ledger may hold more than the indexes, because a write was interrupted."""
        self.building = False
        """All indexes are being made again; meanwhile searches use the snapshot from before."""
        self._ledger = ledger
        self._directory = directory
        self._analyzer = analyzer
        self._inconsistent = False
        """True during `apply`. If `apply` raises it stays True, and everything is read from the ledger again."""
        self._version = ledger.version()
        ledger.retry_read(self.load)

    @property
    def analyzer(self) -> Analyzer:
        """Text to terms."""
        return self.snapshot.row_data.lexical.analyzer

    def load(self, *, fresh: bool = False) -> None:
        """Read everything from the ledger; the lexical index from its file, unless `fresh` or the file is unusable."""
        with self.lock:
            made = RowData(self._ledger, self._directory, self._analyzer, fresh=fresh)
            before: StoreSnapshot | None = getattr(self, "snapshot", None)
            if before is not None and before.row_data.has_columns:
                made.columns()  # so that the next search with a filter does not wait for them
            self.snapshot = made.snapshot
            self._inconsistent = self.stale = False

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Set `building` during the block."""
        self.building = True
        try:
            yield
        finally:
            self.building = False

    def apply(self, change: Change) -> None:
        """Add a commit to the indexes, unless `follow` has already done so."""
        with self.lock:
            known = self.snapshot.mark
            if change.mark.seq <= known.seq and change.mark.deletion <= known.deletion:
                return
            self._inconsistent = True
            self.snapshot = self.snapshot.row_data.apply(change)
            self._inconsistent = self.stale = False
            living = self.snapshot.rows.living
            if len(self.snapshot.rows) - living > max(DEAD_ROWS_MAX, living):
                self.load(fresh=True)

    def follow(self) -> None:
        """Add the commits of another process (if read_only), or those that an interrupted write left out."""
        if self._ledger.read_only:
            version = self._ledger.version()
            if version != self._version:
                self._ledger.retry_read(self._catch_up)
                self._version = version
        elif self.stale:
            with self.lock:
                with self._ledger.reading() as connection:
                    mark = self._ledger.mark(connection)
                if self._inconsistent or mark != self.snapshot.mark:
                    self.load()
                self.stale = False

    def _catch_up(self) -> None:
        with self.lock:
            found = None if self._inconsistent else self._read_change()
            if found is None:
                self.load()
                return
            change, count = found
            if change.mark == self.snapshot.mark:
                return
            if len(change.vectors) == len(change.heads):
                self.apply(change)
            if self.snapshot.mark != change.mark or self.snapshot.rows.living != count:
                self.load()  # rows are missing; load() raises the right error

    def _read_change(self) -> tuple[Change, int] | None:
        """The changes after `snapshot`, and the ledger's count of chunks; None: the indexes must be made again."""
        ledger, known = self._ledger, self.snapshot.mark
        with ledger.snapshot() as connection:
            mark, count = ledger.mark(connection), ledger.count(connection)
            if mark == known:
                return Change(mark, [], [], [], [], self.snapshot.vectors[:0]), count
            deleted = ledger.deleted(connection, after=known.deletion)
            if mark.epoch != known.epoch or deleted is None or not ledger.descends_from(connection, known):
                return None
            texts = list(ledger.texts(connection, after=known.seq))
            change = Change(
                mark,
                deleted,
                ledger.heads(connection, after=known.seq),
                [text for _, text, _ in texts],
                [metadata for _, _, metadata in texts],
                ledger.vectors(connection, after=known.seq),
            )
            return change, count

    @property
    def table(self) -> RowTable:
        """The row and the ledger number of each chunk that there is now, by id."""
        return self.snapshot.row_data.table

    def alive(self, seqs: Sequence[int]) -> list[bool]:
        """Whether there is a chunk with this ledger number, aligned with seqs."""
        rows = self.snapshot.rows
        return rows.among(seqs, rows.alive)

    def removed(self, seqs: Sequence[int]) -> list[bool]:
        """Whether the chunk with this ledger number was removed, aligned with seqs; False for numbers not known yet."""
        rows = self.snapshot.rows
        return rows.among(seqs, ~rows.alive)

    def save(self, *, always: bool) -> None:
        """Save the arrays if rows changed; unless `always`, only if a crash would cost a long rebuild."""
        with self.lock:
            if not self.stale and self._ledger.in_place():
                self.snapshot.row_data.save(always=always)
                self.snapshot = self.snapshot.row_data.snapshot
