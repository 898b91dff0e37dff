"""How well a number, such as the relevance of the best hit, separates answerable questions from others; calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umi_common.errors import ConfigError, InputError
from umi_common.evaluation.plots import colour, label_axes, marker, new_axes
from umi_common.evaluation.significance import RESAMPLES, Estimate
from umi_common.pool import Floats


def auroc(
    answerable: npt.ArrayLike, unanswerable: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """The probability that an answerable question has a larger number than an unanswerable one, with its 95 % interval.

    Ties count half: the area under the ROC curve.

    Args:
        answerable, unanswerable: One number per question, at least one each.
        resamples: Number of bootstrap draws, each from both kinds of questions.
        seed: Same seed and numbers, same interval.

    Raises:
        ConfigError: If either is empty.
    """
    above, below = map(np.sort, _both_kinds("auroc", answerable, unanswerable))
    rng = np.random.default_rng(seed)
    drawn = [_area(rng.choice(above, len(above)), np.sort(rng.choice(below, len(below)))) for _ in range(resamples)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    count = len(above) + len(below)
    return Estimate(_area(above, below), float(low), float(high), count, count)


def _both_kinds(measure: str, *kinds: npt.ArrayLike) -> tuple[Floats, Floats]:
    above, below = (np.asarray(values, dtype=np.float64) for values in kinds)
    if not len(above) or not len(below):
        raise ConfigError(f"{measure} of {len(above)} and {len(below)} questions; expected at least one of each kind")
    return above, below


def _area(above: Floats, below: Floats) -> float:
    """The area under the ROC curve; `below` is sorted."""
    smaller = np.searchsorted(below, above, "left") + np.searchsorted(below, above, "right")
    return float(smaller.mean() / 2 / len(below))


def coverage_at(answerable: npt.ArrayLike, unanswerable: npt.ArrayLike, *, false_answers: float = 0.05) -> float:
    """The share of the answerable questions whose number is above a threshold.

    The threshold is the smallest number that at most the share `false_answers` of the unanswerable questions exceeds.

    Raises:
        ConfigError: If there are no questions of a kind, or `false_answers` is not 0..1.
    """
    if not 0 <= false_answers <= 1:
        raise ConfigError(f"false_answers is {false_answers}; expected a share, 0..1")
    above, below = _both_kinds("coverage_at", answerable, unanswerable)
    return float((above > np.quantile(below, 1 - false_answers, method="higher")).mean())


def reliability(relevance: npt.ArrayLike, relevant: npt.ArrayLike, *, bins: int = 10) -> list[tuple[float, float, int]]:
    """(mean relevance, share that is relevant, hits) of each equally wide bin of 0..1 that holds a hit, rising.

    Args:
        relevance: (n,) 0..1.
        relevant: (n,) 0 or 1.

    Raises:
        ConfigError: If their lengths differ.
    """
    stated, true = (np.asarray(values, dtype=np.float64) for values in (relevance, relevant))
    if len(stated) != len(true):
        raise ConfigError(f"{len(stated)} relevances and {len(true)} judgements; expected one of each for every hit")
    which = np.minimum((stated * bins).astype(np.int64), bins - 1)
    inside = ((which == index) for index in range(bins))
    return [(float(stated[hits].mean()), float(true[hits].mean()), int(hits.sum())) for hits in inside if hits.any()]


def plot_reliability(relevance: Sequence[float], relevant: Sequence[float], path: str | Path | None = None) -> Any:
    """Calibration: the mean `hit.relevance` of each of ten bins against the share of its hits that are relevant.

    On the diagonal both are equal. The number beside a point is the number of hits in the bin.

    Args:
        relevance: One per hit, 0..1.
        relevant: For each hit, in the same order, 1 if it is relevant, else 0.
    """
    bins = reliability(relevance, relevant)
    if not bins:
        raise InputError("no hits to plot; give a relevance and a judgement of at least one")
    stated, measured, counts = zip(*bins, strict=True)
    chart, axes = new_axes(4.5, 4.2)
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="stated = measured")
    axes.plot(stated, measured, marker=marker(0), color=colour(0), label="measured")
    for index, count in enumerate(counts):
        axes.annotate(f"{count:,}", (stated[index], measured[index]), (0, 6), textcoords="offset points", fontsize=7)
    label_axes(axes, "Calibration of the relevance", "stated relevance (0..1)", "share that is relevant (0..1)")
    return chart.saved(path)
