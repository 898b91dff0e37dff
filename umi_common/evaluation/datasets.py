"""Collections with known answers: documents, queries, and judgements of which documents answer which query."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from umi_common.errors import ConfigError, DatasetError
from umi_common.evaluation.metrics import checked_grades
from umi_common.types import Chunk, ReadOnlyDict


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a collection."""

    id: str
    text: str
    now: datetime | None = None
    """The time at which the query is asked, to which "last week" refers; None: not stated."""
    history: tuple[str, ...] = ()
    """Earlier messages of the conversation, each "role: content", oldest first."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The query's metadata in the collection, without the history."""

    @property
    def category(self) -> str | None:
        """The category of the query; None: the collection does not state one."""
        values = (self.metadata.get(key) for key in ("category_name", "question_type", "category"))
        return next((str(value) for value in values if value is not None), None)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """The documents of one store, the queries to it, and judgements of which documents answer which query.

    Raises:
        DatasetError: If a chunk, a query or `qrels` is of another type, an id occurs twice, the id or text of a query
            is blank, a grade is no whole number, or more judged documents than `blank` lists are not among the chunks.
    """

    name: str
    """Name of the collection that the dataset is part of; several datasets may share it."""
    group: str
    """Name of this part of the collection, such as a conversation. Confidence intervals resample groups."""
    chunks: tuple[Chunk, ...]
    queries: tuple[Query, ...]
    """Only queries with at least one relevant document count in metrics."""
    qrels: Mapping[str, Mapping[str, int]]
    """Grade by query id and document id; a grade above 0 means relevant."""
    blank: tuple[int, ...] = ()
    """Numbers, from 0, of the documents in the file that are not among the chunks, because they have no text."""

    def __post_init__(self) -> None:
        where = f"dataset {self.name}/{self.group}"
        object.__setattr__(self, "chunks", tuple(self.chunks))
        object.__setattr__(self, "queries", tuple(self.queries))
        for chunk in self.chunks:
            if not isinstance(chunk, Chunk):
                raise DatasetError(f"{where}: document {chunk!r:.80}; expected a Chunk")
        for query in self.queries:
            texts = (query.id, query.text) if isinstance(query, Query) else (None,)
            if not all(isinstance(text, str) and text.strip() for text in texts):
                raise DatasetError(f"{where}: query {query!r:.80}; expected a Query with an id and a text, not blank")
        _refuse_duplicates((chunk.id for chunk in self.chunks), f"{where}: document")
        _refuse_duplicates((query.id for query in self.queries), f"{where}: query")
        if not isinstance(self.qrels, Mapping):
            raise DatasetError(
                f"{where}: qrels is {type(self.qrels).__name__}; expected {{query id: {{document id: grade}}}}"
            )
        qrels = {query: checked_grades(grades, f"{where}: query {query!r}") for query, grades in self.qrels.items()}
        missing = set().union(*qrels.values()).difference(chunk.id for chunk in self.chunks)
        if len(missing) > len(self.blank):
            first = min(missing, key=str)
            raise DatasetError(
                f"{where}: document {first!r} is judged but not among the chunks; add it, or drop its grade"
            )
        object.__setattr__(self, "qrels", ReadOnlyDict(qrels))

    def __repr__(self) -> str:  # the texts would fill the screen
        return f"Dataset({self.name!r}, {self.group!r}, {len(self.chunks)} chunks, {len(self.queries)} queries)"

    @property
    def judged(self) -> tuple[Query, ...]:
        """The queries that have a relevant document, in file order."""
        return tuple(query for query in self.queries if self.relevant(query.id))

    def relevant(self, query_id: str) -> tuple[str, ...]:
        """Ids of the documents that are relevant to a query, in rising order."""
        return tuple(sorted(id for id, grade in self.qrels.get(query_id, {}).items() if grade > 0))

    def with_queries(self, ids: Collection[str]) -> Dataset:
        """A dataset with the same documents and judgements, and only the queries with these ids."""
        wanted = set(ids)
        return replace(self, queries=tuple(query for query in self.queries if query.id in wanted))


def judged_datasets(datasets: Dataset | Iterable[Dataset]) -> list[Dataset]:
    """The datasets in which a query has a relevant document; raises ConfigError if there is none."""
    # a path is wrong, and the error names it
    several = [datasets] if isinstance(datasets, (Dataset, str, os.PathLike)) else list(datasets)
    for dataset in several:
        if not isinstance(dataset, Dataset):
            raise ConfigError(f"dataset {dataset!r:.80} is {type(dataset).__name__}; expected load_folder(folder)")
    judged = [dataset for dataset in several if dataset.judged]
    if not judged:
        raise ConfigError("no query of the datasets has a relevant document; check their qrels")
    return judged


def by_set(datasets: Iterable[Dataset]) -> dict[str, list[Dataset]]:
    """Datasets by the name of their collection, in the order given."""
    sets: dict[str, list[Dataset]] = {}
    for dataset in datasets:
        sets.setdefault(dataset.name, []).append(dataset)
    return sets


def _refuse_duplicates(ids: Iterable[str], what: str) -> None:
    repeated = [id for id, count in Counter(ids).items() if count > 1]
    if repeated:
        raise DatasetError(
            f"{what} {repeated[0]!r} occurs twice ({len(repeated)} such ids); ids must be unique in a dataset"
        )
