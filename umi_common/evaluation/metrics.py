"""Metrics of a ranked list: relevance computed by ir-measures, diversity and duplication from vectors; and latency.

A relevance metric is named `<name>@<k>`, or `<name>` for the whole list:

    precision  number of relevant documents among the first k / k
    recall     number of relevant documents among the first k / number of all relevant documents
    hit        1 if any of the first k documents is relevant, else 0
    mrr        1 / rank of the first relevant document, from 1; 0 if there is none
    ndcg       dcg / dcg of the best possible order, with dcg = sum(max(0, grade_i) / log2(i + 1)) over ranks i from 1
    map        mean over the relevant documents of precision at their rank; a document not found counts 0

All are 0..1; larger is better. They depend on the order of the list, not on the documents' scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from umi_common.errors import ConfigError, DatasetError, optional_module
from umi_common.pool import Vectors

MEASURES = {"precision": "P", "recall": "R", "hit": "Success", "mrr": "RR", "ndcg": "nDCG", "map": "AP"}
"""The name of each metric in ir-measures."""
CUTS_REQUIRED = ("precision", "recall", "hit")
"""Metrics that need a cut-off k."""
GRADE_MAX = 1_000_000
"""Largest absolute value of a grade, because ir-measures allocates 8 bytes for each number up to the largest grade of a
query."""
METRIC = re.compile(r"([a-z]+)(?:@([1-9][0-9]{0,8}))?")
"""The name of a metric and its cut-off, of at most nine digits."""
NEAR_DUPLICATE = 0.98
"""Smallest cosine at which two hits count as near-duplicates."""
LATENCY_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
"""Percentile of the latency, 0..100, by name."""

Qrels = Mapping[str, Mapping[str, int]]
"""Grade by query id and document id, up to `GRADE_MAX`; a grade above 0 means relevant."""
Rankings = Mapping[str, Sequence[str]]
"""Document ids by query id, best first."""


def default_metrics(ks: Sequence[int]) -> list[str]:
    """Names of the default metrics: recall, hit, precision and nDCG at each k, MRR and MAP at the largest k."""
    at_each = [f"{name}@{k}" for k in ks for name in ("recall", "hit", "precision", "ndcg")]
    return [*at_each, f"mrr@{max(ks)}", f"map@{max(ks)}"]


def score_rankings(qrels: Qrels, rankings: Rankings, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """The value of each metric for each query that has a relevant document, as ir-measures computes it.

    Args:
        rankings: No list may have an id twice; a query without a list has the value 0.
        names: Names of metrics, e.g. "ndcg@10".

    Returns:
        Value by metric, then by query id.

    Raises:
        ConfigError: If a name is no metric, or a list has an id twice.
        DatasetError: If a grade is no whole number, or beyond `GRADE_MAX`.
        MissingExtra: If ir-measures is not installed.
    """
    judge = optional_module("ir_measures", "ir-measures", "eval")
    names = list(names)
    measures = {}
    for name in names:
        base, cut = parse_metric(name)
        measures[judge.parse_measure(MEASURES[base] + ("" if cut is None else f"@{cut}"))] = name
    graded = {query: checked_grades(grades, f"query {query!r}") for query, grades in qrels.items()}
    judged = {query: grades for query, grades in graded.items() if any(grade > 0 for grade in grades.values())}
    run = {query: _as_scores(query, rankings.get(query, ())) for query in judged}
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(judged, 0.0) for name in names}
    for result in judge.iter_calc(list(measures), judged, run):
        values[measures[result.measure]][result.query_id] = float(result.value)
    return values


def checked_grades(grades: Any, where: str) -> dict[str, int]:
    """The grades of one query, named `where`, by document id, as ints; raises DatasetError for a wrong grade."""
    judged = dict(grades.items()) if hasattr(grades, "items") else None
    wrong = grades if judged is None else {id: grade for id, grade in judged.items() if not _is_grade(grade)}
    if judged is None or wrong:
        raise DatasetError(
            f'{where} is judged by {wrong!r:.80}; expected a whole number by document id: {{"d1": 1}}, '
            f"each -{GRADE_MAX:,} to {GRADE_MAX:,}"
        )
    return {id: int(grade) for id, grade in judged.items()}


def _is_grade(grade: Any) -> bool:
    with suppress(TypeError, ValueError, OverflowError):
        return bool(int(grade) == grade and abs(int(grade)) <= GRADE_MAX)
    return False


def parse_metric(name: str) -> tuple[str, int | None]:
    """The name and the cut-off k of a metric such as "ndcg@10"; k is None for the whole list.

    ConfigError is raised if `name` is no metric, or lacks a cut-off that the metric needs.
    """
    parts = METRIC.fullmatch(str(name))
    base, cut = parts.groups() if parts else ("", None)
    if base not in MEASURES or (cut is None and base in CUTS_REQUIRED):
        raise ConfigError(
            f"{name!r} is not a metric; expected one of {', '.join(MEASURES)} followed by @k, e.g. ndcg@10; "
            f"only {', '.join(name for name in MEASURES if name not in CUTS_REQUIRED)} may stand without @k"
        )
    return base, None if cut is None else int(cut)


def diversity(vectors: Vectors) -> float:
    """1 - mean cosine of all pairs of hits: 0 if all are equal, 1 if they are unrelated, 2 if two are opposite; NaN for
    fewer than two hits. `vectors` (k, dim) has one row for each hit."""
    if len(vectors) < 2:
        return float("nan")
    cosines = _cosines(vectors)
    return 1.0 - float(cosines[np.triu_indices(len(vectors), 1)].mean())


def duplication(vectors: Vectors, *, similarity: float = NEAR_DUPLICATE) -> float:
    """Share of the hits whose cosine with a better-ranked hit is at least `similarity`; 0 without hits. `vectors`
    (k, dim) has one row for each hit, best first."""
    if not len(vectors):
        return 0.0
    near_earlier = np.tril(_cosines(vectors) >= similarity, -1)
    return float(near_earlier.any(axis=1).mean())


def latency(milliseconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 of the times in milliseconds, linearly interpolated; NaN if there are no times."""
    if not len(milliseconds):
        return dict.fromkeys(LATENCY_PERCENTILES, float("nan"))
    return {name: float(np.percentile(milliseconds, percent)) for name, percent in LATENCY_PERCENTILES.items()}


def _cosines(vectors: Vectors) -> Any:
    rows = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(norms > 0, norms, 1.0)
    return unit @ unit.T


def _as_scores(query: str, ids: Sequence[str]) -> dict[str, float]:
    # No two scores may be equal, because the tools behind ir-measures order equal scores in different ways.
    scores = {id: float(len(ids) - index) for index, id in enumerate(ids)}
    if len(scores) != len(ids):
        raise ConfigError(f"the list for query {query!r} has an id twice; a system must return each id once")
    return scores
