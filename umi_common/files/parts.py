"""Cut files into parts, whole files or ranges of records; read some parts and write their chunks to the store.

Each part is read, and its chunks are stored, independently of the others. A run that follows a kill repeats only the
parts whose chunks were not all stored. Repeating a part changes nothing in the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from umi_common.errors import EmbedderError, FileUnreadable, InputError, MissingExtra
from umi_common.files.readers.chunks import FILE_KEY, RECORD_ENDINGS, RULES_VERSION, FileChunks, chunks_in, is_of_file
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.readers.reading import ReadLimits, file_errors, open_regular, read_all, read_some, too_large
from umi_common.files.report import Problem
from umi_common.filters import parse_filter
from umi_common.protocols import Embedder, Store, pages
from umi_common.runtime.losses import log_bug
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

PART_BYTES = 1 << 20
"""Default size of a range of records, in bytes: some thousand chunks. After a kill, one range is repeated."""
DEFAULT_LIMITS = ReadLimits()
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks at the beginning of a text in UTF-16."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A range of bytes of a file, and a hash of its content."""

    path: Path
    source: str
    """Source of the part's chunks; their ids are made from it."""
    start: int
    """Index in the file of the part's first byte."""
    stop: int
    """Index after the part's last byte."""
    first_line: int
    """Number of the part's first line in the file, from 1."""
    key: str
    """Hash of the bytes, the source, the number of the first line and RULES_VERSION."""
    fresh: bool = True
    """Whether the store has no chunks of an earlier version of the file; `session` sets it. If a stored chunk has the
    id of a new chunk at another position, two records of a fresh file have this id, which is an error; in a file that
    is not fresh, the record may have moved."""
    limits: ReadLimits = DEFAULT_LIMITS

    @property
    def size(self) -> int:
        """Number of bytes in the part."""
        return self.stop - self.start


def parts_of(path: Path, source: str, *, size: int = PART_BYTES, limits: ReadLimits = DEFAULT_LIMITS) -> list[FilePart]:
    """The parts of a file in order, without gaps. Reads the file once.

    A file of records (JSONL) is cut at the first end of a line after each `size` bytes. Only one part is in memory at a
    time, so the file may be of any size; what a line has after the first `size` bytes of its part is limited to
    `max_file_bytes`. Any other file, and a file of records in UTF-16, is one part of at most `max_file_bytes`.

    Raises:
        FileUnreadable: If the file, or a line of records, is too large or cannot be read.
    """
    parts: list[FilePart] = []
    start, line = 0, 1
    with file_errors(path):
        for content in _contents_of_parts(path, size, limits):
            stop = start + len(content)
            parts.append(FilePart(path, source, start, stop, line, _key(source, line, content), limits=limits))
            start = stop
            # each "\n", "\r" and "\r\n" counts once
            line += content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    return parts


def chunks_of_part(part: FilePart, pdf: PdfProcess) -> FileChunks:
    """The chunks of a part, in order, and the records and pages that were skipped.

    Args:
        pdf: Reads the part if it is a PDF.

    Raises:
        FileUnreadable: If nothing of the part can be read, or if the file changed since the part was cut.
        MissingExtra: For a PDF without pypdf.
    """
    with file_errors(part.path), open_regular(part.path) as file:
        file.seek(part.start)
        content = read_some(part.path, file, part.size)
    if _key(part.source, part.first_line, content) != part.key:
        raise FileUnreadable(f"{part.path} changed while it was read; run the same call again")
    return chunks_in(part.path, content, part.source, pdf, part.limits, first_line=part.first_line)


def version_of(parts: Sequence[FilePart]) -> str:
    """A hash of the keys of all parts of a file; it depends on the content, the source, where the parts begin, and
    RULES_VERSION."""
    return hashlib.sha256("".join(part.key for part in parts).encode()).hexdigest()[:32]


def _contents_of_parts(path: Path, size: int, limits: ReadLimits) -> Iterator[bytes]:
    """Yield the bytes of each part in order; an empty file has one empty part."""
    with open_regular(path) as file:
        # In UTF-16 a newline has two bytes, so `readline` would cut inside it.
        if path.suffix.lower() not in RECORD_ENDINGS or file.peek(2).startswith(UTF16_MARKS):
            yield read_all(path, file, limits)
            return
        content = read_some(path, file, size)
        while True:
            if not content.endswith(b"\n"):
                rest = file.readline(limits.max_file_bytes + 1)
                if len(rest) > limits.max_file_bytes:
                    raise too_large(path, "has a line that is longer", limits)
                content += rest
            yield content
            if not (content := read_some(path, file, size)):
                return


def _key(source: str, line: int, content: bytes) -> str:
    return hashlib.sha256(f"{RULES_VERSION}\n{source}\n{line}\n".encode() + content).hexdigest()[:32]


WRITE_CHUNKS = 10_000
"""Largest number of chunks embedded and written in one call of `add`; limits the memory that embedding takes."""


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The result of reading and writing one part."""

    part: FilePart
    chunks: int = 0
    """Number of the part's chunks in the store."""
    chunk_id: str | None = None
    """The id of the part's last chunk; None: it has no chunks."""
    problem: Problem | None = None
    """The reason why the part was not written: it cannot be read, or the embedder failed, possibly after some of the
    part's chunks were written. None: all of it except `skipped` and `notes` is durably in the store."""
    skipped: list[Problem] = field(default_factory=list)
    """Records and pages that cannot be read, and records whose id another chunk has. The next run tries them again."""
    notes: list[Problem] = field(default_factory=list)
    """Content that was left out and that the next run does not try again, such as pages without text."""
    ids_taken: bool = False
    """Whether a record was skipped because a chunk that is not of this file has its id."""


def ingest_parts(store: Store, embedder: Embedder, parts: Sequence[FilePart], pdf: PdfProcess) -> list[PartOutcome]:
    """Embed the chunks of some parts and write them to the store; returns one outcome for each part, in order.

    Unchanged chunks are neither embedded nor written again. Records and pages that cannot be read are skipped, and so
    are records whose id another file or record has. A whole part is left out if nothing of it can be read, or if the
    embedder fails on its text, except chunks written before it failed; the other parts are written.

    Raises:
        StoreError: If the store fails. Chunks that were already written stay; the same call can be repeated.
    """
    outcomes, new = _compared(store, [(part, *_read(part, pdf)) for part in parts])
    try:
        _write(store, embedder, list(chain.from_iterable(new)))
    except EmbedderError:
        for place, part in enumerate(parts):  # one at a time, to find the parts on which the embedder fails
            try:
                _write(store, embedder, new[place])
            except EmbedderError as error:
                outcomes[place] = PartOutcome(part, problem=Problem.of(part.source, error))
    return outcomes


def remove_chunks(store: Store, sources: Sequence[str], keep: Collection[tuple[str, str]] = ()) -> int:
    """Remove the chunks of these files, except chunks whose (file, id) is in `keep`; returns the number removed."""
    where, removed = parse_filter({FILE_KEY: {"$in": list(sources)}}), 0
    for page in pages(store, where=where):
        stale = [chunk.id for chunk in page if is_of_file(chunk) and (chunk.metadata[FILE_KEY], chunk.id) not in keep]
        removed += store.delete(stale, where=where) if stale else 0
    return removed


def _read(part: FilePart, pdf: PdfProcess) -> tuple[FileChunks, Problem | None]:
    """The chunks of a part; or none, and the reason why it cannot be read."""
    try:
        return chunks_of_part(part, pdf), None
    except (InputError, MissingExtra) as error:
        return FileChunks(), Problem.of(part.source, error)
    except Exception as error:  # noqa: BLE001 - a bug of a reader; the other files are still indexed
        log_bug("reader", error)
        name = type(error).__name__
        fix = "leave the file out, or report it as a bug of umi"
        return FileChunks(), Problem(
            part.source, name, f"{part.path} is not read: its reader failed with {name}; {fix}"
        )


def _compared(
    store: Store, batch: Sequence[tuple[FilePart, FileChunks, Problem | None]]
) -> tuple[list[PartOutcome], list[list[Chunk]]]:
    """The outcome of each part, and its chunks that the store lacks or has with another content; see `_clash`."""
    ids = [chunk.id for _, found, _ in batch for chunk in found.chunks]
    stored = {chunk.id: chunk for chunk in (store.get(ids) if ids else []) if chunk is not None}
    in_batch: dict[str, Chunk] = {}
    outcomes, new = list[PartOutcome](), list[list[Chunk]]()
    for part, found, problem in batch:
        chunks, ids_taken = list[Chunk](), False
        for chunk in found.chunks:
            other = in_batch.get(chunk.id, stored.get(chunk.id))
            if other is not None and (clash := _clash(chunk, other, part, in_batch=chunk.id in in_batch)):
                found.skip(f"{part.path} {clash}")
                ids_taken = ids_taken or other.metadata.get(FILE_KEY) != part.source
                continue
            in_batch[chunk.id] = chunk
            chunks.append(chunk)
        skipped, notes = (
            [Problem(part.source, FileUnreadable.__name__, line) for line in lines]
            for lines in (found.listed(part.path), found.notes)
        )
        chunk_id = chunks[-1].id if chunks else None
        outcomes.append(PartOutcome(part, len(chunks), chunk_id, problem, skipped, notes, ids_taken))
        new.append([chunk for chunk in chunks if stored.get(chunk.id) != chunk])
    return outcomes, new


def _clash(chunk: Chunk, other: Chunk, part: FilePart, *, in_batch: bool) -> str | None:
    """The reason why a chunk of `part` is skipped, because it must not replace `other`, which has the same id.

    None: `other` is the chunk of an earlier version of the file in the store. At another position it is one only if the
    part is not `fresh`. Any other chunk of the store or of the batch (`in_batch`) belongs to another file or record.
    """
    if other.metadata.get(FILE_KEY) != part.source:
        owner = other.metadata.get(FILE_KEY, "elsewhere")
        return f"holds id {chunk.id!r}, which the store has from {owner}; give every record an id of its own"
    twice = in_batch or (part.fresh and other.position != chunk.position)
    return id_twice(chunk.id) if twice else None


def id_twice(id: str) -> str:
    """The end of a message about a file with two records of this id."""
    return f"holds id {id!r} twice; give every record an id of its own"


def _write(store: Store, embedder: Embedder, chunks: Sequence[Chunk]) -> None:
    for at in range(0, len(chunks), WRITE_CHUNKS):
        new = chunks[at : at + WRITE_CHUNKS]
        if getattr(store, "embedder", None) is embedder:
            store.add(new)  # the store embeds the chunks and uses its cache of vectors
        else:
            vectors = embedded([chunk.id for chunk in new], [chunk.indexed_text for chunk in new], embedder, dim=None)
            store.add(new, vectors=vectors)
