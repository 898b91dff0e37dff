"""Vectors of texts that were embedded, so that no text is embedded twice: in memory, or in a file of a store."""

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
from typing import Protocol

import numpy as np

from umi_common.pool import Vectors
from umi_common.runtime.forks import give_lock

logger = logging.getLogger(__name__)

FILE = "embeddings.db"
KEY_BYTES = 20
"""Of the hash of model and text."""
KEYS_AT_ONCE = 500
"""Keys of one SQL statement; SQLite takes at least 999 parameters."""
WAIT_SECONDS = 1.0
"""For another thread's write; then the vectors are not kept."""


MEMORY_MAX = 20_000
"""Vectors of documents in memory: 120 MB at 1,536 dimensions."""


class VectorCache(Protocol):
    """Vectors by text, of one model. Thread-safe. Nothing that fails in it reaches the caller."""

    def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """(dim,) float32 by text, of those that it holds."""

    def put(self, texts: Sequence[str], vectors: Iterable[Vectors]) -> None:
        """Keep (dim,) vectors, aligned with the texts."""

    def clear(self) -> None:
        """Forget all."""


class MemoryCache:
    """In memory; the vector that was used longest ago is dropped first.

    Args:
        size: Most vectors; 0: none is kept.
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


class FileCache:
    """In an SQLite file of its own; the vector that was written first is dropped first.

    The file holds hashes of the texts and not the texts. It is opened for each call, and each row has a checksum. A
    damaged file is replaced by an empty one. If the disk refuses, the cache is switched off and a warning is logged.
    What is written survives a kill of the process; a power cut may lose it.

    Args:
        directory: Where the file is; it exists.
        model: Identity of the model; part of each key.
        size: Most vectors, of all models together; 0: none is kept.
    """

    def __init__(self, directory: Path, model: str, size: int) -> None:
        self._path = directory / FILE
        self._model = model
        self._size = size

    def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """See `VectorCache.get`."""
        keys = {self._key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        if not self._size or not self._path.exists():
            return found
        wanted = list(keys)

        def read(connection: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), KEYS_AT_ONCE):
                some = wanted[start : start + KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})", some)
                for key, vector, checksum in rows:
                    if zlib.crc32(vector, zlib.crc32(key)) == checksum:
                        found[keys[key]] = np.frombuffer(vector, dtype="<f4")

        self._transact(read)
        return found

    def put(self, texts: Sequence[str], vectors: Iterable[Vectors]) -> None:
        """See `VectorCache.put`."""
        if not self._size or not texts:
            return
        rows = []
        for text, vector in zip(texts, vectors, strict=True):
            key, stored = self._key(text), np.asarray(vector, dtype="<f4").tobytes()
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
            logger.warning("%s cannot be deleted (%s)", self._path, error.strerror)

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(
            f"{self._model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES
        ).digest()

    def _transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run `work` in a transaction of a new connection; whatever fails costs the cached vectors alone."""
        try:
            with closing(sqlite3.connect(self._path, timeout=WAIT_SECONDS)) as connection, connection:
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors"
                    " (number INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB, checksum INTEGER)"
                )
                work(connection)
        except sqlite3.OperationalError as error:  # a full disk, a directory that is gone
            if "locked" in str(error):  # by another thread, for longer than WAIT_SECONDS
                return
            self._size = 0
            logger.warning("%s cannot be used (%s); vectors are not kept until the store is opened again", FILE, error)
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            logger.warning("%s is damaged (%s); it is begun anew", FILE, error)
            self.clear()


def document_cache(directory: Path | None, model: str | None, size: int) -> VectorCache:
    """A cache for the vectors of a store's documents: in its directory, where it has one and the model has a name.

    Args:
        directory: The store's; None: it is in memory.
        model: See `adapters.identity_of`.
        size: Most vectors; at most 20,000 in memory.
    """
    return (
        MemoryCache(min(size, MEMORY_MAX)) if directory is None or model is None else FileCache(directory, model, size)
    )
