"""The plots: milliseconds over chunks for BM25, for nearest neighbours and for the hybrid. Needs matplotlib."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import matplotlib

from benchmarks.tables import of, size_name
from umi_common.evaluation._figure import Chart
from umi_common.evaluation.plots import colour, marker

PANELS = (
    ("bm25", "BM25, top 10", "BM25"),
    ("dense", "nearest neighbours, top 10", "nearest neighbours"),
    ("hybrid", "hybrid search, top 10, 384-d", "hybrid search"),
)


def write_plots(folder: Path) -> list[Path]:
    """`speed.svg` (BM25 and hybrid, for the README) and `growth.svg` (all three); those that changed."""
    return [
        path
        for name, panels in (("speed.svg", (PANELS[0], PANELS[2])), ("growth.svg", PANELS))
        if (path := _written(folder / name, panels)) is not None
    ]


def _written(path: Path, panels: tuple[tuple[str, str, str], ...]) -> Path | None:
    drawn = [(part, what, title) for part, what, title in panels if of(part, what)]
    if not drawn:
        return None
    chart = Chart(4.6 * len(drawn), 4.2)
    for place, (part, what, title) in enumerate(drawn, 1):
        _panel(chart.add_subplot(1, len(drawn), place), part, what, title)
    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "umi", "svg.fonttype": "path"}):  # the same figures, the same file
        chart.savefig(buffer, format="svg", metadata={"Date": None})
    text = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
    path.parent.mkdir(exist_ok=True)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return None
    path.write_text(text, encoding="utf-8")
    return path


def _panel(axes: object, part: str, what: str, title: str) -> None:
    rows = [row for row in of(part, what) if row.get("p50_ms")]
    sizes = sorted({row["size"] for row in rows})
    for place, name in enumerate(dict.fromkeys(row["system"] for row in rows)):
        mine = [row for row in rows if row["system"] == name]
        axes.plot(  # type: ignore[attr-defined]
            [row["size"] for row in mine],
            [row["p50_ms"] for row in mine],
            color=colour(place),
            marker=marker(place),
            linewidth=2.6 if name == "umi" else 1.4,
            label=name,
        )
    axes.set(  # type: ignore[attr-defined]
        xscale="log", yscale="log", title=title, xlabel="chunks", ylabel="p50, milliseconds (log)"
    )
    axes.set_xticks(sizes, [size_name(size) for size in sizes])  # type: ignore[attr-defined]
    axes.minorticks_off()  # type: ignore[attr-defined]
    axes.grid(alpha=0.3)  # type: ignore[attr-defined]
    axes.legend(fontsize=7, frameon=False)  # type: ignore[attr-defined]
