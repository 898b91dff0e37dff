"""One file as chunks. The kind of a file is told by its ending, a chat log by its lines."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable, MissingExtra
from umi_common.files.chat import message_pattern, messages
from umi_common.files.manifest import FILE_KEY
from umi_common.files.markup import HtmlText, markdown_headings
from umi_common.files.passages import Passage, passages
from umi_common.files.reading import check_name, content_of, text_of
from umi_common.records import PlaceKeys, to_chunk
from umi_common.types import ID_BYTES_MAX, Chunk

RULES_VERSION = 2
"""Part of a file's version: raise it with every change of what a file's chunks are."""
TEXT_KEYS, ID_KEYS = ("text", "content", "page_content"), ("id", "_id")
TIME_KEYS = ("event_time", "timestamp")
OFFSET_KEY = "start_index"
"""Metadata of a chunk: its first character in the file's text."""


def chunks_of(path: Path, source: str | None = None) -> list[Chunk]:
    """The chunks of a file, in order, with source, position and metadata `start_index` (characters of its text).

    Args:
        source: What the chunks are told to be cut from; None: the path. Their ids are made of it.

    Raises:
        FileUnreadable: Names the file and what to do.
        MissingExtra: For a PDF without pypdf.
    """
    name = path.as_posix() if source is None else source
    check_name(name, path)
    return chunks_in(path, content_of(path), name)


def chunks_in(path: Path, content: bytes, name: str, *, first_line: int = 1) -> list[Chunk]:
    """The chunks of a file's content, cut from `name`; of records also of a range that begins at a line.

    Raises:
        FileUnreadable, MissingExtra: As `chunks_of`.
    """
    if path.suffix.lower() in RECORD_ENDINGS:
        return list(_records(path, text_of(path, content), name, first_line))
    reader = READERS.get(path.suffix.lower(), _plain_text)
    return [
        Chunk(
            _id(name, position),
            passage.text,
            metadata={**passage.metadata, OFFSET_KEY: passage.start, FILE_KEY: name},
            source=name,
            position=position,
            event_time=passage.event_time,
        )
        for position, passage in enumerate(reader(path, content))
    ]


def version_of(content: bytes) -> str:
    """Changes with the content and with the rules of cutting it."""
    return hashlib.sha256(b"%d:" % RULES_VERSION + content).hexdigest()[:16]


def _id(name: str, position: int) -> str:
    id = f"{name}#{position}"
    return id if len(id.encode()) <= ID_BYTES_MAX else f"{hashlib.sha256(name.encode()).hexdigest()}#{position}"


def _plain_text(path: Path, content: bytes) -> Iterator[Passage]:
    text = text_of(path, content)
    pattern = message_pattern(text)
    return passages(text) if pattern is None else messages(text, pattern)


def _markdown(path: Path, content: bytes) -> Iterator[Passage]:
    text = text_of(path, content)
    return passages(text, markdown_headings(text))


def _html(path: Path, content: bytes) -> Iterator[Passage]:
    page = HtmlText()
    page.read(text_of(path, content))
    named = {"title": page.title} if page.title else {}
    for passage in passages(page.text, page.headings):
        yield Passage(passage.text, passage.start, {**named, **passage.metadata})


def _pdf(path: Path, content: bytes) -> Iterator[Passage]:
    """Passages with the page on which they begin; pages follow each other after a blank line."""
    pages = [page.strip() + "\n\n" for page in _pdf_pages(path, content)]
    text = "".join(pages)
    if not text.strip():
        raise FileUnreadable(f"{path} holds no text, only pictures of it; run it through OCR first")
    ends = list(accumulate(map(len, pages)))
    for passage in passages(text):
        yield Passage(passage.text, passage.start, {"page": bisect_right(ends, passage.start) + 1})


def _pdf_pages(path: Path, content: bytes) -> list[str]:
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtra("pypdf", "files") from error
    try:
        return [page.extract_text() for page in PdfReader(BytesIO(content)).pages]
    except Exception as error:  # pypdf raises whatever a broken file makes it trip over
        raise FileUnreadable(f"{path} is no PDF that can be read ({type(error).__name__}: {error})") from error


READERS: dict[str, Callable[[Path, bytes], Iterator[Passage]]] = {
    **dict.fromkeys((".txt", ".text", ".log", ".rst", ".org", ".adoc", ".tex"), _plain_text),
    **dict.fromkeys((".md", ".markdown", ".mdx"), _markdown),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _html),
    ".pdf": _pdf,
}
RECORD_ENDINGS = (".jsonl", ".ndjson")
ENDINGS = frozenset({*READERS, *RECORD_ENDINGS})
"""What a folder is searched for; a file that is named itself is read whatever its ending."""


def _records(path: Path, text: str, name: str, first_line: int) -> Iterator[Chunk]:
    for number, line in enumerate(text.split("\n"), first_line):
        if line.strip():
            try:
                yield from _record(json.loads(line), name, number)
            except (ValueError, RecursionError) as error:  # InvalidChunk is a ValueError
                raise FileUnreadable(
                    f'{path} line {number}: {error}; expected an object like {{"text": "...", "id": "...", '
                    '"metadata": {}, "source": "...", "event_time": "2024-06-11T19:15:00Z"}'
                ) from error


def _record(record: Any, name: str, number: int) -> Iterator[Chunk]:
    """The chunk of a record; none if its text is blank. Whatever else it says is metadata."""
    if not isinstance(record, dict):
        raise ValueError(f"{type(record).__name__} in place of an object")
    rest = dict(record)
    text, id, inner = _taken(rest, TEXT_KEYS), _taken(rest, ID_KEYS), _taken(rest, ("metadata",))
    if not isinstance(text, str) or not isinstance(inner, (dict, type(None))):
        raise ValueError("no text" if isinstance(inner, (dict, type(None))) else "metadata is no object")
    metadata = {**rest, **(inner or {}), FILE_KEY: name}
    keys = PlaceKeys(time=next((key for key in TIME_KEYS if key in metadata), None))
    if text.strip():
        own = _id(name, number) if id is None else str(id)
        yield to_chunk(text, metadata, id=own, keys=keys, source=name, position=number)


def _taken(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((record.pop(key) for key in keys if key in record), None)
