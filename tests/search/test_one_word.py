"""A text that only repeats one word of the question stands behind a text about its other words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import chromadb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient

from umi_common import Chunk, DualRetriever, HybridStore
from umi_common.embedders import default_embedder
from umi_common.pool import Background
from umi_common.ranking.evidence import dense_evidence
from umi_common.search.reorder import late_interaction
from umi_common.sim import HashEmbedder
from umi_common.stores.chroma import ChromaStore
from umi_common.stores.qdrant import QdrantStore

QUESTION = "why does my cat sneeze at night"
PLANTS = ["roses", "beans", "peas", "leeks", "plums", "apples", "pears", "figs"]
PEOPLE = ["Anna", "Ben", "Carl", "Dora", "Emil", "Fred", "Gus", "Hana", "Ida", "Jan", "Kurt", "Lena", "Max", "Nina"]
TEXTS = [
    "a kitten with dust in its nose often sneezes in the evening",
    "Sneezing",
    *(f"{plant} grow in the garden behind the house of {person}" for plant in PLANTS for person in PEOPLE),
]
CHUNKS = [Chunk(f"c{at:03d}", text) for at, text in enumerate(TEXTS)]
TURNS = ["the cat sneezed", "the cat slept", "bees swarmed", "bees returned", "the roof leaks", "the roof holds"] * 40
CHAT = [Chunk(f"t{at:03d}", text, source="chat", position=at) for at, text in enumerate(TURNS)]
STORES = {
    "memory": lambda folder: HybridStore.open(),
    "chroma": lambda folder: ChromaStore(chromadb.PersistentClient(str(folder)).create_collection("notes")),
    "qdrant": lambda folder: QdrantStore(QdrantClient(":memory:"), "notes", default_embedder()),
}


@pytest.mark.parametrize("kind", STORES)
def test_the_text_about_more_of_the_question_is_first(kind: str, tmp_path: Path) -> None:
    with STORES[kind](tmp_path / "data") as store:
        store.add(CHUNKS)
        assert DualRetriever(store).search(QUESTION).ids[0] == "c000"


def test_a_question_of_one_word_finds_the_text_that_repeats_it() -> None:
    with HybridStore.open() as store:
        store.add(CHUNKS)
        assert DualRetriever(store).search("sneezing").ids[0] == "c001"


def test_a_read_only_store_answers_alike(tmp_path: Path) -> None:
    with HybridStore.open(tmp_path / "store") as store:
        store.add(CHUNKS)
        writing = scores(store, QUESTION)
    with HybridStore.open(tmp_path / "store", read_only=True) as store:
        assert scores(store, QUESTION) == writing


def scores(store, query, **options):
    return [(hit.chunk.id, hit.score) for hit in DualRetriever(store).search(query, **options).hits]


@pytest.fixture
def lowers(monkeypatch):
    """Whether one-word matches change the scores of a search."""

    def compared(store, query, **options):
        with monkeypatch.context() as off:
            off.setattr(late_interaction, "ONE_WORD_WEIGHT", 0.0)
            without = scores(store, query, **options)
        return scores(store, query, **options) != without

    return compared


def test_only_cosines_of_the_built_in_model_with_its_own_vector_of_the_query_are_lowered(lowers) -> None:
    with HybridStore.open() as store:
        store.add(CHUNKS)
        assert lowers(store, QUESTION)
        assert not lowers(store, QUESTION, query_vector=default_embedder().embed_queries(["a cat"])[0])
        assert not lowers(store, QUESTION, strategy="vector")
        assert not lowers(store, QUESTION, strategy="text")
        assert not lowers(store, "?!")
    with HybridStore.open(embedder=HashEmbedder(256)) as store:
        store.add(CHUNKS)
        assert not lowers(store, QUESTION)


def test_in_a_chat_nothing_is_lowered_because_late_interaction_compares_the_words(lowers) -> None:
    with HybridStore.open() as store:
        store.add(CHAT)
        assert not lowers(store, QUESTION)


def test_a_store_whose_pools_hold_no_vectors_answers(lowers, monkeypatch) -> None:
    recall_many = HybridStore.recall_many

    def without_vectors(store, requests):
        none = [(pool, pool.vectors[:, :0], pool.query_vectors[:, :0]) for pool in recall_many(store, requests)]
        return [replace(pool, vectors=vectors, query_vectors=queries) for pool, vectors, queries in none]

    monkeypatch.setattr(HybridStore, "recall_many", without_vectors)
    with HybridStore.open() as store:
        store.add(CHUNKS)
        assert not lowers(store, QUESTION)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.7)), min_size=1, max_size=20))
def test_evidence_falls_with_the_excess_but_not_below_that_of_two_deviations(rows) -> None:
    cosines, excess = (np.array(each) for each in zip(*rows, strict=True))
    dense, background = np.stack([cosines, cosines]), Background(np.full(2, 0.2), np.full(2, 0.1), 10**9)
    before, after = dense_evidence(dense, background), dense_evidence(dense, background, excess)
    at_two = dense_evidence(np.full((2, 1), 0.4), background)
    assert (after[0] <= before[0]).all() and (after[0] >= np.minimum(before[0], at_two[0] - 1e-12)).all()
    assert (after[1] == before[1]).all()  # a variation of the query
