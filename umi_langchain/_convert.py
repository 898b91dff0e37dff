"""Convert LangChain documents to chunks and back. Arguments are never changed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

from langchain_core.documents import Document

from umi_common.errors import ConfigError, InvalidChunk
from umi_common.filters import Filter, matches
from umi_common.frameworks.records import IDS_NAMED, PlaceKeys, chroma_collection, to_chunk, to_metadata
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.stores.chroma.chroma_import import pages_with_text
from umi_common.stores.chroma.records import copied_chunk
from umi_common.types import Chunk
from umi_langchain._positions import SourcePlaces, document_source, stated_positions
from umi_langchain._search_text import SearchText, searched_text, warn_of_unknown_keys

log = logging.getLogger("umi")

SCORE_KEY, REASONS_KEY = "relevance_score", "umi_reasons"
"""Metadata keys of a document's score, and of the list of reasons why it was found."""
SKIP_ADVICE = '; from_documents(..., on_invalid="skip") or UmiVectorStore(on_invalid="skip") leaves such documents out'


def to_chunks(
    documents: Iterable[Document],
    keys: PlaceKeys,
    following: Counter[str] | None = None,
    search_text: SearchText = None,
    skipped: list[SkippedChunk] | None = None,
    *,
    advice: str = "",
) -> tuple[list[str], list[Chunk]]:
    """(ids, chunks): the ids of the documents that are not skipped, in order, and the chunks to store.

    The id is `Document.id`, else a hash of text and metadata. Documents without an id that have equal text and metadata
    make one chunk, so `ids` may be longer than `chunks`. A chunk's position in its source is the metadata value under
    `keys.position`, else the result of `stated_positions`, else the number in `following`.

    Args:
        documents: In reading order.
        keys: Metadata keys of source, position and time.
        following: Source -> its next position, updated by each document; positions in metadata do not change it. None:
            a document without the other two positions gets none.
        search_text: As in `searched_text`.
        skipped: A document that cannot be stored, or repeats the id of an earlier document that is not equal, is
            appended here and left out. None: a document that cannot be stored raises, and repeated ids are kept.
        advice: Appended to the error message for a document that cannot be stored.

    Raises:
        InvalidChunk: If a document cannot be stored; the message names it.
        ConfigError: As `searched_text`.
    """
    documents = checked_documents(documents)
    warn_of_unknown_keys(documents, search_text)
    stated = stated_positions(documents, keys.source)
    ids: list[str] = []
    chunks: list[Chunk] = []
    is_hash: dict[str, bool] = {}  # for the id of each chunk so far
    for index, (document, position) in enumerate(zip(documents, stated, strict=True)):
        source = document_source(document, keys.source)
        if following is not None:
            position = following[source] if position is None else position
            following[source] = position + 1
        try:
            chunk = to_chunk(
                document.page_content,
                document.metadata,
                id=document.id,
                keys=keys,
                position=position,
                search_text=searched_text(document, search_text),
            )
            is_copy = document.id is None and is_hash.get(chunk.id, False)
            if skipped is not None and chunk.id in is_hash and not is_copy:
                raise InvalidChunk(f"id {chunk.id!r:.80} comes twice in this batch; the first is kept")
        except InvalidChunk as error:
            if skipped is None:
                raise InvalidChunk(f"document {index}: {error}{advice}") from error
            id = document.id if isinstance(document.id, str) else None
            named = None if document.metadata.get(keys.source) is None else source
            skipped.append(SkippedChunk(index, id, named, str(error)))
            continue
        ids.append(chunk.id)
        if not is_copy:
            is_hash[chunk.id] = document.id is None
            chunks.append(chunk)
    return ids, chunks


def checked_documents(given: Any) -> list[Document]:
    """The documents as a list; raises InvalidChunk if one is no document, or its metadata no dict, and names it."""
    advice = "expected a list of LangChain Documents; from_texts takes strings"
    if not isinstance(given, Iterable) or isinstance(given, (str, Document)):
        raise InvalidChunk(f"documents is {type(given).__name__}; {advice}")
    documents: list[Document] = list(given)
    for index, document in enumerate(documents):
        if not isinstance(document, Document):
            raise InvalidChunk(f"document {index} is {type(document).__name__}; {advice}")
        if not isinstance(document.metadata, Mapping):
            raise InvalidChunk(f"document {index}: metadata is {type(document.metadata).__name__}; expected a dict")
    return documents


def to_document(chunk: Chunk, keys: PlaceKeys) -> Document:
    """A new document with the chunk's id, text and metadata."""
    return Document(id=chunk.id, page_content=chunk.text, metadata=to_metadata(chunk, keys))


def document_origin(chunk: Chunk, keys: PlaceKeys) -> str | None:
    """The source of a stored chunk; None if its metadata does not name the source."""
    return chunk.source if keys.source in chunk.metadata else None


def add_documents(
    places: SourcePlaces,
    documents: Iterable[Document],
    ids: Sequence[str | None] | None = None,
    search_text: SearchText = None,
    *,
    replaces: bool = False,
    within: Filter | None = None,
    skipped: list[SkippedChunk] | None = None,
    show_progress: bool = False,
) -> list[str]:
    """`UmiVectorStore.add_documents`, for a vector store or a retriever.

    Args:
        places: Chooses the positions; documents are added to `places.store`.
        replaces: Whether the caller then removes stored chunks that these replace; see `SourcePlaces.placed`.
        within: The retriever's own filter; see `warn_of_hidden`.
        skipped: As in `to_chunks`; see `_warn_of_older`.
    """
    documents = documents if ids is None else _with_ids(documents, ids)
    skipped_before = len(skipped or ())
    found, chunks = to_chunks(documents, places.keys, None, search_text, skipped, advice=SKIP_ADVICE)
    with places.placed(chunks, replaces=replaces) as placed:
        places.store.add(placed, show_progress=show_progress)
    warn_of_hidden(placed, within)
    if skipped:
        _warn_of_older(places.store, skipped[skipped_before:], set(found))
    return found


def _with_ids(documents: Iterable[Document], ids: Iterable[str | None]) -> list[Document]:
    """Copies of the documents with these ids, aligned; where the id is None, the document itself, with its own id."""
    documents = checked_documents(documents)
    rows = zip(documents, _aligned("ids", ids, len(documents), "document"), strict=True)
    return [document if id is None else document.model_copy(update={"id": id}) for document, id in rows]


def as_documents(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str | None] | None
) -> list[Document]:
    """Documents made of texts, metadatas and ids, which are aligned.

    Raises:
        ConfigError: If the lists differ in length.
        InvalidChunk: If one of them is no list, a text or an id is no string, or a metadata is no dict.
    """
    texts = _listed("texts", texts)
    metadatas = [{}] * len(texts) if metadatas is None else _aligned("metadatas", metadatas, len(texts), "text")
    ids = [None] * len(texts) if ids is None else _aligned("ids", ids, len(texts), "text")
    documents = []
    for index, (text, metadata, id) in enumerate(zip(texts, metadatas, ids, strict=True)):
        if not isinstance(text, str):
            raise InvalidChunk(f"text {index} is {type(text).__name__}; expected str")
        if not isinstance(metadata, (Mapping, type(None))):
            raise InvalidChunk(f"metadata {index} is {type(metadata).__name__}; expected a dict")
        if not isinstance(id, (str, type(None))):
            raise InvalidChunk(f"id {index} is {type(id).__name__}; expected str; str(id) makes one")
        documents.append(Document(id=id, page_content=text, metadata=dict(metadata or {})))
    return documents


def _aligned(name: str, given: Any, count: int, item: str) -> list[Any]:
    """`_listed`, for an argument with one value for each of `count` items; raises ConfigError for another number."""
    values = _listed(name, given)
    if len(values) != count:
        raise ConfigError(f"{count} {item}s and {len(values)} {name}; expected one for each {item}")
    return values


def _listed(name: str, given: Any) -> list[Any]:
    """The items of the argument `name`. Raises InvalidChunk for a string or a dict, whose letters or keys would be the
    items, and for what has no items."""
    if isinstance(given, (str, Mapping)):
        kind = "string" if isinstance(given, str) else "dict"
        raise InvalidChunk(f"{name} is one {kind}; expected a list: [{given!r:.80}]")
    if not isinstance(given, Iterable):
        raise InvalidChunk(f"{name} is {type(given).__name__}; expected a list")
    return list(given)


def warn_of_hidden(chunks: Sequence[Chunk], within: Filter | None) -> None:
    """Log a warning if none of the chunks, which were just stored, passes the retriever's own filter."""
    if chunks and not any(matches(within, chunk.metadata) for chunk in chunks):
        log.warning(
            "of the %d documents stored now, none passes the retriever's own filter, so it does not find them; "
            "give them the metadata that the filter asks for",
            len(chunks),
        )


def _warn_of_older(store: Any, left_out: Sequence[SkippedChunk], found: Set[str]) -> None:
    """Log a warning if the store still holds older documents with the ids of those left out, which `found` lacks."""
    ids = {each.id for each in left_out if each.id is not None} - found
    older = [chunk.id for chunk in store.get(sorted(ids)) if chunk is not None]
    if older:
        log.warning(
            "%d documents were left out, because they cannot be stored or repeat an id; for %d of them the store still "
            "holds an older document with the same id, which searches find until delete(ids) removes it: %s",
            len(left_out),
            len(older),
            ", ".join(older[:IDS_NAMED]),
        )


def checked_chroma(vectorstore: Any) -> Any:
    """The collection of a `langchain_chroma.Chroma`; raises ConfigError for any other object."""
    collection = chroma_collection(vectorstore, "Chroma")
    if collection is None:
        raise ConfigError(
            f"vectorstore is {type(vectorstore).__name__}; expected langchain_chroma.Chroma. If this is a retriever "
            "over a Chroma store, give its .vectorstore; if a UmiVectorStore, use its .retriever(); for any other "
            "store, give its documents to from_documents"
        )
    return collection


def chunk_pages(collection: Any, keys: PlaceKeys) -> Iterator[tuple[list[Chunk], Any]]:
    """Yield the chunks of a Chroma collection and their vectors (n, dim), page by page.

    A record that umi has written states its chunk; the chunk of any other record is made here, by `to_chunks`.
    """
    following: Counter[str] = Counter()
    for records, vectors in pages_with_text(collection):
        documents = [Document(id=id, page_content=text or "", metadata=metadata) for id, text, metadata in records]
        pairs = zip(records, to_chunks(documents, keys, following)[1], strict=True)
        yield [copied_chunk(record, chunk, partial(document_chunk_of_record, keys)) for record, chunk in pairs], vectors


def document_chunk_of_record(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record of a Chroma collection; it has a position only if its metadata states one."""
    return to_chunks([Document(id=id, page_content=text, metadata=dict(metadata))], keys)[1][0]
