"""A clause for Chroma passes at least the rows that pass the filter, and no others if it is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from filter_cases import KEYS, SCALARS, Cases

from umi_common.filters import chroma_metadata, matches, parse_filter, to_chroma
from umi_common.types import Metadata

chromadb = pytest.importorskip("chromadb")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class ChromaRows:
    """Rows in a real in-memory Chroma, as the store writes them."""

    def __init__(self, name: str) -> None:
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        self._client = chromadb.EphemeralClient(settings)
        self._name = name

    def fill(self, metadatas: Sequence[Metadata]) -> None:
        self._rows = self._client.create_collection(self._name, embedding_function=None)
        for row, metadata in enumerate(metadatas):
            self._rows.add(ids=[str(row)], embeddings=[[1.0, 0.0]], metadatas=[chroma_metadata(metadata)])

    def passing(self, where: dict[str, Any]) -> set[int]:
        return {int(row) for row in self._rows.get(where=where, include=[])["ids"]}

    def empty(self) -> None:
        self._client.delete_collection(self._name)


@pytest.fixture
def chroma() -> Iterator[ChromaRows]:
    rows = ChromaRows("filters-under-test")
    yield rows
    rows.empty()


@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("hostile", SCALARS),
        ("ordinary", ["x", "y", 1, 2, 3, 1.0, 2.0, True, False]),
        ("numbers", [-2, -1, 0, 1, 2, 3, -2.5, -0.5, 0.0, 0.5, 1.5, 2.5, 2**53, 2**53 + 1, 2.0**53]),
    ],
)
def test_a_clause_passes_at_least_the_rows_of_the_filter_and_exactly_these_if_it_is_exact(
    chroma: ChromaRows, name: str, scalars: list[Any]
):
    cases = Cases(
        seed=7,
        keys=["a", "b"] if name == "numbers" else ["a", "b", "a.b", 'q"', "é", "#x", "chroma:x", ""],
        scalars=scalars,
    )
    rows = [cases.metadata() for _ in range(60)]
    chroma.fill(rows)
    seen = {"exact": 0, "wider": 0, "none": 0}
    for _ in range(300):
        where = cases.where()
        tree = parse_filter(where)
        assert tree is not None
        clause = to_chroma(tree)
        if clause is None:
            seen["none"] += 1
            continue
        expected = {row for row, metadata in enumerate(rows) if matches(tree, metadata)}
        found = chroma.passing(clause.where)
        assert found >= expected, (where, clause)
        if clause.exact:
            assert found == expected, (where, clause)
        seen["exact" if clause.exact else "wider"] += 1
    assert all(seen.values()), f"every kind of clause should have been tested: {seen}"


@pytest.mark.parametrize(
    ("where", "clause", "exact"),
    [
        ({"a": "x"}, {"a": {"$in": ["x"]}}, True),
        ({"a": 1.0}, {"a": {"$in": [1]}}, True),
        ({"a": {"$ne": 1}}, {"a": {"$nin": [1]}}, True),
        ({"a": 2.5}, {"a": {"$in": [2.5]}}, False),
        ({"a": {"$gt": 2.5}}, {"a": {"$gte": 2.5}}, False),
        (
            {"a": {"$in": ["x", 1, True]}},
            {"$or": [{"a": {"$in": ["x"]}}, {"a": {"$in": [1]}}, {"a": {"$in": [True]}}]},
            True,
        ),
        ({"a": {"$nin": [1, 2.5]}}, {"a": {"$nin": [1]}}, False),
        ({"$not": {"$or": [{"a": 1}, {"b": 2}]}}, {"$and": [{"a": {"$nin": [1]}}, {"b": {"$nin": [2]}}]}, True),
        ({"a": 1, "b": {"$contains": "x"}}, {"a": {"$in": [1]}}, False),
    ],
)
def test_a_clause_is_as_the_page_says(where: dict[str, Any], clause: dict[str, Any], exact: bool):
    tree = parse_filter(where)
    assert tree is not None
    made = to_chroma(tree)
    assert made is not None
    assert (made.where, made.exact) == (clause, exact)


@pytest.mark.parametrize(
    "where",
    [
        {"a": None},
        {"a": {"$exists": True}},
        {"a": {"$in": [None, 1]}},
        {"a": {"$gt": "2024"}},
        {"a": {"$contains": "x"}},
        {"a": {"$eq": ["x"]}},
        {"a": {"$ne": ["x"]}},
        {"a": {"$ne": 2.5}},
        {"a": {"$not": {"$gt": 1}}},
        {"": 1},
        {"#document": "x"},
        {"chroma:document": "x"},
        {"$or": [{"a": 1}, {"b": {"$contains": "x"}}]},
        {"$or": [{"a": i} for i in range(257)]},
        {"a": {"$in": list(range(8_001))}},
    ],
)
def test_a_filter_that_chroma_cannot_express_has_no_clause(where: dict[str, Any]):
    tree = parse_filter(where)
    assert tree is not None
    assert to_chroma(tree) is None


def test_the_largest_clauses_run_in_chroma(chroma: ChromaRows):
    chroma.fill([{"a": 255}, {"a": 7_999}, {"a": 8_000}, {}, {"b": None}])
    wide = parse_filter({"$or": [{"a": i} for i in range(256)]})
    many = parse_filter({"a": {"$nin": list(range(8_000))}})
    assert wide is not None and many is not None
    first, second = to_chroma(wide), to_chroma(many)
    assert first is not None and second is not None
    assert chroma.passing(first.where) == {0}
    assert chroma.passing(second.where) == {2, 3, 4}


def test_every_key_that_is_given_to_chroma_is_taken_by_it(chroma: ChromaRows):
    rows: list[Metadata] = [{key: 7, "l": ("x",), "n": None} for key in [*KEYS, "#document", "chroma:document"]]
    chroma.fill(rows)
    for row, metadata in enumerate(rows):
        for key in chroma_metadata(metadata) or {}:
            tree = parse_filter({key: 7})
            assert tree is not None
            clause = to_chroma(tree)
            assert clause is not None and clause.exact
            assert chroma.passing(clause.where) == {row}


def test_metadata_with_nothing_for_chroma_is_none():
    assert chroma_metadata({"a": None, "b": ("x",), "": 1, "$c": 1, "#d": 1}) is None
    assert chroma_metadata({"a": 1, "b": False, "c": None}) == {"a": 1, "b": False}
