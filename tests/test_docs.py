"""README and docs are programs: every Python block runs, in the order of its page, in one namespace per page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from chromadb.api.shared_system_client import SharedSystemClient

from umi_common.cli.program import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
THEIRS = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    (?:\.venv/bin/)?(umi|make) ([a-z-]+\b.*)$", re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


@pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_every_python_block_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    SharedSystemClient.clear_system_cache()  # a page starts as its reader does: with no Chroma of another test
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_stands_for_another_librarys_code_is_code(page):
    for number, block in enumerate(THEIRS.findall(page.read_text()), 1):
        compile(block, f"{page.name} block {number}", "exec")


def test_every_command_that_a_page_shows_exists_with_its_options():
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    shown = [found for page in PAGES for found in COMMAND.findall(FENCED.sub("", page.read_text()))]
    assert len(shown) >= 8
    for program, line in shown:
        name, *words = shlex.split(line.partition("|")[0], comments=True)
        if program == "make":
            assert name in verbs, line
        else:
            options = {option for parameter in commands[name].params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= options, line


def test_the_readme_shows_the_two_commands_and_they_exist():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for verb in ("demo", "test"):
        assert f"make {verb}" in readme
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)


def test_every_file_that_the_readme_names_exists():
    for name in re.findall(r"`((?:docs/)?[\w./-]+\.(?:md|toml|py))`", (ROOT / "README.md").read_text()):
        assert (ROOT / name).exists(), name


def test_the_page_of_llamaindex_starts_with_query_engine_chat_engine_and_index_over_a_vector_store():
    first = (ROOT / "docs" / "llamaindex.md").read_text().partition("## Retrieve")[0]
    shown = "\n".join([*BLOCK.findall(first), *THEIRS.findall(first)])
    for typed_first in ("VectorStoreIndex.from_vector_store", "as_query_engine", "RetrieverQueryEngine", "ChatEngine"):
        assert typed_first in shown


def test_the_release_builds_what_it_tests_and_publishes_only_that():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    build = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert jobs["publish"]["needs"] == ["test", "build"] and jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    for step in ("python -m build", "twine check --strict", "pip install dist/*.whl", "GITHUB_REF_NAME#v"):
        assert step in build


WRONGLY_TYPED = """
from umi_common import HybridStore
from umi_langchain import UmiRetriever
from umi_llamaindex import UmiQuery, UmiRetriever as UmiNodeRetriever

retriever = UmiRetriever.from_store(HybridStore.open())
retriever.search("who?", filter=3)
retriever.search("who?", time_range="June")
retriever.search("who?", flter={})
UmiRetriever.from_store(HybridStore.open(), arms=["web"])
UmiNodeRetriever.from_store(HybridStore.open(), arms=["web"])
UmiQuery("who?", filters=3)
UmiQuery("who?", time_range="June")
"""

RIGHTLY_TYPED = """
from umi_common import Chunk, DualRetriever, Hit, HybridStore
from umi_common.config import FusionConfig, UmiConfig

tags: list[str] = ["a", "b"]
store = HybridStore.open()
store.add([Chunk("a", "pear", metadata={"tags": tags, "years": [2020, 2021], "pair": (1, 2), "user": "ann"})])
result = DualRetriever(store).search("pear", where={"tags": "a"})
first: Hit = result[0]
best: tuple[Hit, ...] = result[:3]
UmiConfig(fusion={"method": "rrf"}, when={"mode": "filter"}), UmiConfig(fusion=FusionConfig(method="rrf"))
"""


@pytest.mark.slow
def test_mypy_accepts_the_adapters_pages_and_refuses_wrong_filters_time_ranges_and_arms(tmp_path):
    pages = {page: ["\n".join(blocks(ROOT / "docs" / f"{page}.md"))] for page in ("langchain", "llamaindex")}
    pages |= {"readme": blocks(ROOT / "README.md"), "right": [RIGHTLY_TYPED], "wrong": [WRONGLY_TYPED]}
    for page, sources in pages.items():
        for number, source in enumerate(sources):
            (tmp_path / f"{page}_{number}.py").write_text(source)
    files = sorted(map(str, tmp_path.glob("*.py")))
    allowed = [
        "--allow-untyped-defs",
        "--allow-incomplete-defs",
        "--cache-dir",
        ".mypy_cache/pages",
    ]  # short functions of a page have no types
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *allowed, *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    errors = re.findall(r"^.*/(\w+)\.py:(\d+): error:", run.stdout, re.MULTILINE)
    lines = [number for number, line in enumerate(WRONGLY_TYPED.splitlines(), 1) if '"who?"' in line or "arms" in line]
    assert len(lines) == 7
    assert errors == [("wrong_0", str(number)) for number in lines], run.stdout
