"""How far a migration has got, in a small file beside the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from umi_common.protocols import Store


class MigrationCheckpoint:
    """How far a migration has got, in a small file.

    Args:
        path: None: it is not kept.
        of: Which migration; another's is no use.
    """

    def __init__(self, path: Path | None, of: str) -> None:
        self._path = path
        self._of = of

    def read(self, target: Store) -> tuple[str | None, int]:
        """The last id that went over and how many did by then; (None, 0) where the target does not bear it out."""
        try:
            saved: Any = {} if self._path is None else json.loads(self._path.read_text(encoding="utf-8"))
            of, after, chunks = str(saved["of"]), str(saved["after"]), int(saved["chunks"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None, 0
        holds = of == self._of and len(target) >= chunks and target.get([after]) != [None]
        return (after, chunks) if holds else (None, 0)

    def write(self, after: str, chunks: int) -> None:
        """Once the target has acknowledged a page."""
        if self._path is not None:
            unfinished = self._path.with_name(f"{self._path.name}.new")
            text = json.dumps({"of": self._of, "after": after, "chunks": chunks})
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self._path)

    def forget(self) -> None:
        """Once it is of no more use."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
