"""Base class for the choice of positions of chunks whose source the store already holds. Each adapter has a subclass.

Example: the first half of "report.txt" was added with the positions 0 to 4. The chunks of the second half, added later
without positions, get 5 to 9.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from typing_extensions import Self

from umi_common.frameworks.records import PlaceKeys
from umi_common.runtime.forks import give_lock
from umi_common.types import Chunk


class KnownSources(ABC):
    """Keeps in `_sources` what a subclass needs to choose positions, such as the largest position of each source.

    The subclass calls `_stored` with a function `place`. It reads the sources that `_sources` lacks, from the store and
    from `_pending`, and returns the new chunks with their positions. `_stored` adds these by `_note`.

    After a write by another object, or a failed write within `_stored`, all sources are read again. A write by another
    object during a `with` block of `_stored` may go unnoticed. Thread-safe: chunks that are added to this object at the
    same time get different positions.
    """

    _lock: Lock

    def __init__(self, store: Any, keys: PlaceKeys) -> None:
        self.store = store
        self.keys = keys
        self._sources: dict[str, Any] = {}
        """Source -> what the subclass keeps of it, for the sources that were read."""
        self._last_write: object = None
        """The result of `_written()` for the store that `_sources` describes."""
        self._pending: list[list[Chunk]] = []
        """The chunks of each running `with` block of `_stored`. Not all are stored yet; their positions are taken."""
        give_lock(self)

    @contextmanager
    def _stored(self, place: Callable[[], list[Chunk]]) -> Iterator[list[Chunk]]:
        """Yield the chunks with positions that `place` returns; the `with` block must store them."""
        with self._lock:
            if (last_write := self._written()) != self._last_write:
                self._sources.clear()
                self._last_write = last_write
            placed = place()
            self._note(placed)
            self._pending.append(placed)
        stored = False
        try:
            yield placed
            stored = True
        finally:
            with self._lock:
                self._pending.remove(placed)
                if stored:
                    self._last_write = self._written()
                else:
                    self._sources.clear()

    @abstractmethod
    def _note(self, chunks: Iterable[Chunk]) -> None:
        """Add these chunks to their sources in `_sources`; those of other sources are left out."""

    def _written(self) -> object:
        """The store's `last_write`; if it has none, the number of chunks, which stays if a chunk is replaced."""
        return getattr(self.store, "last_write", None) or len(self.store)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # a copied adapter shares its store, so it must choose positions by the same facts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.keys)
