"""Every row of the table in docs/filters.md, in Python and columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from filter_cases import columns_of

from umi_common.filters import Not, matches, parse_filter
from umi_common.types import Chunk

_PAGE = Path(__file__).parents[2] / "docs" / "filters.md"
_ROW = re.compile(r"^\| (?P<rule>.*?) ?\| `(?P<where>\{.*\})` \| `(?P<metadata>\{.*\})` \| (?P<passes>yes|no) \|$")


def _rows() -> list[Any]:
    rows, rule = [], ""
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if found := _ROW.match(line):
            rule = found["rule"] or rule
            where, metadata = json.loads(found["where"]), json.loads(found["metadata"])
            rows.append(pytest.param(where, metadata, found["passes"] == "yes", id=f"{rule}: {where} on {metadata}"))
    return rows


def test_all_rows_of_the_table_are_read():
    section = _PAGE.read_text(encoding="utf-8").split("## What holds when")[1].split("\n## ")[0]
    assert len(_rows()) == sum(line.startswith("|") for line in section.splitlines()) - 2


@pytest.mark.parametrize(("where", "metadata", "passes"), _rows())
def test_a_row_of_the_table_holds_everywhere(where: dict[str, Any], metadata: dict[str, Any], passes: bool):
    tree = parse_filter(where)
    assert tree is not None
    stored = Chunk("c", "text", metadata=metadata).metadata
    assert matches(tree, stored) is passes
    assert matches(tree, metadata) is passes  # lists as well as the tuples a chunk keeps
    assert matches(Not(tree), stored) is not passes
    assert columns_of([stored]).mask(tree, 1).tolist() == [passes]
    assert columns_of([stored]).mask(Not(tree), 1).tolist() == [not passes]


def test_no_filter_passes_everything():
    assert parse_filter(None) is None
    assert matches(None, {})
