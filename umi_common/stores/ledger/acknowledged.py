"""`umi.mark`: the last acknowledged write, kept outside the ledger.

If the end of the write-ahead log (`umi.db-wal`) was cut off, zeroed or deleted, SQLite opens `umi.db` without its last
commits and raises no error. The mark, which is written after each commit, reveals the loss. If the mark cannot be read,
a loss is not detected.

A session begins with a writer's first write and ends when the writer closes the store. Before this write, the session's
random name is added to the names in the ledger, newest first: it is committed to the log and then copied into `umi.db`.
If another process is reading, SQLite may not copy it; then the mark holds "" in place of the name.
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
    """Name of the session of the last write; "": the name may not have been copied from the log into `umi.db`."""
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
                mark = Mark(*values["mark"])  # JSON holds a named tuple as a list
                return Acknowledged(mark, str(values["session"]), bool(values["closed"]))
        return Acknowledged()

    def refuse_foreign_log(self, database: Path) -> None:
        """Raise if the write-ahead log belongs to another database: SQLite would write its pages into this one.

        Called before the ledger is opened. Decides by the newest session name in three places:

            umi.mark   umi.db read without its log   umi.db read with its log   result
            A          A                             A                          accepted
            A          not A, or no name             A                          raises
            not A      A, an older name, or none     A                          accepted: A may not have been copied
            not A      another name                  A                          raises
            any        any                           none                       accepted

        An older name is another name that `umi.db` read with its log has.

        Raises:
            LedgerDamaged: If the log belongs to another database; no file was changed.
        """
        wal = database.with_name(f"{database.name}-wal")
        if not wal.exists() or not wal.stat().st_size:
            return
        try:
            with closing(connect(database, ALONE)) as without, closing(connect(database, "mode=ro")) as whole:
                without_log, with_log = sessions_of(without), sessions_of(whole)
        except DATABASE_ERRORS:
            return  # opening the ledger raises the right error
        if not with_log:
            return
        newest = with_log[0]
        accepted = [newest] if self.read().session == newest else [*with_log, ""]
        if next(iter(without_log), "") not in accepted:
            raise LedgerDamaged(
                f"{wal} and {database.name} were written by different sessions; delete {wal.name} and "
                f"{database.name}-shm if {database.name} is a copy that you put back, else restore both from a copy"
            )

    def check(self, acknowledged: Acknowledged, ledger: Ledger, now: Mark) -> None:
        """Raise if the ledger, whose last commit is `now`, lacks an acknowledged write.

        An older copy of `umi.db` that was put back is accepted with a warning if its newest session is not that of the
        mark. A copy made during the session of the mark looks like a lost log and raises, and so does any older copy if
        the mark has no session name. If the session was closed, nothing is compared.

        Args:
            acknowledged: Content of the mark, read before the ledger was opened.
            now: Mark of the ledger's last commit.

        Raises:
            LedgerDamaged: If acknowledged writes are missing.
        """
        last = acknowledged.mark
        if acknowledged.closed or ledger.holds(last):
            return
        newest = next(iter(str(ledger.meta().get("session", "")).split()), "")
        if acknowledged.session and acknowledged.session != newest:
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
            # A directory that replaced the store's gets no mark: its inode is another one.
            if self._handle is None and inode_of(self._path.parent) == self._inode:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            if self._handle is not None:
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, f"{body} {zlib.crc32(body.encode())}".ljust(SIZE).encode())

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
