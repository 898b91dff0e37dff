"""The indexes of an open store, kept in step with its ledger.

The writer hands over what it has committed; a reader, or a writer whose hand-over was cut short, reads it from the
ledger by sequence number. `state` is swapped as a whole, so a search works on one moment and never waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from umi_common.config import AnalyzerConfig
from umi_common.stores.embedded.by_row import ByRow
from umi_common.stores.embedded.state import Change, State
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.lexical.analyzer import Analyzer

DEAD_ROWS_MAX = 50_000
"""Rows of removed chunks, where they are also more than half, at which all rows are numbered afresh."""


class Indexes:
    """Rows, vectors, both search arms and metadata columns of one open store.

    Args:
        ledger: What they are made from.
        directory: Where they keep what spares the next opening work; None: nowhere.
        analyzer: Text to terms.
    """

    def __init__(self, ledger: Ledger, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.lock = threading.RLock()
        """Held while the indexes change; the ledger may be read under it. No search takes it."""
        self.stale = False
        """The ledger may hold more than the indexes: a hand-over was cut short."""
        self.building = False
        """All is being made anew; searches go on with the moment before."""
        self._ledger = ledger
        self._directory = directory
        self._analyzer = analyzer
        self._torn = False
        self._version = ledger.version()
        ledger.steady(self.load)

    @property
    def analyzer(self) -> Analyzer:
        """Text to terms."""
        return self.state.by_row.lexical.analyzer

    def load(self, *, fresh: bool = False) -> None:
        """Read everything from the ledger; the lexical index from its snapshot, unless `fresh` or unusable."""
        with self.lock:
            made = ByRow(self._ledger, self._directory, self._analyzer, fresh=fresh)
            before: State | None = getattr(self, "state", None)
            if before is not None and before.by_row.filtered:
                made.fill_columns()  # or the next search with a filter would wait for it
            self.state = made.state
            self._torn = self.stale = False

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Says in `building` that all is being made anew."""
        self.building = True
        try:
            yield
        finally:
            self.building = False

    def apply(self, change: Change) -> None:
        """Take over what was committed, unless a reading of the ledger has brought it already."""
        with self.lock:
            known = self.state.mark
            if change.mark.seq <= known.seq and change.mark.deletion <= known.deletion:
                return
            self._torn = True
            self.state = self.state.by_row.apply(change)
            self._torn = self.stale = False
            living = self.state.rows.living
            if len(self.state.rows) - living > max(DEAD_ROWS_MAX, living):
                self.load(fresh=True)

    def follow(self) -> None:
        """Catch up with the ledger: behind another process, or after a hand-over that was cut short."""
        if self._ledger.read_only:
            version = self._ledger.version()
            if version != self._version:
                self._ledger.steady(self._catch_up)
                self._version = version
        elif self.stale:
            with self.lock:
                with self._ledger.reading() as connection:
                    mark = self._ledger.mark(connection)
                if self._torn or mark != self.state.mark:
                    self.load()
                self.stale = False

    def _catch_up(self) -> None:
        with self.lock:
            found = None if self._torn else self._read_change()
            if found is None:
                self.load()
                return
            change, count = found
            if change.mark == self.state.mark:
                return
            if len(change.vectors) == len(change.heads):
                self.apply(change)
            if self.state.mark != change.mark or self.state.rows.living != count:
                self.load()  # rows are missing; load() says so

    def _read_change(self) -> tuple[Change, int] | None:
        """What the ledger holds beyond the indexes, and its count; None: they have to be made anew."""
        ledger, known = self._ledger, self.state.mark
        with ledger.reading() as connection:
            connection.execute("BEGIN")
            mark, count = ledger.mark(connection), ledger.count(connection)
            if mark == known:
                return Change(mark, [], [], [], [], self.state.vectors[:0]), count
            dead = ledger.deleted(connection, after=known.deletion)
            if mark.epoch != known.epoch or dead is None or not ledger.descends_from(connection, known):
                return None
            texts = list(ledger.texts(connection, after=known.seq))
            change = Change(
                mark,
                dead,
                ledger.heads(connection, after=known.seq),
                [text for _, text, _ in texts],
                [metadata for _, _, metadata in texts],
                ledger.vectors(connection, after=known.seq),
            )
            return change, count

    def row_of(self, id: str) -> int | None:
        """The row of a chunk that is alive now."""
        return self.state.by_row.row_of(id)

    def seqs_of(self, ids: Sequence[str]) -> list[int | None]:
        """Ledger numbers of chunks that are alive now; None where there is none."""
        return self.state.by_row.seqs_of(ids)

    def alive(self, seqs: Sequence[int]) -> list[bool]:
        """Whether a chunk with this ledger number is there now."""
        rows = self.state.rows
        return rows.among(seqs, rows.alive)

    def removed(self, seqs: Sequence[int]) -> list[bool]:
        """Whether there was a chunk with this ledger number and is no more; False also for numbers not known yet."""
        rows = self.state.rows
        return rows.among(seqs, ~rows.alive)

    def save(self, *, always: bool) -> None:
        """Write the lexical snapshot: always, or when a crash would cost a long rebuild; not into another directory."""
        with self.lock:
            if not self.stale and self._ledger.in_place():
                self.state.by_row.save(self.state, always=always)
