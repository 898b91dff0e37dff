"""The lexical index of an open store: updated after each commit, saved, and not used after a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from umi_common.config import AnalyzerConfig
from umi_common.pool import Ints
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.analyzer import Analyzer
from umi_common.stores.lexical.file import Saved
from umi_common.stores.lexical.index import LexicalIndex

log = logging.getLogger("umi")

SAVE_EVERY = 50_000
"""The index is saved when the number of rows changed since the last save reaches this plus an eighth of the store's
rows. After a crash, opening reads the unsaved rows from the ledger and analyses them again: under 1 s for 50,000."""


class LexicalArm:
    """The lexical index of an open store. One writer at a time; a view does not change with later writes."""

    def __init__(self, directory: Path | None, analyzer: AnalyzerConfig) -> None:
        self.analyzer = Analyzer(analyzer)
        self.fault: str | None = None
        """Why the index cannot answer; None: it can."""
        self._directory = directory
        self._index = LexicalIndex(self.analyzer)
        self.unsaved = 0
        """Rows added and removed since the index was saved."""

    def view(self) -> LexicalIndex:
        """The current content of the index, for reading."""
        return self._index.view()

    def load(self, belongs: Callable[[Mark], bool]) -> Saved | None:
        """Replace the content by the newest saved index that is usable; None: there is none, nothing is replaced.

        Args:
            belongs: Called with the mark of a saved index; whether this ledger contains that commit.
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
        self.unsaved += len(dead) + len(rows)
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

    def worth_saving(self, rows: int, *, always: bool) -> bool:
        """Whether to save the index now: whether at least SAVE_EVERY + rows / 8 changes are unsaved.

        Args:
            rows: Number of rows of the store.
            always: One unsaved change is enough.
        """
        least = 1 if always else SAVE_EVERY + rows // 8
        return self._directory is not None and self.fault is None and self.unsaved >= least

    def save(self, *parts: Any) -> None:
        """Save the index; the arguments are those of `LexicalIndex.save` after the directory.

        Raises:
            OSError: If the disk refuses; an older file stays as it was.
        """
        assert self._directory is not None, "an index in memory is not worth saving"
        self._index.save(self._directory, *parts)
        self.unsaved = 0
