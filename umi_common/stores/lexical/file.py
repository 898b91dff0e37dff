"""The lexical index as one file: raw arrays behind a checksum, opened by memory map.

    prefix   64 bytes: magic, version, length of the header, length of the body, CRC-32 of the body, CRC-32 of these
    body     header (JSON: the numbers, and each array's name, type, count and place), terms (UTF-8, one a line), arrays

Version 1 had all postings in one segment with rows of four bytes; it is still read, and no longer written.

Every byte is under a checksum. The content is canonical: terms sorted, dead rows and their terms gone; the same live
rows give the same bytes whatever happened before. No pickle; nothing in the file is executed.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umi_common.errors import IndexUnavailable
from umi_common.pool import NO_SOURCE
from umi_common.stores.distinct import distinct
from umi_common.stores.lexical.corpus import Corpus, Part
from umi_common.stores.lexical.segment import BLOCK_ROWS, Segment, recoded, running
from umi_common.stores.lexical.update import merged_parts
from umi_common.stores.lexical.vocabulary import TermCodes

MAGIC = b"UMIBM25\n"
VERSION = 2
_PREFIX = struct.Struct("<8sIIQI32xI")
_ALIGNED = 64
_SEGMENT_NUMBERS = ("first", "last", "documents")
_SEGMENT_ARRAYS = ("terms", "starts", "offsets", "tf")
_ROW_ARRAYS = ("alive", "lengths", "sources", "source_documents", "source_lengths")

Arrays = Mapping[str, npt.NDArray[Any]]


class _Content(NamedTuple):
    """What a file says, whatever the writes that led to it."""

    terms: list[str]
    """By code, sorted."""
    segments: list[list[int]]
    """The numbers of each, one segment a block."""
    arrays: Arrays


def write(path: Path, corpus: Corpus, fingerprint: str) -> None:
    """Write beside `path`, sync, and move over it: at any moment the old file or the new one is there, whole.

    Raises:
        OSError: If the disk refuses; the old file stays.
    """
    body = _body(_canonical(corpus), fingerprint)
    prefix = _prefix(len(body[0]), body)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with unfinished.open("wb") as file:
            file.write(prefix)
            file.writelines(body)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


def read(path: Path, fingerprint: str) -> Corpus:
    """Open a file made by `write`; its pages are read as they are needed, once for the checksum.

    Raises:
        IndexUnavailable: If there is no such file, or it is damaged, cut short, of another version or analyzer.
    """
    try:
        data = _mapped(path)
        header, body = _checked(path, data)
        if header["analyzer"] != fingerprint:
            raise IndexUnavailable(f"{path} was made by another analyzer; rebuild the lexical index")
        return _corpus(header, body)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise IndexUnavailable(f"{path} cannot be read ({error}); rebuild the lexical index") from error


def _canonical(corpus: Corpus) -> _Content:
    names = list(corpus.codes)
    arrays: dict[str, npt.NDArray[Any]] = {"alive": corpus.alive}
    arrays["lengths"] = np.where(corpus.alive, corpus.lengths, 0).astype(np.int32)
    arrays["sources"] = np.where(corpus.alive, corpus.sources, NO_SOURCE)
    used = np.flatnonzero(corpus.source_documents)
    for name in ("source_documents", "source_lengths"):
        arrays[name] = getattr(corpus, name)[: int(used[-1]) + 1 if len(used) else 0]
    segments = [part.segment for part in merged_parts(corpus)]
    held = distinct(np.concatenate([np.zeros(0, np.int32), *(segment.terms for segment in segments)]))
    order = sorted(held.tolist(), key=names.__getitem__)
    codes = np.zeros(len(names), np.int64)
    codes[order] = np.arange(len(order))
    numbers = []
    for place, segment in enumerate(segments):
        living = segment.first + np.flatnonzero(corpus.alive[segment.first : segment.last + 1])
        numbers.append([int(living[0]), int(living[-1]), segment.documents])
        segment = recoded(segment, codes)
        arrays.update({f"{name}.{place}": getattr(segment, name) for name in _SEGMENT_ARRAYS})
    return _Content([names[code] for code in order], numbers, arrays)


def _body(content: _Content, fingerprint: str) -> list[bytes]:
    """The header and then the blobs, each padded so that the next one starts aligned."""
    terms, segments, arrays = content
    text = "\n".join(terms).encode()
    blobs: list[bytes] = [text, *(array.tobytes() for array in arrays.values())]
    places, end = [], 0
    for blob in blobs:
        places.append(end)
        end += _padded(len(blob))
    table = {
        name: [array.dtype.str, len(array), place]
        for (name, array), place in zip(arrays.items(), places[1:], strict=True)
    }
    numbers = {"analyzer": fingerprint, "terms": [len(terms), len(text)], "segments": segments}
    header = json.dumps({**numbers, "arrays": table}).encode()
    header += b" " * (_padded(len(header)) - len(header))
    padded: list[bytes] = [header]
    for blob in blobs:
        padded += [blob, bytes(_padded(len(blob)) - len(blob))]
    return padded


def _prefix(header_length: int, body: list[bytes]) -> bytes:
    check, length = 0, 0
    for piece in body:
        check = zlib.crc32(piece, check)
        length += len(piece)
    prefix = _PREFIX.pack(MAGIC, VERSION, header_length, length, check, 0)
    return prefix[:-4] + struct.pack("<I", zlib.crc32(prefix[:-4]))


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < _PREFIX.size:
            raise ValueError("it is cut short")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _checked(path: Path, data: memoryview) -> tuple[dict[str, Any], memoryview]:
    magic, version, header_length, length, check, own_check = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("it is not a lexical index")
    if zlib.crc32(data[: _PREFIX.size - 4]) != own_check:
        raise ValueError("its first bytes fail their checksum")
    if version not in (1, VERSION):
        raise ValueError(f"it has format version {version}; this umi reads 1 to {VERSION}")
    body = data[_PREFIX.size :]
    if len(body) != length:
        raise ValueError(f"it has {len(body)} bytes of content where {length} were written")
    if zlib.crc32(body) != check:
        raise ValueError("its content fails its checksum")
    header: dict[str, Any] = json.loads(bytes(body[:header_length]))
    return header, body[header_length:]


def _corpus(header: dict[str, Any], body: memoryview) -> Corpus:
    arrays = {
        name: np.frombuffer(body, np.dtype(kind), count, at) for name, (kind, count, at) in header["arrays"].items()
    }
    count, size = header["terms"]
    names = bytes(body[:size]).decode().split("\n") if count else []
    rows: dict[str, Any] = {name: arrays[name] for name in _ROW_ARRAYS}
    return Corpus(
        codes=TermCodes(zip(names, range(count), strict=True)),
        parts=tuple(map(Part, _segments(header, arrays))),
        documents=int(np.count_nonzero(rows["alive"])),
        total_length=int(rows["lengths"].sum(dtype=np.int64)),
        **rows,
    )


def _segments(header: dict[str, Any], arrays: Arrays) -> Iterator[Segment]:
    for place, numbers in enumerate(header.get("segments", ())):
        stored: dict[str, Any] = {name: arrays[f"{name}.{place}"] for name in _SEGMENT_ARRAYS}
        yield Segment(**dict(zip(_SEGMENT_NUMBERS, numbers, strict=True)), **stored)
    if "doc_rows" in arrays:
        yield from _blocks_of_version_1(arrays)


def _blocks_of_version_1(arrays: Arrays) -> Iterator[Segment]:
    """The one segment of version 1, cut into those of today."""
    terms, starts, rows, tf, doc_rows = (arrays[name] for name in ("terms", "starts", "rows", "tf", "doc_rows"))
    for block in distinct(doc_rows // BLOCK_ROWS).tolist():
        documents = doc_rows[doc_rows // BLOCK_ROWS == block]
        mine = rows // BLOCK_ROWS == block
        begins = running(mine)[starts]
        held = np.flatnonzero(np.diff(begins))
        yield Segment(
            first=int(documents[0]),
            last=int(documents[-1]),
            documents=len(documents),
            terms=terms[held],
            starts=np.append(begins[held], begins[-1]),
            offsets=(rows[mine] % BLOCK_ROWS).astype(np.uint16),
            tf=tf[mine],
        )


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows opens no folders
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
