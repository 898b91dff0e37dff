"""`umi.mark`: the last acknowledged write, kept outside the ledger.

If the end of a write-ahead log was cut off, zeroed or deleted, SQLite opens the file without its last commits and
raises no error. The mark, which is written after each commit, reveals the loss. If the mark cannot be read, a loss is
not detected.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from umi_common.errors import LedgerDamaged
from umi_common.stores.ledger.followed import ALONE, MARK
from umi_common.stores.ledger.history import Mark, sessions_of
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.sqlite import DATABASE_ERRORS, connect
from umi_common.types import inode_of

log = logging.getLogger("umi")

SIZE = 256
"""Length of the file in bytes. The content is padded with spaces to this length, so that a mark overwrites the whole
previous one."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The content of `umi.mark`."""

    mark: Mark = field(default_factory=Mark)
    session: str = ""
    """Name of the writer's session; "": it may not have been copied from the write-ahead log into `umi.db`."""
    closed: bool = True
    """Whether the session ended with all commits copied into `umi.db`, so that losing the log loses nothing."""


class MarkFile:
    """The file `umi.mark` in a store's directory. For a store in memory, `directory` is None and nothing is written."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / MARK
        self._inode = None if directory is None else inode_of(directory)
        self._handle: int | None = None

    def read(self) -> Acknowledged:
        """The content of the file. If it cannot be read, `Acknowledged()`, which `check` accepts."""
        if self._path is None:
            return Acknowledged()
        with suppress(OSError, ValueError, TypeError, KeyError):
            body, check = self._path.read_text(encoding="ascii").strip().rsplit(" ", 1)
            if zlib.crc32(body.encode()) == int(check):
                values = json.loads(body)
                return Acknowledged(Mark(*values["mark"]), str(values["session"]), bool(values["closed"]))
        return Acknowledged()

    def refuse_foreign_log(self, file: Path) -> None:
        """Raise if the write-ahead log belongs to another file: SQLite would write the log's pages into `file`.

        Called before the ledger is opened. A writer copies the name of its session into `umi.db` before its first
        write. If a reader prevents the copy, the mark holds "" in place of the name. So if the mark holds the newest
        name in the log, `umi.db` must have the same newest name. Otherwise `umi.db` may have any name in the log as its
        newest, or no name.

        Raises:
            LedgerDamaged: If the log belongs to another file; no file was changed.
        """
        wal = file.with_name(f"{file.name}-wal")
        if not wal.exists() or not wal.stat().st_size:
            return
        try:
            with closing(connect(file, ALONE)) as without_log, closing(connect(file, "mode=ro")) as whole:
                in_file, with_log = sessions_of(without_log), sessions_of(whole)
        except DATABASE_ERRORS:
            return  # opening the ledger raises the right error
        if not with_log:
            return
        accepted = [with_log[0]] if self.read().session == with_log[0] else [*with_log, ""]
        if next(iter(in_file), "") not in accepted:
            raise LedgerDamaged(
                f"{wal} and {file.name} were written by different sessions; delete {wal.name} and "
                f"{file.name}-shm if {file.name} is a copy that you put back, else restore both from a copy"
            )

    def check(self, acknowledged: Acknowledged, ledger: Ledger, now: Mark) -> None:
        """Raise if the ledger, whose last commit is `now`, lacks an acknowledged write.

        An older copy of `umi.db` that was put back is accepted with a warning. Its last session has another name than
        the acknowledged one.

        Args:
            acknowledged: Content of the mark, read before the ledger was opened.
            now: Mark of the ledger's last commit.

        Raises:
            LedgerDamaged: If acknowledged writes are missing.
        """
        last = acknowledged.mark
        if acknowledged.closed or ledger.holds(last):
            return
        if acknowledged.session and acknowledged.session not in str(ledger.meta().get("session", "")).split()[:1]:
            log.warning(
                "%s is an older copy that was put back: the store works, without the later writes. If you did not put "
                "it back, restore the newest copy",
                ledger.path,
            )
            return
        raise LedgerDamaged(
            f"umi.db ends at write {now.seq}, and {last.seq} was acknowledged: umi.db-wal was lost or damaged; "
            f"restore both from a copy, or, to continue without the lost writes, delete {self._path}"
        )

    def write(self, mark: Mark, session: str, *, closed: bool = False) -> None:
        """Record an acknowledged write. The file is not synced, so the record may be lost if the machine crashes."""
        if self._path is None:
            return
        body = json.dumps(asdict(Acknowledged(mark, session, closed)))
        with suppress(OSError):  # on a full disk the mark is not written; the acknowledged write is valid without it
            if self._handle is None and inode_of(self._path.parent) == self._inode:  # else the directory was replaced
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            if self._handle is not None:
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, f"{body} {zlib.crc32(body.encode())}".ljust(SIZE).encode())

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
