"""Run the demo: index, search through both frameworks and over Chroma, print hits with reasons, a context and times."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from umi_common.config import RoutingConfig, UmiConfig
from umi_common.context.budget import AssembledContext, TokenBudget
from umi_common.demo.corpus import standard_library
from umi_common.demo.story import NOW, QUESTIONS, REWRITES, conversation
from umi_common.embedders import default_embedder
from umi_common.errors import optional_module
from umi_common.explain import to_text
from umi_common.retriever import DualRetriever
from umi_common.sim import ScriptedLLM
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk, SearchResult

STDLIB_QUESTIONS = (
    "run a coroutine with a timeout",
    "who keeps the order of keys",
    "find close matches for a misspelled word",
    "cache the results of a function",
    "the n largest items of a list",
)
CONTEXT_TOKENS = 800
"""Largest number of tokens of the context that the demo prints."""
CHROMA_MODULES = ("asyncio.tasks", "asyncio.timeouts", "collections", "difflib", "functools", "heapq", "itertools")
CHROMA_QUESTIONS = {
    "run a coroutine with a timeout": None,
    "cache the results of a function": None,
    "words that are spelled alike": Chunk("news", "A word and its anagram are spelled with the same letters."),
}
"""Question to Chroma, rank_bm25 and umi -> an answer to it, which Chroma first adds to the collection while umi has the
collection open; None: nothing is added."""
CHROMA_HITS = 3
"""Number of hits that are printed for each system and question."""
PACKAGES = {
    "langchain-core": "langchain_core",
    "llama-index-core": "llama_index.core",
    "chromadb": "chromadb",
    "rank-bm25": "rank_bm25",
}
"""Package that the demo needs -> a module of the package; the package is installed if the module can be imported."""


def run(directory: Path, question: str | None = None, console: Console | None = None) -> list[SearchResult]:
    """Run the sections of the demo. A later run uses the index of an earlier one.

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
    with open_standard_library(directory, console) as store, DualRetriever(store) as umi:
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
    """Open the store of the standard library, and add the chunks that it lacks or has with another text, which may be
    that of another version of Python. In a terminal, a progress bar is shown."""
    chunks = standard_library()
    begun = time.perf_counter()
    store = HybridStore.open(directory)
    stored = zip(chunks, store.get([chunk.id for chunk in chunks]), strict=True)
    missing = [chunk for chunk, known in stored if known is None or known.text != chunk.text]
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
        same = [document.id for document in documents] == [item.node.node_id for item in nodes] == result.ids
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


def show_live_chroma(console: Console, store: HybridStore) -> None:
    """Copy the chunks of CHROMA_MODULES from `store` to a Chroma collection, and search it with CHROMA_QUESTIONS.

    The hits of Chroma, of rank_bm25 and of umi are printed.
    """
    import chromadb
    from chromadb.config import Settings
    from rank_bm25 import BM25Okapi

    console.rule("a live Chroma collection: its vectors, rank_bm25 over its texts, umi over both", style="dim")
    chunks = store.scan(where={"module": {"$in": list(CHROMA_MODULES)}}, limit=1_000)
    with TemporaryDirectory(prefix="umi-demo-", ignore_cleanup_errors=True) as folder:
        client = chromadb.PersistentClient(folder, Settings(anonymized_telemetry=False))
        collection = client.create_collection("standard-library", embedding_function=None)
        _write(collection, chunks, store.vectors([chunk.id for chunk in chunks]))
        bm25 = BM25Okapi([chunk.text.lower().split() for chunk in chunks])
        with ChromaStore(collection, default_embedder()) as live, DualRetriever(live) as umi:
            for question, added in CHROMA_QUESTIONS.items():
                if added is not None:
                    _write(collection, [added], default_embedder().embed_documents([added.text]))
                    console.print(f"\n[dim]written to the collection by Chroma: {added.text}[/dim]")
                scores = bm25.get_scores(question.lower().split())
                vector = default_embedder().embed_queries([question])
                found = {
                    "Chroma": collection.query(query_embeddings=vector, n_results=CHROMA_HITS)["ids"][0],
                    "rank_bm25": [chunks[row].id for row in np.argsort(-scores, kind="stable")[:CHROMA_HITS]],
                    "umi over Chroma": umi.search(question, limit=CHROMA_HITS).ids,
                }
                console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]")
                for name, ids in found.items():
                    console.print(f"   {name:16}{escape(', '.join(ids))}", highlight=False)


def _write(collection: Any, chunks: Sequence[Chunk], vectors: Any) -> None:
    collection.add([chunk.id for chunk in chunks], embeddings=vectors, documents=[chunk.text for chunk in chunks])


def _show_conversation(console: Console) -> None:
    console.rule("a dated conversation: time, neighbours, deep search", style="dim")
    # "heuristic": the words of a question decide whether the LLM is asked, not the first search.
    config = UmiConfig(routing=RoutingConfig(mode="heuristic"))
    with (
        HybridStore.open() as store,
        DualRetriever(store, rewriter=ScriptedLLM(REWRITES), config=config, clock=lambda: NOW) as umi,
    ):
        store.add(conversation())
        for shows, question in QUESTIONS:
            result = umi.search(question, limit=3, deep_search=question in REWRITES)
            console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]  [dim]({shows}; asked on {NOW:%d %B %Y})[/dim]")
            show_hits(console, result)
