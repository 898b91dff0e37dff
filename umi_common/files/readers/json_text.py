"""Turn JSON, CSV and TSV into lines "key: value", one for each value, and the cells of a notebook into Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from umi_common.errors import FileUnreadable
from umi_common.files.readers.html_text import HtmlText
from umi_common.files.readers.passages import Table
from umi_common.files.readers.reading import without_terminal_codes

OUTPUT_CHARACTERS = 1_000
"""Number of characters that are read of each output of a notebook's cell."""
HEAD_LINES = 2
"""Number of lines of a record, mostly its id and its name, that each later passage of the record repeats."""
NAME_CHARACTERS = 100
"""Largest number of characters of a column's name. A first row with a longer text is no head: the sheet has none."""
_QUOTED = re.compile('"[^"]*"')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""The beginning of a surrogate as JSON escapes it: "\\ud83d"."""
_BARE_OBJECT = re.compile(r"<[\w.]+ object(?: at \w+)?>")
"""The plain text of an output without readable text, such as "<Figure object at 0x7f>"."""


def loaded(text: str) -> Any:
    """The value of a JSON text. Unpaired surrogates in its strings, such as half an emoji, are replaced.

    Raises:
        ValueError: If the text is no JSON.
        RecursionError: If the value is nested too deeply.
    """
    value = json.loads(text)
    if _SURROGATE.search(text):
        whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        value = json.loads(whole.decode("utf-16", "replace"))
    return value


def json_text(value: Any) -> tuple[str, list[Table]]:
    """The `text_of_records` of a JSON value. Records are the elements of its outermost lists of objects or lists."""
    return text_of_records(_records_in(value, ""))


def value_lines(value: Any, name: str = "") -> list[str]:
    """A line "owner.name: Ann" for each text, number or truth value in a JSON value, and for each list of these.

    A blank line follows each element of a list of objects or lists. Null, empty lists and empty objects have no line.

    Args:
        name: The keys that lead to the value, joined by dots; "" for the whole value.
    """
    return [line for _, lines in _records_in(value, name) for line in lines]


def _records_in(value: Any, name: str) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield (whether it is a record, its `value_lines`) for each part of a JSON value; see `json_text`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _records_in(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(inner, (dict, list)) for inner in value):
        yield from ((True, [*value_lines(inner, name), ""]) for inner in value)
    elif value not in (None, []):
        shown = ", ".join(map(_scalar, value)) if isinstance(value, list) else _scalar(value)
        yield False, [f"{name}: {shown}" if name else shown]


def sheet_text(text: str, table: Table, separators: str) -> tuple[str, list[Table]]:
    """The rows of a sheet as records, a line "column: value" for each cell that is not blank; see `text_of_records`.

    A sheet without rows, or with a column's name of more than NAME_CHARACTERS, is returned as it is.

    Args:
        text: The text of a CSV or TSV file.
        table: Its `Table.of_sheet`.
        separators: The characters that may separate two fields.

    Raises:
        csv.Error: If a field has more characters than `csv.field_size_limit()`.
    """
    separator = max(separators, key=_QUOTED.sub("", text[table.start : table.rows_start]).count)
    names, *rows = csv.reader(
        io.StringIO(text[table.start :], newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if text.count('"') % 2 else csv.QUOTE_MINIMAL,
    )
    if not rows or max(map(len, names)) > NAME_CHARACTERS:
        return text, [table]
    records = (
        [*(f"{name}: {cell}" if name else cell for name, cell in zip_longest(names, row, fillvalue="") if cell.strip())]
        for row in rows
    )
    return text_of_records(
        [(False, text[: table.start].splitlines()), *((True, [*record, ""]) for record in records if record)]
    )


def text_of_records(parts: Iterable[tuple[bool, Sequence[str]]]) -> tuple[str, list[Table]]:
    """The lines of all parts as one text, and a table for each record of more than HEAD_LINES lines.

    Its head is the first HEAD_LINES lines, so that each passage shows whose values it has. Its rows end at blank lines.

    Args:
        parts: (whether it is a record, its lines).
    """
    texts, tables, at = list[str](), list[Table](), 0
    for is_record, lines in parts:
        ends = [*accumulate((len(line) + 1 for line in lines), initial=at)]
        if is_record and len(lines) > HEAD_LINES:
            head = "".join(f"{line}\n" for line in lines[:HEAD_LINES])
            row_ends = [end for end, line in zip(ends[1:], lines, strict=True) if not line]
            tables.append(Table(at, at + len(head), ends[-1], head, row_ends))
        texts += lines
        at = ends[-1]
    return "\n".join(texts), tables


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def notebook_markdown(path: Path, text: str) -> tuple[str, int]:
    """The cells of a Jupyter notebook as Markdown, and the number of outputs that were cut to OUTPUT_CHARACTERS.

    Markdown cells are unchanged; code and the text of its outputs (`_output_text`) are fenced.

    Raises:
        FileUnreadable: If the text is no notebook.
    """
    texts, cut = list[str](), 0
    try:
        notebook = loaded(text)
        sheets = [notebook] if "cells" in notebook else notebook["worksheets"]  # the latter before format 4
        for cell in (cell for sheet in sheets for cell in sheet["cells"]):
            source = "".join(cell["source"] if "source" in cell else cell["input"])
            if cell["cell_type"] != "code":
                texts.append(source)
                continue
            outputs = [_output_text(output).strip() for output in cell.get("outputs", ())]
            cut += sum(len(output) > OUTPUT_CHARACTERS for output in outputs)
            for shown in filter(str.strip, (source, *(output[:OUTPUT_CHARACTERS] for output in outputs))):
                fence = "~~~" if "```" in shown else "```"
                texts.append(f"{fence}\n{shown.strip()}\n{fence}")
    except ValueError as error:
        raise FileUnreadable(f"{path} is no notebook that can be read ({error}); leave it out") from error
    except (TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FileUnreadable(
            f"{path} is no notebook that can be read: it is JSON, but not an object with a list of cells; leave it out"
        ) from error
    return "\n\n".join(texts), cut


def _output_text(output: dict[str, Any]) -> str:
    """The text of an output as a notebook shows it; "" for a picture of format 4. An error has no traceback."""
    data = output.get("data", output)
    if "evalue" in data:
        return without_terminal_codes(f"{data.get('ename')}: {data['evalue']}")
    # In the order of preference. A plain text such as "<Figure object>" is passed over.
    kinds = ("text/markdown", "text/plain", "text", "text/html", "text/latex")
    texts = {kind: "".join(data[kind]) for kind in kinds if kind in data}
    shown = next((kind for kind, text in texts.items() if not _BARE_OBJECT.fullmatch(text.strip())), "")
    if not shown or any(kind.startswith("image/") for kind in data):
        return ""
    return HtmlText().read(texts[shown]).text if shown == "text/html" else without_terminal_codes(texts[shown])
