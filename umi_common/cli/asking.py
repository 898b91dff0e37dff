"""`umi search` and `umi ask`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from umi_common.cli.options import (
    DEFAULT_STORE,
    ConfigOption,
    JsonOption,
    LimitOption,
    StoreOption,
    WhereOption,
    opened,
    print_json,
    where_of,
)
from umi_common.config import UmiConfig
from umi_common.types import Hit, SearchResult

PROMPT = """Answer the question from the evidence alone, and cite its numbers. Say so if it does not answer it.

{context}

Question: {question}"""

QueryArgument = Annotated[str, typer.Argument(help="What you want to know.")]
ExplainOption = Annotated[Path | None, typer.Option("--explain", help="Write a page about why these hits (HTML).")]
TokensOption = Annotated[int, typer.Option("--tokens", "-t", min=1, help="Most tokens of the context.")]
ContextOption = Annotated[bool, typer.Option("--context", help="Print the context alone, without a prompt.")]


def search(
    query: QueryArgument,
    store: StoreOption = DEFAULT_STORE,
    where: WhereOption = None,
    limit: LimitOption = 5,
    explain: ExplainOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find passages and say why they are there."""
    from umi_common.retriever import DualRetriever

    with opened(store) as source, DualRetriever(source, config=UmiConfig.load(config)) as umi:
        result = umi.search(query, limit=limit, where=where_of(where))
    if explain is not None:
        result.explain(explain)
    if json:
        print_json(as_data(result))
    else:
        typer.echo(str(result))
    if explain is not None and not json:
        typer.echo(f"why: {explain}")


def ask(
    query: QueryArgument,
    store: StoreOption = DEFAULT_STORE,
    context: ContextOption = False,
    tokens: TokensOption = 2_000,
    where: WhereOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print a prompt with the best evidence that fits; umi itself asks no LLM: pipe it into the one you use."""
    from umi_common.context.budget import TokenBudget
    from umi_common.retriever import DualRetriever

    with opened(store) as source, DualRetriever(source, config=UmiConfig.load(config)) as umi:
        packed = umi.get_context(query, budget=TokenBudget(max_total=tokens), where=where_of(where))
    if json:
        print_json(
            {
                "query": query,
                "context": packed.text,
                "parts": [asdict(part) for part in packed],
                "stats": _stats(packed),
            }
        )
    else:
        typer.echo(packed.text if context else PROMPT.format(context=packed.text, question=query))


def as_data(result: SearchResult) -> dict[str, Any]:
    """A result in JSON's own types; times are ISO strings."""
    return {
        "query": result.query,
        "variations": list(result.query_variations),
        "mode": result.mode,
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
        "source": chunk.source,
        "position": chunk.position,
        "event_time": None if chunk.event_time is None else chunk.event_time.isoformat(),
        "metadata": dict(chunk.metadata),
        "text": chunk.text,
        "signals": [asdict(signal) for signal in hit.signals],
        "ranks": dict(hit.ranks),
        "scores": dict(hit.stages),
    }


def _stats(packed: Any) -> dict[str, Any]:
    stats = packed.stats
    return {
        "tokens": stats.tokens,
        "budget": stats.budget,
        "sources": stats.sources,
        "counter": stats.counter,
        "approximate": stats.approximate,
        "dropped": [asdict(gone) for gone in stats.dropped],
    }
