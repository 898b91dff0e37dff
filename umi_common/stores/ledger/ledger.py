"""The ledger: one SQLite file with all chunks and vectors of a store; every index is made from the ledger.

A write returns after its commit. Rows are never changed: replacing a chunk deletes its row and appends a new row.
Appended rows and deletions are numbered. An index or a reading process keeps the last two numbers that it has read, its
mark, and later reads only rows and deletions with larger numbers:

    one = change([], [a, b], ...)    # rows 1 and 2, no deletion
    two = change([1], [c], ...)      # c replaces a: row 3, and deletion 1, of row 1
    changes(connection, since=one)   # row 1 deleted, row 3 added
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from umi_common.errors import LedgerDamaged, StoreClosed, StoreLocked, StoreReadOnly
from umi_common.pool import Vectors
from umi_common.stores.arrays import Growing
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.codec import DIGEST_BYTES, Entry, Head, checked, decode_vectors, encode_vectors
from umi_common.stores.ledger.file import ADD_SEARCH_TEXT, HISTORY, open_file, open_in_memory, reading_connection
from umi_common.stores.ledger.followed import FollowedFile, readers_closed
from umi_common.stores.ledger.history import Change, Mark, commit_mark, last_number, sessions_of, whole_number
from umi_common.stores.ledger.sqlite import (
    BUSY_SECONDS,
    SQL_VARIABLES,
    ChangedWhileRead,
    ConnectionPool,
    Location,
    insert,
    sqlite_errors,
)

log = logging.getLogger("umi")

Result = TypeVar("Result")

VECTORS_AT_ONCE = 250
"""Number of vectors decoded together: few enough to stay in the processor's cache until they are copied."""
READER_SECONDS = 1.0
"""Longest wait of `compact` and `close` for readers of an older state, in seconds; a search reads for milliseconds."""
IDS_NAMED = 3
"""Largest number of ids in the message about a problem."""
COMMITS_KEPT = 100_000
"""Number of the newest commits that the table `commits` keeps, some 3 MB. An index that was saved before the oldest
kept commit is built again from all texts."""
SESSIONS_KEPT = 16
"""Number of the newest sessions of writing whose names the ledger keeps; see `begin_session`."""
DELETIONS_KEPT = 50_000
"""Number of the newest deletions that the table `deletions` keeps, some 0.5 MB. A process that last read the ledger
before the oldest kept deletion loads everything again."""
INTERRUPTS = (
    "this thread is in the middle of another call to the store, so this call, made for example by a signal handler, "
    "has read and written nothing; let the handler set a flag, and repeat the call after the other one"
)
"""Message of the error about a call that interrupts another one of its thread, and cannot run before that has ended."""
SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
SEARCH_TEXT_EXISTS = "SELECT 1 FROM pragma_table_info('chunks') WHERE name = 'search_text'"
ENTRY_COLUMNS = "id, source, position, event_time, head, digest, text, metadata"
"""The columns of an `Entry` but the last, `search_text`, which files of early versions lack."""
VECTOR_COLUMNS = ("vector", "checksum")
"""The columns of a vector that `decode_vectors` reads."""
LOOK_UP_EVERY_ID = """
SELECT count(*), count(found) FROM (
    SELECT (
        SELECT 1 FROM chunks AS named INDEXED BY sqlite_autoindex_chunks_1
        WHERE named.id = listed.id AND named.seq = listed.seq
    ) AS found FROM chunks AS listed NOT INDEXED
)"""
"""Counts the rows of the table, and the rows that its index of ids finds. A damaged page of the index may hide rows
from a scan without an error."""


def held_here(condition: threading.Condition) -> bool:
    """Whether this thread holds the lock of `condition`: only then `notify` raises no error."""
    try:
        condition.notify(0)
    except RuntimeError:
        return False
    return True


class Ledger:
    """Chunks, vectors and deletions in one file, or in memory. Thread-safe; one process writes.

    Args:
        path: The file; None: a new ledger in memory.
        read_only: Refuse writes, and read what another process commits.

    Raises:
        LedgerDamaged: From any method, if SQLite or a checksum shows that the file is not what was written.
        StoreClosed: From any method that reads chunks or writes, after close().
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self._log = None if path is None else path.with_name(f"{path.name}-wal")
        self.read_only = read_only
        self._lock = threading.RLock()
        self._held = threading.Condition(self._lock)
        """For `held_here`."""
        self._closed = False
        self._has_search_text = False
        """Whether the column `search_text` was found."""
        self._location = None if path is None or read_only else Location(path)
        self._readers: ConnectionPool | FollowedFile | None = None
        """Connections for reading; None: the ledger is in memory, and the writing connection also reads."""
        with sqlite_errors(path, writing=not read_only):
            if path is None:
                self._writer = open_in_memory()
            elif path.stat().st_size == 0:  # SQLite would open it as a new database
                raise LedgerDamaged(f"{path} is empty; restore it from a copy: the other files cannot replace it")
            elif self._location is None:
                self._readers = FollowedFile(path)
            else:
                with readers_closed(path):
                    self._writer = open_file(path)
                self._readers = ConnectionPool(partial(reading_connection, path, self._location))
        self.check_location()

    def close(self) -> None:
        """Copy the write-ahead log into the file and close every connection."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._readers is not None:
                self._readers.close()
            if self.read_only:
                return
            try:
                with suppress(sqlite3.Error):
                    self._emptied_log()
            finally:
                self._writer.close()

    def in_place(self) -> bool:
        """Whether the path still names the opened file; always True in memory and with `read_only`."""
        return self._location is None or self._location.unchanged()

    def check_location(self, *, writing: bool = False) -> None:
        """Raise the errors of `Location.check` if the path no longer names the opened file; called with `writing`
        before a write and after its commit. Does nothing in memory and with `read_only`."""
        if self._location is not None:
            self._location.check(writing=writing)

    def check_writable(self) -> None:
        """Raise StoreClosed after close(), StoreReadOnly if `read_only`, and the errors of `check_location`."""
        if self._closed:
            raise StoreClosed("the store is closed; open it again")
        if self.read_only:
            raise StoreReadOnly("the store was opened with read_only=True; to write, open it without read_only")
        self.check_location(writing=True)

    # Writing

    def change(
        self,
        deleted: Sequence[int],
        entries: Sequence[Entry],
        vectors: Vectors,
        settings: Mapping[str, str],
    ) -> Mark:
        """Delete rows by sequence number and append new rows, in one commit; returns the mark of the commit.

        Args:
            deleted: Sequence numbers of the rows to delete; each of them must exist.
            entries: The n rows to append. Their sequence numbers are mark.seq - n + 1 to mark.seq, in order.
            vectors: (n, dim), aligned with `entries`.
            settings: Settings to store in the same commit, see `set_meta`.
        """
        assert len(vectors) == len(entries)
        with self.transaction() as connection:
            connection.executemany("INSERT INTO deletions (chunk) VALUES (?)", ((seq,) for seq in deleted))
            connection.executemany("DELETE FROM chunks WHERE seq = ?", ((seq,) for seq in deleted))
            if deleted:
                last_dropped = last_number(connection, "deletions") - DELETIONS_KEPT
                connection.execute("DELETE FROM deletions WHERE seq <= ?", (last_dropped,))
            first = last_number(connection, "chunks") + 1
            rows = ((seq, *entry) for seq, entry in enumerate(entries, first))
            insert(connection, "chunks", f"seq, {ENTRY_COLUMNS}, search_text", rows)
            failpoint("ledger.insert")
            blobs = [(seq, *blob) for seq, blob in enumerate(encode_vectors(vectors), first)]
            insert(connection, "vectors", "seq, vector, checksum", blobs)
            connection.execute(
                "UPDATE meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'count'", (len(entries) - len(deleted),)
            )
            connection.executemany(SET_META, settings.items())
            # The digest of the history covers the deleted numbers, the vectors' checksums and the rows' digests.
            checksums = [checksum for _, _, checksum in blobs]
            numbers = [np.array(each, dtype="<i8").tobytes() for each in (deleted, checksums)]
            return self.record(connection, [*numbers, *(entry.digest for entry in entries)])

    def set_meta(self, values: Mapping[str, str]) -> None:
        """Store settings, durably."""
        with self.transaction() as connection:
            connection.executemany(SET_META, values.items())

    def record(self, connection: sqlite3.Connection, contents: Iterable[bytes]) -> Mark:
        """Append a commit to the history, in the transaction of `connection`; returns its mark. `contents` are its
        changes as bytes, which enter the rolling digest in this order."""
        mark = self.mark(connection).next(contents)
        row = (mark.commit, mark.seq, mark.deletion, bytes.fromhex(mark.digest))
        connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", row)
        if mark.commit > COMMITS_KEPT:
            connection.execute("DELETE FROM commits WHERE number <= ?", (mark.commit - COMMITS_KEPT,))
        return mark

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection for writing. At the end of the block its changes are durably committed; if it raises, none is.

        Raises:
            StoreFull: If the disk has no room; then nothing has changed.
            StoreMoved: If the file was moved or deleted; the change is lost, or is in the moved file.
        """
        nested = held_here(self._held)
        with self._lock, sqlite_errors(self.path, writing=True):
            self.check_writable()
            self._check_idle(nested)
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                self.check_location(writing=True)
                with self._cut_log_of_failure():
                    yield self._writer
                    failpoint("ledger.commit")
                    self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    with suppress(sqlite3.Error):
                        self._writer.execute("ROLLBACK")
                raise
            self.check_location(writing=True)
        failpoint("ledger.committed")

    def _check_idle(self, nested: bool) -> None:
        """Raise StoreLocked if this call interrupts a transaction of its thread, as a signal handler may. `nested`:
        whether the thread held the lock before this call; if not, an open transaction is the rest of one that Ctrl-C
        ended, and is rolled back."""
        if self._writer.in_transaction:
            if nested:
                raise StoreLocked(INTERRUPTS)
            self._writer.execute("ROLLBACK")

    @contextmanager
    def _cut_log_of_failure(self) -> Iterator[None]:
        """If SQLite fails in the block, which ends with its commit, cut the write-ahead log to its length before.

        SQLite keeps the bytes of a write that failed for lack of space. They would fill the disk, so that no later
        write, compact() or close() could empty the log. Nothing is cut if another program has the lock: its commits may
        have lengthened the log.
        """
        before = self.log_bytes()
        try:
            yield
        except sqlite3.Error as error:
            if self._log is not None and before < self.log_bytes() and "locked" not in str(error):
                with suppress(OSError):
                    os.truncate(self._log, before)
            raise

    def log_bytes(self) -> int:
        """Length of the write-ahead log; after close() it is 0 unless another process was reading."""
        return self._log.stat().st_size if self._log is not None and self._log.exists() else 0

    # Reading

    def changes(self, connection: sqlite3.Connection, since: Mark | None) -> Change | None:
        """The changes after the commit `since`; if it is None, all chunks as added. Returns None if `deleted` does."""
        deleted = [] if since is None else self.deleted(connection, since)
        if deleted is None:
            return None
        after = 0 if since is None else since.seq
        heads, texts, metadata = [], [], []
        for head, text, values in self.texts(connection, after=after):
            heads.append(head)
            texts.append(text)
            metadata.append(values)
        none = np.zeros((0, 0), np.float32)  # without chunks, nothing is selected
        vectors = self.vectors(connection, after=after, expected=len(heads)) if heads else none
        return Change(self.mark(connection), deleted, heads, texts, metadata, vectors)

    def deleted(self, connection: sqlite3.Connection, since: Mark) -> list[int] | None:
        """Sequence numbers of the chunks deleted after the commit `since`; None: not known, for one of these reasons:

        - The ledger's history lacks this commit.
        - All vectors were replaced after it.
        - A later row of `deletions` was dropped (see DELETIONS_KEPT), is missing, or names a chunk that still exists.
        """
        if self._number(connection, "epoch") != since.epoch or not self.descends_from(connection, since):
            return None
        rows = connection.execute(
            "SELECT chunk, typeof(chunk) = 'integer' AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.seq = chunk) "
            "FROM deletions WHERE seq > ?",
            (since.deletion,),
        ).fetchall()
        complete = len(rows) == last_number(connection, "deletions") - since.deletion
        return [chunk for chunk, _ in rows] if complete and all(gone for _, gone in rows) else None

    def texts(self, connection: sqlite3.Connection, *, after: int = 0) -> Iterator[tuple[Head, str, str]]:
        """(head, indexed text, metadata as JSON) of the chunks with seq > `after`, by rising seq.

        Raises:
            LedgerDamaged: If a row is not what was written or, at the end, if the number of rows is wrong.
        """
        columns = f"{ENTRY_COLUMNS}, {self._search_text(connection)}"
        rows = connection.execute(f"SELECT seq, {columns} FROM chunks WHERE seq > ? ORDER BY seq", (after,))
        count, last = 0, after
        for seq, *fields in rows:
            entry = checked(Entry(*fields))
            if seq <= last:
                raise LedgerDamaged(f"{self.path}: row {seq} is not what was written; restore it from a copy")
            count, last = count + 1, seq
            yield Head(seq, *entry[:4]), entry.indexed_text, entry.metadata
        if not after and count != self.count(connection):
            raise LedgerDamaged(f"{self.path} has lost or gained rows; restore it from a copy")

    def vectors(self, connection: sqlite3.Connection, *, after: int = 0, expected: int) -> Vectors:
        """(n, dim) vectors of the chunks with a sequence number above `after`, by rising number; (0, 0) if n is 0.

        Raises:
            LedgerDamaged: If a vector is not what was written (the message names chunks), if vectors have different
                dimensions, if the sequence numbers do not rise, or if n is not `expected`, the number of these chunks.
        """
        rows = connection.execute("SELECT seq, vector, checksum FROM vectors WHERE seq > ? ORDER BY seq", (after,))
        found, last = Growing(np.float32, 0), after
        while batch := rows.fetchmany(VECTORS_AT_ONCE):
            seqs = [last, *(seq for seq, _, _ in batch)]
            try:
                vectors = decode_vectors([row[1:] for row in batch])
            except LedgerDamaged as error:
                raise self._vectors_damaged(connection) from error
            if not len(found.view):
                found = Growing(np.float32, vectors.shape[1], room=max(expected, len(vectors)))
            if vectors.shape[1] != found.view.shape[1] or seqs != sorted(set(seqs)):
                raise LedgerDamaged("the vectors of umi.db are not what was written; restore it from a copy")
            found.extend(vectors)
            last = seqs[-1]
        if len(found.view) != expected:
            raise LedgerDamaged(f"the ledger holds {expected} chunks and {len(found.view)} vectors; restore a copy")
        return found.view

    def _vectors_damaged(self, connection: sqlite3.Connection) -> LedgerDamaged:
        """The error about damaged vectors."""
        damaged = set(self.damaged_vectors(connection))
        ids = [head.id[:80] for head, _, _ in self.texts(connection) if head.seq in damaged]
        return LedgerDamaged(
            f"{self.path} holds {len(ids)} vectors that are not what was written, of chunks {ids[:IDS_NAMED]}; restore "
            "umi.db from a copy, or embed every text again: HybridStore.reindex(path, embedder=...)"
        )

    def damaged_vectors(self, connection: sqlite3.Connection) -> list[int]:
        """Sequence numbers of the vectors that are not what was written."""
        rows = connection.execute("SELECT seq, vector, checksum FROM vectors")
        return [
            seq
            for seq, vector, check in rows
            if not isinstance(vector, bytes) or len(vector) % 4 or zlib.crc32(vector) != check
        ]

    def entries(self, seqs: Sequence[int]) -> dict[int, Entry]:
        """Sequence number -> row, for the numbers that have a row."""
        return {row[0]: Entry._make(row[1:]) for row in self._by_seq(None, seqs)}

    def checksums(self, seqs: Sequence[int]) -> dict[int, tuple[bytes, int]]:
        """Sequence number -> (digest of the row, checksum of its vector), for the numbers that have a row."""
        rows = self._by_seq("digest, (SELECT checksum FROM vectors WHERE vectors.seq = chunks.seq)", seqs)
        return {seq: (digest, checksum) for seq, digest, checksum in rows}

    def vectors_of(self, seqs: Sequence[int]) -> dict[int, Vectors]:
        """Sequence number -> (dim,) vector, for the numbers that have a row; raises as `vectors`."""
        columns = ", ".join(f"(SELECT {name} FROM vectors WHERE vectors.seq = chunks.seq)" for name in VECTOR_COLUMNS)
        rows = self._by_seq(columns, seqs) if seqs else []
        vectors = decode_vectors([row[1:] for row in rows]) if rows else ()
        return {row[0]: vector for row, vector in zip(rows, vectors, strict=True)}

    def _by_seq(self, columns: str | None, seqs: Sequence[int]) -> list[Any]:
        """(seq, *columns) of the rows with these sequence numbers; `columns` None: the columns of an `Entry`."""

        def read() -> list[Any]:
            found: list[Any] = []
            with self.reading() as connection:
                wanted = f"{ENTRY_COLUMNS}, {self._search_text(connection)}" if columns is None else columns
                for start in range(0, len(seqs), SQL_VARIABLES):
                    batch = seqs[start : start + SQL_VARIABLES]
                    placeholders = ", ".join("?" * len(batch))
                    select = f"SELECT seq, {wanted} FROM chunks WHERE seq IN ({placeholders})"
                    found += connection.execute(select, batch).fetchall()
            return found

        return self.retry_read(read)

    def _search_text(self, connection: sqlite3.Connection) -> str:
        """SQL for the column `search_text`; NULL if the file is of an early version and lacks the column."""
        if not self._has_search_text:
            self._has_search_text = connection.execute(SEARCH_TEXT_EXISTS).fetchone() is not None
        return "search_text" if self._has_search_text else "NULL"

    def beginnings(self, characters: int) -> dict[int, str]:
        """seq -> the first `characters` characters of the indexed text, for all chunks."""
        with self.reading() as connection:
            indexed = f"coalesce({self._search_text(connection)}, text)"
            return dict(connection.execute(f"SELECT seq, substr({indexed}, 1, ?) FROM chunks", (characters,)))

    def meta(self) -> dict[str, str]:
        """Settings by name."""
        return dict(self.all_rows("SELECT key, value FROM meta"))

    def all_rows(self, sql: str) -> list[Any]:
        """All rows of one SELECT."""

        def read() -> list[Any]:
            with self.reading() as connection:
                return connection.execute(sql).fetchall()

        return self.retry_read(read)

    def count(self, connection: sqlite3.Connection) -> int:
        """Number of chunks as the last write stored it in `meta`; `rows` counts them."""
        return self._number(connection, "count")

    def rows(self, connection: sqlite3.Connection) -> int:
        """Number of rows of the table of chunks, which are counted: some 20 ms for 1,000,000 chunks."""
        return whole_number(connection.execute("SELECT count(*) FROM chunks").fetchone()[0], "the number of chunks")

    def _number(self, connection: sqlite3.Connection, key: str) -> int:
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return whole_number("none" if row is None else row[0], f"its setting {key!r}")

    # Marks and sessions

    def mark(self, connection: sqlite3.Connection) -> Mark:
        """The mark of the ledger's state that `connection` reads."""
        return commit_mark(connection)._replace(
            seq=last_number(connection, "chunks"),
            deletion=last_number(connection, "deletions"),
            epoch=self._number(connection, "epoch"),
        )

    def descends_from(self, connection: sqlite3.Connection, mark: Mark) -> bool:
        """Whether `mark` is in this ledger's history. An index saved at this mark then lacks only later changes."""
        kept = commit_mark(connection, "WHERE number = ?", mark.commit)
        return mark.commit > 0 and kept == mark._replace(epoch=0)  # the table of commits has no epoch

    def holds(self, mark: Mark) -> bool:
        """Whether this ledger contains the writes up to `mark`; False in an older copy, and in another ledger."""

        def read() -> bool:
            with self.snapshot() as connection:  # without it, `compact` may drop the commit between two SELECTs
                oldest, now = commit_mark(connection, "ORDER BY number"), self.mark(connection)
                if 0 < oldest.commit <= mark.commit:
                    return self.descends_from(connection, mark)
            # `compact` dropped the commit of `mark`, or `mark` is of an early version of umi, which keeps no history.
            return (now.epoch, now.seq) >= (mark.epoch, mark.seq) and now.deletion >= mark.deletion

        return self.retry_read(read)

    def begin_session(self) -> str:
        """Store the random name of a session of writing, which lasts until the writer closes the ledger. If the ledger
        keeps no history, or its history lacks writes, a new history is started.

        Returns:
            The name if it was copied from the write-ahead log into `umi.db`; "" if a reader prevented the copy.
        """
        session = secrets.token_hex(8)
        with self.transaction() as connection:
            connection.execute(HISTORY)
            if self._search_text(connection) == "NULL":
                connection.execute(ADD_SEARCH_TEXT)
            last, mark = commit_mark(connection), self.mark(connection)
            if (last.seq, last.deletion) != (mark.seq, mark.deletion) or not last.digest:
                # The ledger is new, or an early version of umi, which keeps no history, wrote last.
                self.record(connection, [secrets.token_bytes(DIGEST_BYTES)])
            sessions = " ".join([session, *sessions_of(connection)][:SESSIONS_KEPT])
            connection.execute(SET_META, ("session", sessions))
        with self._lock, sqlite_errors(self.path, writing=True):
            busy, pages, copied = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return session if not busy and pages == copied else ""

    # Connections for reading

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one SELECT, for this thread alone. The end of the block raises ChangedWhileRead if another
        process changed the file during the block."""
        if self._readers is not None:
            with sqlite_errors(self.path), self._readers.connection() as connection:
                yield connection
            return
        with sqlite_errors(None), self._lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            yield self._writer

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection whose SELECTs all see the same commit. Must not be nested in one thread.

        Raises:
            StoreLocked: If the ledger is in memory, and this call interrupts a write or a snapshot of its thread.
        """
        nested = held_here(self._held)
        with self.reading() as connection:
            if self._readers is None:
                self._check_idle(nested)
            try:  # from BEGIN on: an interrupt must not leave the connection of a store in memory in a transaction
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def retry_read(self, read: Callable[[], Result]) -> Result:
        """The result of `read`. Repeated for at most BUSY_SECONDS if another process changed the file meanwhile."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return read()
            except ChangedWhileRead:
                if time.monotonic() > deadline:
                    raise
                self.version()  # opens the file again

    def version(self) -> tuple[int, int]:
        """Two numbers that change with each commit of another process; always (0, 0) unless `read_only`.

        Raises:
            StoreMoved: If the path now names another file.
            StoreReadOnly: If the file has unfinished writes that only a writer can complete.
        """
        if not isinstance(self._readers, FollowedFile):
            return (0, 0)  # no other process writes
        with sqlite_errors(self.path):
            return self._readers.version()

    # Care

    def compact(self) -> None:
        """Free the disk space of deleted rows; remove all rows of `deletions`, and all rows of `commits` but the last.

        If a reader reads an older state for READER_SECONDS, the space is not freed, and a warning is logged.
        """
        with self.transaction() as connection:
            connection.execute(HISTORY)
            connection.execute("DELETE FROM deletions")
            connection.execute("DELETE FROM commits WHERE number < (SELECT max(number) FROM commits)")
        with self._lock, sqlite_errors(self.path, writing=True):
            self.check_writable()
            with self._cut_log_of_failure():
                self._writer.execute("VACUUM")
            if not self._emptied_log():
                log.warning(
                    "%s: a reader still reads the state before compact(). Removed chunks stay on the disk until the "
                    "store is closed, or compacted again, after that reader has ended",
                    self.path,
                )

    def _emptied_log(self) -> bool:
        """Copy the write-ahead log into the file and empty the log; returns False if a reader prevented this."""
        self._writer.execute(f"PRAGMA busy_timeout = {READER_SECONDS * 1e3:.0f}")
        (busy, _, _) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._writer.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1e3:.0f}")
        return not busy

    def check_id_index(self, connection: sqlite3.Connection) -> None:
        """Look up every row in SQLite's index of ids; raise LedgerDamaged if the table or the index has lost rows. It
        takes some 0.1 s for 100,000 rows."""
        rows, found = connection.execute(LOOK_UP_EVERY_ID).fetchone()
        stated = self.count(connection)
        if rows != stated:
            raise LedgerDamaged(f"{self.path} holds {rows} chunks and should hold {stated}; restore it from a copy")
        if found != rows:
            raise LedgerDamaged(
                f"{self.path}: SQLite's index of ids is damaged and finds {found} of {rows} chunks. No chunk is lost: "
                "run repair() (umi repair), then repeat the call"
            )
