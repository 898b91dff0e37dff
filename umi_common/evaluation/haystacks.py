"""Read LongMemEval's layout as datasets: each question has its own haystack of dated sessions, and so its own store.

A folder holds `queries.jsonl` (`_id, text, metadata` with `question_date, question_type, answer_session_ids`) and
`haystacks/`, with a file `<question id>.json.gz` for each question: `{session_ids, dates, sessions: [[{role, content,
has_answer?}]]}`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from umi_common.errors import DatasetError
from umi_common.evaluation.beir import (
    CORPUS,
    FIRST_LINE,
    QUERIES,
    FileRecord,
    Keys,
    chunks_from,
    load_beir,
    load_conversations,
    read_records,
)
from umi_common.evaluation.datasets import Dataset, Query

HAYSTACKS = "haystacks"
"""Name of the folder of haystacks in a collection."""
Granularity = Literal["turn", "session"]
"""What one document is: one turn of a session, or a whole session."""


def load_haystacks(folder: str | Path, *, granularity: Granularity = "turn", name: str | None = None) -> list[Dataset]:
    """Read one dataset for each question, in the order of the file. The dataset's group is the question's id, and the
    query's `now` the question_date.

    A document's source is its session, its position its number in the session from 0, and its event_time the session's
    date (UTC unless the date names a zone). Questions that the haystack does not answer are left out, as in
    LongMemEval's own metrics, and so are questions for which no document of this granularity is marked as evidence.

    Args:
        folder: Holds `queries.jsonl` and `haystacks/`.
        granularity: Whether a document is a turn or a whole session.
        name: The collection's name; None: the folder's name.

    Raises:
        DatasetError: If a file is missing or malformed; the message names the file and, if known, the line.
    """
    home, datasets = Path(folder), list[Dataset]()
    set_name = home.resolve().name if name is None else name
    for record in read_records(home / QUERIES):
        if record.metadata.get("abstention"):
            continue
        dataset = _question(home, set_name, record.query(), granularity)
        if dataset.judged:
            datasets.append(dataset)
    return datasets


def _question(home: Path, set_name: str, query: Query, granularity: Granularity) -> Dataset:
    path = home / HAYSTACKS / f"{query.id}.json.gz"
    documents = _documents(path, granularity, set(query.metadata.get("answer_session_ids", ())))
    chunks = chunks_from([FileRecord(path, FIRST_LINE, document) for document in documents], Keys())
    grades = {document["_id"]: 1 for document in documents if document["answers"]}
    return Dataset(set_name, query.id, chunks, (query,), {query.id: grades})


def _documents(path: Path, granularity: Granularity, evidence: set[str]) -> list[dict[str, Any]]:
    """The documents of a haystack as records, in order; their field "answers" says whether a document is evidence.

    Args:
        evidence: Ids of the sessions that are evidence; used for granularity "session". Turns are marked in the file.
    """
    found: list[dict[str, Any]] = []
    for session, date, turns in _sessions(path):
        if granularity == "session":
            lines = "\n".join(_line(turn) for turn in turns)
            found.append(_document(session, lines, session, date, session in evidence))
            continue
        for number, turn in enumerate(turns):
            if turn["content"].strip():
                document = _document(f"{session}_t{number}", _line(turn), session, date, bool(turn.get("has_answer")))
                document["metadata"]["speaker"] = turn["role"]
                found.append(document)
    return found


def _document(id: str, text: str, session: str, date: str, answers: bool) -> dict[str, Any]:
    return {"_id": id, "text": text, "metadata": {"timestamp": date, "session": session}, "answers": answers}


def _line(turn: Mapping[str, str]) -> str:
    return f"{turn['role'].capitalize()}: {turn['content'].strip()}"


def _sessions(path: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            haystack = json.load(file)
        yield from zip(haystack["session_ids"], haystack["dates"], _checked(haystack["sessions"]), strict=True)
    except OSError as error:
        raise DatasetError(
            f"cannot read {path}: {error.strerror or error}; expected the question's haystack"
        ) from error
    except (EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{path} is malformed ({type(error).__name__}: {error}); expected gzip of "
            "{session_ids, dates, sessions: [[{role, content}]]}, all of one length"
        ) from error


def _checked(sessions: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    for session in sessions:
        for turn in session:
            if not isinstance(turn["role"], str) or not isinstance(turn["content"], str):
                raise TypeError("role and content must be strings")
    return sessions


def load_folder(folder: str | Path) -> list[Dataset]:
    """Read the datasets of a folder with a BEIR collection, a haystack per question, or a BEIR folder per conversation.

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
