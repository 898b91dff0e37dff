"""Replace the stored chunks of files or documents by their new chunks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from umi_common.errors import InputError
from umi_common.filters import Filter, matches
from umi_common.runtime.losses import warn_once
from umi_common.types import Chunk

PAGE = 5_000
"""Largest number of chunks that are read from a store in one call."""
REPLACED = (
    "%d stored texts were removed, because they were not given again: from_documents and from_nodes replace all stored "
    "texts of a source. To add to a source, use add_documents (LangChain) or UmiVectorStore.add (LlamaIndex); to open "
    "a directory as it is, give an empty list. Logged once."
)


def add_mirrored(
    store: Any,
    chunks: Sequence[Chunk],
    origin_of: Callable[[Chunk], Hashable | None],
    *,
    left_out: Sequence[tuple[str | None, Hashable | None]] = (),
    within: Filter | None = None,
    everything: bool = False,
) -> None:
    """Add chunks, and remove the other stored chunks with the same origins.

    A new chunk with the text of a removed chunk gets the vector of the removed chunk and is not embedded. Calls in
    several threads run one after another, so that each call replaces the chunks that the call before it has stored.

    Args:
        store: A `HybridStore`.
        chunks: The chunks to store: all chunks that each origin has now.
        origin_of: Function from a chunk to its origin, a value that identifies the file or document that it was cut
            from. None as origin: the chunk replaces no other chunk.
        left_out: (id, origin) of items without a chunk, such as a file that became empty. Stored chunks with one of
            these ids or origins are removed, too.
        within: The retriever's own filter. Chunks that do not pass it, such as those of another user, are not removed.
        everything: Also remove the stored chunks of all other origins.

    Raises:
        InputError: If `everything` is True without chunks, which would empty the store, or is no bool.
        InvalidChunk, DuplicateId, EmbedderError: As `store.add`. Nothing is written.
    """
    if not isinstance(everything, bool):
        raise InputError(f"mirror is {everything!r:.80}; expected True or False; True removes what is not given")
    if everything and not chunks and len(store):
        raise InputError("mirror=True with nothing to store would empty the store; check what was loaded")
    origins = {origin_of(chunk) for chunk in chunks} | {origin for _, origin in left_out}
    left_out_ids, origins = {id for id, _ in left_out}, origins - {None}

    def replaces(chunk: Chunk) -> bool:
        affected = everything or chunk.id in left_out_ids or origin_of(chunk) in origins
        return affected and matches(within, chunk.metadata)

    with store.replacing:
        removed = _replace(store, chunks, replaces)
    if removed and chunks and not everything:
        warn_once("replace", "all", REPLACED, removed)


def _replace(store: Any, chunks: Sequence[Chunk], replaces: Callable[[Chunk], bool]) -> int:
    """Add chunks, and remove the stored chunks with other ids for which `replaces` is true.

    Returns:
        The number of removed chunks whose text is not among the given texts. 0 if the call seems to store an edited
        source: some of the given texts were stored before, and some are new.
    """
    new = {chunk.id for chunk in chunks}
    others = [id for id in store.ids() if id not in new]
    pages = (store.get(others[start : start + PAGE]) for start in range(0, len(others), PAGE))
    gone = [chunk for page in pages for chunk in page if chunk is not None and replaces(chunk)]
    by_text = {chunk.indexed_text: chunk.id for chunk in gone}
    stored = {chunk.id for chunk in store.get(list(new)) if chunk is not None} if gone else new
    embedded = [chunk for chunk in chunks if chunk.id not in stored and chunk.indexed_text in by_text]
    if len(new) < len(chunks) or not embedded:
        store.add(chunks)
    else:
        store.add([chunk for chunk in chunks if chunk.id in stored or chunk.indexed_text not in by_text])
        store.add(embedded, vectors=store.vectors([by_text[chunk.indexed_text] for chunk in embedded]))
    if gone:
        store.delete([chunk.id for chunk in gone])
    before, given = ({chunk.text for chunk in each} for each in (gone, chunks))
    is_new = any(chunk.id not in stored and chunk.text not in before for chunk in chunks)
    is_edit = is_new and (stored or before & given)
    return 0 if is_edit else sum(chunk.text not in given for chunk in gone)
