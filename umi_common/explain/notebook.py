"""Show a result in a notebook: as an HTML table, in the colours of the notebook, or as a data frame.

`page` shares the functions that make HTML of parts of a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from umi_common.context.budget import AssembledContext
from umi_common.context.format import source_label
from umi_common.errors import optional_module
from umi_common.explain.marking import QueryWords, excerpt, marked
from umi_common.explain.reasons import FINAL, Step, best_signals, in_words, rank_path, signal_in_words, steps
from umi_common.explain.texts import escaped, place
from umi_common.frameworks.records import METADATA_ALONE, to_metadata
from umi_common.types import Chunk, Hit, SearchResult

ARM_COLOURS = {"lexical": "var(--umi-words,#0072b2)", "dense": "var(--umi-meaning,#d55e00)"}
"""Colour of each arm. The defaults are from Okabe and Ito's palette, which colour-blind people can tell apart. The page
sets the CSS variables, with lighter colours in dark mode."""
OTHER_COLOUR = "var(--umi-other,#009e73)"
"""Colour of all other arms."""


def largest_scores(result: SearchResult) -> dict[str, float]:
    """Arm -> its largest raw score among the hits, and FINAL -> the largest score of a hit; all at least 0."""
    largest = {FINAL: max((hit.score for hit in result), default=0.0)}
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
    lines = ""
    for arm, signal in best_signals(hit).items():
        score_bar = bar(signal.score, largest[arm], ARM_COLOURS.get(arm, OTHER_COLOUR))
        lines += f"<div class='umi-arm'>{score_bar} {escaped(signal_in_words(signal))}</div>"
    return lines


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
    words, largest = QueryWords.of(result), largest_scores(result)
    rows = "".join(_row(hit, path, largest, words) for hit, path in zip(result, steps(result), strict=True))
    hits = table(("#", "score", "arms", "chunk"), rows) if rows else "<p>No hits.</p>"
    also = "".join(f"<div class='umi-why'>also searched: {escaped(text)}</div>" for text in result.query_variations)
    stages = " · ".join(f"{escaped(stage.name)} {stage.milliseconds:.1f} ms" for stage in result.trace)
    times = f"<div class='umi-why'>{escaped(result.mode)}, {result.trace.milliseconds:.1f} ms: {stages}</div>"
    suppressed = f"<details><summary>left out: {len(result.suppressed)}</summary>{left_out(result)}</details>"
    return _fragment(result.query, f"{also}{losses(result)}{hits}{suppressed if result.suppressed else ''}{times}")


def _row(hit: Hit, path: list[Step], largest: Mapping[str, float], words: QueryWords) -> str:
    return (
        f"<tr><td>{hit.rank}</td><td>{hit.score:.3f}<br>{bar(hit.score, largest[FINAL], BAR_COLOUR)}</td>"
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
