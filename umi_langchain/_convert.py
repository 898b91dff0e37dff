"""Convert LangChain documents to chunks and back, and choose their positions. Arguments are never changed.

A position rises over the whole source. Splitters write start indexes, which count characters from the beginning of a
page or a section; positions are made from these.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.documents import Document

from umi_common.errors import ConfigError, InvalidChunk
from umi_common.filters import Comparison, Filter, matches
from umi_common.frameworks.records import (
    IDS_NAMED,
    PlaceKeys,
    position_in_metadata,
    to_chunk,
    to_metadata,
)
from umi_common.frameworks.writing import KnownSources
from umi_common.protocols import pages
from umi_common.stores.batch_checks import SkippedChunk, check_no_table, taken_by
from umi_common.stores.chroma.chroma_import import pages_with_text
from umi_common.stores.chroma.records import copied_chunk
from umi_common.types import Chunk
from umi_langchain._search_text import SearchText, searched_text, warn_of_unknown_keys

log = logging.getLogger("umi")

SCORE_KEY, REASONS_KEY = "relevance_score", "umi_reasons"
"""Metadata keys of a document's score, and of the list of reasons why it was found."""
START_INDEX = "start_index"
"""Metadata key of a text's offset in its page, in characters; LangChain's splitters set it if add_start_index=True."""
PAGE = "page"
"""Metadata key of the page, from 0; LangChain's PDF loaders set it."""
CHARACTERS_PER_PAGE = 2**32
"""More characters than any page has, so that page * CHARACTERS_PER_PAGE + offset orders texts by page, then offset."""
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
    make one chunk, so `ids` may be longer than `chunks`. A chunk's position is the metadata value under
    `keys.position`, else the result of `stated_positions`, else the number in `following`.

    Args:
        documents: In reading order.
        following: Source -> its next position, updated by each document; positions in metadata do not change it. None:
            a document without the other two positions gets none.
        skipped: A document that cannot be stored, or repeats the id of an earlier document that is not equal, is
            appended here and left out. None: a document that cannot be stored raises InvalidChunk, which names it and
            ends with `advice`, and repeated ids are kept.
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
    check_no_table("documents", given, "Document(row.pop('text'), metadata=row)")
    documents: list[Document] = list(given)
    for index, document in enumerate(documents):
        if not isinstance(document, Document):
            raise InvalidChunk(
                f"document {index} is {type(document).__name__}; {advice}{taken_by(document, 'langchain_core')}"
            )
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
    """`UmiVectorStore.add_documents` for the store of `places`.

    Args:
        replaces: As in `SourcePlaces.placed`.
        within: The retriever's own filter.
        skipped: As in `to_chunks`.
    """
    if ids is not None:
        documents = checked_documents(documents)
        rows = zip(documents, _aligned("ids", ids, len(documents), "document"), strict=True)
        documents = [each if id is None else each.model_copy(update={"id": id}) for each, id in rows]
    skipped_before = len(skipped or ())
    found, chunks = to_chunks(documents, places.keys, None, search_text, skipped, advice=SKIP_ADVICE)
    with places.placed(chunks, replaces=replaces) as placed:
        places.store.add(placed, show_progress=show_progress)
    warn_of_hidden(placed, within)
    if skipped:
        _warn_of_older(places.store, skipped[skipped_before:], set(found))
    return found


def as_documents(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str | None] | None
) -> list[Document]:
    """Documents made of texts, metadatas and ids; raises ConfigError if these differ in length, InvalidChunk for a
    wrong type."""
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


def chunk_pages(collection: Any, keys: PlaceKeys) -> Iterator[tuple[list[Chunk], Any]]:
    """Yield the chunks of a Chroma collection and their vectors (n, dim), page by page."""
    following: Counter[str] = Counter()
    for records, vectors in pages_with_text(collection):
        documents = [Document(id=id, page_content=text or "", metadata=metadata) for id, text, metadata in records]
        pairs = zip(records, to_chunks(documents, keys, following)[1], strict=True)
        yield [copied_chunk(record, chunk, partial(document_chunk_of_record, keys)) for record, chunk in pairs], vectors


def document_chunk_of_record(keys: PlaceKeys, id: str, text: str, metadata: Mapping[str, Any]) -> Chunk:
    """The chunk of a record of a Chroma collection; it has a position only if its metadata states one."""
    return to_chunks([Document(id=id, page_content=text, metadata=dict(metadata))], keys)[1][0]


def stated_positions(documents: Sequence[Document], source_key: str | None) -> list[int | None]:
    """The position of each document, page * CHARACTERS_PER_PAGE + start index; None: it has no start index.

    In a source that `sources_in_parts` returns, the number of the part, from 0, replaces the page. A document begins a
    new part if it is on another page than the document of its source before it, or if its start index is not larger.
    """
    in_parts = sources_in_parts(documents, source_key)
    parts: dict[str, tuple[int, object, int]] = {}
    positions: list[int | None] = []
    for document in documents:
        source, start, page = document_source(document, source_key), _start(document.metadata), _page(document)
        if start is None:
            positions.append(None)
            continue
        if source in in_parts:
            stated = document.metadata.get(PAGE)
            part, last_page, last_start = parts.get(source, (0, stated, -1))
            page = part + (stated != last_page or start <= last_start)
            parts[source] = (page, stated, start)
        positions.append(start + CHARACTERS_PER_PAGE * page)
    return positions


def sources_in_parts(documents: Iterable[Document], source_key: str | None) -> set[str]:
    """The sources in which two different texts of one page have the same start index: it counts from the beginning of
    a part of the page, such as a section that an earlier splitter made, or a row of a CSV file."""
    first: dict[tuple[str, int, int], str] = {}
    found = set()
    for document in documents:
        source, start, text = document_source(document, source_key), _start(document.metadata), document.page_content
        if start is not None and first.setdefault((source, _page(document), start), text) != text:
            found.add(source)
    return found


def document_source(document: Document, key: str | None) -> str:
    """The document's metadata value under `key`, as a string: "" if `key` is None, "None" if there is no value."""
    return "" if key is None else str(document.metadata.get(key))


@dataclass
class _Source:
    """Positions and sections of the stored chunks of one source. Chunks of a section differ in the start index alone,
    of all their metadata; this metadata without the start index is the key of the section."""

    held: set[int] = field(default_factory=set)
    """The positions of the chunks."""
    places: dict[Hashable, int] = field(default_factory=dict)
    """(id, section key, start index) of a chunk -> its position."""
    firsts: dict[Hashable, int] = field(default_factory=dict)
    """Section key -> position of the section's first character; of several sections with one key, that of the last."""
    repeated: set[Hashable] = field(default_factory=set)
    """The keys that belong to several sections."""

    def note(self, chunk: Chunk, position: int) -> None:
        """Record the position of a chunk that is stored or is being stored."""
        start = _start(chunk.metadata)
        self.held.add(position)
        if start is not None:
            section, first = _section(chunk), position - start
            if self.firsts.setdefault(section, first) != first:
                self.repeated.add(section)
            self.firsts[section] = first
            self.places[chunk.id, section, start] = position

    def placed(self, chunks: Sequence[Chunk], replaces: bool) -> dict[str, int]:
        """Id -> position, for chunks of this source that will be stored; the rules are at `SourcePlaces.placed`."""
        collides = any(_section(chunk) not in self.firsts and chunk.position in self.held for chunk in chunks)
        firsts: dict[Hashable, int] = {}
        found: dict[str, int] = {}
        end = CHARACTERS_PER_PAGE * (max(self.held) // CHARACTERS_PER_PAGE + 1)  # of the page after all stored chunks
        previous: tuple[Hashable, int] = (None, -1)
        for chunk in chunks:
            section, start = _section(chunk), _start(chunk.metadata) or 0
            first = firsts.get(section, self.firsts.get(section))
            place = -1 if first is None else first + start  # if the chunk continues its section
            is_free = place not in self.held or (replaces and section not in self.repeated)
            if (chunk.id, section, start) in self.places:  # it is stored already
                position = self.places[chunk.id, section, start]
            elif first is None and not collides and chunk.position is not None:  # the first of a new section
                position = chunk.position
            elif first is not None and is_free and (section != previous[0] or start > previous[1]):
                position = place
            else:  # it begins a new section, after the chunks before it
                position = start + (max(found.values()) + 1 if found else end)
            firsts[section], found[chunk.id], previous = position - start, position, (section, start)
        return found


class SourcePlaces(KnownSources):
    """Gives sections of one source that are added in several calls, also at the same time, different positions.

    The start index of each section counts from 0, so these sections would have the same positions.
    """

    def placed(self, chunks: Sequence[Chunk], *, replaces: bool) -> AbstractContextManager[list[Chunk]]:
        """A context manager that gives the chunks with their final positions; the `with` block must store them.

        Only the position of a chunk that got it from `stated_positions`, in a source that is stored already, changes:

        - A chunk that is already stored gets its stored position.
        - A chunk of a stored section gets its place in this section.
        - The chunks of new sections keep their positions if the store has no chunk at any of these positions. Else each
          new section follows the chunks before it in the list, and the first one follows all stored chunks of the
          source.

        Args:
            chunks: In reading order.
            replaces: True: a chunk with the section and the start index of a stored chunk gets that chunk's position.
                The caller removes the stored chunk later, as LangChain's `index()` does. False, or if several stored
                sections have the same key: the chunk begins a new section.
        """
        return self._stored(partial(self._placed, chunks, replaces))

    def _placed(self, chunks: Sequence[Chunk], replaces: bool) -> list[Chunk]:
        by_source: dict[str, list[Chunk]] = {}
        key = self.keys.position
        for chunk in chunks:
            stated = None if key is None else position_in_metadata(chunk.metadata.get(key))
            if chunk.source is not None and chunk.position is not None and stated is None:  # by `stated_positions`
                by_source.setdefault(chunk.source, []).append(chunk)
        unread = {source: group[0] for source, group in by_source.items() if source not in self._sources}
        if unread and self.keys.source is not None:
            self._sources |= {source: _Source() for source in unread}
            named: Any = tuple(chunk.metadata[self.keys.source] for chunk in unread.values())  # of its original type
            stored = chain.from_iterable(pages(self.store, where=Comparison(self.keys.source, "$in", named)))
            self._note(sorted(chain(stored, *self._pending), key=lambda chunk: chunk.position or 0))
        moved: dict[str, int] = {}
        for source, group in by_source.items():
            if self._sources[source].held:
                moved |= self._sources[source].placed(group, replaces)
        return [replace(chunk, position=position_in_metadata(moved.get(chunk.id, chunk.position))) for chunk in chunks]

    def _note(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if chunk.source in self._sources and chunk.position is not None:
                self._sources[chunk.source].note(chunk, chunk.position)


def _section(chunk: Chunk) -> Hashable:
    return frozenset((key, value) for key, value in chunk.metadata.items() if key != START_INDEX)


def _start(metadata: Mapping[str, Any]) -> int | None:
    start = metadata.get(START_INDEX)
    return start if isinstance(start, int) and start >= 0 else None  # -1: the splitter did not find the text


def _page(document: Document) -> int:
    page = document.metadata.get(PAGE)
    return page if isinstance(page, int) else 0
