"""README and docs are programs: every Python block runs, in the order of its page, in one namespace per page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from chromadb.api.shared_system_client import SharedSystemClient

from umi_common.cli import app

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
