"""Read parts of files and write their chunks to the store. The same call again changes nothing in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain

from umi_common.errors import EmbedderError, FileUnreadable, InputError, MissingExtra
from umi_common.files.parts import FilePart, chunks_of_part
from umi_common.files.readers.chunks import FILE_KEY, FileChunks, is_of_file
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.report import Problem
from umi_common.filters import parse_filter
from umi_common.protocols import Embedder, Store, pages
from umi_common.runtime.losses import log_bug
from umi_common.stores.document_embedder import embedded
from umi_common.types import Chunk

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
        told = (
            f"{part.path} is not read: its reader failed with {name}; leave the file out, or report it as a bug of umi"
        )
        return FileChunks(), Problem(part.source, name, told)


def _compared(
    store: Store, batch: Sequence[tuple[FilePart, FileChunks, Problem | None]]
) -> tuple[list[PartOutcome], list[list[Chunk]]]:
    """The outcome of each part, and its chunks that the store does not have, or has with another content.

    A chunk that would overwrite the chunk of another file or record is skipped, see `_clash`.
    """
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
    """The reason why a chunk of `part` must not replace `other`, which has the same id; None: it may replace it.

    It may replace a stored chunk of an earlier version of the file. A chunk at another position is one only if the
    store may have such chunks, so if the part is not `fresh`; else two records have one id. `other` is an earlier chunk
    of the batch if `in_batch`, else the chunk in the store.
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
