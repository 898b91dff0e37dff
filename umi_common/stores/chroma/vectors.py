"""The vectors of a collection, cached by row."""

from __future__ import annotations

import numpy as np

from umi_common.embedders.cache import LruCache
from umi_common.pool import Ints, Vectors, unit_vectors
from umi_common.stores.chroma.collection import ChromaCollection
from umi_common.stores.chroma.side_index import SideIndex

CACHE_BYTES = 128_000_000
"""Largest size of the cached vectors, here 83,000 vectors of 384 dimensions."""
READ_AHEAD = 300
"""Number of further rows whose vectors are read whenever a vector is missing, if the vectors of all rows fit into
CACHE_BYTES. So all vectors are cached after some searches, in less time than if each search read only its own."""


class CollectionVectors:
    """(n, dim) unit vectors of a collection by row of its side index, read when first needed. Thread-safe."""

    def __init__(self, collection: ChromaCollection, side: SideIndex, dim: int) -> None:
        self._collection, self._side, self._dim = collection, side, dim
        self._most = CACHE_BYTES // (dim * np.dtype(np.float32).itemsize)
        self._cached: LruCache[int, Vectors] = LruCache(self._most)
        self._next = 0
        """The first row that was not read ahead."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return len(self._side.snapshot.rows), self._dim

    def __getitem__(self, rows: Ints) -> Vectors:
        """(len(rows), dim) vectors; zeros for a record that is gone.

        Raises:
            StoreUnavailable: If Chroma fails.
        """
        wanted = rows.tolist()
        found = self._cached.get(wanted)
        if missing := [row for row in wanted if row not in found]:
            found |= self._read(missing)
        zeros = np.zeros(self._dim, dtype=np.float32)
        return np.array([found.get(row, zeros) for row in wanted], np.float32).reshape(len(wanted), self._dim)

    def _read(self, missing: list[int]) -> dict[int, Vectors]:
        """Read and cache the vectors of these rows and of READ_AHEAD others; those of records that are gone are left
        out, because such a record may come back."""
        rows, end = self._side.snapshot.rows, self._next
        if len(rows) <= self._most:
            end = min(self._next + READ_AHEAD, len(rows))
            ahead = self._next + np.flatnonzero(rows.alive[self._next : end])
            missing = [*missing, *ahead.tolist()]
        read, is_known = self._collection.vectors([rows.ids[row] for row in missing], self._dim)
        known = [row for row, there in zip(missing, is_known.tolist(), strict=True) if there]
        found = dict(zip(known, map(np.copy, unit_vectors(read[is_known])), strict=True))
        self._cached.put(found)
        self._next = end
        return found
