"""Lines of a collection's files to plain values; every complaint names file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from umi_common.errors import DatasetError

QRELS_COLUMNS = ("query-id", "corpus-id", "score")
FIRST_LINE = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was read."""

    path: Path
    line: int

    def error(self, complaint: str) -> DatasetError:
        """The error to raise about this place."""
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


def read_records(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The JSON objects of a JSON-lines file, blank lines skipped.

    Raises:
        DatasetError: At the first line that is not a JSON object, or repeats an earlier one's `_id`.
    """
    lines: dict[Any, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), FIRST_LINE):  # U+2028 inside a text ends no line
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise place.error(f"not JSON ({error.msg} at column {error.colno}); expected one object a line") from error
        if not isinstance(record, dict):
            raise place.error(f"{type(record).__name__}; expected a JSON object")
        id = record.get("_id")
        if isinstance(id, str) and lines.setdefault(id, number) != number:
            raise place.error(f"{id!r} stands in line {lines[id]} already; ids must be unique in a file")
        yield place, record


def read_qrels(path: Path) -> Iterator[tuple[Place, str, str, int]]:
    """(place, query id, document id, grade) of a tab-separated file with BEIR's header.

    Raises:
        DatasetError: At a wrong header, a line without three fields, or a grade that is no whole number.
    """
    lines = read_text(path).splitlines()
    if not lines or tuple(lines[0].split("\t")) != QRELS_COLUMNS:
        found = repr(lines[0][:80]) if lines else "an empty file"
        raise Place(path, FIRST_LINE).error(f"{found}; expected the header query-id<TAB>corpus-id<TAB>score")
    for number, line in enumerate(lines[1:], FIRST_LINE + 1):
        if not line.strip():
            continue
        place, fields = Place(path, number), line.split("\t")
        if len(fields) != len(QRELS_COLUMNS):
            raise place.error(f"{len(fields)} fields; expected query-id<TAB>corpus-id<TAB>score")
        try:
            grade = int(fields[2])
        except ValueError as error:
            raise place.error(f"score {fields[2]!r}; expected a whole number") from error
        yield place, fields[0], fields[1], grade


def text_field(place: Place, record: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A string field of a record; `default` where it is absent or null."""
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        found = "absent" if name not in record else f"{value!r:.60}"
        raise place.error(f"field {name!r} is {found}; expected a string")
    return value


def metadata_field(place: Place, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record's metadata object; empty where there is none."""
    value = record.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise place.error(f"metadata is {type(value).__name__}; expected an object")
    return value


def moment(place: Place, value: Any, name: str) -> datetime | None:
    """An ISO-8601 string as an aware UTC datetime; one without a zone is taken as UTC; None stays None."""
    if value is None:
        return None
    try:
        when = datetime.fromisoformat(value.replace("Z", "+00:00") if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise place.error(f"{name} {value!r:.60}; expected an ISO-8601 date and time") from error
    return when.replace(tzinfo=timezone.utc) if when.tzinfo is None else when.astimezone(timezone.utc)
