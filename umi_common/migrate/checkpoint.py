"""The progress of a migration, in a small file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from umi_common.protocols import Store


class MigrationCheckpoint:
    """The last id that a migration copied, and how many chunks were copied by then.

    Args:
        path: The file; None: nothing is saved.
        of: Text that names source and target; a file with another text is ignored.
    """

    def __init__(self, path: Path | None, of: str) -> None:
        self._path = path
        self._of = of

    def read(self, target: Store) -> tuple[str | None, int]:
        """The last copied id and the number of chunks; (None, 0) if the target lacks that chunk or holds fewer."""
        try:
            saved: Any = {} if self._path is None else json.loads(self._path.read_text(encoding="utf-8"))
            of, after, chunks = str(saved["of"]), str(saved["after"]), int(saved["chunks"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None, 0
        holds = of == self._of and len(target) >= chunks and target.get([after]) != [None]
        return (after, chunks) if holds else (None, 0)

    def write(self, after: str, chunks: int) -> None:
        """Save the progress; call it after the target acknowledged a page."""
        if self._path is not None:
            unfinished = self._path.with_name(f"{self._path.name}.new")
            text = json.dumps({"of": self._of, "after": after, "chunks": chunks})
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self._path)

    def forget(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
