"""The lexical index of an open store: kept in step with the ledger, saved, and out of action after a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from umi_common.config import AnalyzerConfig
from umi_common.pool import Ints
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.file import Saved
from umi_common.stores.lexical.index import LexicalIndex
from umi_common.stores.rows.rows import RowTable

log = logging.getLogger(__name__)

SAVE_EVERY = 50_000
"""Unsaved changes, plus an eighth of the store's chunks, from which the index is saved. After a crash the next opening
analyses unsaved texts again: less than 1 s for so many."""


class LexicalArm:
    """One writer at a time; a view does not change with later writes."""

    def __init__(self, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.analyzer = Analyzer(analyzer)
        self.fault: str | None = None
        """Why the index cannot answer; None: it can."""
        self._directory = directory
        self._index = LexicalIndex(self.analyzer)
        self._unsaved = 0

    def view(self) -> LexicalIndex:
        """The current content of the index, for reading."""
        return self._index.view()

    def load(self, belongs: Callable[[Mark], bool]) -> Saved | None:
        """Take over the newest saved index; None: there is none that the ledger's history contains.

        Args:
            belongs: Whether the ledger descends from a mark.
        """
        found = None if self._directory is None else LexicalIndex.load(self._directory, self.analyzer, belongs)
        if found is None:
            return None
        self._index, saved = found
        return saved

    def change(self, dead: Ints, rows: Ints, texts: Sequence[str], sources: Sequence[int]) -> None:
        """Remove rows and add others. A failure sets `fault` and does not raise: the write is committed already."""
        if self.fault is not None:
            return
        self._unsaved += len(dead) + len(rows)
        try:
            self._index.update(rows.tolist(), texts, sources, removed=dead.tolist())
        except Exception as error:
            log.exception("the lexical index failed; searches go on without it until repair()")
            self.fault = f"{type(error).__name__} while indexing"

    def begin(self, texts: Sequence[str]) -> None:
        """Analyse texts that the next change is expected to add; they cannot be found yet."""
        if self.fault is None:
            with suppress(Exception):  # the change will raise it again
                self._index.begin(texts)

    def save(self, mark: Mark, table: RowTable, *, least: int = 1) -> None:
        """Save the index if at least `least` changes are unsaved; if the disk refuses, warn and go on."""
        if self._directory is None or self.fault is not None or self._unsaved < least:
            return
        try:
            self._index.save(self._directory, mark, table.snapshot().seq, table.sources)
        except Exception as error:  # noqa: BLE001 the index can always be made again
            log.warning("the lexical index was not saved (%s); the next opening builds it from the ledger", error)
        else:
            self._unsaved = 0

    def save_if_worth_it(self, mark: Mark, table: RowTable) -> None:
        """Save when a crash would cost the next opening a long rebuild."""
        self.save(mark, table, least=SAVE_EVERY + len(table) // 8)
