"""Write to a store for an adapter: replace the chunks of a source, choose positions, store messages without vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
from typing_extensions import Self

from umi_common.errors import EmbedderError, InputError
from umi_common.filters import And, Comparison, Filter, matches
from umi_common.frameworks.records import PlaceKeys
from umi_common.protocols import pages
from umi_common.runtime.forks import give_lock
from umi_common.runtime.losses import warn_once
from umi_common.stores.chroma.chroma_import import add_with_vectors
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

Origin = Hashable
"""A value that identifies the file or document that a chunk was cut from."""

PAGE = 5_000
"""Largest number of chunks that are read from a store in one call."""
REPLACED = (
    "%d stored texts were removed, because they were not given again: from_documents and from_nodes replace all stored "
    "texts of a source. To add to a source, use add_documents (LangChain) or UmiVectorStore.add (LlamaIndex); to open "
    "a directory as it is, give an empty list. Logged once."
)
WOULD_EMPTY = "mirror=True with nothing to store would empty the store; check what was loaded"
UNEMBEDDED_KEY = "unembedded"
"""Metadata key; True for a message that has no vector yet."""
STORED_UNEMBEDDED = (
    "the embedder failed (%s), so messages of a chat are stored without vectors: until they are embedded together with "
    "later messages, only BM25 finds them. Logged once."
)


def add_mirrored(
    store: Any,
    chunks: Sequence[Chunk],
    origin_of: Callable[[Chunk], Origin | None],
    *,
    left_out: Sequence[tuple[str | None, Origin | None]] = (),
    within: Filter | None = None,
    everything: bool = False,
    show_progress: bool = False,
) -> None:
    """Add chunks, and remove the other stored chunks with the same origins.

    A new chunk with the text of a removed chunk gets the vector of the removed chunk and is not embedded. Calls in
    several threads run one after another, so that each call replaces the chunks that the call before it has stored.

    Args:
        store: A `HybridStore`.
        chunks: The chunks to store: all chunks that each origin has now.
        origin_of: Function from a chunk to its origin; None as origin: the chunk replaces no other chunk.
        left_out: (id, origin) of items without a chunk, such as a file that became empty. Stored chunks with one of
            these ids or origins are removed, too.
        within: The retriever's own filter. Chunks that do not pass it, such as those of another user, are not removed.
        everything: Also remove the stored chunks of all other origins.
        show_progress: As in `HybridStore.add`.

    Raises:
        InputError: If `everything` is True without chunks, which would empty the store, or is no bool.
        InvalidChunk, DuplicateId, EmbedderError: As `store.add`. Nothing is written.
    """
    _check_mirror(everything)
    if everything and not chunks and len(store):
        raise InputError(WOULD_EMPTY)
    origins = ({origin_of(chunk) for chunk in chunks} | {origin for _, origin in left_out}) - {None}
    left_out_ids, given = {id for id, _ in left_out}, {chunk.id for chunk in chunks}

    def replaces(chunk: Chunk) -> bool:
        return everything or chunk.id in left_out_ids or origin_of(chunk) in origins

    with store.replacing:
        gone = _stored_others(store, given, replaces, within)
        stored = {chunk.id for chunk in store.get(list(given)) if chunk is not None} if gone else set()
        _add_with_vectors_of(gone, store, chunks, stored, show_progress)
        if gone:
            store.delete([chunk.id for chunk in gone])
    old_texts, texts = {chunk.text for chunk in gone}, {chunk.text for chunk in chunks}
    is_new = any(chunk.id not in stored and chunk.text not in old_texts for chunk in chunks)
    is_edit = is_new and (stored or old_texts & texts)  # of one source, some texts are as before and some are new
    removed = 0 if is_edit else sum(chunk.text not in texts for chunk in gone)
    if removed and chunks and not everything:
        warn_once("replace", "all", REPLACED, removed)


def copy_mirrored(
    store: Any,
    name: str,
    pages: Iterable[tuple[Sequence[Chunk], Any]],
    origin_of: Callable[[Chunk], Origin | None],
    *,
    within: Filter | None = None,
    everything: bool = False,
) -> None:
    """Copy another vector store, and remove the other stored chunks with the origins of the copied chunks.

    `pages` are its chunks and their vectors (n, dim); other arguments and errors are as in `add_mirrored`.

    Raises:
        ReindexRequired: If another model than the store's made the vectors; nothing is added.
    """
    _check_mirror(everything)
    given, origins = set[str](), set[Origin | None]()

    def noted() -> Iterator[tuple[Sequence[Chunk], Any]]:
        for chunks, vectors in pages:
            given.update(chunk.id for chunk in chunks)
            origins.update(map(origin_of, chunks))
            yield chunks, vectors

    with store.replacing:
        add_with_vectors(store, name, noted())
        if everything and not given and len(store):
            raise InputError(WOULD_EMPTY)
        origins.discard(None)
        gone = _stored_others(store, given, lambda chunk: everything or origin_of(chunk) in origins, within)
        if gone:
            store.delete([chunk.id for chunk in gone])


def _check_mirror(mirror: bool) -> None:
    if not isinstance(mirror, bool):
        raise InputError(f"mirror is {mirror!r:.80}; expected True or False; True removes what is not given")


def _stored_others(
    store: Any, given: Collection[str], replaces: Callable[[Chunk], bool], within: Filter | None
) -> list[Chunk]:
    """The stored chunks with ids that are not `given`, that pass `within`, and for which `replaces` is true."""
    others = [id for id in store.ids() if id not in given]
    read = chain.from_iterable(store.get(others[start : start + PAGE]) for start in range(0, len(others), PAGE))
    return [chunk for chunk in read if chunk is not None and replaces(chunk) and matches(within, chunk.metadata)]


def _add_with_vectors_of(
    gone: Sequence[Chunk], store: Any, chunks: Sequence[Chunk], stored: Collection[str], show_progress: bool
) -> None:
    """Add chunks; those that are not `stored` and have the text of a chunk in `gone` get its vector."""
    id_of_text = {chunk.indexed_text: chunk.id for chunk in gone}
    known = [chunk for chunk in chunks if chunk.id not in stored and chunk.indexed_text in id_of_text]
    if not known or len({chunk.id for chunk in chunks}) < len(chunks):  # `add` refuses an id that is given twice
        store.add(chunks, show_progress=show_progress)
        return
    new = [chunk for chunk in chunks if chunk.id in stored or chunk.indexed_text not in id_of_text]
    store.add(new, show_progress=show_progress)
    vectors = store.vectors([id_of_text[chunk.indexed_text] for chunk in known])
    store.add(known, vectors=vectors, show_progress=show_progress)


class KnownSources(ABC):
    """Base class of the choice of positions for chunks that are added to a source that the store already holds.

    Example: the first half of "report.txt" was added with the positions 0 to 4. The chunks of the second half, added
    later without positions, get 5 to 9.

    The subclass calls `_stored` with a function that reads the sources that `_sources` lacks, from the store and from
    `_pending`, and returns the new chunks with their positions. `_stored` adds these by `_note`. After a write by
    another object, or a failed one, all sources are read again. A write by another object during a `with` block of
    `_stored` may go unnoticed. Thread-safe: chunks that are added at the same time get different positions.
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
        try:
            yield placed
        except BaseException:
            with self._lock:
                self._pending.remove(placed)
                self._sources.clear()
            raise
        with self._lock:
            self._pending.remove(placed)
            self._last_write = self._written()

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


def add_messages(store: Any, chunks: Sequence[Chunk], failed: EmbedderError | None = None) -> EmbedderError | None:
    """Add the messages of a chat; if the embedder fails, add them without vectors, and log a warning, once.

    Args:
        failed: A recent error of the embedder, which is then not called; None: it is called.

    Returns:
        The error of the embedder; None: the messages have vectors. The error is raised if the store is no
        `HybridStore`, or if neither the store nor its embedder knows the dimension of the vectors.
    """
    error = failed
    if error is None:
        try:
            store.add(chunks)
            return None
        except EmbedderError as raised:
            error = raised
    if not isinstance(store, HybridStore):
        raise error
    try:
        dim = store.vectors([]).shape[1] or store.embedder.dim  # an empty store does not know its dimension
    except Exception:  # noqa: BLE001 - the embedder may call the failing model to find its dimension
        raise error from None
    marked = [replace(chunk, metadata={**chunk.metadata, UNEMBEDDED_KEY: True}) for chunk in chunks]
    store.add(marked, vectors=np.zeros((len(marked), dim)))  # a row of zeros means: no vector
    warn_once("memory", "unembedded", STORED_UNEMBEDDED, type(error).__name__)
    return error


def embed_unembedded(store: Any, where: Filter | None = None) -> None:
    """Embed the chunks that `add_messages` has stored without vectors and that pass `where`; raises as `store.add`."""
    if isinstance(store, HybridStore):
        marked = Comparison(UNEMBEDDED_KEY, "$eq", True)
        # `add` removes marks while pages are read. No chunk is skipped: each page begins after the last id before it.
        for page in pages(store, where=marked if where is None else And((marked, where))):
            own = [{key: chunk.metadata[key] for key in chunk.metadata if key != UNEMBEDDED_KEY} for chunk in page]
            store.add([replace(chunk, metadata=metadata) for chunk, metadata in zip(page, own, strict=True)])
