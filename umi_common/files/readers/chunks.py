"""Cut one file into chunks. The file's ending selects the reader; chat logs are recognised by their lines."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from umi_common.context.pieces import HEAD_KEY, LINE_KEY
from umi_common.errors import FileUnreadable
from umi_common.files.readers.chat import STAMP, message_pattern, messages
from umi_common.files.readers.html_text import PARAGRAPH_BREAK, HtmlText
from umi_common.files.readers.json_text import (
    OUTPUT_CHARACTERS,
    json_text,
    loaded,
    notebook_markdown,
    sheet_text,
    value_lines,
)
from umi_common.files.readers.mail import mails_in, read_mail, saved_page
from umi_common.files.readers.markup import (
    DATE_KEYS,
    MARKDOWN_ENDINGS,
    front_matter,
    headings,
    stated_title,
    tables_and_lists,
)
from umi_common.files.readers.passages import HEAD_SHARE, PASSAGE_CHARACTERS, Heading, Passage, Table, passages
from umi_common.files.readers.pdf import PdfPages, PdfProcess, without_divided_words
from umi_common.files.readers.reading import ReadLimits, check_name, decoded_text, file_errors, open_regular, read_all
from umi_common.frameworks.records import IDS_KEY, PlaceKeys, may_be_offset, time_in, to_chunk
from umi_common.stores.chunk_names import PATH_CHARACTERS, PATH_END
from umi_common.times import read_time
from umi_common.types import ID_BYTES_MAX, Chunk, MetadataValue

RULES_VERSION = 21
"""Version of the rules by which files are cut. It is a part of each file's version: after it is raised, the next run
reads all files again. Raise it if the chunks of a kind of file that was read before change."""
TITLES_MAX = 10
"""Largest number of titles that are searched with the passage below them; outer titles beyond it are left out."""
TEXT_KEYS, ID_KEYS = ("text", "content", "page_content"), ("id", "_id")
"""Keys of a record's text and of its id. The first value that is not empty counts."""
TIME_KEYS = ("event_time", "timestamp")
"""Keys of a record's time. The first value that can be read as a time counts."""
VECTOR_MIN = 32
"""Smallest length of a list of numbers that counts as the vector of an embedder."""
SKIPPED_LISTED = 100
"""Largest number of skipped records or pages of one file that are listed; a file may have millions of them."""
FILE_KEY = "file"
"""Metadata key of the file's source name."""
OFFSET_KEY = "start_index"
"""Metadata key of the index in the file's text at which a chunk begins, not counting a repeated table head."""
RESERVED_KEYS = frozenset({FILE_KEY, OFFSET_KEY, HEAD_KEY, LINE_KEY, IDS_KEY, "section", "source", "position"})
"""Metadata keys that front matter cannot set, because umi or a framework sets them, nor keys like "_x"."""
_NAME_DATE = re.compile(r"(?<!\d)\d{4}([-._])\d\d\1\d\d(?!\d)")
"""A date in a file's name: 2026-11-18, 2026.11.18, 2026_11_18."""
_NAME_WORD = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?![^\W_])")
"""A word of at least two letters, and letters only, in a file's name."""
SAVED_PAGE_ENDINGS = (".mhtml", ".mht")
"""Endings of pages that a browser saved with their pictures as one file."""
SHEET_ENDINGS = {".csv": ",;\t", ".tsv": "\t"}
"""Ending -> characters that may separate two fields. Such a file, like a JSON file, is read only if its own path is
given, not as a file in a folder."""


@dataclass(slots=True)
class FileChunks:
    """The chunks of a file, and the records, pages and times that were skipped."""

    chunks: list[Chunk] = field(default_factory=list)
    """In the order of the file."""
    skipped: list[str] = field(default_factory=list)
    """One line for each of the first SKIPPED_LISTED skipped records or pages: its file, its number, and the reason."""
    unlisted: int = 0
    """Number of further skipped records or pages."""
    blank: list[int] = field(default_factory=list)
    """Numbers of the records without text, counted from 1; in JSONL a record is a line."""
    undated: list[int] = field(default_factory=list)
    """Numbers of the records that are stored without their time, because it cannot be read as one moment."""
    undated_passages: int = 0
    """Number of passages, in a file without records, that are stored without their time."""
    notes: list[str] = field(default_factory=list)
    """Lines for the report about content that was left out, such as pages without text. Unlike for `skipped`, the next
    run does not read the file again."""

    def add(self, found: Iterable[Passage], name: str) -> FileChunks:
        """Append the chunks of passages, with rising positions from 0; returns itself."""
        for passage in found:
            self.chunks.append(_chunk(name, len(self.chunks), passage))
            self.undated_passages += passage.undated
        return self

    def skip(self, line: str) -> None:
        """Add a line about a skipped record or page; after SKIPPED_LISTED lines, only count it."""
        if len(self.skipped) < SKIPPED_LISTED:
            self.skipped.append(line)
        else:
            self.unlisted += 1

    def listed(self, path: Path) -> list[str]:
        """The lines of `skipped`, and a line for each of `unlisted`, `blank`, `undated` and `undated_passages`."""
        lines, first = list(self.skipped), f"first {_record_word(path)}"
        if self.unlisted:
            lines.append(f"{path}: further lines or pages that were skipped: {self.unlisted}; {len(lines)} are listed")
        if self.blank:
            lines.append(f"{path}: records without text are left out: {len(self.blank)}, {first} {self.blank[0]}")
        lost = "which does not read as one moment; the text is indexed without it"
        if count := len(self.undated):
            records = "1 record" if count == 1 else f"{count} records"
            lines.append(f"{path}: the time of {records}, {lost}; {first} {self.undated[0]}")
        if count := self.undated_passages:
            found = "1 passage" if count == 1 else f"{count} passages"
            lines.append(f"{path}: the time of {found}, {lost}; write dates as 2026-11-18")
        return lines


def _record_word(path: Path) -> str:
    """ "line" or "record": the name of a record in messages. In a JSON array, a record has no line of its own."""
    return "line" if path.suffix.lower() in RECORD_ENDINGS else "record"


def is_of_file(chunk: Chunk) -> bool:
    """Whether a chunk was cut from the file that its metadata FILE_KEY names.

    A chunk of another origin may have this key by chance. Its source is not the file, whereas that of a chunk of a file
    is, unless the chunk is a record that states its source.
    """
    file = chunk.metadata.get(FILE_KEY)
    return isinstance(file, str) and (chunk.source == file or file.lower().endswith((*RECORD_ENDINGS, ".json")))


def chunks_of(path: str | os.PathLike[str], source: str | None = None) -> list[Chunk]:
    """The chunks of a file, in order, with source, position and metadata `start_index` (`OFFSET_KEY`).

    Args:
        source: Source of the chunks; their ids are made from it. None: the path.

    Raises:
        FileUnreadable: If the file, or one of its records or pages, cannot be read. `index` would skip the record.
        MissingExtra: For a PDF without pypdf.
    """
    path, limits = Path(path), ReadLimits()
    name = path.as_posix() if source is None else source
    check_name(name, path)
    with file_errors(path), open_regular(path) as file, PdfProcess() as pdf:
        found = chunks_in(path, read_all(path, file, limits), name, pdf, limits)
    if found.skipped:
        raise FileUnreadable(found.skipped[0])
    return found.chunks


def chunks_in(
    path: Path, content: bytes, name: str, pdf: PdfProcess, limits: ReadLimits, *, first_line: int = 1
) -> FileChunks:
    """The chunks of a file's content, with `name` as source.

    Args:
        first_line: Number in the file of the first line of `content`, from 1; only used for files of records.

    Raises:
        FileUnreadable: If nothing of the content can be read.
        MissingExtra: For a PDF without pypdf.
    """
    ending = path.suffix.lower()
    with file_errors(path):
        if ending in RECORD_ENDINGS:
            found = _records(path, decoded_text(path, content).split("\n"), name, first_line)
        elif ending == ".json":
            found = _json(path, content, name)
        elif ending == ".ipynb":
            found = _notebook(path, content, name)
        elif ending in MAIL_ENDINGS:
            found = _mails(path, content, name)
        elif ending == ".pdf":
            found = _pdf(path, pdf.read(path, content, limits), name)
        else:
            found = FileChunks().add(READERS.get(ending, _text_file)(path, content), name)
    if found.skipped and not found.chunks:  # the error keeps the chunks that an earlier run stored of the file
        others = len(found.skipped) + found.unlisted - 1
        raise FileUnreadable(found.skipped[0] + (f"; others that cannot be read: {others}" if others else ""))
    is_page = READERS.get(ending) is _html
    if content.strip() and not (found.chunks or found.blank or (is_page and _page(path, content).redirects)):
        why = ", perhaps because a script fills the page" if is_page else ""
        found.notes.append(f"{path} has no text{why}; nothing of it is indexed")
    return found


def _chunk(name: str, position: int, passage: Passage) -> Chunk:
    """The chunk of a passage. Its search text begins with the last TITLES_MAX titles above the passage, each cut to an
    equal share of PATH_CHARACTERS."""
    titles = passage.path[-TITLES_MAX:]
    room = PATH_CHARACTERS // max(1, len(titles)) - len(PATH_END)
    path = " > ".join(" ".join(title.split())[:room] for title in titles)
    return Chunk(
        _id(name, position),
        passage.text,
        metadata={**passage.metadata, OFFSET_KEY: passage.start, FILE_KEY: name},
        source=name,
        position=position,
        event_time=passage.event_time,
        search_text=f"{path}{PATH_END}{passage.text}" if path else None,
    )


def _id(name: str, position: int) -> str:
    id = f"{name}#{position}"
    return id if len(id.encode()) <= ID_BYTES_MAX else f"{hashlib.sha256(name.encode()).hexdigest()}#{position}"


def _text_file(path: Path, content: bytes) -> Iterator[Passage]:
    """The passages of a CSV or TSV file, of a chat log, or of any other text."""
    text = decoded_text(path, content)
    ending = path.suffix.lower()
    if ending in SHEET_ENDINGS:
        return _sheet(path, text, SHEET_ENDINGS[ending])
    pattern = None if ending in MARKDOWN_ENDINGS else message_pattern(text)
    if pattern is None:
        return _prose(path, text, ending)
    found = messages(text, pattern)
    return found if pattern is STAMP else _dated(found, _date_in_name(path))  # STAMP: each message has a date


def _prose(path: Path, text: str, ending: str) -> Iterator[Passage]:
    """The passages of a text with or without markup. Front matter states title, time and metadata."""
    fields, body = front_matter(text) if ending in MARKDOWN_ENDINGS else ({}, 0)
    stated = {key: str(value) for key, value in fields.items() if key in DATE_KEYS}
    when, title = time_in(stated, _time_key(stated, stated)), fields.get("title", stated_title(text, ending))
    title = ", ".join(map(str, title if isinstance(title, tuple) else [title]))
    undated = bool(stated) and when is None
    sections = [heading for heading in headings(text, ending) if heading.start >= body]  # "# ..." in YAML is a comment
    found = _named_passages(path, text, sections, tables_and_lists(text), title=title, when=when, undated=undated)
    own = {key: value for key, value in fields.items() if key not in RESERVED_KEYS and not key.startswith("_")}
    return _with_metadata(own, found)


def _sheet(path: Path, text: str, separators: str) -> Iterator[Passage]:
    """The passages of a CSV or TSV file. With a head that is too long to be repeated, each row becomes a record."""
    tables = [Table.of_sheet(text, separators)]
    if len(tables[0].head) > HEAD_SHARE * PASSAGE_CHARACTERS:
        with suppress(csv.Error):  # a field has more than 100,000 characters: the text is read as it is
            text, tables = sheet_text(text, tables[0], separators)
    return _named_passages(path, text, tables=tables)


def _named_passages(
    path: Path,
    text: str,
    headings: Sequence[Heading] = (),
    tables: Sequence[Table] = (),
    *,
    title: str = "",
    when: datetime | None = None,
    undated: bool = False,
) -> Iterator[Passage]:
    """The passages of a text, with its title and time, or else those in the file's name."""
    name = path.stem.replace("_", " ") if _NAME_WORD.search(path.stem) else ""  # a date or a hash is no title
    found = passages(text, headings, tables, title=title or name)
    return _dated(found, when or _date_in_name(path), undated=undated)


def _dated(found: Iterable[Passage], when: datetime | None, *, undated: bool = False) -> Iterator[Passage]:
    return (replace(passage, event_time=when, undated=undated) for passage in found)


def _date_in_name(path: Path) -> datetime | None:
    """The date in a file's name, such as "2026-11-18 minutes.md"; None: no date, or more than one."""
    dates = {found[0].replace("_", "-") for found in _NAME_DATE.finditer(path.stem)}
    return read_time(dates.pop()) if len(dates) == 1 else None


def _json(path: Path, content: bytes, name: str) -> FileChunks:
    """The chunks of a JSON file: one for each record, if it is an array of objects that all have a text (TEXT_KEYS);
    else those of its `json_text`."""
    text = decoded_text(path, content)
    try:
        value = loaded(text)
        text, tables = json_text(value)
    except (ValueError, RecursionError):  # such as JSON with comments: the file is read as plain text
        value, tables = None, []
    records = value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []
    if records and all(any(isinstance(each.get(key), str) for key in TEXT_KEYS) for each in records):
        return _records(path, map(json.dumps, records), name, 1)
    return FileChunks().add(_named_passages(path, text, tables=tables), name)


def _notebook(path: Path, content: bytes, name: str) -> FileChunks:
    text, cut = notebook_markdown(path, decoded_text(path, content))
    found = FileChunks().add(_named_passages(path, text, headings(text, ".md"), tables_and_lists(text)), name)
    if cut:
        found.notes.append(f"{path}: only the first {OUTPUT_CHARACTERS} characters of long outputs are indexed: {cut}")
    return found


def _mails(path: Path, content: bytes, name: str) -> FileChunks:
    """The chunks of each mail, headers first, then the body; each chunk has metadata "from" and "subject".

    A mail that cannot be read is skipped, unless it is the only one.
    """
    found, at, is_box = FileChunks(), 0, path.suffix.lower() == ".mbox"
    for number, mail in enumerate(mails_in(content) if is_box else [content], 1):
        try:
            with file_errors(path):
                headers, text = read_mail(path, mail)
        except FileUnreadable as error:
            found.skip(f"mail {number} of {error}" if is_box else str(error))
            continue
        when, title = read_time(headers.get("Date")), headers.get("Subject", "")
        named = {key.lower(): headers[key] for key in ("From", "Subject") if key in headers}
        undated = "Date" in headers and when is None
        for passage in _named_passages(path, text, title=title, when=when, undated=undated):
            found.add([replace(passage, start=at + passage.start, metadata={**named, **passage.metadata})], name)
        at += len(text.rstrip()) + len(PARAGRAPH_BREAK)
    return found


def _page(path: Path, content: bytes) -> HtmlText:
    is_one_file = path.suffix.lower() in SAVED_PAGE_ENDINGS
    return HtmlText().read(saved_page(path, content) if is_one_file else decoded_text(path, content, declares=True))


def _html(path: Path, content: bytes) -> Iterator[Passage]:
    page = _page(path, content)
    if page.redirects:
        return
    text = page.text if page.text.strip() else page.title
    found = _named_passages(path, text, page.headings, page.tables, title=page.title)
    yield from _with_metadata({"title": page.title} if page.title else {}, found)


def _with_metadata(added: Mapping[str, MetadataValue], found: Iterable[Passage]) -> Iterator[Passage]:
    return (replace(passage, metadata={**added, **passage.metadata}) for passage in found)


def _pdf(path: Path, read: PdfPages, name: str) -> FileChunks:
    """The chunks of a PDF. Metadata "page" is the number, from 1, of the page on which a chunk begins. A chunk may span
    several pages, because blank lines join their texts; then "last_page" is the last of them."""
    pages = [page.strip() + "\n\n" for page in without_divided_words(read.pages)]
    text = "".join(pages)
    if not text.strip():
        why = f"because its pages cannot be read ({read.bad[0][1]})" if read.bad else "only pictures of it"
        raise FileUnreadable(f"{path} has no text, {why}; leave it out, or run it through OCR first")
    found, ends, bad = FileChunks(), list(accumulate(map(len, pages))), dict(read.bad)
    for page, reason in read.bad:
        found.skip(f"{path} page {page} cannot be read ({reason}); the rest is indexed")
    without = [number for number, page in enumerate(read.pages, 1) if not page.strip() and number not in bad]
    if without:
        found.notes.append(
            f"{path}: pages without text, such as scanned ones, are not indexed: {len(without)}, first page "
            f"{without[0]}; run it through OCR if they matter"
        )
    if read.attached:
        found.notes.append(f"{path}: files inside it are not indexed: {', '.join(read.attached)}; save them as files")
    for passage in _named_passages(path, text):
        first, last = (bisect_right(ends, at) + 1 for at in (passage.start, passage.start + len(passage.text) - 1))
        place = {"page": first} if first == last else {"page": first, "last_page": last}
        found.add([replace(passage, metadata={**passage.metadata, **place})], name)
    return found


READERS: dict[str, Callable[[Path, bytes], Iterator[Passage]]] = {
    **dict.fromkeys((".txt", ".text", ".log", ".rst", ".org", ".adoc", ".tex", *MARKDOWN_ENDINGS), _text_file),
    **dict.fromkeys((".html", ".htm", ".xhtml", *SAVED_PAGE_ENDINGS), _html),
}
"""Ending -> function from a path and the file's bytes to passages. `chunks_in` selects the readers of other formats."""
RECORD_ENDINGS = (".jsonl", ".ndjson")
MAIL_ENDINGS = (".eml", ".mbox")
ENDINGS = frozenset({*READERS, *RECORD_ENDINGS, *MAIL_ENDINGS, ".ipynb", ".pdf"})
"""Endings of the files in folders that are read. A file given by its own path is read, whatever its ending."""


def _records(path: Path, lines: Iterable[str], name: str, first: int) -> FileChunks:
    """The chunks of records, each the JSON of a line; `first` is the number of the first line."""
    found = FileChunks()
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            chunk = _record(loaded(line), name, number)
        except (ValueError, RecursionError) as error:  # InvalidChunk is a ValueError, too
            found.skip(
                f"{path} {_record_word(path)} {number}: {error}; expected an object like "
                '{"text": "...", "id": "...", "metadata": {}, "source": "...", "event_time": "2024-06-11T19:15:00Z"}'
            )
            continue
        if chunk is None:
            found.blank.append(number)
            continue
        found.chunks.append(chunk)
        key = _time_key(chunk.metadata, TIME_KEYS)
        if chunk.event_time is None and key is not None and not may_be_offset(chunk.metadata[key]):
            found.undated.append(number)
    return found


def _record(record: Any, name: str, number: int) -> Chunk | None:
    """The chunk of a record; None: its text is blank. Keys other than those of text, id and "metadata" become metadata.

    The text of a record without any key of TEXT_KEYS is its `value_lines`, such as "question: ...", "answer: ...",
    without those of empty texts and vectors.

    Raises:
        ValueError: If the record is no object, if it has no text, or if its metadata is no object.
    """
    if not isinstance(record, dict):
        raise ValueError(f"{type(record).__name__} in place of an object")
    rest = dict(record)
    text, id, inner = _pop_first(rest, TEXT_KEYS), _pop_first(rest, ID_KEYS), _pop_first(rest, ("metadata",))
    if not isinstance(inner, (dict, type(None))):
        raise ValueError("metadata is no object")
    if record.keys().isdisjoint(TEXT_KEYS):
        shown = {key: value for key, value in rest.items() if value != "" and not _is_vector(value)}
        text = "\n".join(value_lines(shown)).strip() if shown else None
    if not isinstance(text, str):
        raise ValueError("no text")
    metadata = {**rest, **(inner or {}), FILE_KEY: name}
    keys = PlaceKeys(time=_time_key(metadata, TIME_KEYS))
    if not text.strip():
        return None
    id = _id(name, number) if id in (None, "") else str(id)
    return to_chunk(text, metadata, id=id, keys=keys, source=name, position=number)


def _is_vector(value: Any) -> bool:
    is_long_list = isinstance(value, list) and len(value) >= VECTOR_MIN
    return is_long_list and all(isinstance(each, (int, float)) for each in value)


def _time_key(stated: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first of the keys whose value can be read as a time, else the first with a value; None: none has a value."""
    present = [key for key in keys if stated.get(key) not in (None, "")]
    return next((key for key in present if read_time(stated[key])), present[0] if present else None)


def _pop_first(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """Remove the first key that has a value, else the first that is present. Its value; None if none is present."""
    with_value_first = sorted(keys, key=lambda key: record.get(key) in (None, ""))
    return next((record.pop(key) for key in with_value_first if key in record), None)
