"""The positions of nodes that are added to a store: after the stored nodes of their sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import Lock
from typing import Any

from llama_index.core.schema import BaseNode

from umi_common.filters import parse_filter
from umi_common.frameworks.records import PlaceKeys, position_in_metadata
from umi_common.protocols import pages
from umi_common.runtime.forks import give_lock
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_llamaindex._convert import REF_DOC_ID, SKIP_ADVICE, SOURCE_KEY, Place, document_start, node_source, to_chunks

SOURCES_FILTERED = 1_000
"""Largest number of sources whose chunks are read by a filter. For more sources all chunks are read, because a filter
may have at most 100,000 values."""


class SourceEnds:
    """Knows the position after the last stored node of a source, where nodes that state no position are added.

    The stored chunks of a source are read when `placed` first gets such a node of the source. They are read again if
    the store was written outside of `placed`, or if a write within `placed` has failed. Thread-safe.
    """

    _lock: Lock

    def __init__(self, store: HybridStore, keys: PlaceKeys) -> None:
        self._store = store
        self._keys = keys
        self._ends: dict[str, int] = {}
        """Source -> the position after its last node, for the sources that were read."""
        self._pending: dict[int, list[Chunk]] = {}
        """`id` of a list -> the list of chunks, which a call of `placed` is storing. Their positions count as taken."""
        self._last_write = ""
        """The store's `last_write` when `_ends` was true of it."""
        give_lock(self)

    @contextmanager
    def placed(self, nodes: Sequence[BaseNode], skipped: list[SkippedChunk] | None) -> Iterator[list[Chunk]]:
        """Yield the chunks of the nodes with their positions; the `with` block must store them.

        Args:
            nodes: In reading order.
            skipped: As in `to_chunks`.

        Raises:
            InvalidChunk: As `to_chunks`.
        """
        with self._lock:
            if (last_write := self._store.last_write) != self._last_write:
                self._ends.clear()
                self._last_write = last_write
            made = to_chunks(nodes, self._keys, self._following(nodes), skipped, advice=SKIP_ADVICE)
            self._note(made)
            self._pending[id(made)] = made
        stored = False
        try:
            yield made
            stored = True
        finally:
            with self._lock:
                del self._pending[id(made)]
                if stored:
                    self._last_write = self._store.last_write
                else:
                    self._ends.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceEnds, (self._store, self._keys)

    def _following(self, nodes: Sequence[BaseNode]) -> Counter[Place]:
        """Source -> the position that the first of these nodes gets in the source.

        It is the position after the stored nodes of the source. If some of these nodes are already stored, it is the
        smallest of their positions. Only sources of nodes that state no position are read and returned.
        """
        key = self._keys.position
        own = {
            node.node_id: source
            for node in nodes
            if isinstance(node, BaseNode)
            and (source := node_source(node, self._keys)) is not None
            and (document_start(node) is None or source != node.ref_doc_id)
            and (key is None or position_in_metadata(node.metadata.get(key)) is None)
        }
        self._read(set(own.values()) - self._ends.keys())
        following: Counter[Place] = Counter({source: self._ends[source] for source in own.values()})
        for id, chunk in zip(own, self._store.get(list(own)), strict=True):
            if chunk is not None and chunk.position is not None:
                following[own[id]] = min(following[own[id]], chunk.position)
        return following

    def _read(self, sources: set[str]) -> None:
        """Set `_ends` for these sources from the store and from `_pending`."""
        self._ends |= dict.fromkeys(sources, 0)
        if not sources:
            return
        keys = {REF_DOC_ID, SOURCE_KEY, self._keys.source} - {None}
        conditions = [{key: {"$in": sorted(sources)}} for key in sorted(map(str, keys))]
        where = parse_filter({"$or": conditions}) if len(sources) <= SOURCES_FILTERED else None
        for chunks in chain(pages(self._store, where=where), self._pending.values()):
            self._note(chunks)

    def _note(self, chunks: Sequence[Chunk]) -> None:
        """Raise `_ends` to the positions after these chunks, for the sources that were read."""
        for chunk in chunks:
            if chunk.source in self._ends and chunk.position is not None:
                self._ends[chunk.source] = max(self._ends[chunk.source], chunk.position + 1)
