"""What `mkdocs build` does beyond Markdown: the README is the site's first page.

The README's links are absolute, because a package index shows it, too; on the page that is made of it those to `docs/`
are relative. A page's link back (`../README.md`) becomes one to that page.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HOME = "index.md"
README = Path(__file__).parents[2] / "README.md"
LINK_TO_DOCS = re.compile(
    r"\]\(https://(?:github\.com/umi-retrieval/umi/blob|raw\.githubusercontent\.com/umi-retrieval/umi)/main/docs/"
)
LINK_TO_README = re.compile(r"\]\((?:\.\./)+README\.md(#[\w-]+)?\)")


def home(readme: str) -> str:
    """The README as a page of `docs/`."""
    return LINK_TO_DOCS.sub("](", readme)


def on_files(files: Files, config: Any) -> Files:
    """Add the first page."""
    files.append(File.generated(config, HOME, content=home(README.read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Turn links to the README into links to the first page."""
    to_home = relpath(HOME, str(PurePosixPath(page.file.src_uri).parent))
    return LINK_TO_README.sub(lambda link: f"]({to_home}{link[1] or ''})", markdown)
