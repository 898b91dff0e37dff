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

FLOORS = (
    ("errors",),
    ("types",),
    ("pool", "config", "progress", "filters", "times"),
    ("decay", "number_names"),
    ("protocols",),
    ("runtime",),
    ("embedders", "frameworks/records", "sim"),
    ("query/time", "query/rewriting"),
    ("query", "ranking", "context/tokens"),
    ("context",),
    ("stores/failpoints", "stores/arrays", "stores/values", "stores/document_embedder"),
    ("stores/batch_checks", "stores/query_embedder", "stores/search_counts"),
    ("stores/base",),
    ("stores/ledger",),
    ("stores/rows",),
    ("stores/lexical",),
    ("stores/dense", "stores/chunk_names"),
    ("stores/corpus_stats", "stores/references"),
    ("stores/text_search",),
    ("stores/chroma",),
    ("stores/embedded",),
    ("stores/qdrant",),
    ("search",),
    ("retriever",),
    ("tenants", "explain", "migrate", "files/readers", "frameworks"),
    ("evaluation", "files"),
    ("ingest",),
    ("ingest/ray",),
    ("demo",),
    ("cli",),
)
"""umi_common's rooms from the ground up. A room imports rooms of lower floors, and none of its own floor; function
bodies count."""
FILES_MAX = 13
"""Most files in a folder: so many names are read at a glance."""
SEPARATE = {"query", "ranking", "context", "stores"}
"""None of these imports another, whatever its floor."""
EXCEPTIONS = {
    ("types", "explain"): "a result shows itself in a notebook and a terminal",
    ("context", "explain"): "a context shows itself in a notebook",
}
FACES = {"demo", "cli"}
"""These may show the adapters."""
FRAMEWORKS = ("langchain", "llama_index")


def room_of(module: str) -> str:
    """umi_common.stores.dense.cosines -> "stores/dense": the longest name that stands in FLOORS."""
    parts = module.split(".")[1:]
    known = {room for floor in FLOORS for room in floor}
    rooms = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((room for room in rooms if room in known), rooms[0] if rooms else "")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path, *, bodies: bool) -> set[str]:
    """Modules that the file imports, not for type checkers only; without `bodies`, those when it is imported itself."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if not bodies and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.update(_named(child.module, alias.name) for alias in child.names)
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def _named(module: str, name: str) -> str:
    """`from module import name`: the module that this imports."""
    inner = ROOT.joinpath(*module.split("."), name)
    return f"{module}.{name}" if inner.is_dir() or inner.with_suffix(".py").is_file() else module


CORE = [path for path in SOURCES if path.parts[-2:] != ("umi_common", "__init__.py") and "umi_common" in path.parts]


@pytest.mark.parametrize("path", CORE, ids=lambda path: module_of(path))
def test_imports_point_down(path):
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    own = room_of(module_of(path))
    for name in imports_of(path, bodies=True):
        if own not in FACES:
            assert not name.startswith(("umi_langchain", "umi_llamaindex")), f"{own} imports an adapter: {name}"
        other = room_of(name) if name.startswith("umi_common.") else own
        if other == own or (own, other) in EXCEPTIONS:
            continue
        assert floor[other] < floor[own], f"{own} imports {other} against the arrows"
        both = {own.split("/")[0], other.split("/")[0]}
        assert not (len(both) == 2 and both <= SEPARATE), f"{own} imports {other}; both are in SEPARATE"


@pytest.mark.parametrize("path", CORE, ids=lambda path: module_of(path))
def test_the_core_imports_no_framework(path):
    for name in imports_of(path, bodies=False):
        assert not name.startswith(FRAMEWORKS), f"{path.name} imports a framework: {name}"


def test_every_module_stands_on_a_floor():
    known = {room for floor in FLOORS for room in floor}
    modules = {module_of(path) for path in CORE} - {"umi_common.stores"}
    assert {room_of(module) for module in modules} <= known


def test_no_folder_is_crowded():
    """A reader finds their file at a glance."""
    for folder in {path.parent for path in CORE}:
        count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        assert count <= FILES_MAX, f"{folder.name} holds {count} files"


@pytest.mark.parametrize("adapter, other", [("umi_langchain", "llama_index"), ("umi_llamaindex", "langchain")])
def test_an_adapter_knows_only_its_own_framework(adapter, other):
    for path in (ROOT / adapter).rglob("*.py"):
        assert not any(name.startswith(other) for name in imports_of(path, bodies=False)), path


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
    }
    assert not loaded & heavy
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.5


def test_the_version_is_stated_once():
    assert f'version = "{umi_common.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.stem)
def test_tests_open_chroma_in_a_directory_or_by_a_client(path):
    """In memory, Chroma lets a process have one client with one group of settings, so tests would break each other."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    of_chroma = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Chroma"]
    given = [{keyword.arg for keyword in call.keywords} for call in of_chroma]
    assert all(names & {"client", "persist_directory", None} for names in given)
