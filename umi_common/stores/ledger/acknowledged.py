"""`umi.mark`: a record of the last acknowledged write, kept outside the ledger (`umi.db` with its write-ahead log).

If the end of the log (`umi.db-wal`) was cut off, zeroed or deleted, SQLite opens `umi.db` without its last commits and
raises no error. The record is written after each commit, so it reveals the loss. If it cannot be read, a loss is not
detected.

A session begins with a writer's first write and ends when the writer closes the store. The ledger holds a list of the
random names of the last sessions, newest first. Before a session's first write, its name is added to the list: the list
is committed to the log, and SQLite then copies it into `umi.db`. If another process is reading, SQLite may not copy it;
then the record holds "" in place of the session's name. So a session that the record names was copied into `umi.db`.

`Mark` (see `history`) is the identity of one commit of the ledger.
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
"""Length of the file in bytes. The content is padded with spaces to this length, so that a record overwrites the whole
previous one."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The record: the content of `umi.mark`."""

    mark: Mark = field(default_factory=Mark)
    """The last acknowledged commit."""
    session: str = ""
    """Name of the session of the last write; "": the name may not have been copied from the log into `umi.db`."""
    closed: bool = True
    """Whether the session ended with all commits copied into `umi.db`, so that losing the log loses nothing."""


class MarkFile:
    """The file `umi.mark` in a store's directory. For a store in memory, `directory` is None and nothing is written."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / MARK
        self._inode = None if directory is None else inode_of(directory)

    def read(self) -> Acknowledged:
        """The record. If the file cannot be read, `Acknowledged()`, which `check` accepts."""
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
        """Raise LedgerDamaged if the write-ahead log is another database's: SQLite would write its pages into this one.

        Called before the ledger is opened. The list of the sessions' names is read twice: from `umi.db` with the log,
        and from `umi.db` alone. Nothing is compared if the first list is empty: early versions of umi wrote no names.

        - The newest name of the second list, if it has one, must be in the first list; with the log of another database
          it is not.
        - If the record names the newest session of the first list, its name was copied into `umi.db`. So it must be the
          newest name of the second list, too.
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
        newest, newest_alone = with_log[0], next(iter(without_log), None)
        unknown = newest_alone is not None and newest_alone not in with_log
        if unknown or (self.read().session == newest and newest_alone != newest):
            raise LedgerDamaged(
                f"{wal} and {database.name} were written by different sessions; delete {wal.name} and "
                f"{database.name}-shm if {database.name} is a copy that you put back; else restore {database.name} and "
                f"{wal.name} from one copy"
            )

    def check(self, acknowledged: Acknowledged, ledger: Ledger, now: Mark) -> None:
        """Raise if the ledger, whose last commit is `now`, lacks an acknowledged write.

        An older copy of `umi.db` that was put back is accepted with a warning if its newest session is not that of the
        record. A copy made during the record's session looks like a lost log and raises, and so does any older copy if
        the record has no session name. If the session was closed, nothing is compared.

        Args:
            acknowledged: The record, read before the ledger was opened.
            now: The ledger's last commit.

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
        """Write the record of an acknowledged commit. The file is not synced, so a crash of the machine may lose it."""
        if self._path is None:
            return
        body = json.dumps(asdict(Acknowledged(mark, session, closed)))
        content = f"{body} {zlib.crc32(body.encode())}".ljust(SIZE).encode()
        with suppress(OSError):  # on a full disk there is no record; the acknowledged write is valid without it
            # A directory that replaced the store's gets no record: its inode is another one.
            if inode_of(self._path.parent) == self._inode:
                handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
                try:
                    os.write(handle, content)
                finally:
                    os.close(handle)
