"""The frameworks' own dense retrievers: LangChain's and LlamaIndex's Chroma integrations with their defaults.

Each fills a collection of its own, as its users do; questions and texts are embedded by looking their vectors up.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from benchmarks.harness import Spec
from benchmarks.stores import BATCH, Material, open_chroma
from umi_common.pool import Vectors


class VectorOf:
    """Vectors of the texts and of the questions."""

    def __init__(self, made: Material) -> None:
        self._texts = dict(zip(made.texts, made.vectors, strict=True))
        self._questions = dict(zip(made.questions, made.question_vectors, strict=True))

    def text(self, text: str) -> list[float]:
        """Of a chunk."""
        return self._texts[text].tolist()

    def question(self, text: str) -> list[float]:
        """Of a question."""
        vector: Vectors = self._questions[text]
        return vector.tolist()


def langchain_dense(spec: Spec, made: Material, documents: list[Any], k: int) -> Any:
    """langchain_chroma's retriever over the documents."""
    from langchain_chroma import Chroma
    from langchain_core.embeddings import Embeddings

    vector_of = VectorOf(made)

    class LookedUp(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return list(map(vector_of.text, texts))

        def embed_query(self, text: str) -> list[float]:
            return vector_of.question(text)

    client = open_chroma(_home(spec, "langchain"))
    store = Chroma("chunks", LookedUp(), client=client, collection_configuration={"hnsw": {"space": "cosine"}})
    for start in range(0, len(documents), BATCH):
        store.add_documents(documents[start : start + BATCH])
    return store.as_retriever(search_kwargs={"k": k})


def llamaindex_dense(spec: Spec, made: Material, nodes: list[Any], k: int) -> Any:
    """LlamaIndex's ChromaVectorStore behind a VectorStoreIndex."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.vector_stores.chroma import ChromaVectorStore

    vector_of = VectorOf(made)

    class LookedUp(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vector_of.text(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return vector_of.question(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return vector_of.question(query)

    collection = open_chroma(_home(spec, "llamaindex")).create_collection(
        "chunks", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    store = ChromaVectorStore(chroma_collection=collection)
    for start in range(0, len(nodes), BATCH):
        some = nodes[start : start + BATCH]
        store.add([node.model_copy(update={"embedding": vector_of.text(node.get_content())}) for node in some])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return VectorStoreIndex.from_vector_store(store, embed_model=LookedUp()).as_retriever(similarity_top_k=k)


def _home(spec: Spec, name: str) -> Path:
    return Path(spec.home) / f"{name}-chroma"
