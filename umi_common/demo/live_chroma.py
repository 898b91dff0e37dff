"""The demo's section about Chroma: umi searches a live collection, beside Chroma's own search and rank_bm25."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from umi_common.embedders import default_embedder
from umi_common.retriever import DualRetriever
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk

MODULES = ("asyncio.tasks", "asyncio.timeouts", "collections", "difflib", "functools", "heapq", "itertools")
QUESTIONS = ("run a coroutine with a timeout", "cache the results of a function", "words that are spelled alike")
"""Questions that each system is asked; NEWS is added before the last one."""
NEWS = Chunk("news", "A word and its anagram are spelled with the same letters.")
"""A chunk that Chroma adds to the collection while umi has it open; it fits the last question."""
SHOWN = 3
"""Number of hits of each system that are printed."""


def show_live_chroma(console: Console, store: HybridStore) -> None:
    """Copy the chunks of MODULES from the demo's store to a Chroma collection; print the hits of Chroma, rank_bm25 and
    umi for each question."""
    import chromadb
    from chromadb.config import Settings
    from rank_bm25 import BM25Okapi

    console.rule("a live Chroma collection: its vectors, rank_bm25 over its texts, umi over both", style="dim")
    chunks = store.scan(where={"module": {"$in": list(MODULES)}}, limit=1_000)
    with TemporaryDirectory(prefix="umi-demo-", ignore_cleanup_errors=True) as folder:
        client = chromadb.PersistentClient(str(Path(folder)), Settings(anonymized_telemetry=False))
        collection = client.create_collection("standard-library", embedding_function=None)
        _write(collection, chunks, store.vectors([chunk.id for chunk in chunks]))
        bm25 = BM25Okapi([chunk.text.lower().split() for chunk in chunks])
        with ChromaStore(collection, default_embedder()) as live:
            umi = DualRetriever(live)
            for question in QUESTIONS:
                if question == QUESTIONS[-1]:
                    _write(collection, [NEWS], default_embedder().embed_documents([NEWS.text]))
                    console.print(f"\n[dim]written to the collection by Chroma: {NEWS.text}[/dim]")
                scores = bm25.get_scores(question.lower().split())
                vector = default_embedder().embed_queries([question])
                found = {
                    "Chroma": collection.query(query_embeddings=vector, n_results=SHOWN)["ids"][0],
                    "rank_bm25": [chunks[row].id for row in np.argsort(-scores, kind="stable")[:SHOWN]],
                    "umi over Chroma": umi.search(question, limit=SHOWN).ids,
                }
                console.print(f"\n[bold cyan]{escape(question)}[/bold cyan]")
                for name, ids in found.items():
                    console.print(f"   {name:16}{escape(', '.join(ids))}", highlight=False)


def _write(collection: Any, chunks: Sequence[Chunk], vectors: Any) -> None:
    collection.add([chunk.id for chunk in chunks], embeddings=vectors, documents=[chunk.text for chunk in chunks])
