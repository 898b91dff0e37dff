"""HTML that the notebook's table and the page share: bars of scores, losses, chunks left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from umi_common.context.budget import AssembledContext
from umi_common.explain.reasons import best_signals, in_words, stated
from umi_common.explain.texts import escaped
from umi_common.types import Hit, SearchResult, Suppressed

ARM_COLOURS = {"lexical": "var(--umi-words,#0072b2)", "dense": "var(--umi-meaning,#d55e00)"}
"""Colour of each arm: two of Okabe and Ito's colours, which differ for people with any kind of colour blindness. The
page sets the CSS variables, and thereby lighter colours in dark mode."""
OTHER_COLOUR = "var(--umi-other,#009e73)"


def largest_scores(result: SearchResult) -> dict[str, float]:
    """The largest raw score of each arm among the hits, >= 0, which the arm's longest bar stands for."""
    largest: dict[str, float] = {}
    for hit in result:
        for arm, signal in best_signals(hit).items():
            largest[arm] = max(largest.get(arm, 0.0), signal.score)
    return largest


def bar(share: float, colour: str) -> str:
    """The HTML of a bar that fills `share` (0..1) of its box. Screen readers skip it and read the value beside it."""
    width = 100 * max(0.0, min(1.0, share))
    return f"<span class='umi-bar' aria-hidden='true'><i style='width:{width:.0f}%;background:{colour}'></i></span>"


def arm_bars(hit: Hit, largest: Mapping[str, float]) -> str:
    """One line of HTML per arm: a bar, the rank and the raw score of the hit.

    Args:
        largest: From `largest_scores`.
    """
    lines = []
    for arm, signal in best_signals(hit).items():
        top = largest.get(arm, 0.0)
        share = signal.score / top if top > 0 else 0.0
        colour = ARM_COLOURS.get(arm, OTHER_COLOUR)
        lines.append(f"<div class='umi-arm'>{bar(share, colour)} {escaped(stated(signal))}</div>")
    return "".join(lines)


def losses(result: SearchResult | AssembledContext) -> str:
    """HTML that names the failed parts of the search; "" if no part failed."""
    lines = []
    for loss in result.degraded:
        part, reason, consequence = map(escaped, (loss.part, loss.reason, loss.consequence))
        lines.append(f"<p class='umi-lost'>Without <b>{part}</b>: {reason}; {consequence}</p>")
    return "".join(lines)


def table(heads: Iterable[str], rows: str, caption: str = "") -> str:
    """An HTML table with column heads; all arguments are HTML, not escaped here."""
    cells = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    return f"<table>{caption}<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def left_out_item(suppressed: Suppressed) -> str:
    """An HTML list item that names one chunk that was left out, and why."""
    by = f", replaced by {escaped(suppressed.by)}" if suppressed.by is not None else ""
    score = f" ({suppressed.score:.3f})" if suppressed.score is not None else ""
    return f"<li><b>{escaped(suppressed.id)}</b>{score}: {escaped(in_words(suppressed.reason))}{by}</li>"
