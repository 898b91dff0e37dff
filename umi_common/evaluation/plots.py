"""Draw comparisons and tunings with matplotlib.

Each `plot_` function returns a matplotlib figure, and also writes it to a file if it is given a path.
Colours differ under every common colour blindness. No display is needed, and pyplot's global state is not changed.
Without matplotlib every function raises MissingExtra.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umi_common.errors import ConfigError, optional_module
from umi_common.evaluation.tune import Between, Tuning

if TYPE_CHECKING:
    from umi_common.evaluation.comparison import SystemComparison

PathOption = str | Path | None
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's eight colours, which differ under every common colour blindness."""
MARKERS = "osD^vPX*"
"""Markers by index, so that lines differ without colour, too."""
BAR_SHARE = 0.8
"""Total width of the bars of one set, as a share of the distance between two sets."""


def plot_metric(comparison: SystemComparison, metric: str, path: PathOption = None) -> Any:
    """One bar per system and set: the mean of one metric with its 95 % interval."""
    chart, axes = new_axes(max(6.5, 2.7 + 0.45 * len(comparison.sets) * len(comparison.systems)), 4.0)
    width = BAR_SHARE / len(comparison.systems)
    for index, system in enumerate(comparison.systems):
        means = [comparison.value(system, metric, name) for name in comparison.sets]
        found = [comparison.row(system, name).metrics[metric] for name in comparison.sets]
        errors = np.array([[e.mean - e.low for e in found], [e.high - e.mean for e in found]]).clip(min=0.0)
        centres = np.arange(len(found)) - BAR_SHARE / 2 + (index + 0.5) * width
        axes.bar(centres, means, width, yerr=errors, capsize=2, label=system, color=colour(index))
    axes.set_xticks(range(len(comparison.sets)), comparison.sets)
    axes.set_ylim(0.0, 1.0)
    label_axes(axes, f"{metric} by set, mean and 95 % interval", "", f"{metric} (0..1)", beside=True)
    return chart.saved(path)


def plot_llm_calls(comparison: SystemComparison, metric: str | None = None, path: PathOption = None) -> Any:
    """One metric against LLM calls per query, one point per system and set; None: recall at the largest k."""
    metric = f"recall@{max(comparison.ks)}" if metric is None else metric
    chart, axes = new_axes(6.5, 4.0)
    for index, system in enumerate(comparison.systems):
        rows = [row for row in comparison.rows if row.system == system and row.llm_calls is not None]
        calls = [row.llm_calls for row in rows]
        quality = [comparison.value(system, metric, row.set) for row in rows]
        if rows:
            axes.scatter(calls, quality, marker=marker(index), color=colour(index), label=system)
    label_axes(axes, f"{metric} against LLM calls", "LLM calls a query", f"{metric} (0..1)", beside=True)
    return chart.saved(path)


def plot_tuning(tuning: Tuning, path: PathOption = None) -> Any:
    """The scores of a tuning: a heat map over two settings that are not a `Between`, else one plot per setting."""
    names = list(tuning.space)
    if not names:
        raise ConfigError("this tuning has no search space, which the plot needs; plot a tuning that `tune` returned")
    if len(names) == 2 and not any(isinstance(choices, Between) for choices in tuning.space.values()):
        return _heat_map(tuning, names).saved(path)
    chart = new_chart(max(4.6, 2.8 * len(names)), 3.4)
    chart.suptitle(f"{tuning.metric} on the training sets, by setting")
    for axes, name in zip(np.atleast_1d(chart.subplots(1, len(names), sharey=True)), names, strict=True):
        tried = [trial for trial in tuning.history if name in trial.settings]
        settings = [trial.settings[name] for trial in tried]
        numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in settings)
        across = settings if numeric else [str(value) for value in settings]
        axes.scatter(across, [trial.score for trial in tried], color=colour(0), s=16)
        first = name == names[0]
        label = "before tuning" if first else None
        axes.axhline(tuning.history[0].score, color=colour(4), linestyle="--", label=label)
        label_axes(axes, "", name, f"{tuning.metric} (0..1)" if first else "")
    return chart.saved(path)


def _heat_map(tuning: Tuning, names: Sequence[str]) -> Any:
    """Each trial's score in a grid of two settings, named across and down."""
    across, down = (list(tuning.space[name]) for name in names)  # type: ignore[arg-type]
    grid = np.full((len(down), len(across)), np.nan)
    for trial in tuning.history:
        if all(name in trial.settings for name in names):
            grid[down.index(trial.settings[names[1]]), across.index(trial.settings[names[0]])] = trial.score
    chart, axes = new_axes(5.5, 4.2)
    image = axes.imshow(grid, origin="lower", aspect="auto", cmap="cividis")
    middle = np.nanmean([np.nanmin(grid), np.nanmax(grid)])
    for (row, column), score in np.ndenumerate(grid):
        if np.isfinite(score):
            ink = "white" if score < middle else "black"
            axes.text(column, row, f"{score:.3f}", color=ink, ha="center", va="center", fontsize="small")
    axes.set_xticks(range(len(across)), [str(value) for value in across])
    axes.set_yticks(range(len(down)), [str(value) for value in down])
    label_axes(axes, f"{tuning.metric} on the training sets", names[0], names[1])
    chart.colorbar(image, label=f"{tuning.metric} (0..1)")
    return chart


def label_axes(axes: Any, title: str, across: str, up: str, *, beside: bool = False) -> None:
    """Set the title, the labels of both axes and, if any line has a label, a legend.

    Args:
        across, up: Labels of the horizontal and the vertical axis.
        beside: Put the legend to the right of the axes instead of inside.
    """
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if axes.get_legend_handles_labels()[1]:
        where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False} if beside else {}
        axes.legend(fontsize="small", **where)


def new_chart(width: float, height: float) -> Any:
    """An empty figure, width and height in inches. Raises MissingExtra without matplotlib."""
    return optional_module("umi_common.evaluation._figure", "matplotlib", "eval").Chart(width, height)


def new_axes(width: float, height: float) -> tuple[Any, Any]:
    """(figure, its axes); as `new_chart`."""
    chart = new_chart(width, height)
    return chart, chart.add_subplot()


def colour(index: int) -> str:
    """The colour of the system, hit or line with this index."""
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """The marker of the system, hit or line with this index."""
    return MARKERS[index % len(MARKERS)]
