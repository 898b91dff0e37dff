"""`umi.mark`: how far the ledger had got at its last acknowledged write, kept outside the ledger.

SQLite forgets, without a word, the part of a write-ahead log that was cut off, zeroed or deleted. The mark notices.
It is written after each commit and never ahead of it; a mark that is missing or unreadable proves nothing.
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
from umi_common.stores.ledger.followed import MARK
from umi_common.stores.ledger.history import Mark, sessions_of
from umi_common.stores.ledger.ledger import Ledger
from umi_common.stores.ledger.location import inode_of
from umi_common.stores.ledger.sqlite import DATABASE_ERRORS, connect

log = logging.getLogger(__name__)

FILE = MARK
SIZE = 256
"""Bytes of the file, padded: a later mark overwrites all of an earlier one."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the file says."""

    mark: Mark = field(default_factory=Mark)
    session: str = ""
    """Name of the writer's session, which `umi.db` itself holds; "": it may be in the write-ahead log alone."""
    closed: bool = True
    """The session ended with everything in `umi.db`: there is no log that could be lost."""


class HighWater:
    """The mark of one directory; None: in memory, where nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE
        self._directory = None if directory is None else inode_of(directory)
        self._handle: int | None = None

    def _open(self) -> None:
        """Open the file unless another directory lies there by now."""
        if self._path is not None and inode_of(self._path.parent) == self._directory:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)

    def read(self) -> Acknowledged:
        """The mark; zeros where there is none."""
        if self._path is None:
            return Acknowledged()
        with suppress(OSError, ValueError, TypeError, KeyError):
            body, check = self._path.read_text(encoding="ascii").strip().rsplit(" ", 1)
            if zlib.crc32(body.encode()) == int(check):
                if not body.startswith("{"):  # as written before there was a history: three numbers
                    seq, deletion, epoch = map(int, body.split())
                    return Acknowledged(Mark(seq, deletion, epoch), closed=False)
                values = json.loads(body)
                return Acknowledged(Mark(*values["mark"]), str(values["session"]), bool(values["closed"]))
        return Acknowledged()

    def refuse_foreign_log(self, file: Path) -> None:
        """Before a ledger is opened: SQLite would replay the log of another file into this one, page by page.

        A session's name is written to the file before its first write goes to the log, so both name the same session.

        Raises:
            LedgerDamaged: If they do not; neither has been changed then.
        """
        log = file.with_name(f"{file.name}-wal")
        if not log.exists() or not log.stat().st_size:
            return
        try:
            with closing(connect(file, "mode=ro&immutable=1")) as alone, closing(connect(file, "mode=ro")) as together:
                in_file, with_log = sessions_of(alone), sessions_of(together)
        except DATABASE_ERRORS:
            return  # opening says what is wrong
        # Another process may have kept SQLite from writing the newest name to the file; then the mark does not name it.
        fitting = with_log[:1] if self.read().session in with_log[:1] else [*with_log, ""]
        if with_log and next(iter(in_file), "") not in fitting:
            raise LedgerDamaged(
                f"{log} is not the log of this {file.name}, which another session wrote; delete {log.name} and "
                f"{file.name}-shm if {file.name} is a copy that you put back, else restore both from a copy"
            )

    def check(self, acknowledged: Acknowledged, ledger: Ledger, now: Mark) -> None:
        """Compare the mark, read before the ledger, with the ledger, which stands at `now`.

        An older or another `umi.db` put back in place of this one is taken as it is: it was signed by another session.

        Raises:
            LedgerDamaged: If acknowledged writes are missing.
        """
        last = acknowledged.mark
        if acknowledged.closed or ledger.steady(lambda: self._holds(ledger, last, now)):
            return
        if acknowledged.session and acknowledged.session != ledger.session():
            log.warning("%s is older than the last write to this directory: a copy was put back", ledger.path)
            return
        raise LedgerDamaged(
            f"umi.db ends at write {now.seq}, and {last.seq} was acknowledged: umi.db-wal was lost or damaged; "
            f"restore both from a copy, or, to go on with what is there, delete {self._path}"
        )

    def _holds(self, ledger: Ledger, last: Mark, now: Mark) -> bool:
        if not last.commit:
            return (now.epoch, now.seq) >= (last.epoch, last.seq) and now.deletion >= last.deletion
        with ledger.reading() as connection:
            return ledger.descends_from(connection, last)

    def write(self, mark: Mark, session: str, *, closed: bool = False) -> None:
        """Note an acknowledged write. Not synced: it serves after a crash of the process, not of the machine."""
        if self._path is None:
            return
        body = json.dumps(asdict(Acknowledged(mark, session, closed)))
        with suppress(OSError):  # a full disk costs the tripwire, not the write
            if self._handle is None:
                self._open()
            if self._handle is not None:
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, f"{body} {zlib.crc32(body.encode())}".ljust(SIZE).encode())

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
