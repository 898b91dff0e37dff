"""Postings of a learned sparse encoder over a store's chunks, updated before each search.

Each distinct text has one row, so a chunk is not encoded again if only its metadata changes. The postings of new texts
form a new segment. The last two segments are merged while the older of them has at most twice as many postings.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.config import EmbedderConfig, UmiConfig
from umi_common.embedders.documents import BatchFailed, batches_of, embed_batches
from umi_common.embedders.sparse import SparseEncoder, SparseVector, sparse_cache
from umi_common.errors import ConfigError, IndexUnavailable
from umi_common.filters import Filter
from umi_common.pool import Ints
from umi_common.runtime.forks import give_lock
from umi_common.stores.arrays import best_rows
from umi_common.stores.document_embedder import embedding_failure, progress
from umi_common.types import Chunk, TimeRange

CHUNKS_AT_ONCE = 2_000
"""Number of new chunks that are read, encoded and indexed in one step; it limits the memory that a step takes."""
WAIT_SECONDS = 1.0
"""Longest time that a search waits, in seconds, while another call encodes new chunks."""
SPARE_ROWS = 1_000
"""Texts whose chunks were removed are dropped only when there are more rows than 2 * chunks + SPARE_ROWS, because
dropping them rewrites all postings."""
NOT_ENCODED = "they are stored, but not searched by this encoder"
"""What it means for chunks that the encoder failed on them."""
UNKNOWN = -1
"""Code of a query term that no text holds, and row of a dropped text."""


class _Segment(NamedTuple):
    """P postings, sorted by the code of the term."""

    codes: npt.NDArray[np.int32]
    """(P,) codes of the terms."""
    rows: npt.NDArray[np.int32]
    """(P,) rows of the texts; no row twice for one term."""
    weights: npt.NDArray[np.float32]
    """(P,) weight of the term in the text."""


class _State(NamedTuple):
    """The index after an update: n chunks, and one row for each distinct text, also for texts of removed chunks."""

    ids: npt.NDArray[np.object_] = np.zeros(0, np.object_)
    """(n,) ids of the chunks."""
    versions: Ints = np.zeros(0, np.int64)
    """(n,) versions of the chunks, rising. Each time that a chunk is added or replaced, the store gives it a version
    that is larger than all before."""
    texts: Ints = np.zeros(0, np.int64)
    """(n,) row of each chunk's text."""
    rows: int = 0
    """Number of rows."""
    segments: tuple[_Segment, ...] = ()
    """Postings of all rows; no row is in two segments."""


class SparseIndex:
    """The index of a `SparseArm`. Thread-safe.

    Args:
        store: Has the method `listing` of `protocols.Store`, which gives the ids and versions of its chunks.
        encoder: Computes the weights of a text's terms.
        directory: Directory of the file that caches the encoded texts; None: the store's directory. There is no file
            if the store has no directory, or if the encoder states no name.

    Raises:
        ConfigError: If the store has no `listing`.
    """

    _lock: Lock

    def __init__(self, store: Any, encoder: SparseEncoder, directory: str | os.PathLike[str] | None) -> None:
        if not hasattr(store, "listing"):
            raise ConfigError(
                f"store is {type(store).__name__}, which does not list the versions of its chunks; expected a "
                "HybridStore, a ChromaStore or a store with the method `listing` of protocols.Store"
            )
        self._store, self._encoder = store, encoder
        config = getattr(store, "config", None)
        self._config = config.embedder if isinstance(config, UmiConfig) else EmbedderConfig()
        writable = directory is not None or not getattr(store, "read_only", False)
        folder = getattr(store, "path", None) if directory is None else directory
        self._cache = None
        if folder is not None and encoder.named:
            self._cache = sparse_cache(Path(folder), encoder, writable=writable)
        self._codes: dict[str, int] = {}
        self._row_of: dict[bytes, int] = {}
        """The row of a text, by the SHA-256 hash of the text."""
        self._state = _State()
        give_lock(self)

    def search(self, query: str, k: int, where: Filter | None, window: TimeRange | None) -> list[tuple[str, float]]:
        """(id, score > 0) of the best k chunks that pass the filter and the time range, best first, then by rising id.

        Raises the errors of `update`.
        """
        state = self.update(wait_seconds=WAIT_SECONDS)
        ((terms, weights),) = self._encoder.embed_queries([query])
        codes = np.array([self._codes.get(term, UNKNOWN) for term in terms], np.int32)
        sums = np.zeros(state.rows)
        for held in state.segments:
            first, end = held.codes.searchsorted(codes), held.codes.searchsorted(codes, "right")
            for own, weight in zip(map(slice, first, end), weights, strict=True):
                sums[held.rows[own]] += np.multiply(held.weights[own], weight, dtype=np.float64)
        scores = sums[state.texts]
        if where is not None or window is not None:
            listing = self._store.listing(where=where, window=window)
            scores *= np.isin(state.versions, listing.versions[listing.passing], assume_unique=True)
        chunks = np.flatnonzero(scores > 0.0)
        found, values = best_rows(chunks, scores[chunks], k, state.ids.__getitem__)
        return list(zip(state.ids[found].tolist(), values.tolist(), strict=True))

    def update(self, *, show_progress: bool = False, wait_seconds: float = -1.0) -> _State:
        """Index the chunks that the store holds now, and return the index.

        Args:
            wait_seconds: Longest wait, in seconds, for another thread that encodes new chunks; -1: no limit.

        Raises:
            EmbedderError: If the encoder fails. Chunks of earlier steps (CHUNKS_AT_ONCE) stay indexed.
            IndexUnavailable: If another thread still encodes after `wait_seconds`.
        """
        if not self._lock.acquire(timeout=wait_seconds):
            raise IndexUnavailable(f"sparse encoder {self._encoder.name!r} is still encoding new chunks")
        try:
            listing, state = self._store.listing(), self._state
            living = listing.versions[listing.passing]
            if np.array_equal(living, state.versions):
                return state
            new = np.flatnonzero(listing.passing & ~np.isin(listing.versions, state.versions, assume_unique=True))
            kept = np.isin(state.versions, living, assume_unique=True)
            self._state = state._replace(ids=state.ids[kept], versions=state.versions[kept], texts=state.texts[kept])
            with progress(len(new), show_progress) as advance:
                for start in range(0, len(new), CHUNKS_AT_ONCE):
                    listed = new[start : start + CHUNKS_AT_ONCE]
                    chunks = self._store.get([listing.ids[index] for index in listed.tolist()])
                    self._add(chunks, listing.versions[listed], advance)
            if self._state.rows > 2 * len(self._state.ids) + SPARE_ROWS:
                self._drop_unused()
            return self._state
        finally:
            self._lock.release()

    def _add(self, chunks: Sequence[Chunk | None], versions: Ints, advance: progress) -> None:
        """Index chunks. An entry is None if its chunk was removed after the store listed it."""
        state, found = self._state, [chunk for chunk in chunks if chunk is not None]
        keys = [hashlib.sha256(c.indexed_text.encode("utf-8", "surrogatepass")).digest() for c in found]
        new = {key: chunk for key, chunk in zip(keys, found, strict=True) if key not in self._row_of}
        advance(len(chunks) - len(new))
        segments = [*state.segments, self._segment(self._encoded(list(new.values()), advance), state.rows)]
        while len(segments) > 1 and len(segments[-2].rows) <= 2 * len(segments[-1].rows):
            segments[-2:] = [_merged(segments[-2:])]
        row_of = dict(zip(new, range(state.rows, state.rows + len(new)), strict=True))
        texts = [row_of[key] if key in row_of else self._row_of[key] for key in keys]
        self._state = _State(
            np.concatenate([state.ids, np.array([chunk.id for chunk in found], np.object_)]),
            np.concatenate([state.versions, versions[[chunk is not None for chunk in chunks]]]),
            np.concatenate([state.texts, np.array(texts, np.int64)]),
            state.rows + len(new),
            tuple(segments),
        )
        self._row_of.update(row_of)  # last: after an interrupt, every row in `_row_of` exists

    def _encoded(self, chunks: Sequence[Chunk], advance: progress) -> list[SparseVector]:
        """The vector of each chunk's text, from the cache file or the encoder. The texts must be distinct."""
        texts, cache = [chunk.indexed_text for chunk in chunks], self._cache
        encoder: Any = self._encoder
        known: dict[str, SparseVector] = {} if cache is None else cache.get(texts)
        missing = [index for index, text in enumerate(texts) if text not in known]
        advance(len(texts) - len(missing))

        def on_batch(batch: Sequence[int], vectors: list[SparseVector]) -> None:
            new = {texts[index]: vector for index, vector in zip(batch, vectors, strict=True)}
            known.update(new)
            if cache is not None:
                cache.put(new)
            advance(len(batch))

        batches = batches_of(texts, missing, self._config)
        try:
            embed_batches(encoder, texts, batches, self._config, on_batch, advance.note)
        except BatchFailed as failed:
            name, ids = f"sparse encoder {encoder.name!r}", [chunk.id for chunk in chunks]
            raise embedding_failure(failed, ids, name, cache, NOT_ENCODED) from failed.__cause__
        return [known[text] for text in texts]

    def _segment(self, vectors: Sequence[SparseVector], first: int) -> _Segment:
        """The segment of new texts, whose rows are `first`, `first` + 1 and so on."""
        codes = [self._codes.setdefault(term, len(self._codes)) for terms, _ in vectors for term in terms]
        rows = np.repeat(np.arange(first, first + len(vectors)), [len(terms) for terms, _ in vectors])
        weights = np.concatenate([np.zeros(0, np.float32), *(weights for _, weights in vectors)])
        return _merged([_Segment(np.array(codes, np.int32), rows.astype(np.int32), weights)])

    def _drop_unused(self) -> None:
        """Drop the rows of texts that no chunk has, and renumber the other rows."""
        state, used = self._state, np.zeros(self._state.rows, np.bool_)
        used[state.texts] = True
        new_row = np.where(used, used.cumsum() - 1, UNKNOWN)
        whole = _merged(state.segments)
        kept = used[whole.rows]
        segment = _Segment(whole.codes[kept], new_row[whole.rows[kept]].astype(np.int32), whole.weights[kept])
        # Old row numbers must not meet the new state, so `_row_of` is empty until the last line. An interrupt before
        # that line leaves it empty; the text of a new chunk then gets a new row, even if it has one already.
        row_of, self._row_of = self._row_of, {}
        self._state = state._replace(texts=new_row[state.texts], rows=int(used.sum()), segments=(segment,))
        self._row_of = {key: int(new_row[row]) for key, row in row_of.items() if used[row]}


def _merged(segments: Sequence[_Segment]) -> _Segment:
    """One segment with the postings of all, sorted by the code of the term."""
    codes, rows, weights = map(np.concatenate, zip(*segments, strict=True))
    order = codes.argsort(kind="stable")
    return _Segment(codes[order], rows[order], weights[order])
