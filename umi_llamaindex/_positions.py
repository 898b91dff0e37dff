"""The positions of nodes that are added to a store, if they state none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain

from llama_index.core.schema import BaseNode

from umi_common.filters import parse_filter
from umi_common.frameworks.positions import KnownSources
from umi_common.frameworks.records import position_in_metadata
from umi_common.protocols import pages
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.types import Chunk, plain_value
from umi_llamaindex._convert import REF_DOC_ID, SKIP_ADVICE, SOURCE_KEY, Places, document_start, node_source, to_chunks


class SourceEnds(KnownSources):
    """Gives nodes that state no position the positions after the last stored node of their source."""

    def placed(
        self, nodes: Sequence[BaseNode], skipped: list[SkippedChunk] | None
    ) -> AbstractContextManager[list[Chunk]]:
        """A context manager that gives the chunks of the nodes with their positions; the `with` block must store them.

        Arguments and errors are those of `to_chunks`.
        """
        return self._stored(lambda: to_chunks(nodes, self.keys, self._following(nodes), skipped, advice=SKIP_ADVICE))

    def _following(self, nodes: Sequence[BaseNode]) -> Places:
        """The positions for nodes that state none.

        In each source they begin after the stored nodes of the source or, if some of `nodes` are already stored, at the
        smallest position of these.
        """
        key = self.keys.position
        nodes = [node for node in nodes if isinstance(node, BaseNode)]
        own = {
            node.node_id: source
            for node in nodes
            if (source := node_source(node, self.keys)) is not None
            and (document_start(node) is None or source != node.ref_doc_id)
            and (key is None or position_in_metadata(node.metadata.get(key)) is None)
        }
        self._read(set(own.values()) - self._sources.keys(), nodes)
        free: dict[str | None, int] = {source: self._sources[source] for source in own.values()}
        for id, chunk in zip(own, self.store.get(list(own)), strict=True):
            if chunk is not None and chunk.position is not None:
                free[own[id]] = min(free[own[id]], chunk.position)
        return Places(free)

    def _read(self, sources: set[str], nodes: Sequence[BaseNode]) -> None:
        """Set `_sources`, the next position of each source, from the stored chunks and those that are being stored."""
        self._sources |= dict.fromkeys(sources, 0)
        if not sources:
            return
        keys = {REF_DOC_ID, SOURCE_KEY, self.keys.source or SOURCE_KEY}
        # The metadata of source "5" may hold the number 5; one beyond 64 bits cannot be stored.
        stated = (plain_value(node.metadata.get(key)) for node in nodes for key in keys)
        numbers = {repr(value): value for value in stated if isinstance(value, (int, float)) and abs(value) < 2**63}
        conditions = [{key: {"$in": [*sorted(sources), *numbers.values()]}} for key in sorted(keys)]
        for chunks in chain(pages(self.store, where=parse_filter({"$or": conditions})), self._pending):
            self._note(chunks)

    def _note(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if chunk.source in self._sources and chunk.position is not None:
                self._sources[chunk.source] = max(self._sources[chunk.source], chunk.position + 1)
