"""A name means one thing: no public class or function of the three packages is defined in two modules."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("umi_common", "umi_langchain", "umi_llamaindex")

DELIBERATE = {
    # the same class or function for each framework, one of them imported by a user
    *("UmiRetriever", "UmiVectorStore", "as_arm", "create_umi_tool", "reranker_of", "to_chunks"),
    *("UmiDecay", "UmiMMR", "UmiNearDuplicates", "UmiNeighbours"),
    # every ranking stage is a function of this name in a module of its own
    "apply",
    # a command of the command line is named as the function that does its work
    *("ask", "index", "main", "migrate", "rebuild", "repair", "search", "status", "tune", "verify"),
}


def test_a_name_is_defined_in_one_module():
    modules = defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[0] != "_":
                modules[node.name].add(path.relative_to(ROOT).as_posix())
    twice = {name: sorted(found) for name, found in modules.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in DELIBERATE} == {}
