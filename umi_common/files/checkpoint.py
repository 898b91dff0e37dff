"""The checkpoint: a SQLite file that records which parts of files are in the store.

If it is lost, the next run reads all files again; no chunk is lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from umi_common.errors import ConfigError, LedgerDamaged, ReindexRequired, StoreError, StoreLocked
from umi_common.files.readers.chunks import FILE_KEY, is_of_file
from umi_common.filters import Filter
from umi_common.protocols import pages
from umi_common.stores.ledger.sqlite import as_umi_error

APPLICATION_ID = 0x756D6902
"""Number in the header of a SQLite file that marks it as a checkpoint of umi."""
FILES = """
CREATE TABLE files (
    source TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    others INTEGER NOT NULL,
    settled INTEGER NOT NULL DEFAULT 0,
    stamp TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
"""
SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
{FILES}
CREATE TABLE parts (key TEXT PRIMARY KEY, source TEXT NOT NULL, witness TEXT) WITHOUT ROWID;
CREATE INDEX parts_by_source ON parts (source);
"""
"""`meta` has settings by key. The columns of `files` are those of `KnownFile`, and the columns of `parts` those of
`IngestCheckpoint.finish`: `witness` is the id of one chunk of the part."""
MIGRATION = f"""
ALTER TABLE files RENAME TO older; {FILES}
INSERT INTO files (source, version, others, settled) SELECT source, version, others, settled FROM older;
DROP TABLE older;
"""
"""Converts the table `files` of older releases of umi, which had a further column, the file's path."""
LAST_WRITE = "last_write"
"""Key of the setting for `HybridStore.last_write` after the last batch. Other stores lack this attribute."""
CHUNKS_CHECKED = 64
"""Number of chunks looked up in the store to check that the checkpoint belongs to it."""


class KnownFile(NamedTuple):
    """The record of a file in the checkpoint."""

    version: str
    """The file's `parts.version_of` when a run last began to write it."""
    others: bool
    """Whether the store may have chunks of other versions, which must be removed."""
    settled: bool
    """Whether the store has all chunks of this version and no other chunks of the file."""
    stamp: str
    """RULES_VERSION and the file's `readers.reading.stamp_of` when it was settled."""


class IngestCheckpoint:
    """The checkpoint file, locked until `close`. A method that writes returns when its data are on the disk.

    Args:
        path: Created if it does not exist; None: the checkpoint is in memory.

    Raises:
        StoreLocked: At once, if another run has locked the file.
        StoreFull: From a method that writes, if the disk is full; nothing was recorded.
        LedgerDamaged: If the file is damaged, or no SQLite file.
        StoreError: If the file is of another program, or cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        with self._errors():
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=0)
        try:
            with self._errors():
                self._lock_and_prepare()
        except BaseException:
            self._db.close()
            raise

    def _lock_and_prepare(self) -> None:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:  # checked before the file of another program is changed
            raise StoreError(f"{self._path} is no checkpoint of umi; choose another file")
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA secure_delete = ON")  # the name of a file that is gone is overwritten
        self._db.execute("BEGIN EXCLUSIVE")  # the lock is kept from here to close()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (problem,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        self._db.execute("COMMIT")
        if problem != "ok":
            raise sqlite3.DatabaseError(f"malformed: {problem}")
        if tables == 0:
            self._db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        elif "path" in [row[1] for row in self._db.execute("PRAGMA table_info(files)")]:
            self._db.executescript(f"BEGIN; {MIGRATION} COMMIT;")

    def get(self, key: str) -> str | None:
        """The value of a setting; None: not set."""
        return next((str(value) for (value,) in self._rows("SELECT value FROM meta WHERE key = ?", key)), None)

    def put(self, key: str, value: str) -> None:
        """Store a setting."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def file(self, source: str) -> KnownFile | None:
        """The record of a file; None: no run began to write it."""
        rows = self._rows("SELECT version, others, settled, stamp FROM files WHERE source = ?", source)
        return next((KnownFile(row[0], bool(row[1]), bool(row[2]), row[3]) for row in rows), None)

    def begin(self, files: Iterable[tuple[str, str]], *, others: bool) -> None:
        """Record files before their first chunk is written; they are not settled from now on.

        Args:
            files: (source, version) of each file.
            others: The value of `KnownFile.others` for files without a record. For a record with another version it
                becomes True; in any other record it stays.
        """
        with self._writing() as db:
            db.executemany(
                """INSERT INTO files (source, version, others) VALUES (?, ?, ?)
                ON CONFLICT (source) DO UPDATE SET settled = 0, others = others OR version <> excluded.version,
                version = excluded.version""",
                [(source, version, others) for source, version in files],
            )

    def finish(self, parts: Iterable[tuple[str, str, str | None]]) -> None:
        """Record parts that are in the store: (key, source, the id of one of its chunks; None if it has no chunks)."""
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", parts)

    def done(self, keys: Sequence[str]) -> set[str]:
        """The keys whose parts are in the store."""
        return {key for key in keys if self._rows("SELECT 1 FROM parts WHERE key = ?", key)}

    def settle(self, files: Sequence[tuple[str, Sequence[str], str]]) -> None:
        """Record files as settled: the store has all parts of each, and no stale chunks.

        Args:
            files: (source, keys of all parts, stamp) of each file.
        """
        with self._writing() as db:
            for source, keys, stamp in files:
                present = set(keys)
                known = db.execute("SELECT key FROM parts WHERE source = ?", (source,)).fetchall()
                db.executemany("DELETE FROM parts WHERE key = ?", [row for row in known if row[0] not in present])
                db.execute("UPDATE files SET settled = 1, others = 0, stamp = ? WHERE source = ?", (stamp, source))

    def forget(self, sources: Iterable[str]) -> None:
        """Remove these files from the checkpoint."""
        gone = [(source,) for source in sources]
        with self._writing() as db:
            db.executemany("DELETE FROM parts WHERE source = ?", gone)
            db.executemany("DELETE FROM files WHERE source = ?", gone)

    def sources(self) -> list[str]:
        """The source of every recorded file, in rising order."""
        return [source for (source,) in self._rows("SELECT source FROM files ORDER BY source")]

    def sources_stored(self) -> list[str]:
        """The source of every file of which the store has a part, in rising order."""
        # `_record_stored_files` records the files of the store's chunks without a version, and without parts.
        sql = "SELECT source FROM files WHERE version = '' UNION SELECT source FROM parts ORDER BY source"
        return [source for (source,) in self._rows(sql)]

    def sample_of_chunks(self) -> list[str]:
        """Ids of at most CHUNKS_CHECKED chunks that the store should hold, one of each part; the same each time."""
        sql = "SELECT witness FROM parts WHERE witness IS NOT NULL ORDER BY key LIMIT ?"
        return [id for (id,) in self._rows(sql, CHUNKS_CHECKED)]

    def close(self) -> None:
        """Unlock and close the file."""
        self._db.close()

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._errors(), self._db as db:  # leaving the block commits or, after an error, rolls back
            db.execute("BEGIN")
            yield db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StoreLocked(f"{self._path} is in use by another run; wait until it ends, or stop it") from error
            if isinstance(known := as_umi_error(error, self._path, writing=True), LedgerDamaged):
                problem = f"is damaged ({error}); delete it"
                if "not a database" in str(error):
                    problem = "is no checkpoint of umi, or a damaged one; choose another file, or delete a damaged one"
                raise LedgerDamaged(
                    f"{self._path} {problem}: the next run then reads all files again, but does not embed unchanged "
                    "files again"
                ) from error
            raise known from error
        except OSError as error:
            raise StoreError(f"{self._path} cannot be created ({error.strerror}); name another file") from error


def check_belongs(checkpoint: IngestCheckpoint, store: Any, embedder: str, *, own: bool) -> bool:
    """Check that a checkpoint belongs to a store; returns whether the store may have chunks of unrecorded files.

    That is the case if the store had chunks before the checkpoint's first run, or if an older copy of the store was
    ever restored. The files named in the store's chunks are then recorded, so that the run removes the chunks of files
    that no longer exist; in the first run only if `own`.

    Args:
        own: Whether the checkpoint is in the store's directory. Then the store decides: after a change of embedder the
            new one is recorded, and if the store has none of the recorded chunks, the records are removed.

    Raises:
        ConfigError: If the store's embedder is not `embedder`; unless `own`, if the checkpoint is of another store.
        ReindexRequired: Unless `own`, if the checkpoint was made with another embedder.
    """
    model = getattr(store, "embedder", None)
    if model is not None and model.name != embedder:
        raise ConfigError(
            f"the embedder given is {embedder!r} and the store's is {model.name!r}; use the store's, or first call "
            "HybridStore.reindex(path, embedder=...)"
        )
    before = checkpoint.get("embedder")
    if before is None:  # the first run
        others = len(store) > 0
        if own and others:
            _record_stored_files(checkpoint, store)
        checkpoint.put("others", str(int(others)))
        checkpoint.put("embedder", embedder)
        return others
    if before != embedder and not own:
        raise ReindexRequired(
            f"the checkpoint was made with embedder {before!r}, and the embedder given is {embedder!r}; use "
            f"{before!r}, or begin a new store and a new checkpoint"
        )
    checkpoint.put("embedder", embedder)
    sample = checkpoint.sample_of_chunks()
    if sample and not any(store.get(sample)):
        if not own:
            raise ConfigError(
                f"checkpoint= is of another store: this store has none of {len(sample)} chunks recorded in it, such as "
                f"{sample[0]!r}; name the store it belongs to, or delete the checkpoint to begin anew"
            )
        checkpoint.forget(checkpoint.sources())
    last_write = checkpoint.get(LAST_WRITE)
    if last_write is not None and hasattr(store, LAST_WRITE) and not store.holds_write(last_write):
        _record_stored_files(checkpoint, store)  # an older copy of the store was restored
        checkpoint.put("others", "1")
    return checkpoint.get("others") == "1"


def _record_stored_files(checkpoint: IngestCheckpoint, store: Any) -> None:
    """Replace all records by the files named in the store's chunks, with a version that no file has."""
    checkpoint.forget(checkpoint.sources())
    checkpoint.begin([(file, "") for file in sorted(files_in(store))], others=True)


def files_in(store: Any, where: Filter | None = None) -> set[str]:
    """Sources of the files from which the store's chunks were cut; with `where`, only for chunks that match it."""
    found = pages(store, where=where)
    return {str(chunk.metadata[FILE_KEY]) for page in found for chunk in page if is_of_file(chunk)}
