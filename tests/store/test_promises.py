"""Every test that docs/promises.md names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "promises.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SWITCH = re.compile(r"`(UMI_TEST_\w+)=\w+`")


@pytest.mark.parametrize(("file", "name"), sorted(set(TEST.findall(PAGE.read_text(encoding="utf-8")))))
def test_every_named_test_exists(file: str, name: str):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert name in names


def test_every_promise_names_a_test():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| fault", "|---")):
            assert TEST.search(line), line
            assert line.count("|") == 4, f"three cells: {line}"


def test_every_switch_is_read_by_the_test_it_stands_beside():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if SWITCH.search(line)]
    assert len(lines) >= 3
    for line in lines:
        ((file, _),) = TEST.findall(line)
        assert SWITCH.findall(line)[0] in (ROOT / file).read_text(encoding="utf-8")
