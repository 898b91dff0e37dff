"""HTML that `notebook` and `page` share: bars for scores, sources of chunks, failed parts, chunks left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from umi_common.context.budget import AssembledContext
from umi_common.explain.reasons import best_signals, in_words, stated
from umi_common.explain.texts import escaped, place
from umi_common.types import Chunk, Hit, SearchResult

ARM_COLOURS = {"lexical": "var(--umi-words,#0072b2)", "dense": "var(--umi-meaning,#d55e00)"}
"""Colour of each arm. The defaults are from Okabe and Ito's palette, which colour-blind people can tell apart. The page
sets the CSS variables, with lighter colours in dark mode."""
OTHER_COLOUR = "var(--umi-other,#009e73)"
"""Colour of all other arms."""


def largest_scores(result: SearchResult) -> dict[str, float]:
    """Arm -> its largest raw score among the hits, at least 0."""
    largest: dict[str, float] = {}
    for hit in result:
        for arm, signal in best_signals(hit).items():
            largest[arm] = max(largest.get(arm, 0.0), signal.score)
    return largest


def bar(value: float, largest: float, colour: str) -> str:
    """The HTML of a bar that is full if `value` is `largest`, and empty if `largest` is 0. Screen readers skip it."""
    width = 100 * max(0.0, min(1.0, value / largest)) if largest > 0 else 0.0
    return f"<span class='umi-bar' aria-hidden='true'><i style='width:{width:.0f}%;background:{colour}'></i></span>"


def arm_bars(hit: Hit, largest: Mapping[str, float]) -> str:
    """One line of HTML per arm: a bar, the rank and the raw score of the hit. `largest` is from `largest_scores`."""
    lines = []
    for arm, signal in best_signals(hit).items():
        score_bar = bar(signal.score, largest.get(arm, 0.0), ARM_COLOURS.get(arm, OTHER_COLOUR))
        lines.append(f"<div class='umi-arm'>{score_bar} {escaped(stated(signal))}</div>")
    return "".join(lines)


def top_score(result: SearchResult) -> float:
    """The highest score of the hits; 0 without hits."""
    return max((hit.score for hit in result), default=0.0)


def place_of(chunk: Chunk) -> str:
    """HTML of the source, position and time of a chunk; see `texts.place`."""
    return " · ".join(f"<bdi>{escaped(fact)}</bdi>" for fact in place(chunk))


def losses(result: SearchResult | AssembledContext) -> str:
    """HTML that names the failed parts of the search; "" if no part failed."""
    lines = []
    for loss in result.degraded:
        part, reason, consequence = map(escaped, (loss.part, loss.reason, loss.consequence))
        lines.append(f"<p class='umi-lost'>Without <b>{part}</b>: {reason}; {consequence}</p>")
    return "".join(lines)


def table(heads: Iterable[str], rows: str, caption: str = "") -> str:
    """An HTML table. All arguments are HTML, which is not escaped here: column heads, table rows, caption."""
    cells = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    return f"<table>{caption}<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def left_out(result: SearchResult) -> str:
    """An HTML list of the chunks that were left out, and why."""
    items = []
    for suppressed in result.suppressed:
        by = f", replaced by {escaped(suppressed.by)}" if suppressed.by is not None else ""
        score = f" ({suppressed.score:.3f})" if suppressed.score is not None else ""
        items.append(f"<li><b>{escaped(suppressed.id)}</b>{score}: {escaped(in_words(suppressed.reason))}{by}</li>")
    return f"<ul>{''.join(items)}</ul>"
