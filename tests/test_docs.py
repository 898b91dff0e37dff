"""README and docs are programs: every Python block runs, in the order of its page, in one namespace per page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from chromadb.api.shared_system_client import SharedSystemClient

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_every_python_block_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    SharedSystemClient.clear_system_cache()  # a page starts as its reader does: with no Chroma of another test
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), namespace)


def test_the_readme_shows_the_two_commands_and_they_exist():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for verb in ("demo", "test"):
        assert f"make {verb}" in readme
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)


def test_every_file_that_the_readme_names_exists():
    for name in re.findall(r"`((?:docs/)?[\w./-]+\.(?:md|toml|py))`", (ROOT / "README.md").read_text()):
        assert (ROOT / name).exists(), name
