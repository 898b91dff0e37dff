"""`umi search`, `umi explain` and `umi ask`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umi_common.cli.options import (
    DEFAULT_STORE,
    ConfigOption,
    EndOption,
    JsonOption,
    LimitOption,
    StartOption,
    StoreOption,
    WhereOption,
    opened_retriever,
    print_json,
    where_of,
)
from umi_common.context.budget import AssembledContext
from umi_common.explain import one_line, to_text, visible, with_count
from umi_common.filters.tree import shown
from umi_common.frameworks.records import METADATA_ALONE, to_metadata
from umi_common.frameworks.tools import tool_window
from umi_common.retriever import DualRetriever
from umi_common.types import Hit, SearchResult, TimeRange

if TYPE_CHECKING:
    from umi_common.stores.embedded.hybrid import HybridStore

BOLD = ("\x1b[1m", "\x1b[22m")
"""Codes printed before and after the query's words; typer removes them if the output is no terminal."""
NOTHING_FOUND = "nothing found; umi status shows what the store holds"
PROMPT = """Answer the question from the evidence alone; cite passages by number. If the evidence has no answer, say so.

{context}

Question: {question}"""
"""The prompt that `umi ask` prints; `context` is the packed passages with their numbers."""

QueryArgument = Annotated[str, typer.Argument(help="A question, or words to search for, in quotation marks.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a page with all details to this file.")]
TokensOption = Annotated[int, typer.Option("--tokens", "-t", min=1, help="Largest number of tokens of the context.")]
ContextOption = Annotated[bool, typer.Option("--context", help="Print the context alone, without a prompt.")]


def search(
    query: QueryArgument,
    store: StoreOption = DEFAULT_STORE,
    where: WhereOption = None,
    start: StartOption = None,
    end: EndOption = None,
    limit: LimitOption = 5,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find passages and show why each was found."""
    with opened_retriever(store, config) as umi:
        asked = _conditions(where, start, end)
        result = umi.search(query, limit=limit, **asked)
        _print_why_nothing(umi, result, **asked)
    if json:
        print_json(as_data(result))
    elif result:
        typer.echo(to_text(result, emphasis=BOLD))  # states `result.degraded`, too
    else:
        typer.echo(NOTHING_FOUND)
        _print_degraded(result)


def explain(
    query: QueryArgument,
    html: HtmlOption = None,
    store: StoreOption = DEFAULT_STORE,
    where: WhereOption = None,
    start: StartOption = None,
    end: EndOption = None,
    limit: LimitOption = 10,
    tokens: TokensOption = 2_000,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show how a result was computed: every rank, chunks left out, durations, and the context that `umi ask` packs."""
    with opened_retriever(store, config) as umi:
        asked = _conditions(where, start, end)
        result = umi.search(query, limit=limit, **asked)
        _print_why_nothing(umi, result, **asked)
        packed = umi.get_context(query, budget=tokens, **asked)
    if html is not None:
        result.explain(html, context=packed)
    if json:
        print_json({**as_data(result), **_context_data(packed), "html": None if html is None else str(html)})
    elif html is not None:
        typer.echo(f"{with_count(len(result), 'hit')}; open {html} in a browser")
    else:
        typer.echo(to_text(result, emphasis=BOLD, full=True))
        typer.echo(f"  context: {packed.stats.tokens} of {tokens} tokens in {len(packed)} parts; --html FILE shows it")


def ask(
    query: QueryArgument,
    store: StoreOption = DEFAULT_STORE,
    context: ContextOption = False,
    tokens: TokensOption = 2_000,
    where: WhereOption = None,
    start: StartOption = None,
    end: EndOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print a prompt with the best passages that fit. umi asks no LLM: pipe the prompt into yours."""
    with opened_retriever(store, config) as umi:
        asked = _conditions(where, start, end)
        packed = umi.get_context(query, budget=tokens, **asked)
        _print_why_nothing(umi, packed, **asked)
    if json:
        print_json({"query": query, **_context_data(packed), "degraded": [asdict(loss) for loss in packed.degraded]})
        return
    text = packed.text if context else PROMPT.format(context=packed.text, question=query)
    typer.echo(visible(text) if sys.stdout.isatty() else text)  # a passage may hold control characters
    _print_degraded(packed)
    if not packed:
        typer.echo(f"umi: {NOTHING_FOUND}", err=True)


def _conditions(where: list[str] | None, start: str | None, end: str | None) -> dict[str, Any]:
    """The options of a search that --where, --start and --end state."""
    return {"where": where_of(where), "time_range": tool_window(start, end)}


def _print_why_nothing(
    umi: DualRetriever, found: SearchResult | AssembledContext, where: dict[str, Any] | None, time_range: object
) -> None:
    """If nothing was found, print which keys and values of the filter no chunk has, and if no chunk has a time although
    the search had a time range."""
    if found:  # true if it holds a passage
        return
    store: HybridStore = umi.store  # type: ignore[assignment]
    lines = [f"the key {shown(key)} of --where; check its spelling" for key in store.unknown_keys(where)]
    for key, text, similar in store.similar_texts(where):
        lines.append(f"{key}={shown(text)}; did you mean {' or '.join(map(shown, similar))}?")
    if time_range is not None and not store.listing(window=TimeRange()).passing.any():
        lines.append("a time, so --start and --end leave out all; search without them")
    for line in lines:
        typer.echo(f"umi: no chunk of the store has {one_line(line)}", err=True)


def _print_degraded(found: SearchResult | AssembledContext) -> None:
    for loss in found.degraded:
        typer.echo(f"umi: {one_line(f'without {loss.part}: {loss.reason}; {loss.consequence}')}", err=True)


def as_data(result: SearchResult) -> dict[str, Any]:
    """A result as values of JSON types; times are ISO strings."""
    return {
        "query": result.query,
        "variations": list(result.query_variations),
        "mode": result.mode,
        "answerable": result.answerable,
        "milliseconds": round(result.trace.milliseconds, 3),
        "hits": [_hit(hit) for hit in result],
        "degraded": [asdict(loss) for loss in result.degraded],
        "suppressed": [asdict(gone) for gone in result.suppressed],
        "stages": {stage.name: round(stage.milliseconds, 3) for stage in result.trace},
    }


def _hit(hit: Hit) -> dict[str, Any]:
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "id": chunk.id,
        "score": hit.score,
        "relevance": hit.relevance,
        "source": chunk.source,
        "position": chunk.position,
        "event_time": None if chunk.event_time is None else chunk.event_time.isoformat(),
        "metadata": to_metadata(chunk, METADATA_ALONE),
        "text": chunk.text,
        "signals": [asdict(signal) for signal in hit.signals],
        "ranks": dict(hit.ranks),
        "scores": dict(hit.stages),
    }


def _context_data(packed: AssembledContext) -> dict[str, Any]:
    return {"context": packed.text, "parts": [asdict(part) for part in packed], "stats": asdict(packed.stats)}
