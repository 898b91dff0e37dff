"""JSON as text: a file's values by their keys, a notebook's cells as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable

OUTPUT_CHARACTERS = 1_000
"""Longest output of a notebook's cell that is read, in characters."""


def value_lines(value: Any, name: str = "") -> Iterator[str]:
    """A JSON value as lines "owner.name: Ann", one for each text or number in it; a blank line ends each object of a
    list. Null, and lists and objects without values, have none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from value_lines(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(inner, (dict, list)) for inner in value):
        for inner in value:
            yield from value_lines(inner, name)
            yield ""
    elif value not in (None, []):
        shown = ", ".join(map(_scalar, value)) if isinstance(value, list) else _scalar(value)
        yield f"{name}: {shown}" if name else shown


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def notebook_markdown(path: Path, text: str) -> str:
    """The cells of a Jupyter notebook: Markdown as it is, in fences code and its short outputs of text.

    Outputs of more than OUTPUT_CHARACTERS, errors, and those that a notebook shows as a picture are left out.

    Raises:
        FileUnreadable: If it is no notebook.
    """
    try:
        notebook = json.loads(text)
        sheets = [notebook] if "cells" in notebook else notebook["worksheets"]  # before format 4
        return "\n\n".join(text for sheet in sheets for cell in sheet["cells"] for text in _cell_texts(cell))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FileUnreadable(f"{path} is no notebook that can be read ({error}); leave it out") from error


def _cell_texts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"] if "source" in cell else cell["input"])
    if cell["cell_type"] != "code":
        yield source
        return
    outputs = [_output_text(output) for output in cell.get("outputs", ())]
    for text in (source, *(each for each in outputs if len(each) <= OUTPUT_CHARACTERS)):
        if text.strip():
            fence = "~~~" if "```" in text else "```"
            yield f"{fence}\n{text.strip()}\n{fence}"


def _output_text(output: dict[str, Any]) -> str:
    data = output.get("data", output)
    picture = any(kind.startswith("image/") for kind in data)
    kinds = ("text/markdown", "text/plain", "text")  # beside Markdown, the plain text names its class alone
    return "" if picture else "".join(next((data[kind] for kind in kinds if kind in data), ""))
