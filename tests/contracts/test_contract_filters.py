"""Filters have the meaning of docs/filters.md in every store, and in every call that takes one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from corpus import search

sys.path.insert(0, str(Path(__file__).parents[1] / "filters"))
from filter_cases import Cases

from umi_common.errors import FilterError
from umi_common.filters import matches, parse_filter
from umi_common.types import Chunk

PAGE = Path(__file__).parents[2] / "docs" / "filters.md"
ROW = re.compile(r"^\| .*? ?\| `(?P<where>\{.*\})` \| `(?P<metadata>\{.*\})` \| (?P<passes>yes|no) \|$", re.MULTILINE)
CHUNKS, FILTERS = 60, 60


def asked_everywhere(store, where) -> dict[str, set[str]]:
    """The ids that pass a filter, by each reading call. All texts are one word, so both arms find all."""
    tree = parse_filter(where)
    pool = search(store, "boat", depth=1_000, where=tree)
    rows = pool.ids
    beside = store.neighbours(["c000"], reach=1_000, where=tree).get("c000", [])
    return {
        "scan": {chunk.id for chunk in store.scan(where=tree)},
        "lexical": {id for id, rank in zip(rows, pool.lexical_rank[0], strict=True) if rank},
        "dense": {id for id, rank in zip(rows, pool.dense_rank[0], strict=True) if rank},
        "neighbours": {chunk.id for chunk in beside},
    }


def filled(store, metadatas) -> list[Chunk]:
    chunks = [
        Chunk(f"c{place:03}", "boat", metadata=metadata, source="s", position=place)
        for place, metadata in enumerate(metadatas)
    ]
    store.add(chunks)
    return chunks


def test_every_row_of_the_table_in_the_documentation(store):
    rows = [match.groupdict() for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(rows) > 70
    chunks = filled(store, [json.loads(row["metadata"]) for row in rows])
    for chunk, row in zip(chunks, rows, strict=True):
        for call, found in asked_everywhere(store, json.loads(row["where"])).items():
            assert (chunk.id in found) == (row["passes"] == "yes"), (call, row)


@pytest.mark.parametrize("seed", range(2))
def test_hostile_metadata_and_filters(store, seed):
    cases = Cases(seed)
    chunks = filled(store, [cases.metadata() for _ in range(CHUNKS)])
    for _ in range(FILTERS):
        where = cases.where()
        tree = parse_filter(where)
        may = {chunk.id for chunk in chunks if matches(tree, chunk.metadata)}
        assert asked_everywhere(store, where) == dict.fromkeys(("scan", "lexical", "dense", "neighbours"), may), where


def test_delete_takes_exactly_what_passes(store):
    cases = Cases(7)
    left = {chunk.id: chunk for chunk in filled(store, [cases.metadata() for _ in range(CHUNKS)])}
    for _ in range(8):
        where = cases.where(depth=1)
        gone = [id for id, chunk in left.items() if matches(parse_filter(where), chunk.metadata)]
        assert store.delete(where=where) == len(gone), where
        for id in gone:
            del left[id]
        assert store.scan() == list(left.values())


@pytest.mark.parametrize("where", [{}, {"a": {"$like": "x"}}, {"$or": []}])
def test_a_filter_without_a_meaning_deletes_nothing(store, where):
    filled(store, [{"a": 1}])
    with pytest.raises(FilterError):
        store.delete(where=where)
    assert len(store) == 1
