"""LangChain documents to chunks and back. Arguments are never changed."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages

from umi_common.errors import ConfigError, InputError, InvalidChunk
from umi_common.explain import reasons
from umi_common.filters import Filter, matches
from umi_common.frameworks.records import IDS_NAMED, PlaceKeys, chroma_collection, to_chunk, to_metadata
from umi_common.runtime.losses import warn_once
from umi_common.stores.batch_checks import SkippedChunk
from umi_common.stores.chroma.chroma_import import pages_with_text
from umi_common.stores.chroma.records import copied_chunk
from umi_common.types import Chunk, Hit, utf8_text
from umi_langchain._positions import SourcePlaces, document_source, stated_positions

log = logging.getLogger("umi")
SearchText = str | Sequence[str] | None
"""Which text of a document is searched; see `searched_text`."""
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
SCORE_KEY = "relevance_score"
REASONS_KEY = "umi_reasons"
SKIP_ADVICE = '; from_documents(..., on_invalid="skip") or UmiVectorStore(on_invalid="skip") leaves such documents out'
UNKNOWN_KEY = (
    "search_text names %r, which no document has as metadata; it adds nothing to the search. Logged once for this key."
)


def to_chunks(
    documents: Iterable[Document],
    keys: PlaceKeys,
    following: Counter[str] | None = None,
    search_text: SearchText = None,
    skipped: list[SkippedChunk] | None = None,
    *,
    advice: str = "",
) -> tuple[list[str], list[Chunk]]:
    """The id of every document that is not skipped, in their order, and the chunks to store.

    The id is `Document.id`, else a hash of text and metadata; documents without id that have equal text and metadata
    are one chunk. The position in the source is the metadata under `keys.position`, else that of `stated_positions`.

    Args:
        following: Source -> the position after its last document; updated. A document whose metadata states no position
            gets this position. None: such a document has no position.
        search_text: As in `searched_text`.
        skipped: Documents that cannot be stored, or whose id an earlier document has, are appended here and left out.
            None: a document that cannot be stored raises, and a repeated id is kept.
        advice: End of the message for a document that cannot be stored.

    Raises:
        InvalidChunk: Names the document.
        ConfigError: As `searched_text`.
    """
    ids: list[str] = []
    chunks: list[Chunk] = []
    taken: set[str] = set()
    hashed: set[str] = set()
    documents = checked_documents(documents)
    _warn_of_unknown_keys(documents, search_text)
    stated = stated_positions(documents, keys.source)
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
            equal = document.id is None and chunk.id in hashed
            if skipped is not None and chunk.id in taken and not equal:
                raise InvalidChunk(f"id {chunk.id!r:.80} comes twice in this batch; the first is stored")
        except InvalidChunk as error:
            if skipped is None:
                raise InvalidChunk(f"document {index}: {error}{advice}") from error
            named = source if document.metadata.get(keys.source) is not None else None
            skipped.append(SkippedChunk(index, document.id, named, str(error)))
            continue
        ids.append(chunk.id)
        if equal:
            continue
        taken.add(chunk.id)
        if document.id is None:
            hashed.add(chunk.id)
        chunks.append(chunk)
    return ids, chunks


def searched_text(document: Document, search_text: SearchText) -> str | None:
    """The text that is indexed for a document; results show the document's own text. None: its own text is indexed.

    Args:
        search_text: A template of metadata keys, such as "{title}: {text}", in which a missing key gives ""; or a
            list of metadata keys, whose values come before the text, one per line; None: the text alone.

    Raises:
        ConfigError: If it names no key.
    """
    if search_text is None:
        return None
    keys = _keys_in(search_text)
    values = {**document.metadata, "text": document.page_content}
    if isinstance(search_text, str):
        return PLACEHOLDER.sub(lambda found: _as_text(values.get(found[1])), search_text)
    parts = [_as_text(values.get(key)) for key in (*keys, "text")]
    return "\n".join(value for value in parts if value)


def _warn_of_unknown_keys(documents: Sequence[Document], search_text: SearchText) -> None:
    """Log a warning, once for each key, of keys of `search_text` that none of the documents has."""
    for key in () if search_text is None or not documents else _keys_in(search_text):
        if key != "text" and not any(key in document.metadata for document in documents):
            warn_once("search_text", key, UNKNOWN_KEY, key)


def _keys_in(search_text: str | Sequence[str]) -> list[str]:
    keys = PLACEHOLDER.findall(search_text) or [None] if isinstance(search_text, str) else search_text
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) for key in keys):
        raise ConfigError(
            f"search_text {search_text!r:.80} names no metadata key; expected a template as '{{title}}: {{text}}', "
            "or a list of metadata keys"
        )
    return list(keys)


def _as_text(value: Any) -> str:
    if isinstance(value, (list, tuple, set)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def document_origin(chunk: Chunk, keys: PlaceKeys) -> str | None:
    """The source named in a stored document's metadata; None: the metadata names no source."""
    return None if keys.source is None or keys.source not in chunk.metadata else chunk.source


def as_documents(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str | None] | None
) -> list[Document]:
    """Documents of aligned texts, metadatas and ids.

    Raises:
        ConfigError: If their numbers differ.
        InvalidChunk: If a string or a dict is given in place of a list, a text or an id is no string, or a metadata is
            no dict.
    """
    _refuse_one(texts=texts, metadatas=metadatas, ids=ids)
    texts = list(texts)
    metadatas = [{}] * len(texts) if metadatas is None else list(metadatas)
    ids = [None] * len(texts) if ids is None else list(ids)
    for name, values in (("metadatas", metadatas), ("ids", ids)):
        if len(values) != len(texts):
            raise ConfigError(f"{len(texts)} texts and {len(values)} {name}; expected one for each text")
    rows = list(zip(texts, metadatas, ids, strict=True))
    for index, (text, metadata, id) in enumerate(rows):
        if not isinstance(text, str):
            raise InvalidChunk(f"text {index} is {type(text).__name__}; expected str")
        if not isinstance(metadata, (Mapping, type(None))):
            raise InvalidChunk(f"metadata {index} is {type(metadata).__name__}; expected a dict")
        if not isinstance(id, (str, type(None))):
            raise InvalidChunk(f"id {index} is {type(id).__name__}; expected str; str(id) makes one")
    return [Document(id=id, page_content=text, metadata=dict(metadata or {})) for text, metadata, id in rows]


def with_ids(documents: Iterable[Document], ids: Iterable[str | None]) -> list[Document]:
    """Copies of the documents with these ids, aligned; for None, the document itself with its own id.

    Raises:
        ConfigError: If their numbers differ.
        InvalidChunk: If the ids are one string.
    """
    _refuse_one(ids=ids)
    documents, ids = checked_documents(documents), list(ids)
    if len(ids) != len(documents):
        raise ConfigError(f"{len(documents)} documents and {len(ids)} ids; expected one for each document")
    rows = zip(documents, ids, strict=True)
    return [document if id is None else document.model_copy(update={"id": id}) for document, id in rows]


def _refuse_one(**lists: object) -> None:
    """Raise InvalidChunk if a string or a dict is given in place of a list: its letters or keys would be the items."""
    for name, given in lists.items():
        if isinstance(given, (str, Mapping)):
            kind = "string" if isinstance(given, str) else "dict"
            raise InvalidChunk(f"{name} is one {kind}; expected a list: [{given!r:.80}]")


def add_documents(
    store: Any,
    documents: Iterable[Document],
    keys: PlaceKeys,
    ids: Sequence[str | None] | None = None,
    search_text: SearchText = None,
    *,
    places: SourcePlaces,
    replaces: bool = False,
    within: Filter | None = None,
    skipped: list[SkippedChunk] | None = None,
    show_progress: bool = False,
) -> list[str]:
    """Insert documents into a store, or replace those with the same id; returns the ids, aligned.

    Args:
        places: Of this store. Positions are as in `SourcePlaces.placed`, which also describes `replaces`.
        within: The retriever's own filter, for `warn_of_hidden`.
        skipped: Documents that cannot be stored are appended here, and their ids are left out; None: they raise. If the
            store holds an older document with the id of such a document, it stays, and the logger `umi` names it.
        show_progress: A progress bar while texts are embedded.

    Raises:
        InvalidChunk, DuplicateId: Names the document. Nothing is written.
    """
    given = documents if ids is None else with_ids(documents, ids)
    before = len(skipped or ())
    found, chunks = to_chunks(given, keys, search_text=search_text, skipped=skipped, advice=SKIP_ADVICE)
    with places.placed(chunks, replaces=replaces) as chunks:
        store.add(chunks, show_progress=show_progress)
    warn_of_hidden(chunks, within)
    left_out = {gone.id for gone in (skipped or ())[before:] if gone.id is not None} - set(found)
    stale = [chunk.id for chunk in store.get(sorted(left_out)) if chunk is not None] if left_out else []
    if stale:
        log.warning(
            "%d documents were left out, because they cannot be stored; the older ones with their ids stay and are "
            "found, until delete(ids) removes them: %s",
            len(stale),
            ", ".join(stale[:IDS_NAMED]),
        )
    return found


def warn_of_hidden(chunks: Sequence[Chunk], within: Filter | None) -> None:
    """Log a warning if chunks are stored and none of them passes the retriever's own filter."""
    if chunks and not any(matches(within, chunk.metadata) for chunk in chunks):
        log.warning(
            "of the %d documents stored now, none passes the retriever's own filter, so it does not find them; "
            "give them the metadata that the filter asks for",
            len(chunks),
        )


def checked_chroma(vectorstore: Any) -> Any:
    """The collection of a Chroma vector store.

    Raises:
        ConfigError: If it is no Chroma store.
    """
    collection = chroma_collection(vectorstore, "Chroma")
    if collection is None:
        raise ConfigError(
            f"vectorstore is {type(vectorstore).__name__}; expected langchain_chroma.Chroma; of a retriever over it, "
            "give its .vectorstore; a UmiVectorStore has .retriever(); for others, give the documents to from_documents"
        )
    return collection


def document_chunk_of_record(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record of a Chroma collection; it has a position only if its metadata names one.

    Raises:
        InvalidChunk: If the record cannot be stored as a chunk.
    """
    return to_chunks([Document(id=id, page_content=text, metadata=dict(metadata))], keys)[1][0]


def chunk_pages(vectorstore: Any, keys: PlaceKeys) -> Iterator[tuple[list[Chunk], Any]]:
    """The chunks of a Chroma vector store with their vectors (n, dim), page by page.

    Raises:
        ConfigError: If it is no Chroma store.
    """
    following: Counter[str] = Counter()
    for records, vectors in pages_with_text(checked_chroma(vectorstore)):
        documents = [Document(id=id, page_content=text or "", metadata=metadata) for id, text, metadata in records]
        each = zip(records, to_chunks(documents, keys, following)[1], strict=True)
        yield [copied_chunk(record, chunk, partial(document_chunk_of_record, keys)) for record, chunk in each], vectors


def to_document(chunk: Chunk, keys: PlaceKeys) -> Document:
    """A new document with the chunk's id, text and metadata."""
    return Document(id=chunk.id, page_content=chunk.text, metadata=to_metadata(chunk, keys))


def to_scored_documents(
    hits: Iterable[Hit], keys: PlaceKeys, *, score_key: str | None = SCORE_KEY, with_reasons: bool = False
) -> list[Document]:
    """The document of each hit, with the hit's score in its metadata under `score_key` unless it has that key already.

    Args:
        hits: Best first.
        score_key: None: no score.
        with_reasons: Also put a list of the reasons why it was found into `metadata["umi_reasons"]`.
    """
    documents = []
    for hit in hits:
        document = to_document(hit.chunk, keys)
        if score_key is not None:
            document.metadata.setdefault(score_key, hit.score)
        if with_reasons:
            document.metadata[REASONS_KEY] = reasons(hit)
        documents.append(document)
    return documents


def message_text(message: BaseMessage) -> str:
    """The text of a message as UTF-8 can hold it, without tool calls and reasoning; "" if there is none."""
    if isinstance(message.content, str):
        return utf8_text(message.content.strip())
    blocks = [block if isinstance(block, str) else block.get("text", "") for block in message.content]
    return utf8_text("\n".join(block for block in blocks if isinstance(block, str) and block).strip())


def as_turns(history: Sequence[str | MessageLikeRepresentation]) -> list[str]:
    """A conversation as a list of texts; a message, pair or dict becomes "role: text".

    Raises:
        InputError: If it is not a list, or an item cannot be read as a message.
    """
    if isinstance(history, (str, Mapping, BaseMessage)) or not isinstance(history, Iterable):
        raise InputError(f"history is {type(history).__name__}; expected a list of messages or strings, oldest first")
    return [turn if isinstance(turn, str) else _turn_text(index, turn) for index, turn in enumerate(history)]


def _turn_text(index: int, turn: MessageLikeRepresentation) -> str:
    try:
        (message,) = convert_to_messages([turn])
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"history[{index}] is {turn!r:.80}; expected a message, a string, a (role, text) pair or a dict with role "
            "and content; the roles are human, ai, system and tool"
        ) from error
    return f"{message.type}: {message_text(message)}"


def checked_documents(given: Any) -> list[Document]:
    """The documents as a list.

    Raises:
        InvalidChunk: If the argument is no list, an item is no document, or its metadata is no dict; names the item.
    """
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
