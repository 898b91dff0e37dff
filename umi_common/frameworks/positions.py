"""Base class of the adapters' classes that choose positions for chunks that are added to a stored source."""

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
    """Remembers facts of stored sources that a subclass needs to choose the positions of further chunks.

    The stored chunks of a source are read when the first chunk of the source is added. They are read again if another
    object has written to the store, or if a write within `_stored` has failed. Chunks that are added at the same time
    get different positions. Thread-safe.
    """

    _lock: Lock

    def __init__(self, store: Any, keys: PlaceKeys) -> None:
        self.store = store
        self.keys = keys
        self._sources: dict[str, Any] = {}
        """Source -> its facts, which the subclass defines, for the sources that were read."""
        self._last_write: object = None
        """The result of `_written()` for the store that `_sources` describes."""
        self._pending: list[list[Chunk]] = []
        """The chunks of each running `with` block of `_stored`. Their positions count as taken."""
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
        """Add these chunks to the facts of their sources, for the sources that were read."""

    def _written(self) -> object:
        """A value that changes with each write; for a store without `last_write` the number of chunks."""
        return getattr(self.store, "last_write", None) or len(self.store)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # the store is shared, as by a copy of a retriever

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.keys)
