"""A result as the last line of a notebook's cell: a table that takes the notebook's own colours, light or dark."""

from __future__ import annotations

from collections.abc import Mapping

from umi_common.explain.bars import arm_bars, bar, largest_scores, left_out, losses, way
from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import Step, steps
from umi_common.explain.texts import place, plain
from umi_common.types import Hit, SearchResult

STYLE = """
.umi{font:14px/1.45 system-ui,sans-serif;max-width:64rem;overflow-x:auto}
.umi table{border-collapse:collapse;width:100%;min-width:44rem}
.umi td,.umi th{padding:.4rem .6rem;text-align:left!important;vertical-align:top;border-bottom:1px solid #8885}
.umi td p{margin:.15rem 0;overflow-wrap:anywhere;unicode-bidi:isolate}
.umi-arm,.umi-why{font-size:.86em}.umi-why{opacity:.8}.umi-arm{white-space:nowrap}
.umi-bar{display:inline-block;width:5rem;height:.6em;background:#8883;border-radius:2px}
.umi-bar i{display:block;height:100%;border-radius:2px}
.umi mark{background:#f5c51866;color:inherit;border-radius:2px}
.umi-lost{border-left:4px solid #d55e00;padding-left:.6rem;margin:.3rem 0}
@media(max-width:40rem){
.umi table{min-width:0}.umi thead{display:none}.umi-arm{white-space:normal}
.umi tr{display:grid;grid-template-columns:2.2rem 1fr;border-bottom:1px solid #8885}
.umi td{border:0;padding:.2rem .4rem;min-width:0}.umi td:nth-child(n+3){grid-column:2}
}
"""
BAR_COLOUR = "currentColor"


def to_html(result: SearchResult) -> str:
    """A fragment without script: hits with a bar for each arm, their way, what was lost and left out. All escaped."""
    words, largest = QueryWords.of(result), largest_scores(result)
    top = max((hit.score for hit in result), default=0.0)
    ways = steps(result)
    rows = "".join(_row(hit, way, top, largest, words) for hit, way in zip(result, ways, strict=True))
    head = (
        "<tr><th scope='col'>#</th><th scope='col'>score</th><th scope='col'>arms</th><th scope='col'>chunk</th></tr>"
    )
    table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else "<p>No hits.</p>"
    also = "".join(f"<div class='umi-why'>also searched: {plain(text)}</div>" for text in result.query_variations)
    stages = " · ".join(f"{plain(stage.name)} {stage.milliseconds:.1f} ms" for stage in result.trace)
    return (
        f"<div class='umi'><style>{STYLE}</style><b dir='auto'>{plain(result.query)}</b>{also}{losses(result)}{table}"
        f"{_left_out(result)}<div class='umi-why'>{plain(result.mode)}, {result.trace.milliseconds:.1f} ms: {stages}"
        "</div></div>"
    )


def _row(hit: Hit, way_of_hit: list[Step], top: float, largest: Mapping[str, float], words: QueryWords) -> str:
    where = " · ".join(f"<bdi>{plain(fact)}</bdi>" for fact in place(hit.chunk))
    share = hit.score / top if top > 0 else 0.0
    return (
        f"<tr><td>{hit.rank}</td><td>{hit.score:.3f}<br>{bar(share, BAR_COLOUR)}</td>"
        f"<td>{arm_bars(hit, largest)}</td>"
        f"<td><b>{plain(hit.chunk.id)}</b> <span class='umi-why'>{where}</span>"
        f"<p dir='auto'>{marked(excerpt(hit.chunk.text, words), words)}</p>"
        f"<div class='umi-why'>{way(way_of_hit)}</div></td></tr>"
    )


def _left_out(result: SearchResult) -> str:
    if not result.suppressed:
        return ""
    items = "".join(map(left_out, result.suppressed))
    return f"<details><summary>left out: {len(result.suppressed)}</summary><ul>{items}</ul></details>"
