"""Replace the stored chunks of files or documents by their new chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from umi_common.errors import InputError
from umi_common.filters import Filter, matches
from umi_common.runtime.losses import warn_once
from umi_common.stores.chroma.chroma_import import add_with_vectors
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


def add_mirrored(
    store: Any,
    chunks: Sequence[Chunk],
    origin_of: Callable[[Chunk], Origin | None],
    *,
    left_out: Sequence[tuple[str | None, Origin | None]] = (),
    within: Filter | None = None,
    everything: bool = False,
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

    Raises:
        InputError: If `everything` is True without chunks, which would empty the store, or is no bool.
        InvalidChunk, DuplicateId, EmbedderError: As `store.add`. Nothing is written.
    """
    _check_mirror(everything)
    if everything and not chunks and len(store):
        raise InputError(WOULD_EMPTY)
    origins = {origin_of(chunk) for chunk in chunks} | {origin for _, origin in left_out}
    left_out_ids, origins = {id for id, _ in left_out}, origins - {None}

    def replaces(chunk: Chunk) -> bool:
        affected = everything or chunk.id in left_out_ids or origin_of(chunk) in origins
        return affected and matches(within, chunk.metadata)

    with store.replacing:
        removed = _replace(store, chunks, replaces)
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

    Args:
        store: A `HybridStore`.
        name: Name of the other vector store.
        pages: Its chunks and their vectors (n, dim).
        origin_of, within, everything: As in `add_mirrored`.

    Raises:
        ReindexRequired: If another model than the store's made the vectors; nothing is added.
        InputError: As `add_mirrored`; then nothing is removed.
    """
    _check_mirror(everything)
    given, origins = set[str](), set[Origin | None]()

    def noted() -> Iterator[tuple[Sequence[Chunk], Any]]:
        for chunks, vectors in pages:
            given.update(chunk.id for chunk in chunks)
            origins.update(map(origin_of, chunks))
            yield chunks, vectors

    def replaces(chunk: Chunk) -> bool:
        return (everything or origin_of(chunk) in origins) and matches(within, chunk.metadata)

    with store.replacing:
        add_with_vectors(store, name, noted())
        if everything and not given and len(store):
            raise InputError(WOULD_EMPTY)
        origins.discard(None)
        gone = _stored_others(store, given, replaces)
        if gone:
            store.delete([chunk.id for chunk in gone])


def _check_mirror(mirror: bool) -> None:
    if not isinstance(mirror, bool):
        raise InputError(f"mirror is {mirror!r:.80}; expected True or False; True removes what is not given")


def _stored_others(store: Any, given: Collection[str], replaces: Callable[[Chunk], bool]) -> list[Chunk]:
    """The stored chunks with ids that are not `given`, and for which `replaces` is true."""
    others = [id for id in store.ids() if id not in given]
    pages = (store.get(others[start : start + PAGE]) for start in range(0, len(others), PAGE))
    return [chunk for page in pages for chunk in page if chunk is not None and replaces(chunk)]


def _replace(store: Any, chunks: Sequence[Chunk], replaces: Callable[[Chunk], bool]) -> int:
    """Add chunks, and remove the stored chunks with other ids for which `replaces` is true.

    Returns:
        The number of removed chunks whose text is not among the given texts. 0 if the call seems to store an edited
        source: some of the given texts were stored before, and some are new.
    """
    ids = {chunk.id for chunk in chunks}
    gone = _stored_others(store, ids, replaces)
    if not gone:
        store.add(chunks)
        return 0
    stored = {chunk.id for chunk in store.get(list(ids)) if chunk is not None}
    id_of_text = {chunk.indexed_text: chunk.id for chunk in gone}
    embedded = [chunk for chunk in chunks if chunk.id not in stored and chunk.indexed_text in id_of_text]
    if len(ids) < len(chunks) or not embedded:  # `add` refuses an id that is given twice
        store.add(chunks)
    else:
        store.add([chunk for chunk in chunks if chunk.id in stored or chunk.indexed_text not in id_of_text])
        store.add(embedded, vectors=store.vectors([id_of_text[chunk.indexed_text] for chunk in embedded]))
    store.delete([chunk.id for chunk in gone])
    old_texts, texts = {chunk.text for chunk in gone}, {chunk.text for chunk in chunks}
    is_new = any(chunk.id not in stored and chunk.text not in old_texts for chunk in chunks)
    is_edit = is_new and (stored or old_texts & texts)
    return 0 if is_edit else len([chunk for chunk in gone if chunk.text not in texts])
