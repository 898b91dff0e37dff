"""Caches of the vectors of embedded texts, in memory or in a file of a store; the file may hold other values, too."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np

from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock

log = logging.getLogger("umi")

Value = TypeVar("Value")

FILE = "embeddings.db"
KEY_BYTES = 20
"""Length of a key: the hash of model and text."""
KEYS_AT_ONCE = 500
"""Keys in one SQL statement; every SQLite takes 999 parameters."""
WAIT_SECONDS = 1.0
"""Longest wait for another thread's write, in seconds; after it the vectors are not cached."""
MEMORY_MAX = 20_000
"""Largest number of vectors of documents cached in memory: 120 MB at 1,536 dimensions."""


class VectorCache(Protocol):
    """Vectors of one model, by text. Thread-safe. A failing cache raises nothing: it holds fewer vectors."""

    def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """(dim,) float32 by text; texts that are not cached are left out."""

    def put(self, texts: Sequence[str], vectors: Iterable[Vectors]) -> None:
        """Add (dim,) vectors, aligned with the texts."""

    def clear(self) -> None:
        """Remove all vectors."""


class MemoryCache:
    """An LRU cache in memory.

    Args:
        size: Largest number of vectors; 0: nothing is cached.
    """

    _lock: Lock

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        give_lock(self)

    def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """See `VectorCache.get`."""
        with self._lock:
            found = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in found:
                self._vectors.move_to_end(text)
        return found

    def put(self, texts: Sequence[str], vectors: Iterable[Vectors]) -> None:
        """See `VectorCache.put`."""
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                self._vectors[text] = np.array(vector, dtype=np.float32)  # a copy: a view would keep the whole batch
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        """See `VectorCache.clear`."""
        with self._lock:
            self._vectors.clear()


class FileCache(Generic[Value]):
    """A cache in an SQLite file, with the interface of `VectorCache`; the values written first are dropped first.

    The file holds hashes of the texts and not the texts. It is opened for each call, and each row has a checksum. A
    damaged file is replaced by an empty one. If the disk refuses a write, the cache is switched off and a warning is
    logged. Cached values survive a kill of the process; a power cut may lose them.

    Args:
        path: The file, in an existing directory.
        model: Name of the model; part of each key.
        size: Largest number of values, of all models together; 0: nothing is cached.
        pack: From a value to the bytes that are stored.
        unpack: From these bytes to the value.
        writable: False: the file is only read.
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
    ) -> None:
        self._path = path
        self._model = model
        self._size = size
        self._pack, self._unpack = pack, unpack
        self._writable = writable

    def get(self, texts: Sequence[str]) -> dict[str, Value]:
        """See `VectorCache.get`."""
        keys = {self._key(text): text for text in texts}
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

    def put(self, texts: Sequence[str], values: Iterable[Value]) -> None:
        """See `VectorCache.put`."""
        if not self._size or not texts or not self._writable:
            return
        rows = []
        for text, value in zip(texts, values, strict=True):
            key, stored = self._key(text), self._pack(value)
            rows.append((key, stored, zlib.crc32(stored, zlib.crc32(key))))

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR REPLACE INTO vectors (key, vector, checksum) VALUES (?, ?, ?)", rows)
            connection.execute(
                "DELETE FROM vectors WHERE number <= (SELECT MAX(number) FROM vectors) - ?", (self._size,)
            )

        self._transact(write)

    def clear(self) -> None:
        """See `VectorCache.clear`."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted (%s)", self._path, error.strerror)

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(
            f"{self._model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES
        ).digest()

    def _transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run `work` in a transaction of a new connection. An error of SQLite is logged, or ignored if it is a lock."""
        uri = f"{self._path.absolute().as_uri()}?mode={'rwc' if self._writable else 'ro'}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS)) as connection, connection:
                if self._writable:
                    connection.execute("PRAGMA synchronous=OFF")
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS vectors"
                        " (number INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB, checksum INTEGER)"
                    )
                work(connection)
        except sqlite3.OperationalError as error:  # such as a full disk, or a directory that is gone
            if "locked" in str(error):  # another thread writes for longer than WAIT_SECONDS
                return
            self._size, name = 0, self._path.name
            log.warning("%s cannot be used (%s); vectors are not cached until the store is opened again", name, error)
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            if self._writable:
                log.warning("%s is damaged (%s); it is replaced by an empty file", self._path.name, error)
                self.clear()
            else:
                self._size = 0
                log.warning("%s is damaged (%s); it is not used", self._path.name, error)


def document_cache(directory: Path | None, model: str | None, size: int) -> VectorCache:
    """The cache for the vectors of a store's documents: a `FileCache`, or a `MemoryCache` if an argument is None.

    Args:
        directory: The store's; None: the store is in memory.
        model: From `adapters.identity_of`; None: the model has no name that identifies it.
        size: Largest number of vectors; in memory at most MEMORY_MAX.
    """
    if directory is None or model is None:
        return MemoryCache(min(size, MEMORY_MAX))
    return FileCache(directory / FILE, model, size, _vector_bytes, _vector)


def _vector_bytes(vector: Vectors) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


def _vector(stored: bytes) -> Vectors:
    return np.frombuffer(stored, dtype="<f4")
