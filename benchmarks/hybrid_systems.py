"""umi and both frameworks' hybrids over the same texts and vectors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.corpus import looked_up, row_of
from benchmarks.harness import Asking, Build, Prepare, Spec
from benchmarks.stock_dense import langchain_dense, llamaindex_dense
from benchmarks.stores import BATCH, Material, material, open_chroma, open_store
from umi_common.retriever import DualRetriever

TOP = 10
ARM_DEPTH = 20
"""Hits of each arm of the peers; umi takes 200."""
UMI, UMI_CHROMA = "umi", "umi over Chroma"
LANGCHAIN, LLAMAINDEX = "LangChain EnsembleRetriever", "LlamaIndex QueryFusionRetriever"


@dataclass(frozen=True)
class Hybrid:
    """A built system; both give the rows of the ten best for a question's number."""

    ask: Callable[[int], list[int]]
    aask: Callable[[int], Awaitable[list[int]]]


def umi_hybrid(spec: Spec) -> Callable[[], Hybrid]:
    """`DualRetriever.search` with its defaults, without an LLM."""
    made = material(spec)

    def build() -> Hybrid:
        retriever = DualRetriever(open_store(spec, made))

        def ask(number: int) -> list[int]:
            return [row_of(id) for id in retriever.search(made.questions[number], limit=TOP).ids]

        async def aask(number: int) -> list[int]:
            return [row_of(id) for id in (await retriever.asearch(made.questions[number], limit=TOP)).ids]

        ask(0)
        return Hybrid(ask, aask)

    return build


def langchain_hybrid(spec: Spec) -> Callable[[], Hybrid]:
    """EnsembleRetriever over BM25Retriever and langchain_chroma, all with their defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langchain-community announces its end at import
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document

    made = material(spec)
    documents = [
        Document(id=str(row), page_content=text, metadata={"row": str(row)}) for row, text in enumerate(made.texts)
    ]
    dense = langchain_dense(spec, made, documents, ARM_DEPTH)

    def build() -> Hybrid:
        lexical = BM25Retriever.from_documents(documents, k=ARM_DEPTH)
        both = EnsembleRetriever(retrievers=[lexical, dense], weights=[0.5, 0.5], id_key="row")

        async def aask(number: int) -> list[int]:
            return _rows(await both.ainvoke(made.questions[number]))

        return Hybrid(lambda number: _rows(both.invoke(made.questions[number])), aask)

    def _rows(found: list[Document]) -> list[int]:
        return [int(document.metadata["row"]) for document in found[:TOP]]

    return build


def llamaindex_hybrid(spec: Spec) -> Callable[[], Hybrid]:
    """QueryFusionRetriever, dist_based_score, over its BM25Retriever and ChromaVectorStore, all with their defaults."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
    from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    made = material(spec)
    nodes: list[BaseNode] = [TextNode(id_=str(row), text=text) for row, text in enumerate(made.texts)]
    dense = llamaindex_dense(spec, made, nodes, ARM_DEPTH)

    def build() -> Hybrid:
        both = QueryFusionRetriever(
            [BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=ARM_DEPTH), dense],
            llm=MockLLM(),
            mode=FUSION_MODES.DIST_BASED_SCORE,
            similarity_top_k=TOP,
            num_queries=1,
            use_async=False,
        )

        async def aask(number: int) -> list[int]:
            return _rows(await both.aretrieve(made.questions[number]))

        return Hybrid(lambda number: _rows(both.retrieve(made.questions[number])), aask)

    def _rows(found: list[NodeWithScore]) -> list[int]:
        return [int(hit.node.node_id) for hit in found]

    return build


def umi_over_chroma(spec: Spec) -> Callable[[], Hybrid]:
    """`DualRetriever.search` over a `ChromaStore`, both with their defaults."""
    from umi_common.stores.chroma import ChromaStore

    made = material(spec)
    vectors = np.concatenate([made.question_vectors, made.vectors])
    model = looked_up([*made.questions, *made.texts], vectors, spec.dim)
    client = open_chroma(Path(spec.home) / "live-chroma")
    collection = client.create_collection(
        "chunks", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for start in range(0, spec.size, BATCH):
        some = slice(start, start + BATCH)
        ids = [str(row) for row in range(spec.size)[some]]
        collection.add(ids=ids, documents=made.texts[some], embeddings=made.vectors[some])

    def build() -> Hybrid:
        retriever = DualRetriever(ChromaStore(collection, model))

        def ask(number: int) -> list[int]:
            return [int(id) for id in retriever.search(made.questions[number], limit=TOP).ids]

        async def aask(number: int) -> list[int]:
            return [int(id) for id in (await retriever.asearch(made.questions[number], limit=TOP)).ids]

        return Hybrid(ask, aask)

    return build


HYBRIDS: dict[str, Callable[[Spec], Callable[[], Hybrid]]] = {
    UMI: umi_hybrid,
    UMI_CHROMA: umi_over_chroma,
    LANGCHAIN: langchain_hybrid,
    LLAMAINDEX: llamaindex_hybrid,
}


@dataclass(frozen=True)
class OneByOne:
    """Prepares a hybrid system that is asked one question after another."""

    name: str

    def __call__(self, spec: Spec) -> Build:
        """See `harness.Prepare`."""
        build = HYBRIDS[self.name](spec)
        return lambda: Asking(build().ask)


SYSTEMS: dict[str, Prepare] = {name: OneByOne(name) for name in HYBRIDS}

__all__ = ["HYBRIDS", "LANGCHAIN", "LLAMAINDEX", "SYSTEMS", "UMI", "Hybrid", "Material"]
