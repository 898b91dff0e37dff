"""`umi.mark`: how far the ledger had got at its last acknowledged write, kept outside the ledger.

SQLite forgets, without a word, the part of a write-ahead log that was cut off, zeroed or deleted. The mark notices.
It is written after each commit and never ahead of it; a mark that is missing or unreadable proves nothing.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

from umi_common.errors import LedgerDamaged
from umi_common.store.ledger import Mark

FILE = "umi.mark"
SIZE = 80


class HighWater:
    """The mark of one directory; None: in memory, where nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE
        self._handle: int | None = None

    def read(self) -> Mark:
        """The mark, or zeros."""
        if self._path is None:
            return Mark()
        with suppress(OSError, ValueError):
            body, check = self._path.read_text(encoding="ascii").strip().rsplit(" ", 1)
            if zlib.crc32(body.encode()) == int(check):
                return Mark(*map(int, body.split()))
        return Mark()

    def check(self, kept: Mark, ledger: Mark) -> None:
        """Compare the mark, read before the ledger, with the ledger.

        Raises:
            LedgerDamaged: If acknowledged writes are missing.
        """
        if (ledger.epoch, ledger.seq) < (kept.epoch, kept.seq) or ledger.deletion < kept.deletion:
            raise LedgerDamaged(
                f"umi.db ends at write {ledger.seq}, and {kept.seq} was acknowledged: umi.db-wal was lost or damaged; "
                f"restore both from a copy, or, to go on with what is there, delete {self._path}"
            )

    def write(self, mark: Mark) -> None:
        """Note an acknowledged write. Not synced: it serves after a crash of the process, not of the machine."""
        if self._path is None:
            return
        body = " ".join(map(str, mark))
        with suppress(OSError):  # a full disk costs the tripwire, not the write
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, f"{body} {zlib.crc32(body.encode())}".ljust(SIZE).encode())

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
