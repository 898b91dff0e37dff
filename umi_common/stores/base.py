"""Base classes: `BaseStore` of all stores, and `CollectionStore` of stores over a collection of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from umi_common.config import DecayConfig, EmbedderConfig, LexicalConfig, UmiConfig
from umi_common.embedders.cache import document_cache
from umi_common.errors import PartlyWritten, StoreClosed, StoreUnavailable
from umi_common.filters import Filter, Where, matches, parse_filter
from umi_common.pool import Pool, Vectors
from umi_common.protocols import Embedder, Probe, RecallRequest, Strategy
from umi_common.runtime.closing import Closing
from umi_common.stores.batch_checks import (
    AddReport,
    OnInvalid,
    checked_count,
    checked_ids,
    checked_page,
    ids_to_delete,
    valid_batch,
)
from umi_common.stores.query_embedder import QueryEmbedder, with_vectors
from umi_common.stores.search_counts import SearchCounter, SearchMetrics
from umi_common.types import Chunk, TimeRange

if TYPE_CHECKING:
    from umi_common.stores.lexical.analyzer import Analyzer


class _Scan(NamedTuple):
    """The ids that `scan` listed for the first page, kept for the next pages."""

    content: object
    """The value of `_content()` when the ids were listed."""
    where: Filter | None
    last: str
    """The last id of the latest page."""
    ids: list[str]
    """Ids of all chunks that passed `where`, rising."""


class BaseStore(Closing, ABC):
    """Base class of all stores. As a context manager, a store closes itself when the block ends."""

    search_counter: SearchCounter
    """Counts the searches of all retrievers over this store."""
    _scan: _Scan | None = None
    """The latest scan; None: there was none, it has listed its last page, or `CollectionStore.add` was called since."""

    @property
    @abstractmethod
    def config(self) -> UmiConfig:
        """The settings in force."""

    def metrics(self) -> SearchMetrics:
        """Counts of the searches of all retrievers over this store in this process since it was opened."""
        return self.search_counter.metrics

    @abstractmethod
    def recall_many(self, requests: Sequence[RecallRequest]) -> list[Pool]:
        """The pool of each request, in the order of `requests`; see `recall`."""

    def recall(
        self,
        probes: Sequence[Probe],
        *,
        depth: int,
        now: datetime,
        where: Filter | None = None,
        window: TimeRange | None = None,
        lexical: LexicalConfig | None = None,
        decay: DecayConfig | None = None,
        around: int = 0,
        strategy: Strategy = "hybrid",
        embedder_timeout_seconds: float | None = None,
    ) -> Pool:
        """The candidates of both arms for all probes; see `protocols.Store.recall` and `protocols.RecallRequest`.

        Args:
            lexical, decay, embedder_timeout_seconds: None: the store's setting is used.

        Raises:
            SearchUnavailable: If no arm that `strategy` uses can answer.
            InvalidVector: If a probe's vector has another dimension than the store's.
            InvalidLimit: If `depth` is not a whole number of at least 1.
        """
        config = self.config
        if embedder_timeout_seconds is None:
            embedder_timeout_seconds = config.recall.embedder_timeout_seconds
        request = RecallRequest(
            probes,
            depth=checked_count("depth", depth, least=1),
            now=now,
            where=where,
            window=window,
            lexical=config.lexical if lexical is None else lexical,
            decay=config.decay if decay is None else decay,
            around=around,
            strategy=strategy,
            embedder_timeout_seconds=embedder_timeout_seconds,
        )
        return self.recall_many([request])[0]

    def ids(self) -> list[str]:
        """Ids of all chunks, rising."""
        return self._ids_passing(None)

    def scan(self, *, where: Where = None, after: str | None = None, limit: int = 1_000) -> list[Chunk]:
        """A page of the chunks that pass `where`, with ids above `after`, by rising id; see `protocols.Store.scan`.

        The first page lists the ids of all chunks that pass. Later pages use this list while `_content()` returns the
        same object. If the store does not track changes, a page uses the list only if `after` is the last id of the
        page before.
        """
        self._ready()
        content, tree, scan = self._content(), parse_filter(where), self._scan
        start, limit = checked_page(after, limit)
        same = scan is not None and scan.content is content and scan.where == tree
        if scan is not None and same and (content is not None or scan.last == start):
            ids = scan.ids
        else:
            ids = self._ids_passing(tree)
        page: list[Chunk] = []
        at = bisect_right(ids, start)
        while len(page) < limit and at < len(ids):  # chunks removed since the listing leave gaps
            batch = ids[at : at + limit - len(page)]
            at += len(batch)
            page += [chunk for chunk in self.get(batch) if chunk is not None and matches(tree, chunk.metadata)]
        self._scan = _Scan(content, tree, page[-1].id, ids) if len(page) == limit else None
        return page

    def neighbours(self, ids: Sequence[str], *, reach: int, where: Where = None) -> dict[str, list[Chunk]]:
        """For each stored id, its chunk and the chunks of its source at most `reach` positions away, by position.

        Chunks that do not pass `where` are left out.

        Raises:
            InvalidLimit: If `reach` is not a whole number of at least 0.
        """
        tree = parse_filter(where)
        reach = min(checked_count("reach", reach, least=0), 2**31)  # its sum with a position must fit into 64 bits
        around = self._around(checked_ids(ids), reach)
        return {id: [chunk for chunk in near if matches(tree, chunk.metadata)] for id, near in around.items()}

    @abstractmethod
    def _around(self, ids: Sequence[str], reach: int) -> Mapping[str, Iterable[Chunk]]:
        """The mapping of `neighbours` without a filter."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """The chunk of each id, in the order of `ids`; None for an id that is not stored."""

    @abstractmethod
    def _ids_passing(self, where: Filter | None) -> list[str]:
        """Ids of all chunks that pass `where`, rising."""

    def _content(self) -> object:
        """An object that stays the same until the collection changes; None in a store that does not track changes."""
        return None

    @abstractmethod
    def _ready(self) -> object:
        """Bring the object that the store searches up to date, and return it.

        Raises:
            StoreClosed: After close().
        """


class CollectionStore(BaseStore):
    """A store over a collection of a database, with an embedder, settings and caches of its own."""

    _server: str
    """Name of the database, for messages."""
    _write_at_once: int
    """Largest number of chunks in one call to the database."""

    def __init__(self, embedder: Embedder, config: UmiConfig, analyzer: Analyzer) -> None:
        self._embedder, self._analyzer = embedder, analyzer
        self._config = config
        self._apply_embedder_settings(config.embedder)
        self.search_counter = SearchCounter()
        self._closed = False

    @property
    def embedder(self) -> Embedder:
        """The embedder of this store."""
        return self._embedder

    @property
    def config(self) -> UmiConfig:
        """The settings in force."""
        return self._config

    @property
    def terms_of(self) -> Callable[[str], list[str]]:
        """Function from a text to its terms in the lexical arm; can be pickled and used after close()."""
        return self._analyzer.terms

    def reconfigure(self, config: UmiConfig) -> None:
        """Replace the settings. Calls that start afterwards use the new ones.

        Raises:
            ReindexRequired: If the new analyzer differs from the present one; then no setting changes.
        """
        config = self._config.checked_live_change(config)
        if config.embedder != self._config.embedder:
            self._apply_embedder_settings(config.embedder)
        self._config = config

    def _apply_embedder_settings(self, settings: EmbedderConfig) -> None:
        self._query_embedder = QueryEmbedder(self._embedder, settings)
        self._embeddings = document_cache(None, None, settings.cached_documents)

    def add(
        self,
        chunks: Iterable[Chunk | Mapping[str, Any]],
        *,
        vectors: Any = None,
        on_invalid: OnInvalid = "raise",
        show_progress: bool = False,
    ) -> AddReport:
        """Insert chunks into the collection. A chunk replaces the stored chunk with its id. Arguments as in
        `HybridStore.add`.

        When the call returns, the database has acknowledged all writes. The whole batch is checked and embedded before
        the first chunk is sent. A chunk that is already stored with the same fields is neither embedded nor sent.

        Raises:
            InvalidChunk, DuplicateId, InvalidVector: An item is invalid; the message names it. Nothing is written.
            EmbedderError: The embedder failed. Nothing is written.
            PartlyWritten: The database failed after some chunks were written. The same call completes the batch.
        """
        self._ready()
        dim = self._embedder.dim
        batch = valid_batch(chunks, vectors, dim, on_invalid)
        same = self._holds(batch.chunks)
        if batch.vectors is not None:
            held = self.vectors([chunk.id for chunk in batch.chunks])
            pairs = zip(same, held, batch.vectors, strict=True)
            same = [equal and np.array_equal(own, given) for equal, own, given in pairs]
        todo = [index for index, equal in enumerate(same) if not equal]
        new = [batch.chunks[index] for index in todo]
        options = {"config": self._config.embedder, "cache": self._embeddings, "show_progress": show_progress}
        made = batch.vectors_of(todo, self._embedder, dim=dim, **options)
        self._scan = None  # the scan's list lacks the ids of the new chunks
        for start in range(0, len(new), self._write_at_once):
            part = slice(start, start + self._write_at_once)
            try:
                self._write(new[part], made[part])
            except StoreUnavailable as error:
                raise PartlyWritten(
                    f"{self._server} failed after at least {start} of {len(new)} chunks were stored ({error}); call "
                    "add() again with the same batch: it does not write the stored chunks again"
                ) from error
        return AddReport(len(new), sum(same), batch.skipped)

    @property
    def aembed(self) -> Callable[[Sequence[RecallRequest]], Awaitable[list[RecallRequest]]] | None:
        """See `HybridStore.aembed`."""
        return None if self._query_embedder.in_place else self._aembed

    async def _aembed(self, requests: Sequence[RecallRequest]) -> list[RecallRequest]:
        self._check_open()
        return await with_vectors(requests, self._query_embedder, self._embedder.dim)

    def delete(self, ids: Iterable[str] | None = None, *, where: Where = None) -> int:
        """Remove chunks and return their number; arguments and errors as in `HybridStore.delete`."""
        self._ready()
        tree = parse_filter(where)
        return self._remove(ids_to_delete(ids, tree, "to empty a collection, delete it"), tree)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"the store is closed; make another {type(self).__name__} over the same collection")

    def close(self) -> None:
        """Refuse further calls. Acknowledged writes are in the database; the caller closes its client."""
        self._query_embedder.close()
        self._closed = True

    def get(self, ids: Sequence[str]) -> list[Chunk | None]:
        """Chunks aligned with ids, read from the collection; None for an id of which it has no chunk."""
        self._check_open()
        ids = checked_ids(ids)
        chunks = self._read_chunks(list(dict.fromkeys(ids)))
        return [chunks.get(id) for id in ids]

    @abstractmethod
    def _read_chunks(self, ids: Sequence[str]) -> Mapping[str, Chunk | None]:
        """The chunks of distinct ids, by id, read from the collection."""

    @abstractmethod
    def vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, dim) vectors of length 1, in the order of `ids`; zeros for an id that has no vector."""

    @abstractmethod
    def _holds(self, chunks: Sequence[Chunk]) -> list[bool]:
        """For each chunk, whether it is stored with the same fields."""

    @abstractmethod
    def _remove(self, ids: list[str] | None, where: Filter | None) -> int:
        """Remove the chunks with these ids that pass `where`, and return their number; ids None: all ids."""

    @abstractmethod
    def _write(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Send at most `_write_at_once` chunks and their vectors, (n, dim) unit rows, to the database."""
