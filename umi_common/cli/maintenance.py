"""`umi status`, `verify`, `repair` and `rebuild`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from umi_common.cli.options import DEFAULT_STORE, JsonOption, StoreOption, opened_without_model, print_json, quoted
from umi_common.explain import with_count

FullOption = Annotated[
    bool, typer.Option("--full", help="Compare the terms of all chunks with the lexical index, not only of 1,000.")
]

if TYPE_CHECKING:
    from umi_common.stores.embedded.care import StoreStatus
    from umi_common.stores.search_counts import SearchMetrics
    from umi_common.stores.values import Verification


def status(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Show a store's contents, the state of its parts and the times of its searches; exit with 1 if a part fails."""
    with opened_without_model(store) as opened:
        found = opened.status()
    if json:
        print_json({"store": str(store), **asdict(found)})
    else:
        for name, value in _lines(found):
            typer.echo(f"{name:<10} {value}")
    fix = f"searches work without it until you run: umi repair --store {quoted(store)}"
    _exit_if_any(found.problems, fix, json)


def _lines(found: StoreStatus) -> Iterator[tuple[str, str]]:
    yield "chunks", f"{found.chunks:,} from {with_count(found.sources, 'source')}"
    yield "lexical", found.lexical
    yield "dense", f"{found.dense}; {found.dimension or 'no'} dimensions, {found.embedder}"
    if found.dead_rows:
        yield "removed", f"{found.dead_rows:,} chunks still take room; umi rebuild frees it"
    yield "on disk", decimal(found.bytes_on_disk)
    yield from _search_lines(found.searches)


def _search_lines(counted: SearchMetrics | None) -> Iterator[tuple[str, str]]:
    if counted is None:
        yield "searches", "unknown: searches.json cannot be read; the next process that writes counts from 0"
        return
    if counted.searches + counted.failures == 0:
        yield "searches", "none counted; umi search opens a store for reading, which counts none"
        return
    times = counted.milliseconds
    bound = times.quantile(0.95)
    p95 = f"at most {bound:.0f} ms" if isfinite(bound) else f"above {times.bounds[-1]:.0f} ms"
    searches = f"{counted.searches:,}, and {counted.failures:,} that failed"
    yield "searches", f"{searches}; mean {times.mean:.1f} ms, p95 {p95}"
    degraded = f"{100 * counted.fallback_rate:.1f} % without some part"
    yield "", f"{degraded}; {counted.llm_calls:,} LLM calls, {counted.cache_hits:,} cache hits"


def verify(store: StoreOption = DEFAULT_STORE, full: FullOption = False, json: JsonOption = False) -> None:
    """Read a whole store and compare it with its checksums; exit with 1 if something is damaged."""
    with opened_without_model(store) as opened:
        _print_verification(opened.verify(full=full), f"umi repair --store {quoted(store)}", json)


def repair(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Rebuild damaged indexes, without embedding."""
    with opened_without_model(store, writing=True) as opened:
        _print_verification(opened.repair(), "restore umi.db from a copy", json)


def rebuild(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """Rebuild all indexes from the ledger and free the space of removed chunks, without embedding."""
    with opened_without_model(store, writing=True) as opened:
        opened.compact()  # rebuilds all indexes, too
        _print_verification(opened.verify(), "restore umi.db from a copy", json)


def _print_verification(found: Verification, fix: str, json: bool) -> None:
    """Print the result of a verification; exit with 1 if it found a problem. `fix` is the advice for each problem."""
    if json:
        print_json({"sound": bool(found), **asdict(found)})
    elif found:
        typer.echo(f"{found.checked} chunks, all sound")
    _exit_if_any(found.problems, fix, json)


def _exit_if_any(problems: Sequence[str], fix: str, json: bool) -> None:
    """Exit with 1 if there are problems. Without JSON, print each problem on stderr with the advice `fix`."""
    if not json:
        for problem in problems:
            states_fix = "; restore " in problem  # the problem's own advice; `fix` would not help
            typer.echo(f"umi: {problem}" if states_fix else f"umi: {problem}; {fix}", err=True)
    if problems:
        raise typer.Exit(1)
