"""The vectors of a collection, cached by row."""

from __future__ import annotations

import threading

import numpy as np

from umi_common.pool import Ints, Vectors, unit_vectors
from umi_common.stores.arrays import Growing, distinct
from umi_common.stores.chroma.collection import ChromaCollection
from umi_common.stores.chroma.side_index import SideIndex
from umi_common.stores.rows.rows import UNKNOWN

CACHE_BYTES = 128_000_000
"""A cache of more bytes, here 83,000 vectors of 384 dimensions, is emptied before the next vectors are read."""
READ_AHEAD = 300
"""Number of further vectors that are read whenever a vector is missing, if the vectors of all rows fit into
CACHE_BYTES. So all vectors are cached after some searches, in less time than if each search read only its own."""


class CollectionVectors:
    """(n, dim) unit vectors of a collection by row of its side index, read when first needed. Thread-safe."""

    def __init__(self, collection: ChromaCollection, side: SideIndex, dim: int) -> None:
        self._collection, self._side, self._dim = collection, side, dim
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._cached = (Growing(np.float32, self._dim), np.full(len(self._side.snapshot.rows) + 1, UNKNOWN, np.int64))
        """Vectors, and for each row of the snapshot its slot: its index in these vectors, or UNKNOWN."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return len(self._side.snapshot.rows), self._dim

    def __getitem__(self, rows: Ints) -> Vectors:
        """(len(rows), dim) vectors; zeros for a record that is gone.

        Raises:
            StoreUnavailable: If Chroma fails.
        """
        vectors, slots = self._cached
        wanted = slots.take(rows, mode="clip")
        if len(rows) and (wanted.min() == UNKNOWN or rows.max() >= len(slots)):
            with self._lock:
                vectors, slots = self._with_vectors_of(distinct(rows))
            wanted = slots.take(rows)
        if not len(vectors.view):
            return np.zeros((len(wanted), self._dim), dtype=np.float32)
        taken = vectors.view.take(wanted, axis=0, mode="clip")
        taken[wanted == UNKNOWN] = 0.0  # zeros are not cached, because a record that is gone may come back
        return taken

    def _with_vectors_of(self, rows: Ints) -> tuple[Growing[np.float32], Ints]:
        """The cache, after the vectors of `rows` (distinct, rising) that it lacked were read."""
        if self._cached[0].view.nbytes > CACHE_BYTES:
            self._clear()
        vectors, slots = self._cached
        if rows[-1] >= len(slots):
            more = np.full(int(rows[-1]) + 1 + len(slots) // 8, UNKNOWN, np.int64)
            more[: len(slots)] = slots
            slots = more
        missing = rows[slots[rows] == UNKNOWN]
        alive = self._side.snapshot.rows.alive
        if len(alive) * self._dim * vectors.view.itemsize <= CACHE_BYTES:
            others = np.flatnonzero(alive[: len(slots)] & (slots[: len(alive)] == UNKNOWN))
            missing = distinct(np.concatenate([missing, others[:READ_AHEAD]]))
        ids = [self._side.snapshot.rows.ids[row] for row in missing.tolist()]
        read, is_known = self._collection.vectors(ids, self._dim)
        first, found = len(vectors.view), missing[is_known]
        vectors.extend(unit_vectors(read[is_known]))
        slots[found] = np.arange(first, first + len(found))  # last, so that a slot's vector is there
        self._cached = vectors, slots
        return self._cached
