"""Cut files into parts: whole files or ranges of records.

Each part is read, and its chunks are stored, independently of the others. A run that follows a kill repeats only the
parts whose chunks were not all stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from umi_common.errors import FileUnreadable
from umi_common.files.readers.chunks import RECORD_ENDINGS, RULES_VERSION, FileChunks, chunks_in
from umi_common.files.readers.pdf import PdfProcess
from umi_common.files.readers.reading import (
    ReadLimits,
    file_errors,
    open_regular,
    read_all,
    read_some,
    too_large,
)

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
