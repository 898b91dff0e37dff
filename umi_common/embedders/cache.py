"""Caches of values by text, such as the vectors of embedded texts: in memory, or in a file in a store's directory."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock
from umi_common.types import inode_of

log = logging.getLogger("umi")

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

VECTORS = "embeddings.db"
"""Name of the file that caches the vectors of documents, in a store's directory."""
REPLIES = "rewrites.db"
"""Name of the file that caches how the LLM rewrote queries, in a store's directory."""
KEY_BYTES = 20
"""Length in bytes of a key, which is a hash of the model's name and the text."""
KEYS_AT_ONCE = 500
"""Number of keys in one SQL statement; every SQLite accepts 999 parameters."""
WAIT_SECONDS = 1.0
"""Longest wait for another writer, in seconds. After it, the call reads or caches nothing."""
MEMORY_MAX = 20_000
"""Largest number of vectors of documents cached in memory: 120 MB at 1,536 dimensions."""


class LruCache(Generic[Key, Value]):
    """Values by key, the least recently used dropped first. Thread-safe.

    Args:
        size: Largest number of values; 0: nothing is cached.
    """

    _lock: Lock

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        give_lock(self)

    def get(self, keys: Iterable[Key]) -> dict[Key, Value]:
        """The values by key; keys that are not cached are left out."""
        found: dict[Key, Value] = {}
        with self._lock:
            for key in keys:
                value = self._values.get(key)
                if value is not None:
                    self._values.move_to_end(key)
                    found[key] = value
        return found

    def put(self, new: Mapping[Key, Value]) -> None:
        """Add values. A value must not be None, nor a view of an array, which would keep the whole array in memory."""
        with self._lock:
            for key, value in new.items():
                self._values[key] = value
                self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()


class FileCache(Generic[Value]):
    """A cache of values by text in an SQLite file; the values written first are dropped first. Thread-safe.

    The file holds the names of the models and, in place of the texts, hashes. Each call opens the file. A row whose
    checksum is wrong counts as not cached. A damaged file is deleted with a warning, and the next call makes a new one.
    If it is not `writable`, if the disk refuses a write, or if the directory was deleted, renamed or replaced, a
    warning is logged, and nothing is cached any more; no error is raised. Cached values survive a kill of the process;
    a power cut may lose them.

    Args:
        path: The file, in an existing directory.
        model: Name of the model; part of each key.
        size: Largest number of values, of all models together; 0: nothing is cached.
        pack: From a value to the bytes that are stored.
        unpack: From these bytes to the value.
        writable: False: the file is only read.
        private: Whether only the file's owner may read and write it.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        size: int,
        pack: Callable[[Value], bytes],
        unpack: Callable[[bytes], Value],
        *,
        writable: bool = True,
        private: bool = False,
    ) -> None:
        self._path = path.absolute()
        self._directory = inode_of(self._path.parent)
        self._mode = 0o600 if private else 0o666
        self._model = model
        self._size = size
        self._pack, self._unpack = pack, unpack
        self._writable = writable

    def get(self, texts: Sequence[str]) -> dict[str, Value]:
        """The values by text; texts that are not cached are left out."""
        keys = {_key(self._model, text): text for text in texts}
        found: dict[str, Value] = {}
        if not self._size or not self._path.exists():
            return found
        wanted = list(keys)

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), KEYS_AT_ONCE):
                batch = wanted[start : start + KEYS_AT_ONCE]
                marks = ",".join("?" * len(batch))
                rows = connection.execute(f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})", batch)
                for key, vector, checksum in rows:
                    if zlib.crc32(vector, zlib.crc32(key)) == checksum:
                        found[keys[key]] = self._unpack(vector)

        self._transact(read)
        return found

    def put(self, new: Mapping[str, Value]) -> None:
        """Add values by text."""
        if not self._size or not new or not self._writable:
            return
        packed = [(_key(self._model, text), self._pack(value)) for text, value in new.items()]
        rows = [(key, stored, zlib.crc32(stored, zlib.crc32(key))) for key, stored in packed]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO models VALUES (?)", (self._model,))
            # A new key gets the next number; of the numbers, only the last `size` are kept. A known key keeps its
            # number: if it got a new one, the gap that it leaves would count as a row.
            connection.executemany(
                "INSERT INTO vectors (key, vector, checksum) VALUES (?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET vector = excluded.vector, checksum = excluded.checksum",
                rows,
            )
            connection.execute(
                "DELETE FROM vectors WHERE number <= (SELECT MAX(number) FROM vectors) - ?", (self._size,)
            )

        self._transact(write)

    def clear(self) -> None:
        """Remove all values, by deleting the file."""
        delete_cache(self._path)

    def keep(self, texts: Iterable[str]) -> None:
        """Remove the values of all other texts, of every model, and overwrite their bytes in the file."""
        if not self._path.exists():
            return

        def remove(connection: sqlite3.Connection) -> None:
            models = [model for (model,) in connection.execute("SELECT name FROM models")]
            connection.execute("CREATE TEMP TABLE kept (key BLOB PRIMARY KEY) WITHOUT ROWID")
            keys = ((_key(model, text),) for text in texts for model in models)
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?)", keys)
            connection.execute("DELETE FROM vectors WHERE key NOT IN (SELECT key FROM kept)")
            connection.commit()
            connection.execute("VACUUM")

        error = self._transact(remove)
        if error is not None and self._path.exists():
            log.warning("%s still holds values of removed texts (%s); try again", self._path, error)

    def _transact(self, work: Callable[[sqlite3.Connection], None]) -> Exception | None:
        """Run `work` in a transaction of a new connection; returns None, or the error if that failed. A file that is
        locked for more than WAIT_SECONDS is such an error, but is used again by the next call."""
        uri, name = f"{self._path.as_uri()}?mode={'rw' if self._writable else 'ro'}", self._path.name
        try:
            if inode_of(self._path.parent) != self._directory:
                raise sqlite3.OperationalError("its directory was deleted, renamed or replaced")
            if self._writable:
                with suppress(FileExistsError):  # closing a handle of an existing file would drop SQLite's locks on it
                    path = self._path.resolve()  # O_EXCL does not follow a link to a file that does not exist yet
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._mode))
            with closing(sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS)) as connection, connection:
                if self._writable:
                    connection.execute("PRAGMA synchronous=OFF")
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS vectors"
                        " (number INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB, checksum INTEGER)"
                    )
                    connection.execute("CREATE TABLE IF NOT EXISTS models (name TEXT PRIMARY KEY) WITHOUT ROWID")
                work(connection)
        except (sqlite3.DatabaseError, OSError, TypeError, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                return error
            refused = isinstance(error, (sqlite3.OperationalError, OSError))  # for example because the disk is full
            if self._writable and not refused:
                log.warning("%s is damaged (%s); it is deleted, and its values are computed again", name, error)
                self.clear()
            else:
                self._size = 0
                log.warning("%s cannot be used (%s); it caches nothing until the store is opened again", name, error)
            return error
        return None


def _key(model: str, text: str) -> bytes:
    return hashlib.blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def delete_cache(path: Path) -> None:
    """Delete the file of a cache, if it exists. Logs a warning if it cannot be deleted."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be deleted (%s)", path, error.strerror)


VectorCache = LruCache[str, Vectors] | FileCache[Vectors]
"""(dim,) float32 vectors of one model, by text."""


def document_cache(directory: Path | None, model: str | None, size: int) -> VectorCache:
    """The cache of the vectors of a store's documents: in a file, or in memory if `directory` or `model` is None.

    Args:
        directory: The store's directory; None: the store is in memory.
        model: Name of the model; None: its name does not identify it (`adapters.identity_of`).
        size: Largest number of vectors; a cache in memory holds at most MEMORY_MAX.
    """
    if directory is None or model is None:
        return LruCache(min(size, MEMORY_MAX))
    return FileCache(
        directory / VECTORS,
        model,
        size,
        pack=lambda vector: np.asarray(vector, dtype="<f4").tobytes(),
        unpack=lambda stored: np.frombuffer(stored, dtype="<f4"),
    )
