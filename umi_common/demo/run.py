"""Runs the demo: indexes, asks through both frameworks and over Chroma, prints reasons, a context and times."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from umi_common.context.budget import AssembledContext, TokenBudget
from umi_common.demo.corpus import standard_library
from umi_common.demo.live_chroma import show_live_chroma
from umi_common.demo.story import NOW, QUESTIONS, REWRITES, conversation
from umi_common.errors import optional_module
from umi_common.explain import to_text
from umi_common.retriever import DualRetriever
from umi_common.sim import ScriptedLLM
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import SearchResult

STDLIB_QUESTIONS = (
    "run a coroutine with a timeout",
    "who keeps the order of keys",
    "find close matches for a misspelled word",
    "cache the results of a function",
    "the n largest items of a list",
)
CONTEXT_TOKENS = 800
"""Largest number of tokens of the context that the demo prints."""
PACKAGES = {
    "langchain-core": "langchain_core",
    "llama-index-core": "llama_index",
    "chromadb": "chromadb",
    "rank-bm25": "rank_bm25",
}
"""Package that the demo needs -> a module of it, by which the demo finds out whether it is installed."""


def run(directory: Path, question: str | None = None, console: Console | None = None) -> list[SearchResult]:
    """Run the sections of the demo; a later run uses the index again.

    Args:
        directory: Directory of the store, created if it does not exist.
        question: A question to ask instead of STDLIB_QUESTIONS; the sections about Chroma and the conversation are then
            left out. None: run all sections.
        console: Where to print; None: the terminal.

    Returns:
        The result for each question about the standard library.

    Raises:
        MissingExtra: If a package of PACKAGES is not installed.
    """
    for package, module in PACKAGES.items():
        optional_module(module, package, "demo")
    console = Console() if console is None else console
    begun = time.perf_counter()
    with open_standard_library(directory, console) as store:
        umi = DualRetriever(store)
        questions = [question] if question is not None else list(STDLIB_QUESTIONS)
        results = _ask_through_frameworks(console, store, umi, questions)
        context = umi.get_context(questions[0], budget=TokenBudget(max_total=CONTEXT_TOKENS))
        _show_context(console, questions[0], context)
        if question is None:
            show_live_chroma(console, store)
    if question is None:
        _show_conversation(console)
    console.print(
        f"\n[dim]{time.perf_counter() - begun:.1f} s in all; the index stays in {escape(str(directory))}[/dim]"
    )
    return results


def open_standard_library(directory: Path, console: Console) -> HybridStore:
    """Open the store with the standard library; chunks that it lacks are added, with a progress bar in a terminal."""
    begun = time.perf_counter()
    store = HybridStore.open(directory)
    chunks = standard_library()
    missing = [chunk for chunk, known in zip(chunks, store.get([c.id for c in chunks]), strict=True) if known is None]
    if missing:
        console.print(f"Indexing {len(missing):,} functions, classes and methods of the standard library")
        store.add(missing, show_progress=sys.stderr.isatty())
    verb = "indexed" if missing else "reopened"
    console.print(f"[bold]{len(store):,} chunks {verb} in {time.perf_counter() - begun:.1f} s[/bold]")
    return store


def _ask_through_frameworks(
    console: Console, store: HybridStore, umi: DualRetriever, questions: Sequence[str]
) -> list[SearchResult]:
    from umi_langchain import UmiRetriever as LangChainRetriever
    from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

    through_langchain = LangChainRetriever.from_store(store, k=3)
    through_llamaindex = LlamaIndexRetriever.from_store(store, similarity_top_k=3)
    results = []
    for question in questions:
        documents = through_langchain.invoke(question)
        nodes = through_llamaindex.retrieve(question)
        result = umi.search(question, limit=3)
        same = [d.id for d in documents] == [n.node.node_id for n in nodes] == result.ids
        console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]")
        console.print(f"[dim]LangChain and LlamaIndex: {'the same hits' if same else 'DIFFERENT hits'}[/dim]")
        show_hits(console, result)
        results.append(result)
    return results


def show_hits(console: Console, result: SearchResult) -> None:
    """Print the hits with their reasons, then the time of each stage."""
    console.print(escape(to_text(result)), highlight=False)
    stages = " · ".join(f"{stage.name} {stage.milliseconds:.1f}" for stage in result.trace)
    console.print(f"   [dim]milliseconds of each stage: {stages}[/dim]")


def _show_context(console: Console, question: str, context: AssembledContext) -> None:
    stats = context.stats
    console.rule(f"a context of at most {CONTEXT_TOKENS} tokens for: {escape(question)}", style="dim")
    console.print(escape(context.text), highlight=False)
    console.rule(style="dim")
    for part in context.parts:
        console.print(f"   [dim]{part.tokens:>4} tokens  {escape(', '.join(part.ids))}  {escape(part.reason)}[/dim]")
    console.print(f"   [dim]{stats.tokens} of {CONTEXT_TOKENS} tokens, {len(stats.dropped)} chunks left out[/dim]")


def _show_conversation(console: Console) -> None:
    llm = ScriptedLLM(lambda prompt: next((json.dumps(v) for q, v in REWRITES.items() if q in prompt), "[]"))
    console.rule("a dated conversation: time, neighbours, deep search", style="dim")
    with HybridStore.open() as store:
        store.add(conversation())
        umi = DualRetriever(store, rewriter=llm, clock=lambda: NOW)
        umi.reconfigure(routing={"mode": "heuristic"})
        for shows, question in QUESTIONS:
            result = umi.search(question, limit=3, deep_search=shows == "deep search")
            console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]  [dim]({shows}; asked on {NOW:%d %B %Y})[/dim]")
            show_hits(console, result)
