"""A comparison as a table: text, markdown, rich or pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from umi_common.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from umi_common.evaluation.comparison import Comparison, Row

ABSENT = "-"


def draw_table(comparison: Comparison, format: str, metrics: Sequence[str]) -> Any:
    """A table a set, systems down, metrics across.

    Args:
        comparison: What was measured.
        format: "text" or "markdown" for a string, "rich" for something a rich console prints.
        metrics: Which ones, in order.

    Raises:
        ConfigError: If the format is none of these or a metric was not measured.
    """
    drawers = {"text": _text, "markdown": _markdown, "rich": _rich}
    if format not in drawers:
        raise ConfigError(f"format {format!r}; expected one of {', '.join(drawers)}")
    header = ["system", *metrics, "p50 ms", "LLM calls"]
    tables = []
    for name in comparison.sets:
        rows = [row for row in comparison.rows if row.set == name]
        tables.append((_title(comparison, rows[0]), header, [_cells(comparison, row, metrics) for row in rows]))
    return drawers[format](tables)


def to_frame(comparison: Comparison) -> Any:
    """One row a system and set: each metric's mean, low and high, latency in milliseconds, LLM calls."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "eval") from error
    records = []
    for row in comparison.rows:
        record: dict[str, Any] = {"set": row.set, "system": row.system}
        for metric, estimate in row.metrics.items():
            record |= {metric: estimate.mean, f"{metric} low": estimate.low, f"{metric} high": estimate.high}
        records.append(
            record | {f"{name} ms": spent for name, spent in row.latency.items()} | {"LLM calls": row.llm_calls}
        )
    return pandas.DataFrame.from_records(records)


Table = tuple[str, list[str], list[list[str]]]


def _title(comparison: Comparison, row: Row) -> str:
    first = next(iter(row.metrics.values()))
    groups = sum(name == row.set for name, _ in comparison.datasets)
    return f"{row.set}: {first.queries} queries, {groups} group{'s' if groups > 1 else ''}"


def _cells(comparison: Comparison, row: Row, metrics: Sequence[str]) -> list[str]:
    values = [f"{comparison.value(row.system, metric, row.set):.3f}" for metric in metrics]
    calls = ABSENT if row.llm_calls is None else f"{row.llm_calls:.2f}"
    return [row.system, *values, f"{row.latency['p50']:.1f}", calls]


def _text(tables: Sequence[Table]) -> str:
    return "\n\n".join(f"{title}\n{_aligned([header, *rows])}" for title, header, rows in tables)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _markdown(tables: Sequence[Table]) -> str:
    blocks = []
    for title, header, rows in tables:
        lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] + ["---:"] * (len(header) - 1), *rows)]
        blocks.append(f"**{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _rich(tables: Sequence[Table]) -> Any:
    from rich.console import Group
    from rich.table import Table as RichTable

    drawn = []
    for title, header, rows in tables:
        table = RichTable(title=title)
        for column, name in enumerate(header):
            table.add_column(name, justify="right" if column else "left")
        for row in rows:
            table.add_row(*row)
        drawn.append(table)
    return Group(*drawn)
