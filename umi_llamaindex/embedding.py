"""A umi embedder as a LlamaIndex embed model, so that a pipeline makes the vectors that the store expects."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from umi_common.embedders import as_embedder
from umi_common.protocols import Embedder


class UmiEmbedding(BaseEmbedding):
    """umi's embedded model (no download, no key), or any embedder that umi takes.

    Args:
        embedder: None: the embedded model.
        **fields: Those of `BaseEmbedding`.
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Any = None, **fields: Any) -> None:
        model = as_embedder(embedder)
        super().__init__(**{"model_name": model.name, **fields})
        self._embedder = model

    @classmethod
    def class_name(cls) -> str:
        """Its name in traces."""
        return "UmiEmbedding"

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return rows

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        row: list[float] = self._embedder.embed_queries([query])[0].tolist()
        return row

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
