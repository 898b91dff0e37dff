"""Draw comparisons, tunings, the scores of a result and decay with matplotlib.

Each `plot_` function returns a matplotlib figure, and writes it to a file if a path is given. No display is needed, and
pyplot's global state is not changed. Without matplotlib the functions raise MissingExtra.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umi_common.decay import decay_factors, rate_of
from umi_common.errors import ConfigError, InputError, optional_module
from umi_common.evaluation.metrics import LATENCY_PERCENTILES, score_rankings
from umi_common.evaluation.tune import Between, Tuning
from umi_common.explain.reasons import best_signals
from umi_common.explain.texts import snippet
from umi_common.types import Hit, SearchResult

if TYPE_CHECKING:
    from umi_common.evaluation.compare import SystemComparison

PathOption = str | Path | None
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
"""The eight colours of Okabe and Ito, which people with common kinds of colour blindness can distinguish."""
MARKERS = "osD^vPX*"
"""Matplotlib's markers, so that lines differ without colour, too."""
BAR_SHARE = 0.8
"""Total width of the bars of one set, as a share of the distance between two sets."""
HITS_DRAWN = 6
"""Largest number of hits in `plot_score_flow`; more lines are hard to distinguish."""
ID_CHARACTERS = 28
"""Largest number of characters of a chunk's id; a longer id is cut."""
NAME_GAP = 0.065
"""Smallest vertical distance between the names of two hits, as a share of the vertical axis."""
HALF_LIVES_SHOWN = 4
"""Length of the age axis, in units of the longest half-life."""
HOURS_A_DAY = 24.0


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


def plot_precision_recall(comparison: SystemComparison, set: str | None = None, path: PathOption = None) -> Any:
    """Precision against recall in one set (None: the only one) at each cut-off from 1 to the depth, by system."""
    chart, axes = new_axes(6.5, 4.0)
    name = comparison.row(comparison.systems[0], set).set
    for index, system in enumerate(comparison.systems):
        recall, precision = (_curve(comparison, system, name, metric) for metric in ("recall", "precision"))
        axes.plot(recall, precision, marker=marker(index), ms=4, label=system, color=colour(index))
    axes.set(xlim=(0.0, 1.03), ylim=(0.0, 1.03))
    title = f"{name}: precision and recall at 1..{comparison.depth}"
    label_axes(axes, title, "recall (0..1)", "precision (0..1)", beside=True)
    return chart.saved(path)


def plot_latency(comparison: SystemComparison, path: PathOption = None) -> Any:
    """p50, p95 and p99 of the time of a search, by system, over all sets; the axis is logarithmic, in milliseconds."""
    spent: dict[str, list[float]] = {system: [] for system in comparison.systems}
    for run in comparison.runs:
        spent[run.system] += run.milliseconds.values()
    chart, axes = new_axes(6.5, 1.4 + 0.4 * len(comparison.systems))
    for index, (name, percentile) in enumerate(LATENCY_PERCENTILES.items()):
        times = [np.percentile(spent[system], percentile) for system in comparison.systems]
        axes.scatter(times, comparison.systems, marker=marker(index), color=colour(index), label=name)
    axes.set_xscale("log")
    label_axes(axes, f"Latency of a search, {comparison.depth} results", "milliseconds (logarithmic)", "", beside=True)
    return chart.saved(path)


def plot_llm_calls(comparison: SystemComparison, metric: str | None = None, path: PathOption = None) -> Any:
    """One metric (None: recall at the largest k) against the mean number of LLM calls per query, by system and set."""
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
    """The scores of a tuning: a heat map for two settings with lists of values, else a plot for each setting."""
    names = list(tuning.space)
    if not names:
        raise ConfigError("this tuning has no search space, which the plot needs; plot a tuning that `tune` returned")
    if len(names) == 2 and not any(isinstance(choices, Between) for choices in tuning.space.values()):
        return _heat_map(tuning, names).saved(path)
    chart = new_chart(max(4.6, 2.8 * len(names)), 3.4)
    chart.suptitle(f"{tuning.metric} on the training groups, by setting")
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


def plot_score_flow(result: SearchResult, path: PathOption = None) -> Any:
    """One line per hit: its score in each arm and after each stage, divided by the highest of the drawn hits."""
    hits = result.hits[:HITS_DRAWN]
    if not hits:
        raise InputError("this result has no hits; plot a result with hits")
    shares = {name: _shares(scores) for name, scores in _scores_by_name(hits).items()}
    chart, axes = new_axes(max(6.0, 3.4 + 1.1 * len(shares)), 4.2)
    name_heights = _apart(list(shares.values())[-1])
    for at, hit in enumerate(hits):
        values = [share[at] for share in shares.values()]
        axes.plot(list(shares), values, marker=marker(at), ms=5, color=colour(at), clip_on=False)
        axes.annotate(
            f"{hit.rank}  {snippet(hit.chunk.id, ID_CHARACTERS)}",
            (len(shares) - 1, values[-1]),
            xytext=(len(shares) - 0.75, name_heights[at]),
            fontsize="small",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour(at), "lw": 0.8},
        )
    axes.set_ylim(0.0, 1.05)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"How the first {len(hits)} hits got their score"
    label_axes(axes, title, "arm, then stage", "share of the highest score (0..1)")
    return chart.saved(path)


def plot_decay(half_lives_hours: Sequence[float], *, floor: float = 0.5, path: PathOption = None) -> Any:
    """The decay factor by age in days, with one line per half-life; no line falls below the floor."""
    half_lives = list(half_lives_hours) if isinstance(half_lives_hours, Iterable) else []
    if not half_lives or not all(isinstance(each, Real) for each in half_lives):
        example = "expected hours, for example [24 * 7, 24 * 30], one number for each half-life"
        raise InputError(f"half_lives_hours is {half_lives_hours!r:.40}; {example}")
    chart, axes = new_axes(6.0, 3.4)
    age = np.linspace(0.0, HALF_LIVES_SHOWN * max(half_lives), 400)
    for index, hours in enumerate(half_lives):
        factors = decay_factors(age, rate=rate_of(hours), floor=floor)
        style = ("-", "--", ":", "-.")[index % 4]
        name = f"half-life {hours / HOURS_A_DAY:g} days"
        axes.plot(age / HOURS_A_DAY, factors, style, lw=2, color=colour(index), label=name)
    axes.axhline(floor, color="#555555", lw=0.8, linestyle=(0, (1, 3)), label=f"floor {floor:g}")
    axes.set_ylim(0.0, 1.05)
    label_axes(axes, "Decay factor by age", "age (days)", "factor (0..1)")
    return chart.saved(path)


def _heat_map(tuning: Tuning, names: Sequence[str]) -> Any:
    """A heat map of the score of each trial; `names` are the settings on the horizontal and on the vertical axis."""
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
    label_axes(axes, f"{tuning.metric} on the training groups", names[0], names[1])
    chart.colorbar(image, label=f"{tuning.metric} (0..1)")
    return chart


def _curve(comparison: SystemComparison, system: str, set: str, name: str) -> list[float]:
    """The mean over a set's queries of the metric `name` at each cut-off from 1 to the depth."""
    metrics = [f"{name}@{k}" for k in range(1, comparison.depth + 1)]
    values: dict[str, list[float]] = {metric: [] for metric in metrics}
    for run in comparison.runs:
        if (run.system, run.set) == (system, set):
            qrels = comparison.datasets[run.set, run.group].qrels
            scored = score_rankings({query: qrels[query] for query in run.ids}, run.ids, metrics)
            for metric in metrics:
                values[metric] += scored[metric].values()
    return [float(np.mean(values[metric])) for metric in metrics]


def label_axes(axes: Any, title: str, across: str, up: str, *, beside: bool = False) -> None:
    """Set the title and the labels of the axes; add a legend, inside or beside, if a line, bar or point has a label."""
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if axes.get_legend_handles_labels()[1]:
        where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False} if beside else {}
        axes.legend(fontsize="small", **where)


def new_chart(width: float, height: float) -> Any:
    """An empty figure; width and height are in inches. Raises MissingExtra without matplotlib."""
    return optional_module("umi_common.evaluation._figure", "matplotlib", "eval").Chart(width, height)


def new_axes(width: float, height: float) -> tuple[Any, Any]:
    """(empty figure, its axes), as `new_chart`."""
    chart = new_chart(width, height)
    return chart, chart.add_subplot()


def colour(index: int) -> str:
    """The colour of the system, hit or line with this index."""
    return PALETTE[index % len(PALETTE)]


def marker(index: int) -> str:
    """The marker of the system, hit or line with this index."""
    return MARKERS[index % len(MARKERS)]


def _scores_by_name(hits: Sequence[Hit]) -> dict[str, list[float]]:
    """By name of an arm or a stage: one score per hit, 0 if it was not scored; first the arms, then the stages in
    order. An arm's score is the one for the query variation for which the arm ranked the hit best."""
    best = [best_signals(hit) for hit in hits]
    arms = dict.fromkeys(arm for signals in best for arm in signals)
    by_arm = {arm: [signals[arm].score if arm in signals else 0.0 for signals in best] for arm in arms}
    stages = dict.fromkeys(stage for hit in hits for stage in hit.stages)
    by_stage = {stage: [hit.stages.get(stage, 0.0) for hit in hits] for stage in stages}
    return {**by_arm, **by_stage}


def _shares(scores: Sequence[float]) -> list[float]:
    """Each score divided by the highest score; a negative score, such as a cosine, counts as 0."""
    top = max(scores)
    return [max(0.0, score) / top if top > 0 else 0.0 for score in scores]


def _apart(heights: Sequence[float]) -> list[float]:
    """The heights, moved so that they are >= 0 and at least `NAME_GAP` apart; their order stays."""
    apart, order = list(heights), sorted(range(len(heights)), key=lambda at: (-heights[at], at))
    for above, below in pairwise(order):
        apart[below] = min(apart[below], apart[above] - NAME_GAP)
    least = 0.0
    for at in reversed(order):
        apart[at] = max(apart[at], least)
        least = apart[at] + NAME_GAP
    return apart
