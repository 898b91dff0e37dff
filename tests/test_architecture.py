"""The shape of the project: imports point one way, public names are few and pinned."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import umi_common

ROOT = Path(__file__).parents[1]
PACKAGES = ("umi_common", "umi_langchain", "umi_llamaindex")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

LAYERS = {
    "errors": 0,
    "types": 0,
    "taken": 0,
    "making": 0,
    "forks": 0,
    "turns": 0,
    "deadline": 0,
    "breaker": 0,
    "pool": 1,
    "forgetting": 1,
    "tenant_names": 1,
    "progress": 1,
    "config": 1,
    "_settings": 1,
    "protocols": 1,
    "records": 1,
    "filters": 1,
    "sim": 2,
    "embedders": 2,
    "query": 3,
    "ranking": 3,
    "context": 3,
    "store": 3,
    "calls": 4,
    "threads": 4,
    "drivers": 4,
    "notes": 4,
    "request": 4,
    "rerank": 4,
    "shape": 4,
    "hits": 4,
    "arms": 4,
    "recall": 4,
    "together": 4,
    "line": 4,
    "retriever": 4,
    "tenants": 4,
    "explain": 4,
    "telemetry": 4,
    "migrate": 4,
    "evaluation": 5,
    "files": 5,
    "ingest": 5,
    "ingest_ray": 5,
    "demo": 6,
    "cli": 6,
}
"""umi_common's modules from the bottom up; a module imports its own layer or a lower one."""
SIBLINGS = {"query", "ranking", "context", "store"}
"""Of one layer and strangers to each other."""
FRAMEWORKS = ("langchain", "llama_index")


def module_of(path: Path) -> str:
    """umi_common/store/hybrid.py -> "store"; umi_common/types.py -> "types"."""
    return path.relative_to(ROOT / "umi_common").parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Modules that the file imports when it is imported itself: not inside functions, not for type checkers only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.add(child.module)
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parts[-2:] != ("umi_common", "__init__.py")], ids=str)
def test_imports_point_one_way(path):
    if path.relative_to(ROOT).parts[0] != "umi_common":
        return
    own = module_of(path)
    for name in imports_of(path):
        assert not name.startswith(FRAMEWORKS), f"{path.name} imports a framework: {name}"
        assert not name.startswith(("umi_langchain", "umi_llamaindex")), f"{path.name} imports an adapter: {name}"
        if name.startswith("umi_common."):
            other = name.split(".")[1]
            if other in LAYERS:
                assert LAYERS[other] <= LAYERS[own], f"{own} imports {other} against the arrows"
                assert not (own != other and {own, other} <= SIBLINGS), f"{own} and {other} are strangers"


def test_every_module_has_its_layer():
    modules = {module_of(p) for p in SOURCES if p.relative_to(ROOT).parts[0] == "umi_common"}
    assert modules - {"__init__"} <= set(LAYERS)


@pytest.mark.parametrize("adapter, other", [("umi_langchain", "llama_index"), ("umi_llamaindex", "langchain")])
def test_an_adapter_knows_only_its_own_framework(adapter, other):
    for path in (ROOT / adapter).rglob("*.py"):
        assert not any(name.startswith(other) for name in imports_of(path)), path


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_these(package):
    pinned = json.loads((ROOT / "tests" / "golden" / "public_names.json").read_text())
    module = __import__(package)
    assert sorted(module.__all__) == pinned[package]
    for name in module.__all__:
        assert getattr(module, name).__doc__, f"{name} has no docstring"


def test_the_core_has_at_most_fifteen_public_names():
    assert len(umi_common.__all__) <= 15


def test_importing_umi_is_quick_and_touches_nothing_heavy():
    code = (
        "import sys, time; t = time.perf_counter(); import umi_common; print(time.perf_counter() - t); "
        "from umi_common import Chunk, DualRetriever, HybridStore, UmiConfig, TokenBudget; print(' '.join(sys.modules))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    loaded = {name.split(".")[0] for name in runs[0].stdout.split()}
    heavy = {
        "chromadb",
        "wordllama",
        "tokenizers",
        "langchain_core",
        "llama_index",
        "pandas",
        "matplotlib",
        "dateparser",
    }
    assert not loaded & heavy
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.5


def test_the_version_is_stated_once():
    assert f'version = "{umi_common.__version__}"' in (ROOT / "pyproject.toml").read_text()
