"""The two frameworks' hybrids, at their best: an exact dense arm on the same vectors, and a tokenizer that lower-cases.

Each builder needs packages that umi itself does not; a peer whose packages are absent is left out.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from umi_common.embedders import unit_rows
from umi_common.evaluation import Dataset
from umi_common.protocols import Embedder

DEPTH = 10
"""Hits of the hybrid."""
ARM_DEPTH = 20
"""Hits of each of its arms; of 10, 20 and 50 the depth at which both peers do best over all sets."""
LANGCHAIN = "LangChain Ensemble"
LLAMAINDEX = "LlamaIndex fusion"
PACKAGES = {
    LANGCHAIN: ("langchain_classic", "langchain_community", "rank_bm25"),
    LLAMAINDEX: ("llama_index.core", "llama_index.retrievers.bm25", "bm25s"),
}


def importable_peers() -> dict[str, Callable[[Dataset, Embedder], Any]]:
    """The peers whose packages are installed, by name."""
    builders = {LANGCHAIN: langchain_ensemble, LLAMAINDEX: llamaindex_fusion}
    return {name: build for name, build in builders.items() if all(_found(package) for package in PACKAGES[name])}


def langchain_ensemble(dataset: Dataset, embedder: Embedder) -> Any:
    """EnsembleRetriever over BM25Retriever (lower-casing; its own tokenizer is worse) and an exact dense retriever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langchain-community announces its end at import
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    documents = [Document(id=chunk.id, page_content=chunk.text, metadata={"id": chunk.id}) for chunk in dataset.chunks]
    nearest = _nearest(dataset, embedder)

    class Dense(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [documents[row] for row, _ in nearest(query)]

    lexical = BM25Retriever.from_documents(documents, preprocess_func=_lower_cased_words, k=ARM_DEPTH)
    return EnsembleRetriever(retrievers=[lexical, Dense()], weights=[0.5, 0.5], id_key="id")


def llamaindex_fusion(dataset: Dataset, embedder: Embedder) -> Any:
    """QueryFusionRetriever, dist_based_score (its best mode here), over its BM25 and an exact dense retriever."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
    from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    nodes: list[BaseNode] = [TextNode(id_=chunk.id, text=chunk.text) for chunk in dataset.chunks]
    nearest = _nearest(dataset, embedder)

    class Dense(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=nodes[row], score=score) for row, score in nearest(query_bundle.query_str)]

    lexical = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(ARM_DEPTH, len(nodes)))
    return QueryFusionRetriever(
        [lexical, Dense()],
        llm=MockLLM(),
        mode=FUSION_MODES.DIST_BASED_SCORE,
        similarity_top_k=DEPTH,
        num_queries=1,
        use_async=False,
    )


def _nearest(dataset: Dataset, embedder: Embedder) -> Callable[[str], list[tuple[int, float]]]:
    rows = unit_rows(embedder.embed_documents([chunk.text for chunk in dataset.chunks]))

    def search(query: str) -> list[tuple[int, float]]:
        cosines = rows @ unit_rows(embedder.embed_queries([query]))[0]
        best = np.argsort(-cosines, kind="stable")[:ARM_DEPTH]
        return [(int(row), float(cosines[row])) for row in best]

    return search


def _lower_cased_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _found(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False
