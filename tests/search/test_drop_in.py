"""Over near-duplicates a search returns at least every right id that a plain index returns at the same k.

2,400 questions over twelve kinds of generated texts; k is 4 (LangChain's default) and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import numpy as np
import pytest
from near_duplicate_material import KINDS, START, Material, material
from rank_bm25 import BM25Okapi

from umi_common import DualRetriever, HybridStore
from umi_common.config import AnalyzerConfig
from umi_common.stores.lexical.analyzer import Analyzer

NOW = START + timedelta(days=90)
LIMITS = (4, 10)
Ranked = Callable[[str], list[str]]
"""From a question to at most ten ids, best first."""


def by_cosine(store: HybridStore, made: Material) -> Ranked:
    """Exact cosine over the store's vectors, which is what Chroma's search approximates."""
    ids = [chunk.id for chunk in made.chunks]
    vectors = store.vectors(ids)

    def ranked(question: str) -> list[str]:
        (query,) = np.asarray(store.embedder.embed_queries([question]), dtype=np.float32)
        return [ids[row] for row in np.argsort(-(vectors @ query), kind="stable")[: max(LIMITS)]]

    return ranked


def by_bm25(made: Material, terms: Callable[[str], list[str]]) -> Ranked:
    """rank_bm25's Okapi over given terms."""
    index = BM25Okapi([terms(chunk.text) for chunk in made.chunks])

    def ranked(question: str) -> list[str]:
        scores = index.get_scores(terms(question))
        best = np.argsort(-scores, kind="stable")[: max(LIMITS)]
        return [made.chunks[row].id for row in best if scores[row] > 0]

    return ranked


def lost(made: Material, umi: DualRetriever, peers: Mapping[str, Ranked]) -> list[tuple[str, str, int, set[str]]]:
    """Right ids that a peer returns and umi does not: (peer, question, k, ids)."""
    losses = []
    results = umi.search_many([question for question, _ in made.questions], limit=max(LIMITS), now=NOW)
    for (question, right), result in zip(made.questions, results, strict=True):
        own = result.ids
        for name, ranked in peers.items():
            theirs = ranked(question)
            gone = [(name, question, k, (right & set(theirs[:k])) - set(own[:k])) for k in LIMITS]
            losses += [loss for loss in gone if loss[-1]]
    return losses


@pytest.mark.parametrize("sources", [1, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_no_right_answer_that_a_plain_index_finds_is_lost(kind, sources):
    made = material(kind, 1, sources=sources)
    assert len(made.questions) >= 190 and len(made.chunks) >= 200
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(made.chunks)
        peers = {
            "cosine": by_cosine(store, made),
            "BM25, stems": by_bm25(made, Analyzer(AnalyzerConfig()).terms),
            "BM25, words": by_bm25(made, str.split),
        }
        assert lost(made, umi, peers) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_right_answer_that_chroma_finds_is_lost(kind, tmp_path):
    import chromadb

    made = material(kind, 2, sources=10)
    ids = [chunk.id for chunk in made.chunks]
    with HybridStore.open() as store, DualRetriever(store) as umi:
        store.add(made.chunks)
        chroma = chromadb.PersistentClient(tmp_path).get_or_create_collection(kind, metadata={"hnsw:space": "cosine"})
        chroma.add(ids=ids, embeddings=store.vectors(ids), documents=[chunk.text for chunk in made.chunks])

        def ranked(question: str) -> list[str]:
            query = np.asarray(store.embedder.embed_queries([question]), dtype=np.float32)
            (found,) = chroma.query(query_embeddings=query, n_results=max(LIMITS))["ids"]
            return found

        assert lost(made, umi, {"Chroma": ranked}) == []
