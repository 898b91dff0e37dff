"""A second opinion: whatever scores texts, on time or not at all."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from umi_common.config import RerankConfig, UmiConfig
from umi_common.errors import ConfigError
from umi_common.frameworks.ranking import scores_of_kept
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


class ScoringCompressor(BaseDocumentCompressor):
    """Keeps the two best, as Cohere's and FlashRank's do, with scores in the metadata and in any order."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None):
        scores = {"Accounting at Acme.": 0.2, "Acme.": 0.1, "Acme has a canteen.": 0.9}
        kept = [document for document in documents if scores[document.page_content] > 0.1]
        more = [{**document.metadata, "relevance_score": scores[document.page_content]} for document in kept]
        return [Document(kept.page_content, metadata=metadata) for kept, metadata in zip(kept, more, strict=True)]


class ScoringPostprocessor(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        scores = {"Accounting at Acme.": 0.2, "Acme.": 0.1, "Acme has a canteen.": 0.9}
        scored = [NodeWithScore(node=item.node, score=scores[item.node.text]) for item in nodes]
        return [item for item in scored if item.score > 0.1]


def test_a_langchain_compressors_drops_scores_and_top_n_are_respected(store):
    retriever = LangChainRetriever.from_store(store, reranker=Compressor())
    assert [document.id for document in retriever.invoke(QUERY)] == ["c"]
    assert [(gone.id, gone.reason, gone.by) for gone in retriever.search(QUERY).suppressed] == [
        ("a", "reranker", None),
        ("b", "reranker", None),
    ]
    found = LangChainRetriever.from_store(store, reranker=ScoringCompressor()).invoke(QUERY)
    assert [(document.id, document.metadata["relevance_score"]) for document in found] == [("c", 0.9), ("a", 0.2)]


def test_a_llamaindex_postprocessors_drops_scores_and_top_n_are_respected(store):
    hits = LlamaIndexRetriever.from_store(store, reranker=Postprocessor()).retrieve(QUERY)
    assert [hit.node.node_id for hit in hits] == ["c"]
    hits = LlamaIndexRetriever.from_store(store, reranker=ScoringPostprocessor()).retrieve(QUERY)
    assert [(hit.node.node_id, hit.score) for hit in hits] == [("c", 0.9), ("a", 0.2)]


@pytest.mark.parametrize("missing", [None, float("nan"), "high"])
def test_unless_each_kept_text_has_a_number_as_score_their_order_counts(missing):
    assert scores_of_kept([(1, missing), (0, 0.4)], 3) == [2.0, 3.0, float("-inf")]
    assert scores_of_kept([(1, 0.5), (0, 0.5)], 2) == [1.0, 2.0]


class Keeping(BaseDocumentCompressor):
    """Keeps the documents of one user, as a compressor does that checks permissions."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None):
        return [document for document in documents if document.metadata["user"] == "ann" and document.id == "a"]


class OfOneUser(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [item for item in nodes if item.node.metadata["user"] == "ann" and item.node.node_id == "a"]


def test_a_reranker_of_a_framework_sees_ids_and_metadata_as_in_the_result():
    documents = [
        Document(id=id, page_content=text, metadata={"user": user, "source": "talk", "relevance_score": 9.0})
        for id, text, user in [("a", "Accounting at Acme.", "ann"), ("b", "Acme.", "bob")]
    ]
    with LangChainRetriever.from_documents(documents, reranker=Keeping()) as retriever:
        (found,) = retriever.invoke(QUERY)
        assert retriever.search(QUERY).degraded == ()
    assert (found.id, found.metadata["source"]) == ("a", "talk")
    nodes = [TextNode(id_=each.id, text=each.page_content, metadata=each.metadata) for each in documents]
    with LlamaIndexRetriever.from_nodes(nodes, reranker=OfOneUser()) as retriever:
        (hit,) = retriever.retrieve(QUERY)
        assert retriever.search(QUERY).degraded == ()
    assert hit.node == nodes[0]


def test_candidates_that_a_dropping_reranker_did_not_see_are_left_out(store):
    only_best = UmiConfig(rerank=RerankConfig(pool=2))
    drops_b = DualRetriever(store, reranker=lambda query, texts: [1.0, float("-inf")], config=only_best)
    assert drops_b.search(QUERY).ids == ["a"]
    assert len(drops_b.search(QUERY).suppressed) == 1
    keeps_all = DualRetriever(store, reranker=lambda query, texts: [1.0, 2.0], config=only_best)
    assert len(keeps_all.search(QUERY)) == 3
    drops_all = DualRetriever(store, reranker=lambda query, texts: [float("-inf")] * len(texts))
    assert drops_all.search(QUERY).ids == [] and drops_all.get_context(QUERY).text == ""


class TensorWithGradient:
    """As torch's, when the model was called without `torch.no_grad()`."""

    def __array__(self, *types, **options):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


@pytest.mark.parametrize("scores", [[1.0], "many", [float("nan")] * 3, None, [10**400] * 3, TensorWithGradient()])
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


async def test_forty_searches_at_the_same_time_are_all_reranked(store):
    def slow(query, texts):
        time.sleep(0.05)
        return canteen_first(query, texts)

    with DualRetriever(store, reranker=slow) as umi, ThreadPoolExecutor(40) as threads:
        results = [
            *await asyncio.gather(*(umi.asearch(QUERY) for _ in range(40))),
            *threads.map(umi.search, [QUERY] * 40),
        ]
    assert {(result.ids[0], result.degraded) for result in results} == {("c", ())}


def test_a_reranker_that_hangs_holds_at_most_sixteen_threads_however_often_other_settings_change(store):
    gate, waiting = threading.Event(), set()

    def hangs(query, texts):
        waiting.add(threading.current_thread())
        gate.wait(60)

    with DualRetriever(store, reranker=hangs) as umi:
        umi.reconfigure(rerank={"timeout_seconds": 0.01})
        for weight in range(20):
            result = umi.with_config(fusion={"lookup_weight": weight / 20}).search(QUERY)
            assert [loss.part for loss in result.degraded] == ["reranker"]
        gate.set()
    assert len(waiting) <= 16


def test_what_cannot_score_is_refused_saying_what_is_expected(store):
    with pytest.raises(ConfigError, match="rerank"):
        DualRetriever(store, reranker=42)


def test_a_reranker_judges_the_text_that_is_searched_with_the_titles_above_it():
    mayors = {town: f"The mayor is {name}." for town, name in (("Jarrowby", "Ruth Pike"), ("Kestwell", "Ann Lowe"))}
    with HybridStore.open() as store:
        store.add(Chunk(town, text, search_text=f"{town} > Government >\n{text}") for town, text in mayors.items())
        umi = DualRetriever(store, reranker=lambda query, texts: [float("Kestwell" in text) for text in texts])
        result = umi.search("who is mayor of Kestwell?")
    assert result.ids[0] == "Kestwell" and result.hits[0].chunk.text == "The mayor is Ann Lowe."


async def scores_from_a_service(query: str, texts: Sequence[str]) -> list[float]:
    await asyncio.sleep(0)
    return canteen_first(query, texts)


class AsyncService:
    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        return await scores_from_a_service(query, texts)


class AsyncCall:
    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        return await scores_from_a_service(query, texts)


@pytest.mark.parametrize("model", [scores_from_a_service, AsyncService(), AsyncCall()])
async def test_an_async_reranker_has_the_last_word_in_searches_of_both_kinds(store, model):
    umi = DualRetriever(store, reranker=model)
    results = [umi.search(QUERY), await umi.asearch(QUERY), *await umi.asearch_many([QUERY] * 3)]
    assert {result.ids[0] for result in results} == {"c"}
    assert not any(result.degraded for result in results)
    assert any(thread.name == "umi-async-reranker" for thread in threading.enumerate())
    umi.close()
    assert not any(thread.name == "umi-async-reranker" for thread in threading.enumerate())


async def test_an_async_reranker_that_fails_or_hangs_is_named_in_degraded(store):
    async def refused(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("no route")

    async def hanging(query: str, texts: Sequence[str]) -> list[float]:
        await asyncio.Event().wait()
        return []

    for model, reason in ((refused, "failed with ConnectionError"), (hanging, "no reply in time")):
        umi = DualRetriever(store, reranker=model, config=UmiConfig(rerank={"timeout_seconds": 0.2}))
        for result in (umi.search(QUERY), await umi.asearch(QUERY)):
            assert len(result) and [(loss.part, loss.reason) for loss in result.degraded] == [("reranker", reason)]
