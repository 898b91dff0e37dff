"""Read folders as datasets: in BEIR's layout, or as LongMemEval, where each question has its own documents.

A BEIR folder has three files; a grade above 0 means relevant:

    corpus.jsonl     {"_id": "d1", "title": "Roof", "text": "The roof leaks.", "metadata": {"session": "talk 1"}}
    queries.jsonl    {"_id": "q1", "text": "what leaks?", "metadata": {}}
    qrels.tsv        a header, then lines of query id, document id and grade: q1<TAB>d1<TAB>1

LongMemEval publishes each of its sets as one JSON file. umi expects the same data as a folder: `queries.jsonl` (`_id,
text, metadata` with `question_date, question_type, answer_session_ids` and, if the sessions do not answer the question,
`abstention: true`) and `haystacks/`, with a file `<question id>.json.gz` for each question: `{session_ids, dates,
sessions: [[{role, content, has_answer?}]]}`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from umi_common.errors import ConfigError, DatasetError, InputError
from umi_common.evaluation.datasets import Dataset, Query
from umi_common.times import read_time
from umi_common.types import Chunk, ReadOnlyDict

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"
QRELS_OF_BEIR = "qrels/test.tsv"
"""Path of the judgements in the folders that BEIR publishes."""
QRELS_HEADER = "query-id\tcorpus-id\tscore"
NOW_KEYS = ("question_date", "conversation_end")
"""Metadata keys of the time at which a query is asked; the first key that is present is used."""
HISTORY_KEY = "history"
"""Metadata key of a query's history: a list of earlier messages, each a string or {"role", "content"}."""
HAYSTACKS = "haystacks"
"""Name of the folder of haystacks in a collection. A haystack is the sessions that are searched for one question."""
Granularity = Literal["turn", "session"]
"""The unit of a document: one turn (message) of a session, or a whole session."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The metadata keys from which the fields of a document's chunk are read. None: the field stays empty."""

    source: str | None = "session"
    position: str | None = None
    """None: the documents of a source are numbered from 0 in the order of the file."""
    event_time: str | None = "timestamp"


PLAIN = Keys(source=None, event_time=None)
"""Keys for documents without source and time."""


def load_folder(folder: str | Path) -> list[Dataset]:
    """Read a folder by the function for its layout: `load_beir`, `load_haystacks` or `load_conversations`.

    Raises:
        DatasetError: If the folder has none of these layouts, or a file in it is malformed.
    """
    home = Path(folder)
    if (home / CORPUS).exists():
        return [load_beir(home)]
    if (home / HAYSTACKS).is_dir():
        return load_haystacks(home)
    if any(home.glob(f"*/{CORPUS}")):
        return load_conversations(home)
    raise DatasetError(
        f"{home} is no collection; expected {CORPUS} (BEIR), {HAYSTACKS}/ (LongMemEval) or folders with a {CORPUS} each"
    )


def load_beir(
    folder: str | Path, *, name: str | None = None, keys: Keys = PLAIN, default_source: str | None = None
) -> Dataset:
    """Read a BEIR folder as one dataset; the text of a document with a title is `title + ". " + text`.

    Documents whose text and title are blank are left out; if they are judged relevant, they count as not found. A
    document without the field `text` is malformed.

    Args:
        folder: Has `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` (or `qrels/test.tsv`).
        name: The collection's name; None: the folder's name, which is always that of `Dataset.group`.
        keys: Metadata keys of source, position and time; by default documents have none of these fields.
        default_source: Source of documents whose metadata have no source.

    Raises:
        DatasetError: If a file is missing or malformed; the message names the file and, if known, the line.
    """
    home = Path(folder)
    documents = list(_read_records(home / CORPUS))
    if not documents:
        raise DatasetError(f"{home / CORPUS} holds no document")
    blank = tuple(row for row, document in enumerate(documents) if document.is_blank)
    chunks = _chunks_from([document for document in documents if not document.is_blank], keys, default_source)
    queries = tuple(record.query() for record in _read_records(home / QUERIES))
    path = next((path for path in (home / QRELS, home / QRELS_OF_BEIR) if path.exists()), home / QRELS)
    qrels = _read_judgements(path, {query.id for query in queries}, {each.text("_id") for each in documents})
    group = home.resolve().name
    return Dataset(group if name is None else name, group, chunks, queries, qrels, blank)


def load_conversations(folder: str | Path, *, name: str | None = None, keys: Keys | None = None) -> list[Dataset]:
    """Read a folder of BEIR folders, each a conversation or meeting: one dataset for each, sorted by folder name.

    With the default `keys`, a document's source is the `session` in its metadata, its position is its number in the
    source from 0, and its event_time is its `timestamp`; a timestamp without a zone is UTC. The source of a document
    whose metadata have none is the name of its folder.

    Raises:
        DatasetError: If there is no such folder, if it has no BEIR folder, or if a file in it is malformed.
    """
    home = Path(folder)
    parts = sorted(path.parent for path in home.glob(f"*/{CORPUS}"))
    if not parts:
        raise DatasetError(f"{home} holds no folder with a {CORPUS}; expected one BEIR folder per conversation")
    set_name = home.resolve().name if name is None else name
    keys = Keys() if keys is None else keys
    return [load_beir(part, name=set_name, keys=keys, default_source=part.name) for part in parts]


def load_haystacks(folder: str | Path, *, granularity: Granularity = "turn", name: str | None = None) -> list[Dataset]:
    """Read LongMemEval's folder: one dataset for each question, in the order of the file.

    The dataset's group is the question's id, and the query's `now` is the question_date. A document's source is its
    session, its position is its number in the session from 0, and its event_time is the session's date (a date without
    a zone is UTC). Blank documents are left out. Two kinds of questions are left out: those with `abstention`, which
    the haystack does not answer, as in LongMemEval's own metrics; and those for which no document of this granularity
    is marked as evidence.

    Args:
        folder: Has `queries.jsonl` and `haystacks/`.
        granularity: Whether a document is a turn or a whole session.
        name: The collection's name; None: the folder's name.

    Raises:
        ConfigError: If the granularity is another one.
        DatasetError: As `load_beir`.
    """
    if granularity not in get_args(Granularity):
        raise ConfigError(f"granularity {granularity!r}: expected one of {', '.join(get_args(Granularity))}")
    home = Path(folder)
    set_name = home.resolve().name if name is None else name
    answered = (each for each in _read_records(home / QUERIES) if not each.metadata.get("abstention"))
    datasets = (_question(home, set_name, record, granularity) for record in answered)
    return [dataset for dataset in datasets if dataset.judged]


def _read_records(path: Path) -> Iterator[_FileRecord]:
    """Yield the JSON object in each line of a file, with `_id` as a string; blank lines are skipped.

    Raises DatasetError at a line that is no JSON object, or that repeats the `_id` of an earlier line.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{where}: not JSON ({error}); expected one object per line") from error
        if not isinstance(fields, dict):
            raise DatasetError(f"{where}: {type(fields).__name__}; expected a JSON object")
        id = fields.get("_id")
        if type(id) is int:
            id = fields["_id"] = str(id)
        if isinstance(id, str) and lines.setdefault(id, number) != number:
            raise DatasetError(f"{where}: {id!r} is in line {lines[id]} already; ids must be unique in a file")
        yield _FileRecord(where, fields)


def _read_text(path: Path) -> str:
    """The text of a file, to be split at "\\n": `splitlines` would also split at a U+2028 inside a text or an id."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}; expected a file of a dataset there") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 at byte {error.start}; convert it") from error


@dataclass(frozen=True, slots=True)
class _FileRecord:
    """The JSON object in one line of a file. The methods raise DatasetError if a field is missing or malformed."""

    where: str
    """File and line, for errors."""
    fields: Mapping[str, Any]

    def text(self, name: str, *, default: str | None = None) -> str:
        """A string field; `default` if it is absent or null."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            found = "absent" if name not in self.fields else f"{value!r:.60}"
            raise DatasetError(f"{self.where}: field {name!r} is {found}; expected a string")
        return value

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata object; empty if there is none."""
        value = self.fields.get("metadata")
        if not isinstance(value, dict | None):
            raise DatasetError(f"{self.where}: metadata is {type(value).__name__}; expected an object")
        return value or {}

    def list_of(self, what: str, key: str) -> list[Any]:
        """The list under a key of the metadata; empty if it is absent or null. Errors name its items `what`."""
        value = self.metadata.get(key)
        if not isinstance(value, list | None):
            raise DatasetError(f"{self.where}: metadata[{key!r}] is {type(value).__name__}; expected a list of {what}")
        return value or []

    @property
    def is_blank(self) -> bool:
        """Whether the record has neither text nor title."""
        return not (self.text("text") + self.text("title", default="")).strip()

    def chunk(self, keys: Keys, source: str | None, order: int) -> Chunk:
        """The chunk of a record of the corpus; `order` is its position, if it has a source and `keys` no position."""
        id, title, text, metadata = self.text("_id"), self.text("title", default=""), self.text("text"), self.metadata
        text = f"{title}. {text}" if title.strip() else text
        stated = order if keys.position is None else metadata.get(keys.position)
        position = None if source is None else stated
        time = None if keys.event_time is None else self._time(metadata.get(keys.event_time), "event time")
        try:
            return Chunk(id, text, metadata=metadata, source=source, position=position, event_time=time)
        except InputError as error:
            raise DatasetError(f"{self.where}: {error}") from error

    def query(self) -> Query:
        """The query of a record of the queries file."""
        text, metadata = self.text("text"), self.metadata
        if not text.strip():
            raise DatasetError(f"{self.where}: the question is blank; drop it, and its lines of the judgements")
        stated = next((metadata[key] for key in NOW_KEYS if metadata.get(key) is not None), None)
        return Query(
            self.text("_id"),
            text,
            self._time(stated, "the time of the question"),
            tuple(map(self._turn, self.list_of("turns", HISTORY_KEY))),
            ReadOnlyDict({key: value for key, value in metadata.items() if key != HISTORY_KEY}),
        )

    def _turn(self, turn: Any) -> str:
        if isinstance(turn, Mapping) and isinstance(turn.get("content"), str):
            return f"{turn.get('role', 'user')}: {turn['content']}"
        if not isinstance(turn, str):
            raise DatasetError(f"{self.where}: turn {turn!r:.60}; expected a string or {{role, content}}, both strings")
        return turn

    def _time(self, value: Any, name: str) -> datetime | None:
        """The time in a text; without a zone it is UTC. None: `value` is None. Errors name the value `name`."""
        found = read_time(value) if isinstance(value, str) else None
        if found is None and value is not None:
            raise DatasetError(f"{self.where}: {name} {value!r:.60}; expected an ISO-8601 date and time")
        return found


def _chunks_from(records: Iterable[_FileRecord], keys: Keys, default_source: str | None = None) -> tuple[Chunk, ...]:
    """One chunk for each record of a corpus, in order; `default_source` is the source of records without one."""
    chunks, orders = [], Counter[str | None]()
    for record in records:
        stated = None if keys.source is None else record.metadata.get(keys.source)
        source = default_source if stated is None else str(stated)
        chunks.append(record.chunk(keys, source, orders[source]))
        orders[source] += 1
    return tuple(chunks)


def _read_judgements(path: Path, queries: Container[str], documents: Container[str]) -> dict[str, dict[str, int]]:
    """The grades by query id and document id in a file of judgements, whose ids must be among those given.

    Raises DatasetError for another header, and at a line that is malformed or contradicts an earlier one.
    """
    judgements: dict[str, dict[str, int]] = {}
    header, *lines = _read_text(path).split("\n")
    if header != QRELS_HEADER:
        found = repr(header[:80]) if header else "an empty file"
        raise DatasetError(f"{path}, line 1: {found}; expected the header query-id<TAB>corpus-id<TAB>score")
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        where, fields = f"{path}, line {number}", line.split("\t")
        if len(fields) != 3:
            raise DatasetError(f"{where}: {len(fields)} fields; expected query-id<TAB>corpus-id<TAB>score")
        query, document, score = fields
        try:
            grade = int(score)
        except ValueError as error:
            raise DatasetError(f"{where}: score {score!r}; expected a whole number") from error
        if query not in queries:
            raise DatasetError(f"{where}: query {query!r} is not among the queries; drop the line or add the query")
        if document not in documents:
            raise DatasetError(
                f"{where}: document {document!r} is not in the corpus; drop the line or add the document"
            )
        before = judgements.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            raise DatasetError(
                f"{where}: {query!r} and {document!r} (query and document) were judged with {before} before, and with "
                f"{grade} here; drop one of the lines"
            )
    return judgements


def _question(home: Path, set_name: str, record: _FileRecord, granularity: Granularity) -> Dataset:
    """The dataset of one question of LongMemEval; a document is relevant if it is marked as evidence."""
    query = record.query()
    path = home / HAYSTACKS / f"{query.id}.json.gz"
    evidence = record.list_of("ids", "answer_session_ids")  # of sessions; turns are marked in the haystack
    records: list[_FileRecord] = []
    grades: dict[str, int] = {}
    for session, date, turns in _sessions(path):
        facts = {"timestamp": date, "session": session}
        if granularity == "session":
            documents = [(session, turns, facts, session in evidence)]
        else:
            documents = [
                (f"{session}_t{number}", [turn], {**facts, "speaker": turn["role"]}, bool(turn.get("has_answer")))
                for number, turn in enumerate(turns)
            ]
        for id, said, metadata, is_evidence in documents:
            if any(turn["content"].strip() for turn in said):
                text = "\n".join(f"{turn['role'].capitalize()}: {turn['content'].strip()}" for turn in said)
                records.append(_FileRecord(str(path), {"_id": id, "text": text, "metadata": metadata}))
                if is_evidence:
                    grades[id] = 1
    return Dataset(set_name, query.id, _chunks_from(records, Keys()), (query,), {query.id: grades})


def _sessions(path: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield (id, date, turns) of each session in a haystack."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            haystack = json.load(file)
        for turn in chain.from_iterable(haystack["sessions"]):
            if not isinstance(turn["role"], str) or not isinstance(turn["content"], str):
                raise TypeError("role and content must be strings")
        yield from zip(haystack["session_ids"], haystack["dates"], haystack["sessions"], strict=True)
    except OSError as error:
        raise DatasetError(
            f"cannot read {path}: {error.strerror or error}; expected the question's haystack"
        ) from error
    except (EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{path} is malformed ({type(error).__name__}: {error}); expected gzip of "
            "{session_ids, dates, sessions: [[{role, content}]]}, all of one length"
        ) from error
