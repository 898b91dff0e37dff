"""The ledger: one SQLite file that holds all a store knows; every index is made from it.

A write is acknowledged after its commit. Rows are never changed: replacing a chunk removes its row and appends a
new one, and both are numbered, so an index or another process that knows how far it got reads only what is new.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from umi_common.errors import LedgerDamaged, StoreClosed
from umi_common.pool import Vectors
from umi_common.store.codec import DIGEST_BYTES, Entry, Head, checked, decode_vectors, encode_vectors, head_check
from umi_common.store.failpoints import failpoint
from umi_common.store.growing import Growing
from umi_common.store.ledger_file import HISTORY, READING_CACHE_KIB, open_file
from umi_common.store.sqlite import SQL_VARIABLES, Lender, Reading, SoleLender, commit, connect, insert, sqlite_errors

ROWS_AT_ONCE = 1_000
"""Whole rows in memory while all are read."""
VECTORS_AT_ONCE = 250
"""Blobs read together: they stay in the processor's cache until they are in their array."""
SELECTS_KEPT = 64
"""Statements kept for the next reading of as many rows."""
ENTRY_COLUMNS = "id, source, position, event_time, head, digest, text, metadata"


class Mark(NamedTuple):
    """How far the ledger, or an index of it, has got."""

    seq: int = 0
    """Of the last chunk ever appended."""
    deletion: int = 0
    """Of the last deletion."""
    epoch: int = 0
    """Rises when vectors were exchanged: what was read before is void."""
    commit: int = 0
    """Number of the last commit; 0: the ledger keeps no history."""
    digest: str = ""
    """Rolling digest of all commits up to that one, hexadecimal."""


class Ledger:
    """Chunks, vectors and deletions in one file, or in memory. Thread-safe; one process writes.

    Raises:
        LedgerDamaged: From any method, if SQLite or a checksum says that the file is not what was written.
        StoreClosed: From any method after close().
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._lock = threading.RLock()
        self._closed = False
        with sqlite_errors(path):
            self._writer, self._options = open_file(path, read_only=read_only)
        self._readers = SoleLender(self._writer, self._lock) if path is None else Lender(self._open_reader)

    def _open_reader(self) -> sqlite3.Connection:
        connection = connect(self.path, self._options)
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{READING_CACHE_KIB}")
        return connection

    def reading(self) -> Reading:
        """A connection for SELECTs; `BEGIN` on it for more than one of the same moment."""
        return Reading(self._readers, self.path)

    @contextmanager
    def transaction(self, meanwhile: Callable[[], object] | None = None) -> Iterator[sqlite3.Connection]:
        """A durable change: all of the block or none of it.

        Args:
            meanwhile: Done while SQLite commits.

        Raises:
            StoreFull: If the disk refuses; nothing has changed then.
        """
        with self._lock, sqlite_errors(self.path, writing=True):
            if self._closed:
                raise StoreClosed("the store is closed; open it again")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                failpoint("ledger.commit")
                commit(self._writer, meanwhile)
            except BaseException:
                if self._writer.in_transaction:
                    with suppress(sqlite3.Error):
                        self._writer.execute("ROLLBACK")
                raise
        failpoint("ledger.committed")

    def change(
        self,
        dead: Sequence[int],
        entries: Sequence[Entry],
        vectors: Vectors,
        settings: Mapping[str, str] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Mark:
        """Remove rows by sequence number and append others, at once; the last len(entries) numbers are theirs."""
        assert len(vectors) == len(entries)
        with self.transaction(meanwhile) as connection:
            connection.executemany("INSERT INTO deletions (chunk) VALUES (?)", ((seq,) for seq in dead))
            connection.executemany("DELETE FROM chunks WHERE seq = ?", ((seq,) for seq in dead))
            first = _last(connection, "chunks") + 1
            seqs = range(first, first + len(entries))
            insert(connection, f"chunks (seq, {ENTRY_COLUMNS})", 9, seqs, entries)
            failpoint("ledger.insert")
            blobs = list(encode_vectors(vectors))
            insert(connection, "vectors (seq, vector, checksum)", 3, seqs, blobs)
            connection.execute(
                "UPDATE meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'count'", (len(entries) - len(dead),)
            )
            if settings:
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", settings.items())
            numbers = [np.array(dead, dtype="<i8"), np.array([check for _, check in blobs], dtype="<i8")]
            contents = [*(array.tobytes() for array in numbers), *(entry.digest for entry in entries)]
            return self.record(connection, contents)

    def record(self, connection: sqlite3.Connection, contents: Iterable[bytes]) -> Mark:
        """Append a commit to the history, inside the transaction that makes it.

        digest = BLAKE2b(digest of the commit before, contents in order)
        """
        last = _last_commit(connection)
        rolling = hashlib.blake2b(last.digest, digest_size=DIGEST_BYTES)
        for content in contents:
            rolling.update(content)
        seq, deletion = _last(connection, "chunks"), _last(connection, "deletions")
        commit = _Commit(last.number + 1, seq, deletion, rolling.digest())
        connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", commit)
        return self._mark(connection, commit)

    def begin_session(self) -> str:
        """Before the first write: make sure that the history goes on from what the file holds, and sign it.

        Returns:
            The session's random name, which the file itself holds from now on, not only its write-ahead log; "" if
            another process kept SQLite from writing it there.
        """
        session = secrets.token_hex(8)
        with self.transaction() as connection:
            connection.execute(HISTORY)
            last, mark = _last_commit(connection), self.mark(connection)
            if (last.seq, last.deletion) != (mark.seq, mark.deletion) or not last.digest:
                # A new ledger, or one that was written to by a program that keeps no history: a lineage begins.
                row = (last.number + 1, mark.seq, mark.deletion, secrets.token_bytes(DIGEST_BYTES))
                connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", row)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('session', ?)", (session,))
        return session if self.checkpoint() else ""

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; whether all of it is there."""
        if self.path is None:
            return True
        with self._lock, sqlite_errors(self.path, writing=True):
            busy, pages, folded = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and pages == folded

    def has_log(self) -> bool:
        """Whether something is left in the write-ahead log; after close() another process may have kept it."""
        log = None if self.path is None else self.path.with_name(f"{self.path.name}-wal")
        return log is not None and log.exists() and log.stat().st_size > 0

    def session(self) -> str:
        """Name of the last session that wrote; "": none has."""
        return self.meta().get("session", "")

    def descends_from(self, connection: sqlite3.Connection, mark: Mark) -> bool:
        """Whether the ledger once stood where `mark` says: what was made of it then needs only what came since."""
        if not mark.commit:
            return False
        found = _commit(connection, "SELECT number, seq, deletion, digest FROM commits WHERE number = ?", mark.commit)
        return (found.seq, found.deletion, found.digest.hex()) == (mark.seq, mark.deletion, mark.digest)

    def meta(self) -> dict[str, str]:
        """Settings and fingerprints by name."""
        with self.reading() as connection:
            return dict(connection.execute("SELECT key, value FROM meta").fetchall())

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Store settings, durable."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def mark(self, connection: sqlite3.Connection) -> Mark:
        """How far the ledger has got, as `connection` sees it."""
        last = _last_commit(connection)
        seq, deletion = _last(connection, "chunks"), _last(connection, "deletions")
        return self._mark(connection, _Commit(last.number, seq, deletion, last.digest))

    def _mark(self, connection: sqlite3.Connection, at: _Commit) -> Mark:
        epoch = int(self._setting(connection, "epoch"))
        return Mark(at.seq, at.deletion, epoch, at.number, at.digest.hex())

    def _setting(self, connection: sqlite3.Connection, key: str) -> str:
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise LedgerDamaged(f"{self.path} has lost its setting {key!r}; restore it from a copy")
        return str(row[0])

    def heads(self, connection: sqlite3.Connection, *, after: int = 0) -> list[Head]:
        """Living chunks appended after a sequence number, in its order, without their texts."""
        heads = []
        for seq, id, source, position, when, check in connection.execute(
            "SELECT seq, id, source, position, event_time, head FROM chunks WHERE seq > ? ORDER BY seq", (after,)
        ):
            if head_check(id, source, position, when) != check:
                raise LedgerDamaged(f"{self.path}: row {seq} is not what was written; restore it from a copy")
            heads.append(Head(seq, id, source, position, when))
        if not after and len(heads) != int(self._setting(connection, "count")):
            raise LedgerDamaged(f"{self.path} has lost or gained rows; restore it from a copy")
        return heads

    def deleted(self, connection: sqlite3.Connection, *, after: int) -> list[int]:
        """Sequence numbers of the chunks removed after a deletion number."""
        rows = connection.execute("SELECT chunk FROM deletions WHERE seq > ? ORDER BY seq", (after,)).fetchall()
        return [chunk for (chunk,) in rows]

    def texts(
        self, connection: sqlite3.Connection, *, after: int = 0, limit: int = -1
    ) -> Iterator[tuple[int, str, str]]:
        """(seq, text, metadata) of living chunks appended after a sequence number, in its order; -1: all."""
        rows = connection.execute(
            f"SELECT seq, {ENTRY_COLUMNS} FROM chunks WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
        )
        while some := rows.fetchmany(ROWS_AT_ONCE):
            for seq, *fields in some:
                entry = checked(Entry(*fields))
                yield seq, entry.text, entry.metadata

    def vectors(self, connection: sqlite3.Connection, *, after: int = 0, expected: int = 0) -> Vectors:
        """(n, dim) of living chunks appended after a sequence number, in its order; (0, 0) where there are none.

        Args:
            expected: n, if it is known: they are then read to where they stay.
        """
        rows = connection.execute("SELECT vector, checksum FROM vectors WHERE seq > ? ORDER BY seq", (after,))
        some = decode_vectors(rows.fetchmany(VECTORS_AT_ONCE))
        width = some.shape[1]
        whole = Growing(np.float32, width, room=max(expected, len(some)))
        while len(some):
            if some.shape[1] != width:
                raise LedgerDamaged(f"{self.path}: not all vectors have one length; restore it from a copy")
            whole.extend(some)
            some = decode_vectors(rows.fetchmany(VECTORS_AT_ONCE))
        return whole.view

    def vector_bytes(self) -> int | None:
        """Length of a stored vector; None: there is none."""
        with self.reading() as connection:
            row = connection.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def entries(self, seqs: Sequence[int]) -> dict[int, Entry]:
        """Whole rows by sequence number; those that are gone are left out."""
        return {row[0]: Entry._make(row[1:]) for row in self._by_seq(ENTRY_COLUMNS, seqs)}

    def checksums(self, seqs: Sequence[int]) -> dict[int, tuple[bytes, int]]:
        """Checksums of whole rows and of their vectors, by sequence number."""
        rows = self._by_seq("digest, (SELECT checksum FROM vectors WHERE vectors.seq = chunks.seq)", seqs)
        return {seq: (digest, checksum) for seq, digest, checksum in rows}

    def _by_seq(self, columns: str, seqs: Sequence[int]) -> list[Any]:
        found = []
        with self.reading() as connection:
            for start in range(0, len(seqs), SQL_VARIABLES):
                some = seqs[start : start + SQL_VARIABLES]
                found += connection.execute(_select(columns, len(some)), some).fetchall()
        return found

    def compact(self) -> None:
        """Give the space of removed rows back to the disk."""
        with self._lock, sqlite_errors(self.path, writing=True):
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def version(self) -> int:
        """Changes whenever another process has committed; cheap."""
        with self._lock, sqlite_errors(self.path):
            if self._closed:
                raise StoreClosed("the store is closed; open it again")
            return int(self._writer.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close every connection; the write-ahead log is folded into the file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._readers.close()
            if not self.read_only and self.path is not None:
                with suppress(sqlite3.Error):
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._writer.close()


@lru_cache(SELECTS_KEPT)
def _select(columns: str, count: int) -> str:
    """Rows of `chunks` by number. Joined: for `seq IN (...)` SQLite makes itself a table of the numbers first."""
    asked = ", ".join(["(?)"] * count)
    return f"WITH asked(number) AS (VALUES {asked}) SELECT seq, {columns} FROM asked CROSS JOIN chunks ON seq = number"


class _Commit(NamedTuple):
    number: int = 0
    seq: int = 0
    deletion: int = 0
    digest: bytes = b""


def _last_commit(connection: sqlite3.Connection) -> _Commit:
    return _commit(connection, "SELECT number, seq, deletion, digest FROM commits ORDER BY number DESC LIMIT 1")


def _commit(connection: sqlite3.Connection, select: str, *parameters: int) -> _Commit:
    """The commit selected; zeros if there is none, or the ledger keeps no history."""
    try:
        row = connection.execute(select, parameters).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        row = None
    return _Commit() if row is None else _Commit(*row)


def _last(connection: sqlite3.Connection, table: str) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return 0 if row is None else int(row[0])
