"""The positions of LangChain documents in their sources, from the start indexes that splitters write.

A start index counts characters from the beginning of a page or a section; a position rises over the whole source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.documents import Document

from umi_common.filters import Comparison
from umi_common.frameworks.positions import KnownSources
from umi_common.frameworks.records import position_in_metadata
from umi_common.protocols import pages
from umi_common.types import Chunk

START_INDEX = "start_index"
"""Metadata key of a text's offset in its page, in characters; LangChain's splitters set it if add_start_index=True."""
PAGE = "page"
"""Metadata key of the page, from 0; LangChain's PDF loaders set it."""
CHARACTERS_PER_PAGE = 2**32
"""More characters than any page has, so that page * CHARACTERS_PER_PAGE + offset orders texts by page, then offset."""


def stated_positions(documents: Sequence[Document], source_key: str | None) -> list[int | None]:
    """The position of each document, from its page and its start index; None: the document has no start index.

    position = page * CHARACTERS_PER_PAGE + start index

    In a source that `sources_in_parts` returns, start indexes count from the beginning of a part of a page. There the
    number of the part, from 0, replaces the page. Compare a document with the document of its source before it in the
    list: it begins a new part if it is on another page, or if its start index is not larger.
    """
    in_parts = sources_in_parts(documents, source_key)
    parts: dict[str, tuple[int, object, int]] = {}
    positions: list[int | None] = []
    for document in documents:
        source, start = document_source(document, source_key), _start(document.metadata)
        page = document.metadata.get(PAGE)
        if start is None or source not in in_parts:
            positions.append(None if start is None else start + CHARACTERS_PER_PAGE * _number(page))
            continue
        part, last_page, last_start = parts.get(source, (0, page, -1))
        part += page != last_page or start <= last_start
        parts[source] = (part, page, start)
        positions.append(start + CHARACTERS_PER_PAGE * part)
    return positions


def sources_in_parts(documents: Iterable[Document], source_key: str | None) -> set[str]:
    """The sources in which two different texts of one page have the same start index.

    In these sources start indexes count from the beginning of a part of the page, such as a section that an earlier
    splitter made, or a row of a CSV file.
    """
    first: dict[tuple[str, int, int], str] = {}
    found = set()
    for document in documents:
        source, start = document_source(document, source_key), _start(document.metadata)
        if start is not None:
            place = (source, _number(document.metadata.get(PAGE)), start)
            if first.setdefault(place, document.page_content) != document.page_content:
                found.add(source)
    return found


def document_source(document: Document, key: str | None) -> str:
    """The document's metadata value under `key`, as a string: "" if `key` is None, "None" if there is no value."""
    return "" if key is None else str(document.metadata.get(key))


@dataclass
class _Source:
    """Positions and sections of the stored chunks of one source.

    Chunks belong to one section if their metadata differs in the start index alone.
    """

    held: set[int] = field(default_factory=set)
    """The positions of the chunks."""
    places: dict[Hashable, int] = field(default_factory=dict)
    """(id, section key, start index) of a chunk -> its position."""
    firsts: dict[Hashable, int] = field(default_factory=dict)
    """Section key -> position of the section's first character; of several sections with one key, that of the last."""
    repeated: set[Hashable] = field(default_factory=set)
    """The keys that belong to several sections."""

    def note(self, chunk: Chunk) -> None:
        """Record a chunk that is stored or is being stored."""
        start = _start(chunk.metadata)
        if chunk.position is not None:
            self.held.add(chunk.position)
            if start is not None:
                section, first = _section(chunk), chunk.position - start
                if self.firsts.setdefault(section, first) != first:
                    self.repeated.add(section)
                self.firsts[section] = first
                self.places[chunk.id, section, start] = chunk.position

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
            position = self.places.get((chunk.id, section, start))  # None: the chunk is not stored
            if position is None and first is None and not collides:  # the first chunk of a new section
                position = chunk.position
            elif position is None and first is not None and (section != previous[0] or start > previous[1]):
                taken = first + start in self.held and (not replaces or section in self.repeated)
                position = None if taken else first + start
            if position is None:  # it begins a new section, after the chunks before it
                position = start + (max(found.values()) + 1 if found else end)
            firsts[section], found[chunk.id], previous = position - start, position, (section, start)
        return found


class SourcePlaces(KnownSources):
    """Chooses the positions of chunks that are added to a source of which the store already holds chunks.

    The start index of each section counts from 0, so sections that are added in several calls would have the same
    positions. `placed` gives these sections positions one after another, also if the calls run at the same time.
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
            from_start = stated is None and _start(chunk.metadata) is not None  # by `stated_positions`
            if chunk.source is not None and chunk.position is not None and from_start:
                by_source.setdefault(chunk.source, []).append(chunk)
        self._read({source: group[0] for source, group in by_source.items() if source not in self._sources})
        moved: dict[str, int] = {}
        for source, group in by_source.items():
            if self._sources[source].held:
                moved |= self._sources[source].placed(group, replaces)
        return [replace(chunk, position=position_in_metadata(moved.get(chunk.id, chunk.position))) for chunk in chunks]

    def _note(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if chunk.source in self._sources:
                self._sources[chunk.source].note(chunk)

    def _read(self, first_of: Mapping[str, Chunk]) -> None:
        """Read the stored chunks of sources into `_sources`.

        Args:
            first_of: Source -> one of its chunks, whose metadata holds the source in its original type, such as int.
                The filter needs this type.
        """
        if not first_of or self.keys.source is None:
            return
        self._sources |= {source: _Source() for source in first_of}
        named: Any = tuple(chunk.metadata[self.keys.source] for chunk in first_of.values())
        where = Comparison(self.keys.source, "$in", named)
        held = chain(chain.from_iterable(pages(self.store, where=where)), *self._pending)
        self._note(sorted(held, key=lambda chunk: chunk.position or 0))


def _section(chunk: Chunk) -> Hashable:
    """Key of the chunk's section: its metadata without the start index."""
    return frozenset((key, value) for key, value in chunk.metadata.items() if key != START_INDEX)


def _start(metadata: Mapping[str, Any]) -> int | None:
    start = metadata.get(START_INDEX)
    return start if isinstance(start, int) and start >= 0 else None  # -1: the splitter did not find the text


def _number(page: object) -> int:
    return page if isinstance(page, int) else 0
