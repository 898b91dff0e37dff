"""The lexical index beside the ledger: filled, kept in step, saved; and out of action when it fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from umi_common.config import AnalyzerConfig
from umi_common.pool import Ints
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical import snapshot
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.index import PostingsIndex
from umi_common.stores.rows.rows import RowTable

log = logging.getLogger(__name__)

TEXTS_AT_ONCE = 5_000
"""Texts handed to the index in one call."""
SAVE_EVERY = 50_000
"""Changes not yet in the snapshot that make a save worth its time, on top of an eighth of the store: what a reopening
after a crash then indexes anew takes well under a second."""


class LexicalArm:
    """One writer at a time; what `view` gave stays as it was."""

    def __init__(self, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.analyzer = Analyzer(analyzer)
        self.fault: str | None = None
        """Why the index cannot be asked."""
        self._directory = directory
        self._index = PostingsIndex(self.analyzer)
        self._unsaved = 0

    def view(self) -> PostingsIndex:
        """The index of this moment."""
        return self._index.view()

    def start(self, saved: snapshot.Saved | None, gone: Ints) -> None:
        """Begin with a snapshot, less the rows that have gone since; or with nothing."""
        self.fault, self._unsaved = None, len(gone)
        self._index = PostingsIndex(self.analyzer) if saved is None else saved.postings
        self.change(gone, np.zeros(0, dtype=np.int64), [], [])

    def begin(self, texts: Sequence[str]) -> None:
        """Analyse texts that a change will bring, if it comes; nothing can be found yet."""
        if self.fault is None:
            with suppress(Exception):  # the change will meet it again
                self._index.begin(texts[:TEXTS_AT_ONCE])

    def change(self, dead: Ints, rows: Ints, texts: Sequence[str], sources: Sequence[int]) -> None:
        """Remove rows and add others. A fault here costs this arm, never a write that is committed already."""
        if self.fault is not None:
            return
        self._unsaved += len(dead) + len(rows)
        try:
            if len(dead):
                self._index.remove(dead.tolist())
            for start in range(0, len(rows), TEXTS_AT_ONCE):
                some = slice(start, start + TEXTS_AT_ONCE)
                self._index.add(rows[some].tolist(), texts[some], sources[some])
        except Exception as error:
            log.exception("the lexical index failed; searches go on without it until repair()")
            self.fault = f"{type(error).__name__} while indexing"

    def save(self, mark: Mark, table: RowTable, *, least: int = 1) -> None:
        """Write a snapshot if at least `least` changes are not in the last; where the disk refuses, do without."""
        if self._directory is None or self.fault is not None or self._unsaved < least:
            return
        rows = table.snapshot()
        try:
            saved = snapshot.Saved(mark, rows.seq, rows.alive, table.sources, self._index)
            snapshot.save(self._directory, saved, self.analyzer)
        except Exception as error:  # noqa: BLE001 the index can always be made again
            log.warning("the lexical snapshot was not written (%s); the next opening builds it anew", error)
        else:
            self._unsaved = 0

    def save_if_worth_it(self, mark: Mark, table: RowTable) -> None:
        """Save when so much has changed that a crash would cost a long rebuild."""
        self.save(mark, table, least=SAVE_EVERY + len(table) // 8)
