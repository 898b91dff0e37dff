"""The README's path from a clone to a hit in one's own folder: three commands, in an empty home, timed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SECONDS_MAX = 60.0
"""Generous; measured: three seconds on an idle machine. The test's properties hold what it took."""


def commands() -> list[str]:
    """The block of the README below "Your own folder"."""
    block = re.search(r"^Your own folder.*?\n\n((?: {4}.*\n)+)", README, re.MULTILINE)
    assert block is not None
    return [line.strip() for line in block[1].splitlines()]


@pytest.fixture
def home(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "roof.md").write_text("# Roof\n\nThe roofers want nine thousand for new battens.")
    (notes / "garden.txt").write_text("The pear tree needs a stake.")
    return tmp_path


def umi(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "umi_common.cli", *arguments]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


def test_the_way_is_at_most_three_commands_and_the_first_is_a_verb_of_make():
    install, *rest = commands()
    assert len(rest) == 2 and not any("&&" in line or ";" in line for line in commands())
    assert re.search(rf"^{install.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_other_two_find_the_passage_in_an_empty_home(home, record_property):
    begun = time.perf_counter()
    for line in commands()[1:]:
        program, *arguments = shlex.split(line.replace("~", str(home)))
        assert program == ".venv/bin/umi"
        done = umi(home, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    seconds = time.perf_counter() - begun
    record_property("seconds", round(seconds, 1))
    assert "1  1.000  notes/roof.md#0" in done.stdout
    assert seconds < SECONDS_MAX


def test_help_alone_leads_to_the_two_commands(home):
    assert 'umi index FOLDER, then umi search "your question"' in umi(home, "--help").stdout
    said = umi(home, "index", "--help").stdout
    for part in ("Files and folders", "--store", "PDF", "Ctrl-C"):
        assert part in said


STREAM = "BT /F1 12 Tf 72 720 Td (The chimney was swept in October.) Tj ET"
PDF_OBJECTS = (
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[4 0 R]/Count 1>>",
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R/Resources<</Font<</F1 3 0 R>>>>>>",
    f"<</Length {len(STREAM)}>>stream\n{STREAM}\nendstream",
)


def test_the_projects_own_docs_and_a_pdf_are_found(home):
    pytest.importorskip("pypdf")
    body = "%PDF-1.4\n" + "".join(f"{number} 0 obj{value}endobj\n" for number, value in enumerate(PDF_OBJECTS, 1))
    (home / "chimney.pdf").write_text(f"{body}trailer<</Size 6/Root 1 0 R>>\nstartxref\n0\n%%EOF")
    done = umi(home, "index", str(ROOT / "docs"), "chimney.pdf")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1  1.000  chimney.pdf#0  [page 1]" in umi(home, "search", "when was the chimney swept?").stdout
    found = umi(home, "search", "which exit code does Ctrl-C give", "--json").stdout
    assert "docs/cli.md" in json.loads(found)["hits"][0]["source"]
