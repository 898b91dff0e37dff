"""Show a result in a notebook: as an HTML table, in the colours of the notebook, or as a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from umi_common.context.budget import AssembledContext
from umi_common.context.format import source_label
from umi_common.errors import optional_module
from umi_common.explain.bars import arm_bars, bar, largest_scores, left_out, losses, place_of, table, top_score
from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import Step, rank_path, steps
from umi_common.explain.texts import escaped
from umi_common.frameworks.records import METADATA_ALONE, to_metadata
from umi_common.types import Hit, SearchResult

STYLE = """
.umi{font:14px/1.45 system-ui,sans-serif;max-width:64rem;overflow-x:auto}
.umi table{border-collapse:collapse;width:100%;min-width:44rem;table-layout:auto!important}
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
    """A result as an HTML fragment without script: hits with bars and ranks, failed parts of the search, chunks left
    out, times.

    Texts are escaped.
    """
    words, top, largest = QueryWords.of(result), top_score(result), largest_scores(result)
    rows = "".join(_row(hit, path, top, largest, words) for hit, path in zip(result, steps(result), strict=True))
    hits = table(("#", "score", "arms", "chunk"), rows) if rows else "<p>No hits.</p>"
    also = "".join(f"<div class='umi-why'>also searched: {escaped(text)}</div>" for text in result.query_variations)
    stages = " · ".join(f"{escaped(stage.name)} {stage.milliseconds:.1f} ms" for stage in result.trace)
    times = f"<div class='umi-why'>{escaped(result.mode)}, {result.trace.milliseconds:.1f} ms: {stages}</div>"
    suppressed = f"<details><summary>left out: {len(result.suppressed)}</summary>{left_out(result)}</details>"
    return _fragment(result.query, f"{also}{losses(result)}{hits}{suppressed if result.suppressed else ''}{times}")


def _row(hit: Hit, path: list[Step], top: float, largest: Mapping[str, float], words: QueryWords) -> str:
    return (
        f"<tr><td>{hit.rank}</td><td>{hit.score:.3f}<br>{bar(hit.score, top, BAR_COLOUR)}</td>"
        f"<td>{arm_bars(hit, largest)}</td>"
        f"<td><b>{escaped(hit.chunk.id)}</b> <span class='umi-why'>{place_of(hit.chunk)}</span>"
        f"<p dir='auto'>{marked(excerpt(hit.chunk.text, words), words)}</p>"
        f"<div class='umi-why'>{escaped(rank_path(path))}</div></td></tr>"
    )


def context_to_html(context: AssembledContext) -> str:
    """A context as an HTML fragment without script: number of tokens, failed parts of the search, texts with tokens.

    Texts are escaped.
    """
    stats = context.stats
    rows = "".join(
        f"<tr><td>{part.number}</td><td>{part.tokens}<br>{bar(part.tokens, stats.budget, BAR_COLOUR)}</td>"
        f"<td><b>{escaped(source_label(part))}</b>"
        f"<p dir='auto'>{escaped(part.text)}</p></td></tr>"
        for part in context
    )
    facts = f"{stats.tokens} of {stats.budget} tokens, {stats.sources} sources; left out: {len(stats.dropped)} hits"
    return _fragment(facts, losses(context) + table(("#", "tokens", "part"), rows))


def tables_to_html(tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]) -> str:
    """Tables as an HTML fragment without script. Each is (title, header, rows) of plain texts, which are escaped."""
    parts = []
    for title, header, rows in tables:
        cells = ("".join(f"<td>{escaped(cell)}</td>" for cell in row) for row in rows)
        parts.append(_fragment(title, table(map(escaped, header), "".join(f"<tr>{row}</tr>" for row in cells))))
    return "".join(parts)


def _fragment(title: str, body: str) -> str:
    return f"<div class='umi'><style>{STYLE}</style><b dir='auto'>{escaped(title)}</b>{body}</div>"


def to_frame(result: SearchResult) -> Any:
    """A result as a pandas DataFrame with one row per hit.

    Columns: rank, id, score, relevance, source, event_time; `<arm>_rank_<variation>` and `<arm>_score_<variation>` for
    each arm ("lexical", "dense" or an extra one) and each query variation, whose number is 0 for the query itself;
    `after_<stage>` with the score after each stage; metadata, a dict; text.

    Raises:
        MissingExtra: Without pandas.
    """
    rows = []
    for hit in result:
        row: dict[str, Any] = {"rank": hit.rank, "id": hit.chunk.id, "score": hit.score, "relevance": hit.relevance}
        row.update(source=hit.chunk.source, event_time=hit.chunk.event_time)
        for signal in hit.signals:
            row[f"{signal.arm}_rank_{signal.variation}"] = signal.rank
            row[f"{signal.arm}_score_{signal.variation}"] = signal.score
        row.update({f"after_{name}": score for name, score in hit.stages.items()})
        row.update(metadata=to_metadata(hit.chunk, METADATA_ALONE), text=hit.chunk.text)
        rows.append(row)
    columns = None if rows else ["rank", "id", "score", "relevance", "source", "event_time", "metadata", "text"]
    return optional_module("pandas", "pandas", "notebooks").DataFrame(rows, columns=columns)
