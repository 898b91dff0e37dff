"""Read BEIR folders as datasets.

The layout: `corpus.jsonl` (`_id, title, text, metadata`), `queries.jsonl` (`_id, text, metadata`) and `qrels.tsv`
(a header, then query id, document id, grade; above 0 is relevant).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from umi_common.errors import DatasetError, InputError
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.times import read_time
from umi_common.types import Chunk, ReadOnlyDict

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"
QRELS_OF_BEIR = "qrels/test.tsv"
"""The judgements in BEIR's own downloads."""
QRELS_COLUMNS = ("query-id", "corpus-id", "score")
FIRST_LINE = 1


@dataclass(frozen=True, slots=True)
class Keys:
    """The metadata keys of the fields that umi uses. None: there is no such key."""

    source: str | None = "session"
    position: str | None = None
    """None: the order in the file, within the source."""
    event_time: str | None = "timestamp"
    now: tuple[str, ...] = ("question_date", "conversation_end")
    """Keys of the query's time; the first one present counts."""
    history: str | None = "history"
    """Key of the query's history: a list of strings or of {"role", "content"}."""


PLAIN = Keys(source=None, event_time=None)
"""Documents without source and time."""


def load_beir(
    folder: str | Path,
    *,
    name: str | None = None,
    keys: Keys = PLAIN,
    default_source: str | None = None,
    queries: str = QUERIES,
    qrels: str | None = None,
) -> Dataset:
    """A BEIR folder as one dataset; a document's text is `title + ". " + text` where it has a title.

    Documents without text are left out; those judged relevant count as missed.

    Args:
        folder: Holds `corpus.jsonl` and, by default, `queries.jsonl` and `qrels.tsv` (or `qrels/test.tsv`).
        name: The collection's name; None: the folder's. The group is always the folder's name.
        keys: Metadata keys of source, position and times; by default documents have none of these.
        default_source: Source of documents whose metadata names none.
        queries: File name of the questions, relative to the folder; for another split, e.g. "dev/queries.jsonl".
        qrels: File name of the judgements; None: the usual one.

    Raises:
        DatasetError: If a file is missing or malformed; names file and line.
    """
    home = Path(folder)
    if qrels is None:
        qrels = QRELS if (home / QRELS).exists() or not (home / QRELS_OF_BEIR).exists() else QRELS_OF_BEIR
    documents = _read_chunks(home / CORPUS, keys, default_source)
    chunks = tuple(document for document in documents if isinstance(document, Chunk))
    blank = tuple(row for row, document in enumerate(documents) if not isinstance(document, Chunk))
    asked = tuple(query_of(file_line, record, keys) for file_line, record in read_records(home / queries))
    judgements = _read_judgements(home / qrels, asked, documents)
    group = home.resolve().name
    return Dataset(group if name is None else name, group, chunks, asked, judgements, blank)


def load_conversations(folder: str | Path, *, name: str | None = None, keys: Keys | None = None) -> list[Dataset]:
    """A folder of BEIR folders, each one conversation or meeting with its own store; sorted by folder name.

    Source is the session, or the whole folder where documents name none; position is the order in the file;
    event_time the timestamp, UTC where it has no zone.

    Raises:
        DatasetError: If there is no such folder, it holds no BEIR folder, or a file in it is malformed.
    """
    home = Path(folder)
    parts = sorted(path.parent for path in home.glob(f"*/{CORPUS}"))
    if not parts:
        raise DatasetError(f"{home} holds no folder with a {CORPUS}; expected one BEIR folder per conversation")
    set_name = home.resolve().name if name is None else name
    keys = Keys() if keys is None else keys
    return [load_beir(part, name=set_name, keys=keys, default_source=part.name) for part in parts]


def chunk_from(file_line: FileLine, record: Mapping[str, Any], keys: Keys, source: str | None, order: int) -> Chunk:
    """A corpus record as a chunk; `order` is its position where the keys name none.

    Raises:
        DatasetError: If a field is missing or a value cannot be stored.
    """
    title, text = text_field(file_line, record, "title", default=""), text_field(file_line, record, "text")
    metadata = metadata_field(file_line, record)
    try:
        return Chunk(
            text_field(file_line, record, "_id"),
            f"{title}. {text}" if title else text,
            metadata=metadata,
            source=source,
            position=None if source is None else order if keys.position is None else metadata.get(keys.position),
            event_time=None
            if keys.event_time is None
            else moment(file_line, metadata.get(keys.event_time), "event time"),
        )
    except DatasetError:
        raise
    except InputError as error:
        raise file_line.error(str(error)) from error


def query_of(file_line: FileLine, record: Mapping[str, Any], keys: Keys) -> Query:
    """A queries record as a query."""
    text, metadata = text_field(file_line, record, "text"), metadata_field(file_line, record)
    if not text.strip():
        raise file_line.error("the question is blank; drop it, and its lines of the judgements")
    stated = next((metadata[key] for key in keys.now if metadata.get(key) is not None), None)
    turns = [] if keys.history is None else metadata.get(keys.history, [])
    if not isinstance(turns, list):
        raise file_line.error(f"metadata[{keys.history!r}] is {type(turns).__name__}; expected a list of turns")
    return Query(
        text_field(file_line, record, "_id"),
        text,
        moment(file_line, stated, "the time of the question"),
        tuple(_turn(turn) for turn in turns),
        ReadOnlyDict({key: value for key, value in metadata.items() if key != keys.history}),
    )


def _turn(turn: Any) -> str:
    if isinstance(turn, Mapping):
        return f"{turn.get('role', 'user')}: {turn.get('content', '')}"
    return str(turn)


def _read_chunks(path: Path, keys: Keys, default_source: str | None) -> list[Chunk | str]:
    """One chunk per line; only its id where there is no text."""
    documents: list[Chunk | str] = []
    orders: Counter[str] = Counter()
    for file_line, record in read_records(path):
        if not (text_field(file_line, record, "text") + text_field(file_line, record, "title", default="")).strip():
            documents.append(text_field(file_line, record, "_id"))
            continue
        stated = None if keys.source is None else metadata_field(file_line, record).get(keys.source)
        source = default_source if stated is None else str(stated)
        documents.append(chunk_from(file_line, record, keys, source, orders[source or ""]))
        orders[source or ""] += 1
    if not documents:
        raise DatasetError(f"{path} holds no document")
    return documents


def _read_judgements(path: Path, asked: Sequence[Query], documents: Sequence[Chunk | str]) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    queries = {query.id for query in asked}
    ids = {document.id if isinstance(document, Chunk) else document for document in documents}
    for file_line, query, document, grade in read_qrels(path):
        if query not in queries:
            raise file_line.error(f"query {query!r} is not among the queries; drop the line or add the query")
        if document not in ids:
            raise file_line.error(f"document {document!r} is not in the corpus; drop the line or add the document")
        before = judgements.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            raise file_line.error(f"{query!r} and {document!r} are judged with {before} before; drop one of the lines")
    return judgements


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a file, for error messages."""

    path: Path
    line: int

    def error(self, complaint: str) -> DatasetError:
        """A DatasetError that names file and line."""
        return DatasetError(f"{self.path}, line {self.line}: {complaint}")


def read_text(path: Path) -> str:
    """The file as UTF-8 text, a byte-order mark dropped.

    Raises:
        DatasetError: If it is missing or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}; expected a BEIR folder's file there") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 at byte {error.start}; convert it") from error


def read_records(path: Path) -> Iterator[tuple[FileLine, dict[str, Any]]]:
    """The JSON objects of a JSON-lines file, blank lines skipped.

    Raises:
        DatasetError: At the first line that is not a JSON object, or repeats an earlier one's `_id`.
    """
    lines: dict[Any, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), FIRST_LINE):  # U+2028 inside a text ends no line
        if not line.strip():
            continue
        file_line = FileLine(path, number)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise file_line.error(f"not JSON ({error}); expected one object per line") from error
        if not isinstance(record, dict):
            raise file_line.error(f"{type(record).__name__}; expected a JSON object")
        id = record.get("_id")
        if isinstance(id, str) and lines.setdefault(id, number) != number:
            raise file_line.error(f"{id!r} stands in line {lines[id]} already; ids must be unique in a file")
        yield file_line, record


def read_qrels(path: Path) -> Iterator[tuple[FileLine, str, str, int]]:
    """(file_line, query id, document id, grade) of a tab-separated file with BEIR's header.

    Raises:
        DatasetError: At a wrong header, a line without three fields, or a grade that is no whole number.
    """
    lines = read_text(path).splitlines()
    if not lines or tuple(lines[0].split("\t")) != QRELS_COLUMNS:
        found = repr(lines[0][:80]) if lines else "an empty file"
        raise FileLine(path, FIRST_LINE).error(f"{found}; expected the header query-id<TAB>corpus-id<TAB>score")
    for number, line in enumerate(lines[1:], FIRST_LINE + 1):
        if not line.strip():
            continue
        file_line, fields = FileLine(path, number), line.split("\t")
        if len(fields) != len(QRELS_COLUMNS):
            raise file_line.error(f"{len(fields)} fields; expected query-id<TAB>corpus-id<TAB>score")
        try:
            grade = int(fields[2])
        except ValueError as error:
            raise file_line.error(f"score {fields[2]!r}; expected a whole number") from error
        yield file_line, fields[0], fields[1], grade


def text_field(file_line: FileLine, record: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A string field of a record; `default` where it is absent or null."""
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        found = "absent" if name not in record else f"{value!r:.60}"
        raise file_line.error(f"field {name!r} is {found}; expected a string")
    return value


def metadata_field(file_line: FileLine, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record's metadata object; empty where there is none."""
    value = record.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise file_line.error(f"metadata is {type(value).__name__}; expected an object")
    return value


def moment(file_line: FileLine, value: Any, name: str) -> datetime | None:
    """A text as an aware UTC datetime; one without a zone is taken as UTC; None stays None."""
    found = read_time(value) if isinstance(value, str) else None
    if found is None and value is not None:
        raise file_line.error(f"{name} {value!r:.60}; expected an ISO-8601 date and time")
    return found
