"""umi and both frameworks' hybrids over the same texts, vectors and dense index."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.corpus import row_of
from benchmarks.harness import Asking, Build, Prepare, Spec
from benchmarks.stores import Material, material, nearest_of, open_store
from umi_common.retriever import DualRetriever

TOP = 10
ARM_DEPTH = 20
"""Hits of each arm of the peers; umi takes 200."""
UMI, LANGCHAIN, LLAMAINDEX = "umi", "LangChain EnsembleRetriever", "LlamaIndex QueryFusionRetriever"


@dataclass(frozen=True)
class Hybrid:
    """A built system; both give the rows of the ten best for a question's number."""

    ask: Callable[[int], list[int]]
    aask: Callable[[int], Awaitable[list[int]]]


def umi_hybrid(spec: Spec) -> Callable[[], Hybrid]:
    """`DualRetriever.search` as it comes, without an LLM."""
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
    """EnsembleRetriever over BM25Retriever and a dense retriever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langchain-community announces its end at import
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    made = material(spec)
    nearest = nearest_of(made, spec, "langchain")
    documents = [
        Document(id=str(row), page_content=text, metadata={"row": str(row)}) for row, text in enumerate(made.texts)
    ]

    class Dense(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [documents[row] for row, _ in nearest(query, ARM_DEPTH)]

    def build() -> Hybrid:
        lexical = BM25Retriever.from_documents(documents, k=ARM_DEPTH)
        both = EnsembleRetriever(retrievers=[lexical, Dense()], weights=[0.5, 0.5], id_key="row")

        async def aask(number: int) -> list[int]:
            return _rows(await both.ainvoke(made.questions[number]))

        return Hybrid(lambda number: _rows(both.invoke(made.questions[number])), aask)

    def _rows(found: list[Document]) -> list[int]:
        return [int(document.metadata["row"]) for document in found[:TOP]]

    return build


def llamaindex_hybrid(spec: Spec) -> Callable[[], Hybrid]:
    """QueryFusionRetriever, dist_based_score, over its BM25Retriever and a dense retriever."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
    from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    made = material(spec)
    nearest = nearest_of(made, spec, "llamaindex")
    nodes: list[BaseNode] = [TextNode(id_=str(row), text=text) for row, text in enumerate(made.texts)]

    class Dense(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            found = nearest(query_bundle.query_str, ARM_DEPTH)
            return [NodeWithScore(node=nodes[row], score=score) for row, score in found]

    def build() -> Hybrid:
        both = QueryFusionRetriever(
            [BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=ARM_DEPTH), Dense()],
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


HYBRIDS: dict[str, Callable[[Spec], Callable[[], Hybrid]]] = {
    UMI: umi_hybrid,
    LANGCHAIN: langchain_hybrid,
    LLAMAINDEX: llamaindex_hybrid,
}


@dataclass(frozen=True)
class OneByOne:
    """Prepares a hybrid to be asked one question after the other."""

    name: str

    def __call__(self, spec: Spec) -> Build:
        """See `harness.Prepare`."""
        build = HYBRIDS[self.name](spec)
        return lambda: Asking(build().ask)


SYSTEMS: dict[str, Prepare] = {name: OneByOne(name) for name in HYBRIDS}

__all__ = ["HYBRIDS", "LANGCHAIN", "LLAMAINDEX", "SYSTEMS", "UMI", "Hybrid", "Material"]
