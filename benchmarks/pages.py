"""Write tables and plots from the saved figures: in README.md, docs/performance.md and docs/pictures.

A block of a page is `<!-- bench:NAME -->` ... `<!-- /bench -->`; NAME is a table of `tables.TABLES`. `stale_pages` says
which pages would change, for a test that measures nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
PICTURES = ROOT / "docs" / "pictures"
BLOCK = re.compile(r"(<!-- bench:([\w-]+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


def filled(text: str) -> str:
    """The page with its blocks written again.

    Raises:
        KeyError: If a block names no table.
    """
    return BLOCK.sub(lambda block: block[1] + TABLES[block[2]]() + "\n" + block[3], text)


def stale_pages() -> list[Path]:
    """Pages whose tables differ from the saved figures."""
    present = ((page, page.read_text(encoding="utf-8")) for page in PAGES if page.exists())
    return [page for page, text in present if filled(text) != text]


def write_pages() -> list[Path]:
    """Write the pages that changed, and plots if matplotlib is installed; returns the written paths."""
    written = stale_pages()
    for page in written:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        from benchmarks.plots import write_plots
    except ModuleNotFoundError:
        return written
    return [*written, *write_plots(PICTURES)]
