"""What the adapters' classes that choose positions in a source share: they read a source once, and share no position
between chunks that are added at the same time."""

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
    """Facts of the stored chunks of sources, from which the positions of further chunks follow.

    The stored chunks of a source are read when the first chunk of the source is added. They are read again if the
    store was written elsewhere (in a store without `last_write`: if its number of chunks has changed), or if a write
    within `_stored` has failed. Thread-safe.
    """

    _lock: Lock

    def __init__(self, store: Any, keys: PlaceKeys) -> None:
        self.store = store
        self.keys = keys
        self._sources: dict[str, Any] = {}
        """Source -> its facts, for the sources that were read."""
        self._last_write: object = None
        """The result of `_written()` when `_sources` was true of the store."""
        self._pending: list[list[Chunk]] = []
        """Chunks that calls of `_stored` are storing. Their positions count as taken."""
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
        """A value that changes when the store is written."""
        return getattr(self.store, "last_write", None) or len(self.store)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # the store is shared, as by a copy of a retriever

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.keys)
