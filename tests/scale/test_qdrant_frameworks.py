"""LangChain and LlamaIndex work with QdrantStore as with HybridStore."""

from __future__ import annotations

import pytest
from qdrant_toys import corpus, in_order, qdrant

from umi_common import HybridStore
from umi_common.sim import HashEmbedder

QUESTION = "red boat on the river"


@pytest.fixture(scope="module")
def stores():
    made = qdrant(), HybridStore.open(embedder=HashEmbedder())
    for store in made:
        store.add(in_order(corpus(12, size=60)))
    yield made
    made[1].close()


def test_langchain(stores):
    langchain = pytest.importorskip("umi_langchain")
    one, other = (
        [document.id for document in langchain.UmiRetriever.from_store(store, k=5).invoke(QUESTION)] for store in stores
    )
    assert one == other and len(one) == 5


def test_langchain_filters(stores):
    langchain = pytest.importorskip("umi_langchain")
    retriever = langchain.UmiRetriever.from_store(stores[0], k=5)
    assert {document.metadata["user"] for document in retriever.invoke(QUESTION, filter={"user": "ann"})} == {"ann"}


def test_llamaindex(stores):
    llamaindex = pytest.importorskip("umi_llamaindex")
    one, other = (
        [hit.node.node_id for hit in llamaindex.UmiRetriever.from_store(store, similarity_top_k=5).retrieve(QUESTION)]
        for store in stores
    )
    assert one == other and len(one) == 5
