"""One result for people: why each hit is there, as a line, a table, HTML or a data frame."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from umi_common.errors import MissingExtra
from umi_common.types import Hit, SearchResult

ARM_WORDS = {"lexical": "words", "dense": "meaning"}
"""What a reader who knows no IR calls the arms."""
SNIPPET_CHARACTERS = 160


def reasons(hit: Hit) -> list[str]:
    """Why a hit is where it is, strongest arm first: `["words #1 (BM25 9.31)", "meaning #4 (cosine 0.52)"]`."""
    found = [signal for signal in hit.signals if signal.rank is not None]
    best: dict[str, Any] = {}
    for signal in sorted(found, key=lambda s: (s.rank, s.variation)):
        best.setdefault(signal.arm, signal)
    lines = []
    for arm, signal in sorted(best.items(), key=lambda item: (item[1].rank, item[0])):
        measure = {"lexical": "BM25", "dense": "cosine"}.get(arm, "score")
        via = f", variation {signal.variation}" if signal.variation else ""
        lines.append(f"{ARM_WORDS.get(arm, arm)} #{signal.rank} ({measure} {signal.score:.2f}{via})")
    lines.extend(_stage_reasons(hit))
    return lines or ["beside a strong hit"]


def _stage_reasons(hit: Hit) -> list[str]:
    """Where a stage moved the hit: `neighbours #12 -> #3`."""
    lines = []
    before: int | None = None
    for name, rank in hit.ranks.items():
        if before is not None and rank != before:
            lines.append(f"{name} #{before} → #{rank}")
        before = rank
    return lines


def to_text(result: SearchResult) -> str:
    """Hits with reasons for a terminal; no colour, one to three lines a hit."""
    lines = [f"{len(result)} hits, {result.mode}, {result.trace.milliseconds:.1f} ms"]
    lines.extend(f"  also searched: {text}" for text in result.query_variations)
    for hit in result:
        place = f"  [{hit.chunk.source}]" if hit.chunk.source else ""
        lines.append(f"{hit.rank:>3}  {hit.score:.3f}  {hit.chunk.id}{place}")
        lines.append(f"       {snippet(hit.chunk.text)}")
        lines.append(f"       {' · '.join(reasons(hit))}")
    lines.extend(f"  without {loss.part}: {loss.reason}; {loss.consequence}" for loss in result.degraded)
    if result.suppressed:
        lines.append(f"  left out: {len(result.suppressed)} (result.suppressed says why)")
    return "\n".join(lines)


def snippet(text: str, characters: int = SNIPPET_CHARACTERS) -> str:
    """The text on one line, cut at a word to at most `characters` and an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[:characters]
    return (cut.rsplit(" ", 1)[0] if " " in cut[characters // 2 :] else cut) + " …"


def to_frame(result: SearchResult) -> Any:
    """A pandas DataFrame, one row a hit: rank, id, score, source, event_time, arm ranks and scores, stages, text."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "notebooks") from error
    rows = []
    for hit in result:
        row: dict[str, Any] = {"rank": hit.rank, "id": hit.chunk.id, "score": hit.score}
        row.update(source=hit.chunk.source, event_time=hit.chunk.event_time)
        for signal in hit.signals:
            row[f"{signal.arm}_rank_{signal.variation}"] = signal.rank
            row[f"{signal.arm}_score_{signal.variation}"] = signal.score
        row.update({f"after_{name}": score for name, score in hit.stages.items()})
        row["text"] = hit.chunk.text
        rows.append(row)
    return pandas.DataFrame(rows)


STYLE = """
.umi{font:14px/1.45 system-ui,sans-serif;max-width:60rem}.umi table{border-collapse:collapse;width:100%}
.umi td,.umi th{padding:.35rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #8884}
.umi .bar{background:#8883;width:7rem}.umi .bar i{display:block;height:.55rem;background:#3b7dd8}
.umi .why{opacity:.75;font-size:.9em}.umi .lost{border-left:4px solid #c60;padding-left:.6rem}
"""


def to_html(result: SearchResult) -> str:
    """A fragment for notebooks: hits with bars and reasons, variations, losses. Every text is escaped."""
    top = max((hit.score for hit in result), default=1.0) or 1.0
    rows = "".join(_row(hit, top) for hit in result)
    also = "".join(f"<div class='why'>also searched: {escape(text)}</div>" for text in result.query_variations)
    lost = "".join(
        f"<div class='lost'>without {escape(loss.part)}: {escape(loss.reason)}; {escape(loss.consequence)}</div>"
        for loss in result.degraded
    )
    stages = " · ".join(f"{escape(stage.name)} {stage.milliseconds:.1f} ms" for stage in result.trace)
    return (
        f"<div class='umi'><style>{STYLE}</style><b>{escape(result.query)}</b>{also}{lost}"
        f"<table><thead><tr><th>#</th><th>score</th><th>chunk</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<div class='why'>{result.mode}, {result.trace.milliseconds:.1f} ms: {stages}</div></div>"
    )


def _row(hit: Hit, top: float) -> str:
    width = max(0.0, min(100.0, 100 * hit.score / top))
    place = f" <span class='why'>{escape(hit.chunk.source)}</span>" if hit.chunk.source else ""
    return (
        f"<tr><td>{hit.rank}</td><td>{hit.score:.3f}<div class='bar'><i style='width:{width:.0f}%'></i></div></td>"
        f"<td><b>{escape(hit.chunk.id)}</b>{place}<div>{escape(snippet(hit.chunk.text))}</div>"
        f"<div class='why'>{escape(' · '.join(reasons(hit)))}</div></td></tr>"
    )


def to_page(result: SearchResult, path: str | None = None) -> str:
    """The fragment as a standalone page that needs no network; also written to `path`."""
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='color-scheme' content='light dark'>"
        "<meta name='viewport' content='width=device-width'><title>umi: why these hits</title></head>"
        f"<body>{to_html(result)}</body></html>"
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page
