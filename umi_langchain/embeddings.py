"""A umi embedder as LangChain `Embeddings`, so that a store's model serves LangChain's own filters and selectors."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from umi_common.protocols import Embedder


class StoreEmbeddings(Embeddings):
    """The embedder of a store, as `UmiVectorStore.embeddings` returns it."""

    def __init__(self, umi_embedder: Embedder) -> None:
        self.umi_embedder = umi_embedder
        """Given back to umi, it is this embedder, with its own name."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts that are stored."""
        rows: list[list[float]] = self.umi_embedder.embed_documents(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        row: list[float] = self.umi_embedder.embed_queries([text])[0].tolist()
        return row
