"""The lexical index on disk: `lexical/<number>`, one file that begins with its checksums, opened by memory map.

    prefix   64 bytes: magic, version, length of the header, length of the body, CRC-32 of the body, unused bytes, the
             prefix's own CRC-32
    body     header (JSON: fingerprint of the analyzer, mark of the ledger, names of sources, further values of the
             store, numbers of each segment, number and bytes of the terms, and each array's name, type, count and
             offset from the beginning of the terms), terms (UTF-8, one a line), arrays

A save writes the whole file under another name, renames it to the next number and then removes the older files, as far
as it can: Windows removes no file that another process has mapped. The mark tells up to which write of which ledger the
index was made, so a file of another store is not used, and a store adds later writes to an older file. The index of a
Chroma collection has no ledger; its store compares further values (`Saved.facts`) instead. If no file can be used, the
index is built again from the ledger or from the collection, which is slower.

Terms and postings are canonical: terms are sorted, and neither the terms nor the postings of dead rows are stored. So
living rows with the same numbers and texts give the same terms and postings, whatever writes came before. Numbers of
rows and sources, the sequence numbers and the mark depend on earlier writes. Nothing in the file is executed, since it
holds no pickle.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.errors import IndexUnavailable
from umi_common.pool import NO_SOURCE, Ints
from umi_common.stores.arrays import Growing, distinct
from umi_common.stores.failpoints import failpoint
from umi_common.stores.ledger.file import sync_directory
from umi_common.stores.ledger.history import Mark
from umi_common.stores.lexical.corpus import Corpus, LiveSegment, Numbered, RowArrays, merged_parts
from umi_common.stores.lexical.segment import Segment, recoded

log = logging.getLogger("umi")

FOLDER = "lexical"
UNFINISHED = "new"
"""Name of the file while it is written."""
MAGIC = b"UMIBM25\n"
VERSION = 5
_PREFIX = struct.Struct("<8sIIQI32xI")
_ALIGNED = 64
"""Header, terms and arrays begin at multiples of this number of bytes."""
OF_STORE = "store "
"""Prefix of the names of `Saved.arrays` in the file."""
_SEGMENT_NUMBERS = ("first", "last", "documents")
_SEGMENT_ARRAYS = ("terms", "starts", "offsets", "tf")
_CORPUS_ARRAYS = (*RowArrays._fields, "source_documents", "source_lengths")

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Saved:
    """An index, and the write up to which it holds the store."""

    corpus: Corpus
    mark: Mark
    seqs: Ints
    """(n,) number of the write that stored each row."""
    sources: Sequence[str]
    """Names of the sources; the index of a name is the code of its source."""
    arrays: Arrays = field(default_factory=dict)
    """Further arrays that the store saves with the index, by name."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further values that the store saves with the index, as JSON."""


def write(directory: Path, saved: Saved, fingerprint: str) -> None:
    """Save the index in the directory of its store, then remove older files.

    Raises:
        OSError: If the file cannot be written; the older files stay.
    """
    assert len(saved.seqs) == saved.corpus.rows, "each row of an index has a sequence number"
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    target = folder / f"{max(_numbers(folder), default=0) + 1:08d}"
    body = _body(saved, fingerprint)
    unfinished = folder / UNFINISHED
    try:
        with unfinished.open("wb") as file:
            file.write(_prefix(body))
            file.writelines(body)
            failpoint("snapshot.files")
            file.flush()
            os.fsync(file.fileno())
        failpoint("snapshot.publish")
        unfinished.replace(target)
    except BaseException:
        _remove(unfinished)
        raise
    sync_directory(folder)
    failpoint("snapshot.published")
    for path in folder.iterdir():
        if path != target:
            _remove(path)


def newest(directory: Path, fingerprint: str, belongs: Callable[[Mark], bool]) -> Saved | None:
    """The newest usable file; None: the index must be built again.

    Args:
        fingerprint: Of the store's analyzer.
        belongs: Returns whether the history of this store's ledger holds a mark.
    """
    folder = directory / FOLDER
    try:
        numbers = sorted(_numbers(folder), reverse=True)
    except OSError as error:
        log.warning("%s cannot be read (%s); the index is built again", folder, error.strerror)
        return None
    for path in (folder / f"{number:08d}" for number in numbers):
        if not path.is_file():  # a folder of version 1, or removed meanwhile
            continue
        try:
            saved = read(path, fingerprint)
        except IndexUnavailable as error:
            log.warning("%s; an older file is used, or the index is built again", error)
            continue
        if saved is not None and belongs(saved.mark):
            return saved
    return None


def drop(directory: Path) -> None:
    """Remove every saved index of the store."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


def read(path: Path, fingerprint: str) -> Saved | None:
    """Open one file and check it, which reads the whole file once. Returns None if another analyzer made it.

    Raises:
        IndexUnavailable: If there is no such file, or it is damaged, cut short or of another version.
    """
    try:
        with path.open("rb") as file:
            header, body = _checked(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
        return _saved(header, body) if header["analyzer"] == fingerprint else None
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise IndexUnavailable(f"{path} cannot be read ({error})") from error


def _numbers(folder: Path) -> list[int]:
    """The numbers of the saved files, and of the folders that version 1 saved; empty if there is no `folder`, which
    another process may remove at any time."""
    try:
        return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(path: Path) -> None:
    """Remove a file, or a folder of version 1, if possible."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _canonical(corpus: Corpus) -> tuple[list[str], list[list[int]], Arrays]:
    """Terms, postings and arrays by row, with the segments of `merged_parts`, each of which has a living row.

    Returns:
        (terms, sorted; the index of a term is its code in the file,
        the values of `_SEGMENT_NUMBERS` for each segment,
        all arrays by name)
    """
    term_of_code = list(corpus.codes)
    arrays: dict[str, npt.NDArray[Any]] = {"alive": corpus.alive}
    arrays["lengths"] = np.where(corpus.alive, corpus.lengths, 0).astype(np.int32)
    arrays["sources"] = np.where(corpus.alive, corpus.sources, NO_SOURCE)
    arrays["languages"] = np.where(corpus.alive, corpus.languages, 0).astype(np.int8)
    used = np.flatnonzero(corpus.source_documents)
    sources = int(used[-1]) + 1 if len(used) else 0  # later sources have no living rows
    arrays["source_documents"] = corpus.source_documents[:sources]
    arrays["source_lengths"] = corpus.source_lengths[:sources]
    segments = [part.segment for part in merged_parts(corpus)]
    held = distinct(np.concatenate([np.zeros(0, np.int32), *(segment.terms for segment in segments)]))
    order = sorted(held.tolist(), key=term_of_code.__getitem__)
    codes = np.zeros(len(term_of_code), np.int64)
    codes[order] = np.arange(len(order))
    numbers = []
    for index, segment in enumerate(segments):
        living = segment.first + np.flatnonzero(corpus.alive[segment.first : segment.last + 1])
        numbers.append([int(living[0]), int(living[-1]), segment.documents])
        segment = recoded(segment, codes)
        arrays.update({f"{name}.{index}": getattr(segment, name) for name in _SEGMENT_ARRAYS})
    return [term_of_code[code] for code in order], numbers, arrays


def _body(saved: Saved, fingerprint: str) -> list[bytes]:
    """The header, the terms and each array, all padded to a multiple of _ALIGNED bytes."""
    terms, segments, arrays = _canonical(saved.corpus)
    arrays = {**arrays, "seqs": saved.seqs, **{f"{OF_STORE}{name}": array for name, array in saved.arrays.items()}}
    text = "\n".join(terms).encode()
    blobs: list[bytes] = [text, *(array.tobytes() for array in arrays.values())]
    offsets, end = [], 0
    for blob in blobs:
        offsets.append(end)
        end += _padded(len(blob))
    header = {
        "analyzer": fingerprint,
        "mark": list(saved.mark),
        "source names": list(saved.sources),
        "store": saved.facts,
        "terms": [len(terms), len(text)],
        "segments": segments,
        "arrays": {
            name: [array.dtype.str, len(array), offset]
            for (name, array), offset in zip(arrays.items(), offsets[1:], strict=True)
        },
    }
    header_text = json.dumps(header).encode()
    body: list[bytes] = [header_text.ljust(_padded(len(header_text)))]
    for blob in blobs:
        body += [blob, bytes(_padded(len(blob)) - len(blob))]
    return body


def _prefix(body: list[bytes]) -> bytes:
    crc = 0
    for piece in body:
        crc = zlib.crc32(piece, crc)
    prefix = _PREFIX.pack(MAGIC, VERSION, len(body[0]), sum(map(len, body)), crc, 0)
    return prefix[:-4] + struct.pack("<I", zlib.crc32(prefix[:-4]))


def _checked(data: memoryview) -> tuple[dict[str, Any], memoryview]:
    """(header, the bytes of the terms and arrays)

    Raises:
        ValueError: If the bytes are not those that were written.
    """
    magic, version, header_length, length, crc, prefix_crc = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("it is not a lexical index")
    if zlib.crc32(data[: _PREFIX.size - 4]) != prefix_crc:
        raise ValueError("its first bytes fail their checksum")
    if version != VERSION:
        raise ValueError(f"it has format version {version}; this umi reads {VERSION}")
    body = data[_PREFIX.size :]
    if len(body) != length:
        raise ValueError(f"it has {len(body)} bytes of content where {length} were written")
    if zlib.crc32(body) != crc:
        raise ValueError("its content fails its checksum")
    header: dict[str, Any] = json.loads(bytes(body[:header_length]))
    return header, body[header_length:]


def _saved(header: dict[str, Any], body: memoryview) -> Saved:
    arrays = {
        name: np.frombuffer(body, np.dtype(kind), count, at) for name, (kind, count, at) in header["arrays"].items()
    }
    count, size = header["terms"]
    terms = bytes(body[:size]).decode().split("\n") if count else []
    rows: dict[str, Any] = {name: arrays[name] for name in _CORPUS_ARRAYS}
    parts = []
    for index, numbers in enumerate(header["segments"]):
        stored: dict[str, Any] = {name: arrays[f"{name}.{index}"] for name in _SEGMENT_ARRAYS}
        parts.append(LiveSegment(Segment(**dict(zip(_SEGMENT_NUMBERS, numbers, strict=True)), **stored)))
    corpus = Corpus(
        codes=Numbered(zip(terms, range(count), strict=True)),
        parts=tuple(parts),
        documents=int(np.count_nonzero(rows["alive"])),
        total_length=int(rows["lengths"].sum(dtype=np.int64)),
        # Searches read the arrays in `rows`, views of the mapped file. Writes extend copies of them, which are
        # made now, so that the first write need not wait for them.
        by_row=RowArrays(*[Growing.copied(rows[name]) for name in RowArrays._fields]),
        **rows,
    )
    of_store = {name.removeprefix(OF_STORE): array for name, array in arrays.items() if name.startswith(OF_STORE)}
    return Saved(corpus, Mark(*header["mark"]), arrays["seqs"], header["source names"], of_store, header["store"])


def _padded(size: int) -> int:
    """`size` rounded up to a multiple of _ALIGNED."""
    return -(-size // _ALIGNED) * _ALIGNED
