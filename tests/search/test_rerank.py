"""A second opinion: whatever scores texts, on time or not at all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from umi_common.config import RerankConfig, UmiConfig
from umi_common.errors import ConfigError
from umi_common.retriever import DualRetriever
from umi_common.sim import HashEmbedder
from umi_common.stores.embedded.hybrid import HybridStore
from umi_common.types import Chunk
from umi_langchain import UmiRetriever as LangChainRetriever
from umi_llamaindex import UmiRetriever as LlamaIndexRetriever

QUERY = "accounting at Acme"


@pytest.fixture()
def store():
    with HybridStore.open(embedder=HashEmbedder(64)) as store:
        store.add([Chunk("a", "Accounting at Acme."), Chunk("b", "Acme."), Chunk("c", "Acme has a canteen.")])
        yield store


def canteen_first(query: str, texts: Sequence[str]) -> list[float]:
    return [float("canteen" in text) for text in texts]


class CrossEncoder:
    """As LangChain's: score(pairs)."""

    def score(self, pairs):
        return canteen_first("", [text for _, text in pairs])


class SentenceTransformer:
    """As sentence-transformers': predict(pairs)."""

    def predict(self, pairs):
        return canteen_first("", [text for _, text in pairs])


class Own:
    """umi's protocol."""

    def rerank(self, query, texts):
        return canteen_first(query, texts)


@pytest.mark.parametrize("model", [canteen_first, CrossEncoder(), SentenceTransformer(), Own()])
async def test_anything_that_scores_texts_has_the_last_word(store, model):
    umi = DualRetriever(store, reranker=model)
    assert umi.search(QUERY).ids[0] == (await umi.asearch(QUERY)).ids[0] == "c"


class Compressor(BaseDocumentCompressor):
    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None):
        return [document for document in documents if "canteen" in document.page_content]


class Postprocessor(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [item for item in nodes if "canteen" in item.node.text]


def test_a_langchain_compressor_reranks_and_what_it_drops_comes_last(store):
    documents = LangChainRetriever.from_store(store, reranker=Compressor()).invoke(QUERY)
    assert [document.id for document in documents] == ["c", "a", "b"]


def test_a_llamaindex_postprocessor_reranks_and_what_it_drops_comes_last(store):
    hits = LlamaIndexRetriever.from_store(store, reranker=Postprocessor()).retrieve(QUERY)
    assert [hit.node.node_id for hit in hits] == ["c", "a", "b"]


@pytest.mark.parametrize("scores", [[1.0], "many", [float("nan")] * 3, None])
def test_unusable_scores_keep_the_order_and_are_named(store, scores):
    result = DualRetriever(store, reranker=lambda query, texts: scores).search(QUERY)
    assert result.ids == DualRetriever(store).search(QUERY).ids
    assert [loss.part for loss in result.degraded] == ["reranker"]


async def test_a_reranker_that_hangs_costs_its_deadline_and_no_more(store):
    released = threading.Event()
    config = UmiConfig(rerank=RerankConfig(timeout_seconds=0.1))
    umi = DualRetriever(store, reranker=lambda query, texts: released.wait(), config=config)
    try:
        for result in (umi.search(QUERY), await umi.asearch(QUERY)):
            assert result.ids[0] == "a"
            assert [loss.part for loss in result.degraded] == ["reranker"]
    finally:
        released.set()


def test_what_cannot_score_is_refused_saying_what_is_expected(store):
    with pytest.raises(ConfigError, match="rerank"):
        DualRetriever(store, reranker=42)
