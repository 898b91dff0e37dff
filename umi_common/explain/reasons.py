"""Why a hit has its rank: its rank and score in each arm, and its rank after each stage.

An arm is one way to find chunks: "lexical" (BM25), "dense" (vectors), or an extra arm that the user adds. A signal is
the rank and score of a hit in one arm for one variation of the query: variation 0 is the query itself, the others are
texts that were searched in addition to it. A stage is a step that computes all ranks anew, such as "fused" (the arms
together) or "decay". If the dense arm ranks a hit first, the lexical arm ranks it second for variation 1, and the decay
raises it:

    reasons(hit) == ["dense #1 (cosine 0.50)", "lexical #2 (BM25 3.00, variation 1)", "decay #3 → #1"]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.texts import one_line, place, with_count
from umi_common.types import Hit, SearchResult, Signal, Stage

MEASURES = {"lexical": "BM25", "dense": "cosine"}
"""Arm -> name of its score."""
FINAL = "final"
"""Name of the step for the rank in the result."""
LEFT_OUT = {
    # of a `Suppressed`, a chunk that was removed from the hits
    "mmr": "MMR chose a chunk that is less like the others",
    "relevance": "relevance below the minimum",
    "reranker": "dropped by the reranker",
    # of a `Dropped`, a hit that is not shown in the context
    "total": "no tokens left in the budget",
    "source": "no tokens left for its source",
    "chunk": "no part of it fits the limit per chunk",
    "kind": "of a kind that the policy excludes",
}
"""Reason in a `Suppressed` or `Dropped` -> the reason in words. Other reasons are shown as they are: "same text"."""


class Step(NamedTuple):
    """A hit's rank in an arm or after a stage."""

    name: str
    """Name of the arm or stage, or FINAL."""
    rank: int | None
    """From 1; None: the hit is not in the arm's list, or has no rank after the stage."""


def best_signals(hit: Hit) -> dict[str, Signal]:
    """Arm -> its signal for the query variation for which it ranked the hit highest. The arms keep their order."""
    best: dict[str, Signal] = {}
    for signal in sorted(hit.signals, key=lambda each: (each.rank or math.inf, -each.score, each.variation)):
        best.setdefault(signal.arm, signal)
    return {arm: best[arm] for arm in dict.fromkeys(signal.arm for signal in hit.signals)}


def in_words(reason: str) -> str:
    """The reason in words; see LEFT_OUT."""
    return LEFT_OUT.get(reason, reason)


def reasons(hit: Hit) -> list[str]:
    """Why a hit has its rank: its best signal in each arm, the best rank first; then the changes of rank by stages."""
    found = [signal for signal in best_signals(hit).values() if signal.rank is not None]
    lines = [signal_in_words(signal) for signal in sorted(found, key=lambda each: (each.rank or 0, each.arm))]
    # A hit that no arm ranked, and whose rank no stage changed, is a candidate as the neighbour of a strong hit.
    return [*lines, *_moves(hit)] or ["beside a strong hit"]


def signal_in_words(signal: Signal) -> str:
    """A signal in words: `dense #4 (cosine 0.52, variation 2)`, `lexical not in its list (BM25 1.20)`.

    The list of an arm holds the chunks that the arm found. "lexical" and "dense" also score those of other arms.
    """
    rank = "not in its list" if signal.rank is None else f"#{signal.rank}"
    via = f", variation {signal.variation}" if signal.variation and signal.rank is not None else ""
    return f"{signal.arm} {rank} ({MEASURES.get(signal.arm, 'score')} {signal.score:.2f}{via})"


def _moves(hit: Hit) -> list[str]:
    """The changes of the hit's rank by stages: `neighbours #12 → #3`, `references #7 → #2 (found through d4)`."""
    found_by = f" (found through {hit.through})" if hit.through is not None else ""
    found_by = " (named in the question)" if hit.named else found_by
    return [
        f"{name} #{before} → #{after}{found_by if name == 'references' and after < before else ''}"
        for (_, before), (name, after) in pairwise(hit.ranks.items())
        if before != after
    ]


def steps(hits: Iterable[Hit]) -> list[list[Step]]:
    """For each hit its ranks in each arm, after each stage that ran, and in the result.

    All lists have the same names in the same order.
    """
    hits = list(hits)
    arms = list(dict.fromkeys(signal.arm for hit in hits for signal in hit.signals))
    stages = list(dict.fromkeys(name for hit in hits for name in hit.ranks))
    paths = []
    for hit in hits:
        ranks = {arm: signal.rank for arm, signal in best_signals(hit).items()}
        in_arms = [Step(arm, ranks.get(arm)) for arm in arms]
        paths.append([*in_arms, *(Step(name, hit.ranks.get(name)) for name in stages), Step(FINAL, hit.rank)])
    return paths


def rank_path(path: Iterable[Step]) -> str:
    """The ranks of a hit in one line: `lexical #3 → dense – → fused #2 → final #1`; "–" is no rank."""
    return " → ".join(f"{step.name} {'–' if step.rank is None else f'#{step.rank}'}" for step in path)


def facts_in_words(stage: Stage) -> str:
    """The facts that a stage recorded, in words: `dense engine: exact; chunks: 22`."""
    return "; ".join(f"{name.replace('_', ' ')}: {_short(value)}" for name, value in stage.facts.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value))
    return str(value)


def to_text(result: SearchResult, *, emphasis: tuple[str, str] = ("", ""), full: bool = False) -> str:
    """A result as plain text: three lines per hit, the last of which says why the hit has its rank.

    Control characters in the texts are replaced by their codes, so that they do not reach the terminal.

    Args:
        emphasis: The strings to put before and after each word of the query.
        full: Whether to add each hit's rank in each arm and after each stage, the chunks left out and why, and the time
            and facts of each stage.
    """
    words = QueryWords.of(result)
    lines = [f"{with_count(len(result), 'hit')}, {result.mode}, {result.trace.milliseconds:.1f} ms"]
    if result.hits and result.answerable is False:
        best = max(hit.relevance or 0.0 for hit in result)
        lines.append(f"  none is likely to answer the query: the best relevance is {best:.2f}, of 0 to 1")
    lines.extend(f"  also searched: {one_line(text)}" for text in result.query_variations)
    for hit, path in zip(result, steps(result), strict=True):
        where = one_line(" · ".join(place(hit.chunk)))
        lines += [
            f"{hit.rank:>3}  {hit.score:.3f}  {one_line(hit.chunk.id)}" + (f"  [{where}]" if where else ""),
            f"       {marked(excerpt(hit.chunk.text, words, 160), words, around=emphasis, written=str)}",
            f"       {one_line(' · '.join(reasons(hit)))}",
        ]
        if full:
            lines.append(f"       {rank_path(path)}")
    lines += ["  " + one_line(f"without {loss.part}: {loss.reason}; {loss.consequence}") for loss in result.degraded]
    if full:
        for out in result.suppressed:
            by = "" if out.by is None else f", replaced by {out.by}"
            lines.append("  " + one_line(f"left out: {out.id} ({in_words(out.reason)}{by})"))
        for stage in result.trace:
            lines.append(f"  {stage.name:<20} {stage.milliseconds:8.2f} ms  {one_line(facts_in_words(stage))}".rstrip())
    elif result.suppressed:
        lines.append(f"  left out: {len(result.suppressed)} (result.suppressed says why)")
    return "\n".join(lines)
