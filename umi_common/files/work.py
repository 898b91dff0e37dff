"""Read parts of files and write their chunks to the store. Repeating this does not change the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from umi_common.errors import EmbedderError, FileUnreadable, InputError, MissingExtra
from umi_common.files.parts import FilePart, chunks_of_part
from umi_common.files.readers.chunks import FILE_KEY, FileChunks, is_of_file
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.report import Problem
from umi_common.filters import parse_filter
from umi_common.protocols import Embedder, Store, pages
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

WRITE_CHUNKS = 10_000
"""Largest number of chunks embedded and written in one call of `add`; limits the memory that a large file takes."""


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The result of one part: how many chunks it has in the store, or why nothing of it was written."""

    part: FilePart
    chunks: int = 0
    """Number of the part's chunks in the store."""
    chunk_id: str | None = None
    """The id of one of the part's chunks; None: it has no chunks."""
    problem: Problem | None = None
    """Why nothing of the part was written; None: all of it except `skipped` is durably in the store."""
    skipped: list[Problem] = field(default_factory=list)
    """Records and pages that cannot be read, and records whose id another chunk has; the next run tries them again."""
    notes: list[Problem] = field(default_factory=list)
    """Content that was left out and that the next run does not try again, such as pages without text."""
    ids_taken: bool = False
    """Whether a record was skipped because a chunk of another file has its id."""


@dataclass(slots=True)
class _Reading:
    """The chunks of one part, between reading and writing."""

    part: FilePart
    found: FileChunks = field(default_factory=FileChunks)
    """What the part's reader returned."""
    chunks: list[Chunk] = field(default_factory=list)
    """Chunks of `found` whose id no other chunk has."""
    new: list[Chunk] = field(default_factory=list)
    """Chunks of `chunks` that the store does not hold, or holds with other content."""
    problem: Problem | None = None
    """The value for `PartOutcome.problem`."""
    ids_taken: bool = False
    """The value for `PartOutcome.ids_taken`."""

    def outcome(self) -> PartOutcome:
        if self.problem is not None:
            return PartOutcome(self.part, problem=self.problem)
        skipped, notes = (
            [Problem(self.part.source, FileUnreadable.__name__, line) for line in lines]
            for lines in (self.found.listed(self.part.path), self.found.notes)
        )
        chunk_id = self.chunks[-1].id if self.chunks else None
        return PartOutcome(
            self.part, len(self.chunks), chunk_id, skipped=skipped, notes=notes, ids_taken=self.ids_taken
        )


def ingest_parts(store: Store, embedder: Embedder, parts: Sequence[FilePart], pdf: PdfProcess) -> list[PartOutcome]:
    """Embed the chunks of some parts and write them to the store; returns one outcome for each part, in order.

    Unchanged chunks are neither embedded nor written again. Records and pages that cannot be read are skipped, and so
    are records with an id that another file or record has. A part is left out as a whole if nothing of it can be read,
    or if the embedder fails on its text; the other parts are written.

    Raises:
        StoreError: If the store fails. Chunks that were written before stay; the same call can be repeated.
    """
    batch = [_read(part, pdf) for part in parts]
    _compare(store, batch)
    good = [reading for reading in batch if reading.problem is None]
    try:
        _write(store, embedder, good)
    except EmbedderError:
        for reading in good:  # one part at a time, to find those on which the embedder fails
            try:
                _write(store, embedder, [reading])
            except EmbedderError as error:
                reading.problem = Problem.of(reading.part.source, error)
    return [reading.outcome() for reading in batch]


def sweep(store: Store, files: Sequence[Sequence[FilePart]], pdf: PdfProcess) -> int:
    """Remove the stored chunks of these files that their parts do not have; returns the number of chunks removed.

    Args:
        files: All parts of each file.

    Raises:
        FileUnreadable: If a file changed since its parts were cut; then no chunk of any file is removed.
    """
    keep = {(part.source, chunk.id) for parts in files for part in parts for chunk in chunks_of_part(part, pdf).chunks}
    return remove_chunks(store, [parts[0].source for parts in files], keep)


def remove_chunks(store: Store, sources: Sequence[str], keep: Collection[tuple[str, str]] = ()) -> int:
    """Remove the chunks of these files, except chunks whose (file, id) is in `keep`; returns the number removed."""
    where, removed = parse_filter({FILE_KEY: {"$in": list(sources)}}), 0
    for page in pages(store, where=where):
        stale = [chunk.id for chunk in page if is_of_file(chunk) and (chunk.metadata[FILE_KEY], chunk.id) not in keep]
        removed += store.delete(stale, where=where) if stale else 0
    return removed


def _read(part: FilePart, pdf: PdfProcess) -> _Reading:
    reading = _Reading(part)
    try:
        reading.found = chunks_of_part(part, pdf)
    except (InputError, MissingExtra) as error:
        reading.problem = Problem.of(reading.part.source, error)
    return reading


def _compare(store: Store, batch: Sequence[_Reading]) -> None:
    """Set `chunks`, `new` and `ids_taken` of each part of the batch.

    A chunk whose id another chunk has is skipped, since writing it would overwrite the other chunk.
    """
    ids = [chunk.id for reading in batch for chunk in reading.found.chunks]
    stored = {chunk.id: chunk for chunk in (store.get(ids) if ids else []) if chunk is not None}
    in_batch: dict[str, Chunk] = {}
    for reading in batch:
        for chunk in reading.found.chunks:
            other = in_batch.get(chunk.id, stored.get(chunk.id))
            clash = None if other is None else _clash(chunk, other, reading.part, in_batch=chunk.id in in_batch)
            if clash is not None:
                reading.found.skip(f"{reading.part.path} {clash}; give every record an id of its own")
                reading.ids_taken = reading.ids_taken or not _is_of(reading.part, other)
                continue
            in_batch[chunk.id] = chunk
            reading.chunks.append(chunk)
        reading.new = [chunk for chunk in reading.chunks if stored.get(chunk.id) != chunk]


def _clash(chunk: Chunk, other: Chunk, part: FilePart, *, in_batch: bool) -> str | None:
    """Why the id of a chunk of `part` cannot be used; None: it can.

    Args:
        other: The chunk with the same id: an earlier one of the batch if `in_batch`, else the one in the store.
    """
    if not _is_of(part, other):
        return f"holds id {chunk.id!r}, which the store has from {other.metadata.get(FILE_KEY, 'elsewhere')}"
    twice = in_batch or (part.fresh and other.position != chunk.position)
    return f"holds id {chunk.id!r} twice" if twice else None


def _is_of(part: FilePart, chunk: Chunk | None) -> bool:
    return chunk is not None and chunk.metadata.get(FILE_KEY) == part.source


def _write(store: Store, embedder: Embedder, batch: Sequence[_Reading]) -> None:
    chunks = [chunk for reading in batch for chunk in reading.new]
    for at in range(0, len(chunks), WRITE_CHUNKS):
        new = chunks[at : at + WRITE_CHUNKS]
        if getattr(store, "embedder", None) is embedder:
            store.add(new)  # the store embeds the chunks and uses its cache of vectors
        else:
            vectors = embedded([chunk.id for chunk in new], [chunk.indexed_text for chunk in new], embedder, dim=None)
            store.add(new, vectors=vectors)
