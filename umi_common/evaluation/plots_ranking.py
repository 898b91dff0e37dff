"""What ranking does to scores, as matplotlib figures: the way of one result's hits, and forgetting over time.

As in `plots`: colours are safe under colour blindness, a path writes the file, MissingExtra without matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from umi_common.decay import decay_factors, rate_of
from umi_common.errors import InputError
from umi_common.evaluation.plots import PathOption, figures, label
from umi_common.explain.reasons import arm_word, best_signals
from umi_common.explain.texts import snippet
from umi_common.types import Hit, SearchResult

HITS_DRAWN = 6
"""More lines are a tangle."""
ID_CHARACTERS = 28
NAME_GAP = 0.065
"""Between two names at the right, of the height of the axes."""
HALF_LIVES_SHOWN = 4
HOURS_A_DAY = 24.0


def plot_score_flow(result: SearchResult, path: PathOption = None) -> Any:
    """A line for each of the first hits: its score in each arm and after each stage, as a share of the best there."""
    hits = result.hits[:HITS_DRAWN]
    if not hits:
        raise InputError("this result has no hits; plot one that has")
    figure = figures()
    shares = {name: _shares(scores) for name, scores in _stations(hits).items()}
    chart = figure.Chart(max(6.0, 3.4 + 1.1 * len(shares)), 4.2)
    axes = chart.add_subplot()
    ends = _apart([list(shares.values())[-1][at] for at in range(len(hits))])
    for at, hit in enumerate(hits):
        values = [share[at] for share in shares.values()]
        axes.plot(list(shares), values, marker=figure.marker(at), ms=5, color=figure.colour(at), clip_on=False)
        name = f"{hit.rank}  {snippet(hit.chunk.id, ID_CHARACTERS)}"
        axes.annotate(
            name,
            (len(shares) - 1, values[-1]),
            xytext=(len(shares) - 0.75, ends[at]),
            fontsize="small",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": figure.colour(at), "lw": 0.8},
        )
    axes.set_ylim(0.0, 1.05)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"How the first {len(hits)} hits got their score"
    label(axes, title, "arm, then stage", "share of the best of them (0..1)")
    return chart.saved(path)


def plot_decay(half_lives_hours: Sequence[float], *, floor: float = 0.5, path: PathOption = None) -> Any:
    """What an age leaves of a score under each half-life, in days, down to the floor that forgetting never passes."""
    if not half_lives_hours:
        raise InputError("no half-life to plot; give hours, for example [24 * 7, 24 * 30]")
    figure = figures()
    chart = figure.Chart(6.0, 3.4)
    axes = chart.add_subplot()
    age = np.linspace(0.0, HALF_LIVES_SHOWN * max(half_lives_hours), 400)
    for place, hours in enumerate(half_lives_hours):
        factors = decay_factors(age, rate=rate_of(hours), floor=floor)
        style = ("-", "--", ":", "-.")[place % 4]
        name = f"half-life {hours / HOURS_A_DAY:g} days"
        axes.plot(age / HOURS_A_DAY, factors, style, lw=2, color=figure.colour(place), label=name)
    axes.axhline(floor, color="#555555", lw=0.8, linestyle=(0, (1, 3)), label=f"floor {floor:g}")
    axes.set_ylim(0.0, 1.05)
    label(axes, "What an age leaves of a score", "age (days)", "factor (0..1)")
    return chart.saved(path)


def _stations(hits: Sequence[Hit]) -> dict[str, list[float]]:
    """Name -> the score of each hit: the arms at their best variation, then the stages in order."""
    best = [best_signals(hit) for hit in hits]
    arms = dict.fromkeys(arm for signals in best for arm in signals)
    found = {arm_word(arm): [one[arm].score if arm in one else 0.0 for one in best] for arm in arms}
    stages = dict.fromkeys(stage for hit in hits for stage in hit.stages)
    return {**found, **{stage: [hit.stages.get(stage, 0.0) for hit in hits] for stage in stages}}


def _shares(scores: Sequence[float]) -> list[float]:
    """Of the largest; what is below 0, as a cosine may be, counts as 0."""
    top = max(scores)
    return [max(0.0, score) / top if top > 0 else 0.0 for score in scores]


def _apart(heights: Sequence[float]) -> list[float]:
    """Near the heights and in their order, none below 0, at least `NAME_GAP` between two."""
    placed, order = list(heights), sorted(range(len(heights)), key=lambda at: (-heights[at], at))
    for above, below in pairwise(order):
        placed[below] = min(placed[below], placed[above] - NAME_GAP)
    least = 0.0
    for at in reversed(order):
        placed[at] = max(placed[at], least)
        least = placed[at] + NAME_GAP
    return placed
