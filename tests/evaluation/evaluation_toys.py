"""A toy collection, a toy retriever and a toy encoder; and the folder of the real collections."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from umi_common import Chunk
from umi_common.evaluation import Dataset, Query

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letter_counts(texts: list[str]) -> np.ndarray:
    """(n, 26) the count of each letter: an encoder whose cosines can be computed by hand."""
    return np.array([[text.lower().count(letter) for letter in LETTERS] for text in texts], dtype=np.float32)


def toy(group: str = "one", *, name: str = "toy") -> Dataset:
    """Five documents, two queries with answers and one without."""
    texts = {"a": "ships sail", "b": "ships sink", "c": "planes fly", "d": "planes land", "e": "trains"}
    chunks = tuple(Chunk(id, text, source=group, position=place) for place, (id, text) in enumerate(texts.items()))
    queries = (
        Query("q1", "ships", metadata={"category": 1}),
        Query("q2", "planes", metadata={"category": 2}),
        Query("q3", "unanswered"),
    )
    return Dataset(name, group, chunks, queries, {"q1": {"a": 1, "b": 2}, "q2": {"d": 1}, "q3": {"e": 0}})


def by_words(dataset: Dataset) -> Callable[[Query, int], list[str]]:
    """A retriever: the documents that share a word with the query, in the order of their ids."""

    def search(query: Query, k: int) -> list[str]:
        words = set(query.text.split())
        return [chunk.id for chunk in dataset.chunks if words & set(chunk.text.split())][:k]

    return search


def write_lines(path: Path, *records: object) -> None:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
